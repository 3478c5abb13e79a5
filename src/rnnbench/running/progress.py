"""Progress messages while runs are measured."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

QUIET_SECONDS = 10.0


def print_progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def progress_label(order: int, total: int, name: str) -> str:
    """``[ 3/12] NAME``; `order` counts from 0."""
    return f"[{order + 1:{len(str(total))}}/{total}] {name}"


def duration(seconds: float) -> str:
    """``45 s``, ``3 min``, ``2 h 10 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def remaining(done_seconds: list[float], left: int) -> str:
    """``, about 5 min left``: an estimate from the finished runs; empty if there are none."""
    if not done_seconds or not left:
        return ""
    return f", about {duration(left * sum(done_seconds) / len(done_seconds))} left"


class Progress:
    """Prints a round's progress, at most every ten seconds: the share of its training that is done,
    the number of runs, and the estimated remaining time. `epochs`: run → its number of epochs."""

    def __init__(self, label: str, epochs: Mapping[str, int]):
        self._label, self._epochs = label, epochs
        self._steps: dict[str, int] = {}  # all steps of a run, once it has reported them
        self._done = dict.fromkeys(epochs, 0.0)
        self._turns = 0
        self._began = self._printed = time.monotonic()

    def reached(self, name: str, event: Mapping[str, Any]) -> None:
        """To be called with each `event` of the run `name`."""
        left, epoch = event.get("left"), event.get("epoch")
        if event["event"] == "gate" and isinstance(left, int) and left > 0:
            if name not in self._steps:  # turns begin when all runs have started
                self._began = self._printed = time.monotonic()
            self._turns += 1
            self._report(name, 1 - left / self._steps.setdefault(name, left))
        elif event["event"] == "epoch" and isinstance(epoch, int) and epoch > 0:
            self._report(name, epoch / max(epoch, self._epochs[name]))

    def _report(self, name: str, share: float) -> None:
        self._done[name] = max(share, self._done[name])
        done, now = sum(self._done.values()) / len(self._done), time.monotonic()
        if now - self._printed < QUIET_SECONDS or not 0 < done < 1:
            return
        self._printed = now
        bar = "█" * round(20 * done)
        runs = f"{len(self._done)} runs, {self._turns} turns" if len(self._done) > 1 else "1 run"
        left = duration((now - self._began) * (1 - done) / done)
        print_progress(f"{self._label}  ▕{bar:20}▏ {done:3.0%} of {runs} ({left} of training left)")
