"""Charts: what each layer draws is in its rows, and each layer leaves marks in the SVG."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from rnnbench.report import parts
from rnnbench.report.content import Content
from tests.report.made_up import SIX, SIX_SKIPPED, inputs, six

MARKS = {"point": "symbol", "tick": "rect"}  # as Vega names them in the SVG, if not the same


@pytest.fixture(scope="module")
def charts() -> list[tuple[dict[str, Any], str]]:
    """The specifications of all charts of a report that has every section, with their SVGs."""
    drawn: list[tuple[dict[str, Any], str]] = []
    render = parts.vl_convert.vegalite_to_svg

    def rendered(chart: dict[str, Any]) -> str:
        drawn.append((chart, render(chart)))
        return drawn[-1][1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts.vl_convert, "vegalite_to_svg", rendered)
        Content(six(), SIX, skipped=SIX_SKIPPED, beside=inputs())
    return drawn


def rows_of(layer: dict[str, Any], chart: dict[str, Any]) -> list[dict[str, Any]]:
    return (layer.get("data") or chart["data"])["values"]


def test_each_field_of_a_layer_is_in_its_rows(charts) -> None:
    marks = Counter()
    for chart, _ in charts:
        for layer in chart["layer"]:
            fields = {each["field"] for each in layer["encoding"].values() if "field" in each}
            rows = rows_of(layer, chart)
            assert rows and fields <= rows[0].keys(), chart["title"]
            marks[layer["mark"]["type"]] += 1
    assert marks.keys() >= {"line", "point", "rect", "rule", "text", "tick"}


def test_each_layer_is_drawn_with_its_texts(charts) -> None:
    for chart, svg in charts:
        kinds = Counter(layer["mark"]["type"] for layer in chart["layer"])
        for kind, number in kinds.items():
            assert svg.count(f"mark-{MARKS.get(kind, kind)} ") >= number, (chart["title"], kind)
        for layer in chart["layer"]:
            if "text" in layer["encoding"]:
                name = layer["encoding"]["text"]["field"]
                shown = {str(row[name]) for row in rows_of(layer, chart) if row[name]}
                escaped = {text.replace("&", "&amp;").replace("<", "&lt;") for text in shown}
                assert all(f">{text}<" in svg for text in escaped), chart["title"]
