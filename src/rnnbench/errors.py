"""Errors a person can act on.

    RnnbenchError           one line: where, what, what to do
    ├── ConfigError         conf/ or the command line: known before anything runs
    ├── DatasetError        a dataset's bytes cannot be had or are not the pinned ones
    ├── BuildError          an environment cannot be made or is not what it says
    ├── RecordError         a record or pointer that cannot be read or must not be written
    ├── RunError            a run left no record
    └── TrackingError       the MLflow server cannot be reached or refuses

Commands print ``str(error)`` on one line and exit with 2 (what the person wrote) or 1
(what happened while running); a traceback means a bug in rnnbench itself.
"""

from __future__ import annotations

import sys


class RnnbenchError(Exception):
    """What is wrong, where, and what to do about it.

    **Arguments:**

    - `what`: the fault, in words, with the offending value.
    - `where`: the file, key or run it stands in.
    - `remedy`: what the person can do.
    """

    exit_code = 1

    def __init__(self, what: str, *, where: str = "", remedy: str = ""):
        self.what, self.where, self.remedy = what, where, remedy
        super().__init__(what)

    def __str__(self) -> str:
        head = f"{self.where}: {self.what}" if self.where else self.what
        end = "" if head.endswith((".", "!", "?")) else "."
        text = f"{head}{end} Fix: {self.remedy}" if self.remedy else head
        return " ".join(text.split())


def say(words: object) -> None:
    """A line on standard error, as every command writes it."""
    print(f"rnnbench: {words}", file=sys.stderr, flush=True)


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
