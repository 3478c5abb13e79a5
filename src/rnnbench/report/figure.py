"""A chart as part of a page."""

from __future__ import annotations

import re
from dataclasses import dataclass

import altair as alt

from rnnbench.report.svg import render


@dataclass(frozen=True)
class Figure:
    """`id`: unique in a report, and the name of its file; `kind`: ``time``, ``speedup``,
    ``curve``, ``order``, …; `svg`: the element to insert into a page; `wide`: over the whole width
    of the page."""

    id: str
    kind: str
    group: str
    title: str
    svg: str
    wide: bool = False


def figure(
    kind: str, group: str, which: str, title: str, chart: alt.TopLevelMixin, wide: bool = False
) -> Figure:
    """Renders `chart` under its title."""
    id = re.sub(r"[^A-Za-z0-9_]+", "-", f"{kind}-{group}-{which}").strip("-")
    return Figure(id, kind, group, title, render(chart, id, title), wide)
