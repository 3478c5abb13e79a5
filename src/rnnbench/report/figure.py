"""A chart as it stands in a page."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rnnbench.report.svg import render

if TYPE_CHECKING:
    import altair as alt


@dataclass(frozen=True)
class Figure:
    """`id` is unique in a report and the name of its file; `kind`: ``time``, ``speedup``,
    ``curve``, ``order``, …; `title` says what is shown; `svg` stands in a page as it is; `wide`
    gives it the whole width."""

    id: str
    kind: str
    group: str
    title: str
    svg: str
    wide: bool = False


def figure(
    kind: str, group: str, which: str, title: str, chart: alt.TopLevelMixin, wide: bool = False
) -> Figure:
    """The chart under its title, drawn."""
    id = re.sub(r"[^A-Za-z0-9_]+", "-", f"{kind}-{group}-{which}").strip("-")
    return Figure(id, kind, group, title, render(chart, id, title), wide)
