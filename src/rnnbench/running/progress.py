"""Progress messages while runs are measured: lines, and a bar on a terminal."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from rnnbench.records.record import Run, differing

QUIET_SECONDS = 60.0  # between two lines about a round in a log
REDRAW_SECONDS = 1.0  # of the bar, which is drawn between two turns


def print_progress(text: str) -> None:
    """Prints a line to standard error, at once."""
    print(text, file=sys.stderr, flush=True)


def draw(text: str) -> bool:
    """Replaces the line of the terminal by `text`, which no log gets.

    Returns whether there is a terminal.
    """
    terminal = sys.__stderr__
    # Of a notebook, the terminal is that of its server.
    if terminal is None or not terminal.isatty() or "ipykernel" in sys.modules:
        return False
    fitting = text[: shutil.get_terminal_size().columns - 1]
    print(
        f"\r\x1b[K{fitting}",
        end="",
        file=terminal,
        flush=True,
    )
    return True


def progress_label(order: int, total: int) -> str:
    """``[ 3/12]``; `order` counts from 0."""
    width = len(str(total))
    return f"[{order + 1:{width}}/{total}]"


def place_of(planned: Sequence[Run], varied: Sequence[str]) -> str:
    """What distinguishes the runs of a round from those of others: ``cpu_2 units=512``; ``""`` if
    nothing does.

    - `planned`: the runs of the round.
    - `varied`: the axes and overrides in which the runs of the experiment differ.
    """
    within = differing(planned)
    shared = [name for name in varied if name not in within]
    return " ".join(planned[0].texts(shared))


def duration(seconds: float) -> str:
    """``45 s``, ``3 min``, ``2 h 10 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"


def remaining(done_seconds: list[float], left: int, bound: str = "") -> str:
    """``, about 5 min left``: an estimate from the finished runs; empty if there are none.

    - `done_seconds`: of each finished run.
    - `left`: the number of runs that are left.
    - `bound`: ``at most `` if some of them may not be needed.
    """
    if not done_seconds or not left:
        return ""
    seconds = left * sum(done_seconds) / len(done_seconds)
    return f", {bound}about {duration(seconds)} left"


class Progress:
    """Shows a round's progress: the share of its training that is done, the number of runs, and the
    estimated remaining time.

    On a terminal it is a bar, until the `with` block ends; otherwise a line every ten seconds.

    - `label`: the prefix of its messages.
    - `epochs`: run → its number of epochs.
    """

    def __init__(self, label: str, epochs: Mapping[str, int]):
        self._label = label
        self._epochs = epochs
        self._steps: dict[str, int] = {}  # all steps of a run, once it has reported them
        self._done = dict.fromkeys(epochs, 0.0)
        self._trainings = 1  # of each run
        self._training: dict[str, int] = {}  # the current one of a run, counted from 0
        self._turns = 0
        self._began = self._shown = time.monotonic()

    def __enter__(self) -> Progress:
        draw(self._text(0.0, self._began))
        return self

    def __exit__(self, *_: object) -> None:
        draw("")

    def reached(self, name: str, event: Mapping[str, Any]) -> None:
        """To be called with each event of a run.

        - `name`: of the run.
        - `event`: as its worker reported it.
        """
        kind = event["event"]
        left = event.get("left")
        further = event.get("trainings")
        if isinstance(further, int) and further > 0 and self._trainings == 1:
            self._trainings += further
            self._done = {each: done / self._trainings for each, done in self._done.items()}
        epoch = event.get("epoch")
        if kind == "gate" and isinstance(left, int) and left > 0:
            if name not in self._steps:  # turns begin when all runs have started
                self._steps[name] = left
                self._began = self._shown = time.monotonic()
            if left == self._steps[name]:
                self._training[name] = self._training.get(name, -1) + 1
            self._turns += 1
            done = self._training[name] + 1 - left / self._steps[name]
            self._report(name, done / self._trainings)
        elif kind == "epoch" and isinstance(epoch, int) and epoch > 0:
            done = epoch / max(epoch, self._epochs[name])
            self._report(name, done / self._trainings)

    def _report(self, name: str, share: float) -> None:
        """Notes that this share of a run's training is done, and shows it if it is time."""
        self._done[name] = max(share, self._done[name])
        done = sum(self._done.values()) / len(self._done)
        now = time.monotonic()
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
        """The line for the share of the round's training that is `done`, at the time `now`."""
        bar = "█" * round(20 * done)
        count = len(self._done)
        runs = "1 run"
        turns = ""
        if count > 1:
            runs = f"{count} runs"
            turns = f", {self._turns} turns"

        text = f"{self._label} ▕{bar:20}▏ {done:3.0%} of {runs}"
        if not done:
            return f"{text}: starting"
        left = duration((now - self._began) * (1 - done) / done)
        return f"{text}{turns} ({left} of training left)"
