"""``rnnbench COMMAND …``: finds the command, and turns errors into one line each."""

from __future__ import annotations

import importlib
import keyword
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

from rnnbench.errors import RnnbenchError
from rnnbench.intervals import noted

COMMANDS = {
    "cells": "print an experiment's cells: name, choices, run or skip, why",
    "plan": "how many runs, how long, how much disk, how many repeats are enough",
    "dataset": "provide or check datasets in data/",
    "convert": "write a dataset of your own without pickles",
    "environment": "make the environment of a locked build (Snakemake calls this)",
    "lock": "resolve the builds' packages to lock files with hashes",
    "certify": "compare a model's implementations (Snakemake calls this)",
    "probe": "measure what a device can do in a build (Snakemake calls this)",
    "round": "measure the runs of a round, in turns (Snakemake calls this)",
    "retry": "measure chosen runs again at the next snakemake",
    "track": "log records to MLflow (Snakemake calls this)",
    "export": "write an experiment's records to one file, for another machine",
    "import": "take over what another machine exported, or what a bundle left",
    "pull": "take over the records that the MLflow server has",
    "bundle": "write a folder that measures an experiment with Python alone",
    "report": "write an experiment's report from its records",
    "compare": "compare any two cells, builds, devices or machines in the terminal",
    "show": "show one run in the terminal",
    "published": "make a page of the published comparisons",
    "publish": "add a published result of your own",
    "gc": "remove environments and leftovers that nothing refers to (asks first)",
}
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; returns its exit code. A `RnnbenchError` becomes one line on standard
    error."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or given[0] in ("-h", "--help", "help"):
        print(_usage())
        return 0 if given else 2
    command, rest = given[0], given[1:]
    if os.environ.get("RNNBENCH_LOG"):
        sys.stderr = _Tee(sys.stderr, os.environ["RNNBENCH_LOG"])  # type: ignore[assignment]
    if command not in COMMANDS:
        _say(f"there is no command {command!r}. Remedy: one of {', '.join(COMMANDS)}.")
        return 2
    try:
        with noted(os.environ.get("RNNBENCH_INTERVALS"), command, rest):
            return _module(command).main(rest)
    except RnnbenchError as error:
        _say(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        _say("interrupted; the same command continues.")
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _module(command: str) -> ModuleType:
    name = f"{command}_" if keyword.iskeyword(command) else command
    return importlib.import_module(f"rnnbench.commands.{name}")


class _Tee:
    """Standard error that a rule's log file keeps too."""

    def __init__(self, stream: TextIO, log: str):
        self._stream = stream
        self._log = Path(log).open("w", encoding="utf-8")  # noqa: SIM115

    def write(self, text: str) -> int:
        self._log.write(text)
        return self._stream.write(text)

    def flush(self) -> None:
        self._log.flush()
        self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _usage() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {words}" for name, words in COMMANDS.items()]
    return "\n".join(["usage: rnnbench COMMAND …  (rnnbench COMMAND --help)", "", *lines])


def _say(text: str) -> None:
    print(f"rnnbench: {text}", file=sys.stderr)
