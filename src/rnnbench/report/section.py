"""A part of the page between the answer and the trust section."""

from __future__ import annotations

from dataclasses import dataclass

from rnnbench.report.figure import Figure
from rnnbench.report.sheet import Sheet


@dataclass(frozen=True)
class Section:
    """`id` is unique on the page; `title` heads it and names it in the navigation; `words` are
    paragraphs above the figures (names in backticks); `sheets` stand below them. `kind` is a
    class of the sheets: ``words`` lets their text wrap. `told`: there are words alone, and they are
    to be read."""

    id: str
    title: str
    words: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    sheets: tuple[Sheet, ...] = ()
    kind: str = ""
    told: bool = False

    def __bool__(self) -> bool:
        return bool(self.told or self.figures or any(sheet.rows for sheet in self.sheets))
