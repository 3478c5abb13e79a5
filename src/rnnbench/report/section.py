"""A section of the page, between those on accuracy and reliability."""

from __future__ import annotations

from dataclasses import dataclass

from rnnbench.report.figure import Figure
from rnnbench.report.table_view import TableView

HINTS = {
    "money": "relative to the reference device; costs if prices are known",
    "calls": "inference: time per call, and speed-ups",
    "builds": "comparison of framework builds",
    "threads": "scaling with the number of threads",
    "efficiency": "share of the measured peak of the machine, energy of the GPU",
    "ran": "kernels, certificates, pairs that compute the same function",
    "curves": "loss and accuracy by epoch",
    "target": "seconds to reach a validation accuracy",
    "beside": "results of others for the same models",
}


@dataclass(frozen=True)
class Section:
    """`id`: unique on the page; `title`: heading and entry of the navigation; `words`: paragraphs
    above the figures (names in backticks); `views`: tables below the figures; `kind`: CSS class of
    the tables (``words``: their text wraps); `text_only`: the section is shown without figures and
    tables."""

    id: str
    title: str
    paragraphs: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    views: tuple[TableView, ...] = ()
    kind: str = ""
    text_only: bool = False

    @property
    def hint(self) -> str:
        return HINTS.get(self.id, "")

    def __bool__(self) -> bool:
        return bool(self.text_only or self.figures or any(view.rows for view in self.views))
