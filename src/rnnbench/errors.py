"""User-facing errors.

    RnnbenchError           one line: location, fault, fix
    ├── ConfigError         conf/ or the command line is wrong; raised before anything runs
    ├── DatasetError        the bytes of a dataset are unavailable or differ from the pinned ones
    ├── BuildError          an environment cannot be created or is unusable
    ├── RecordError         a record or round cannot be read or must not be written
    ├── RunError            a run left no record
    └── TrackingError       the MLflow server is unreachable or refuses a request

Commands print ``str(error)`` on one line and exit with 2 (the user's input is wrong) or 1
(something failed at run time). A traceback means a bug in rnnbench itself.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

from rnnbench.plain_text import plain

Kind = TypeVar("Kind")


class RnnbenchError(Exception):
    """`what`: the fault, with the offending value; `where`: the file, key or run at fault;
    `remedy`: how the user can fix it."""

    exit_code = 1

    def __init__(self, what: str, *, where: str = "", remedy: str = ""):
        self.what = what
        self.where = where
        self.remedy = remedy
        super().__init__(what)

    def __str__(self) -> str:
        text = self.what
        if self.where:
            text = f"{self.where}: {text}"
        if self.remedy:
            if not text.endswith((".", "!", "?")):
                text += "."
            text += f" Fix: {self.remedy}"
        return plain(" ".join(text.split()))


def say(message: object) -> None:
    """Prints a message to standard error, prefixed with ``rnnbench:``."""
    print(f"rnnbench: {message}", file=sys.stderr, flush=True)


def suggestion(word: str, known: Iterable[str], cutoff: float = 0.75) -> str:
    """``did you mean X? `` with the `closest` known word, or an empty string."""
    similar = closest(word, known, cutoff)
    return f"did you mean {similar}? " if similar else ""


def closest(word: str, known: Iterable[str], cutoff: float = 0.75) -> str:
    """A known word that has all parts of `word` or is similar to it, or an empty string."""
    known = list(known)
    parts = set(word.split("_"))
    if len(parts) > 1:
        for each in known:
            if parts < set(each.split("_")):
                return each
    similar = difflib.get_close_matches(word, known, n=1, cutoff=cutoff)
    return similar[0] if similar else ""


def display_path(path: Path) -> str:
    """`path` relative to the working directory if it is inside it, else as given."""
    cwd = Path.cwd()
    if path.is_relative_to(cwd):
        path = path.relative_to(cwd)
    return str(path)


class ConfigError(RnnbenchError):
    exit_code = 2


class DatasetError(RnnbenchError):
    pass


class BuildError(RnnbenchError):
    pass


class RecordError(RnnbenchError):
    pass


class RunError(RnnbenchError):
    pass


class TrackingError(RnnbenchError):
    pass


def converted(data: Any, kind: type[Kind], where: str, remedy: str, *, strict: bool = True) -> Kind:
    """`data` as a `kind`. Raises a `ConfigError` that names `where`, the key and what it expects.
    `strict=False`: texts such as those of a CSV file may stand for numbers."""
    import msgspec  # late: a bare Python can raise the errors above

    try:
        return msgspec.convert(data, kind, strict=strict)
    except msgspec.ValidationError as error:
        text, _, path = str(error).partition(" - at `$")
        key = path.strip(".`")
        if key:
            text = f"{key}: {text}"
        raise ConfigError(f"{text}.", where=where, remedy=remedy) from None
