"""What a person sees while runs are measured: which run, which epoch, how long still."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

from rnnbench.records.record import Epoch
from rnnbench.running import assemble

QUIET_SECONDS = 10.0


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def duration(seconds: float) -> str:
    """``45 s``, ``3 min``, ``2 h 10 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def remaining(done_seconds: list[float], left: int) -> str:
    """An estimate from the runs that are done, or nothing while there are none."""
    if not done_seconds or not left:
        return ""
    return f", about {duration(left * sum(done_seconds) / len(done_seconds))} left"


class Epochs:
    """Says where a long run is, at most every ten seconds."""

    def __init__(self, label: str, epochs: int):
        self._label, self._epochs = label, epochs
        self._said = time.monotonic()

    def __call__(self, event: Mapping[str, Any]) -> None:
        if time.monotonic() - self._said < QUIET_SECONDS:
            return
        for epoch in assemble.epochs_of([event]):
            self._said = time.monotonic()
            self._say(epoch)

    def _say(self, epoch: Epoch) -> None:
        left = (self._epochs - epoch.epoch) * (epoch.seconds + (epoch.val_seconds or 0))
        known = {"loss": epoch.loss, "val_acc": epoch.val_acc}
        figures = [f"{name} {value:.4g}" for name, value in known.items() if value is not None]
        say(
            f"{self._label}  epoch {epoch.epoch}/{self._epochs}  {'  '.join(figures)}"
            f"  ({duration(left)} of training left)"
        )
