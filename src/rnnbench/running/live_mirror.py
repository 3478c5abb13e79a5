"""Mirrors a long run to MLflow while it is in progress: only at handshakes, in a separate process
that ends before the next timed phase begins."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from rnnbench.records.record import Unfinished
from rnnbench.records.run import Run
from rnnbench.running import assemble
from rnnbench.running.progress import say
from rnnbench.running.supervise import Event
from rnnbench.running.train import Place

INTERVAL_SECONDS = 30.0
TIMEOUT_SECONDS = 60.0

Handshake = Callable[[list[Event]], None]


def mirror_for(place: Place) -> Callable[[Run, str], Handshake]:
    """The function that `measure` calls with (planned, record key) to get a run's handshake
    function. The runs of a round share the interval, because the others wait for the seconds that
    it takes to mirror a run."""
    last = time.monotonic()

    def start(planned: Run, key: str) -> Handshake:
        def on_handshake(events: list[Event]) -> None:
            nonlocal last
            if time.monotonic() - last < interval():
                return
            _mirror(place, planned, key, events)
            last = time.monotonic()

        return on_handshake

    return start


def interval() -> float:
    return float(os.environ.get("RNNBENCH_MIRROR_SECONDS", INTERVAL_SECONDS))


def _mirror(place: Place, planned: Run, key: str, events: list[Event]) -> None:
    unfinished = Unfinished(
        record=key,
        experiment=place.experiment,
        run=planned,
        phases=assemble.phases_of(events),
        epochs=assemble.epochs_of(events),
    )
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        file.write(msgspec.json.encode(unfinished))
        file.flush()
        try:
            subprocess.run(
                [
                    *(sys.executable, "-m", "rnnbench", "track", "--live", file.name),
                    *("--root", str(place.root)),
                ],
                timeout=TIMEOUT_SECONDS,
                check=True,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
            )
        except (OSError, subprocess.SubprocessError):
            say(f"{planned.name}: cannot reach MLflow; the record will be logged later.")
