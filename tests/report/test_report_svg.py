"""Charts as SVG: layers share their rows."""

from __future__ import annotations

import altair as alt
import pandas as pd
import pytest
from altair.utils.schemapi import SchemaValidationError

from rnnbench.report.svg import Datasets, render, unchecked

ROWS = pd.DataFrame({"x": [1.0, 2.0], "name": ["left", "right"]})


def test_a_frame_of_two_layers_is_one_dataset() -> None:
    shared = Datasets()
    assert shared(ROWS) == shared(ROWS) == {"name": "rows-0"}
    assert shared(ROWS.head(1)) == {"name": "rows-1"}
    assert shared.values["rows-0"] == [{"x": 1.0, "name": "left"}, {"x": 2.0, "name": "right"}]


def test_all_layers_are_drawn() -> None:
    base = alt.Chart(ROWS).encode(x="x:Q")
    zero = alt.Chart(alt.Data(values=[{"x": 1.5}])).mark_rule().encode(x="x:Q")
    chart = alt.layer(base.mark_point(), base.mark_text().encode(text="name:N"), zero)
    svg = render(chart, "figure", "Two names")
    assert svg.count(">left<") == svg.count(">right<") == 1
    assert "mark-rule" in svg and ">Two names<" in svg


def test_more_rows_than_altairs_limit_are_drawn() -> None:
    many = pd.DataFrame({"x": range(6000), "y": range(6000)})
    assert render(alt.Chart(many).mark_line().encode(x="x:Q", y="y:Q"), "figure", "Many")


def test_only_decorated_functions_are_unchecked() -> None:
    def wrong() -> alt.Axis:
        return alt.Axis(tickCount="many")  # type: ignore[arg-type]

    assert unchecked(wrong)() is not None
    with pytest.raises(SchemaValidationError):
        wrong()
