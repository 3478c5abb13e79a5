"""A part of the page between the answer and the trust section."""

from __future__ import annotations

from dataclasses import dataclass

from rnnbench.report.figure import Figure
from rnnbench.report.table_view import TableView

HINTS = {
    "money": "relative to one place; prices where a list has them",
    "calls": "inference: seconds of a call, and speed-ups of its own",
    "builds": "versions side by side",
    "threads": "scaling with the number of threads",
    "efficiency": "share of the measured peak of this machine",
    "ran": "kernels found, certificates, pairs that compute the same",
    "curves": "loss and accuracy by epoch",
    "target": "seconds until a validation accuracy is reached",
    "beside": "other people's numbers for the same models",
}


@dataclass(frozen=True)
class Section:
    """`id` is unique on the page; `title` heads it and names it in the navigation; `words` are
    paragraphs above the figures (names in backticks); `views` stand below them. `kind` is a
    class of the views: ``words`` lets their text wrap. `told`: there are words alone, and they are
    to be read."""

    id: str
    title: str
    words: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    views: tuple[TableView, ...] = ()
    kind: str = ""
    told: bool = False

    @property
    def hint(self) -> str:
        return HINTS.get(self.id, "")

    def __bool__(self) -> bool:
        return bool(self.told or self.figures or any(view.rows for view in self.views))
