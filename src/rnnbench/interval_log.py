"""A log of when rnnbench commands ran on this host: evidence that none overlapped a timed phase."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from rnnworker import machine


@contextmanager
def log_interval(path: str | None, command: str, arguments: Sequence[str]) -> Iterator[None]:
    """Appends one line to the interval log `path` (if any) when the block ends. A folder that
    is not writable loses the line but does not fail the command."""
    start = time.monotonic()
    try:
        yield
    finally:
        if path is not None:
            line = {
                "command": command,
                "arguments": list(arguments)[:1],
                "start": start,
                "end": time.monotonic(),
                "pid": os.getpid(),
                "boot": machine.boot(),
            }
            with suppress(OSError):
                file_path = Path(path)
                file_path.parent.mkdir(parents=True, exist_ok=True)
                with file_path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
