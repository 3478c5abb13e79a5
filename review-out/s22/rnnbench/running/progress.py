"""Progress messages while runs are measured: lines, and a bar on a terminal."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Mapping
from typing import Any

QUIET_SECONDS = 10.0  # between two lines about a round
REDRAW_SECONDS = 1.0  # of the bar, which is drawn between two turns


def print_progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def draw(text: str) -> bool:
    """Replaces the line of the terminal by `text`, which no log gets. Returns whether there is a
    terminal."""
    terminal = sys.__stderr__
    if terminal is None or not terminal.isatty():
        return False
    fitting = text[: shutil.get_terminal_size().columns - 1]
    print(f"\r\x1b[K{fitting}", end="", file=terminal, flush=True)
    return True


def progress_label(order: int, total: int) -> str:
    """``[ 3/12]``; `order` counts from 0."""
    return f"[{order + 1:{len(str(total))}}/{total}]"


def duration(seconds: float) -> str:
    """``45 s``, ``3 min``, ``2 h 10 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def remaining(done_seconds: list[float], left: int, bound: str = "") -> str:
    """``, about 5 min left``: an estimate from the finished runs; empty if there are none.
    `bound`: ``at most `` if some of those left may not be needed."""
    if not done_seconds or not left:
        return ""
    return f", {bound}about {duration(left * sum(done_seconds) / len(done_seconds))} left"


class Progress:
    """Shows a round's progress: the share of its training that is done, the number of runs, and the
    estimated remaining time. On a terminal as a bar, until the `with` block ends, otherwise as a
    line every ten seconds. `epochs`: run → its number of epochs."""

    def __init__(self, label: str, epochs: Mapping[str, int]):
        self._label, self._epochs = label, epochs
        self._steps: dict[str, int] = {}  # all steps of a run, once it has reported them
        self._done = dict.fromkeys(epochs, 0.0)
        self._turns = 0
        self._began = self._shown = time.monotonic()

    def __enter__(self) -> Progress:
        draw(self._text(0.0, self._began))
        return self

    def __exit__(self, *_: object) -> None:
        draw("")

    def reached(self, name: str, event: Mapping[str, Any]) -> None:
        """To be called with each `event` of the run `name`."""
        left, epoch = event.get("left"), event.get("epoch")
        if event["event"] == "gate" and isinstance(left, int) and left > 0:
            if name not in self._steps:  # turns begin when all runs have started
                self._began = self._shown = time.monotonic()
            self._turns += 1
            self._report(name, 1 - left / self._steps.setdefault(name, left))
        elif event["event"] == "epoch" and isinstance(epoch, int) and epoch > 0:
            self._report(name, epoch / max(epoch, self._epochs[name]))

    def _report(self, name: str, share: float) -> None:
        self._done[name] = max(share, self._done[name])
        done, now = sum(self._done.values()) / len(self._done), time.monotonic()
        silent = now - self._shown
        if silent < REDRAW_SECONDS or not 0 < done < 1:
            return
        text = self._text(done, now)
        if draw(text):
            self._shown = now
        elif silent >= QUIET_SECONDS:
            self._shown = now
            print_progress(text)

    def _text(self, done: float, now: float) -> str:
        bar = "█" * round(20 * done)
        runs = f"{len(self._done)} runs" if len(self._done) > 1 else "1 run"
        if not done:
            return f"{self._label} ▕{bar:20}▏ {done:3.0%} of {runs}: starting"
        runs += f", {self._turns} turns" if len(self._done) > 1 else ""
        left = duration((now - self._began) * (1 - done) / done)
        return f"{self._label} ▕{bar:20}▏ {done:3.0%} of {runs} ({left} of training left)"
