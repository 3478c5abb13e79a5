"""``rnnbench COMMAND …``: dispatches to the command and prints its errors on one line."""

from __future__ import annotations

import importlib
import keyword
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

from rnnbench.commands import COMMANDS, RULES
from rnnbench.errors import RnnbenchError, say
from rnnbench.interval_log import log_interval

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code. A `RnnbenchError` is printed to standard error
    as one line."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_usage())
        return 0 if arguments else 2
    command, *rest = arguments
    if os.environ.get("RNNBENCH_LOG"):
        sys.stderr = _Tee(sys.stderr, os.environ["RNNBENCH_LOG"])  # type: ignore[assignment]
    if command not in (*COMMANDS, *RULES):
        say(f"unknown command {command!r}. Fix: use one of {', '.join(COMMANDS)}.")
        return 2
    try:
        with log_interval(os.environ.get("RNNBENCH_INTERVALS"), command, rest):
            return _module(command).main(rest)
    except RnnbenchError as error:
        say(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        say("interrupted; run the same command to continue.")
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _module(command: str) -> ModuleType:
    name = f"{command}_" if keyword.iskeyword(command) else command
    return importlib.import_module(f"rnnbench.commands.{name}")


class _Tee:
    """Writes to standard error and to a log file."""

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
    lines = [f"  {name:{width}}  {summary}" for name, summary in COMMANDS.items()]
    return "\n".join(["usage: rnnbench COMMAND …  (rnnbench COMMAND --help)", "", *lines])
