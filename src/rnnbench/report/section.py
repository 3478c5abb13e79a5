"""The sections of a page as data. `section.html.j2` and `section.md.j2` lay them out."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from rnnbench.records.record import Record
from rnnbench.report.charts import TEMPLATES
from rnnbench.report.figures import Figure
from rnnbench.report.views import TableView

# Section → its title, hint and texts. Names are in backticks.
WORDS: Mapping[str, Mapping[str, str]] = tomllib.loads(
    (TEMPLATES / "words.toml").read_text("utf-8")
)


@dataclass(frozen=True)
class Note:
    """A sentence whose first words, the `head`, link to a `section`, if it is there."""

    head: str
    text: str
    section: str

    def __str__(self) -> str:
        return f"{self.head}: {self.text}"


@dataclass(frozen=True)
class Item:
    """An entry of a list.

    - `text`: what is said of the names.
    - `names`, and the ids that they link to (`links`: one for each, or none).
    - `others`: the number of further names.
    - `verdict` on all of them.
    """

    text: str = ""
    names: Sequence[str] = ()
    links: Sequence[str] = ()
    others: int = 0
    verdict: str = ""


@dataclass(frozen=True)
class ItemList:
    """A list under its `title`, and a `text` between both."""

    title: str
    items: Sequence[Item]
    text: str = ""


@dataclass(frozen=True)
class RawRun:
    """A run below its configuration.

    - `facts`: those that differ from the facts of its configuration.
    - `run_id`: of MLflow.
    """

    record: Record
    facts: Mapping[str, str]
    run_id: str


@dataclass(frozen=True)
class RawConfiguration:
    """The runs of one configuration on one machine, to which the numbers in the tables link.

    - `anchor`: its id on the page.
    - `facts`: what the runs have in common, such as the dataset, the build and the code.
    - `runs`: by start time.
    - `whole`: with raw epochs.
    """

    anchor: str
    name: str
    machine: str
    facts: Mapping[str, str]
    runs: Sequence[RawRun]
    whole: bool


@dataclass(frozen=True)
class Section:
    """A section of a page; its parts are shown in the order of the fields.

    - `id`: unique on the page.
    - `paragraphs`: names are in backticks. `command`: a line for the terminal; `code`: of Python.
    - `configuration` of the runs as YAML, only on the page and folded.
    - `kind`: CSS class of the tables (``words``: their text wraps).
    - `leads`: ids of the figures and tables that stand next to the answer instead if the report
      leads with this section.
    - `opens`: whether it is shown unfolded.
    - `csv`: file name → table.
    - `title`: heading and entry of the navigation, by default that in `WORDS`.
    """

    id: str
    paragraphs: Sequence[str | Note] = ()
    command: str = ""
    code: str = ""
    lists: Sequence[ItemList] = ()
    figures: Sequence[Figure] = ()
    views: Sequence[TableView] = ()
    configurations: Sequence[RawConfiguration] = ()
    configuration: str = ""
    kind: str = ""
    leads: Sequence[str] = ()
    opens: bool = False
    csv: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    title: str = ""

    @property
    def heading(self) -> str:
        return self.title or WORDS[self.id]["title"]

    @property
    def lead_figures(self) -> list[Figure]:
        """The figures that stand next to the answer if the report leads with this section."""
        return [figure for figure in self.figures if figure.id in self.leads]

    @property
    def lead_views(self) -> list[TableView]:
        """The tables that stand there."""
        return [view for view in self.views if view.id in self.leads]

    @property
    def hint(self) -> str:
        """Its contents in a few words."""
        return WORDS.get(self.id, {}).get("hint", "")

    def __bool__(self) -> bool:
        """Whether there is anything to show."""
        has_rows = any(view.rows for view in self.views)
        return bool(self.paragraphs or self.figures or has_rows)
