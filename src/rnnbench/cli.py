"""``rnnbench COMMAND …``: dispatches to the command and prints its errors on one line."""

from __future__ import annotations

import errno
import importlib
import importlib.metadata
import keyword
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from rnnbench.commands import ANYWHERE, COMMANDS, MODULES
from rnnbench.errors import RnnbenchError, say
from rnnbench.project import check_project

INTERRUPTED = 130
# What the system refuses for reasons that the user can remove. Others are faults of rnnbench.
FIXES = {
    errno.ENOSPC: "free some disk space",
    errno.EDQUOT: "free some disk space",
    errno.EACCES: "make the folder writable",
    errno.EPERM: "make the folder writable",
    errno.EROFS: "make the folder writable",
    errno.EEXIST: "move what is in its place aside",
    errno.EISDIR: "move what is in its place aside",
    errno.ENOTDIR: "move what is in its place aside",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code.

    `arguments`: the command and its arguments (default: those of this process). A `RnnbenchError`
    is printed to standard error as one line.
    """
    if arguments is None:
        arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_usage())
        return 0 if arguments else 2
    if arguments[0] in ("--version", "-V"):
        version = importlib.metadata.version("rnnbench")
        print(f"rnnbench {version}")
        return 0

    command, *rest = arguments
    if command not in MODULES:
        say(f"unknown command {command!r}. Fix: use one of {', '.join(COMMANDS)}.")
        return 2

    try:
        log = os.environ.get("RNNBENCH_LOG")
        if log:
            from rnnbench.commands.arguments import file_to_write

            sys.stderr = _Tee(sys.stderr, file_to_write(log))  # type: ignore[assignment]
        if command not in ANYWHERE and not any(map(names_folder_or_help, rest)):
            check_project(Path())

        commands = importlib.import_module(f"rnnbench.commands.{MODULES[command]}")
        function = command
        if keyword.iskeyword(command):  # which cannot be the name of a function
            function = f"{command}_"
        code: int = getattr(commands, function)(rest)

        sys.stdout.flush()  # here, where a reader that has ended is no error
        return code
    except RnnbenchError as error:
        say(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        say("interrupted; run the same command to continue.")
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if error.errno not in FIXES:
            raise
        where = str(error.filename2 or error.filename or "")
        remedy = f"{FIXES[error.errno]} and run it again."
        say(RnnbenchError(str(error.strerror), where=where, remedy=remedy))
        return 1
    finally:
        if isinstance(sys.stderr, _Tee):
            sys.stderr = sys.stderr.close()


def names_folder_or_help(argument: str) -> bool:
    """Whether a command with this argument needs no project in the current folder."""
    return argument in ("-h", "--help") or argument.startswith(("--results", "--root"))


class _Tee:
    """Writes to standard error and, as long as there is space, to a log file."""

    def __init__(self, stream: TextIO, log: Path):
        self._stream = stream
        self._log = log.open("wb", buffering=0)

    def close(self) -> TextIO:
        """Closes the log and returns the stream alone."""
        self._log.close()
        return self._stream

    def write(self, text: str) -> int:
        with suppress(OSError):
            self._log.write(text.encode())
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _usage() -> str:
    """The help without a command: one line for each of the `COMMANDS`."""
    lines = ["usage: rnnbench COMMAND …  (rnnbench COMMAND --help, rnnbench --version)", ""]
    width = max(len(name) for name in COMMANDS)
    for name, summary in COMMANDS.items():
        lines.append(f"  {name:{width}}  {summary}")
    return "\n".join(lines)
