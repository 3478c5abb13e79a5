"""Measures an experiment in this process, without Snakemake: certificates, then one round after the
other until what is asked is known or the time is over.

Plan, records, certificates and files of rounds are those of the workflow, so that either continues
what the other has begun. The processes from which workers are forked live as long as the loop.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from rnnbench import locks
from rnnbench.builds.environments import make
from rnnbench.builds.pins import ENVIRONMENTS
from rnnbench.commands.rounds import Loop, unfinished_rounds
from rnnbench.commands.track import track
from rnnbench.datasets.provide import provide, read_dataset
from rnnbench.errors import say
from rnnbench.planning.plan import Plan, write_plan
from rnnbench.records.rounds import round_file
from rnnbench.records.store import Place, write_json
from rnnbench.running import host_check
from rnnbench.sources.certificates import lacking
from rnnbench.tracking.store import say_if_unusable
from rnnworker.shared_file import timing_lock

ENDING = (signal.SIGTERM, signal.SIGHUP)


def measure_here(
    plan: Plan,
    root: Path,
    check: Callable[[], None],
    before: host_check.Sample,
) -> bool:
    """Measures what an experiment lacks, on this machine, and logs it to MLflow. Returns whether
    anything was lacking.

    - `root`: the project's folder.
    - `check`: called once the certificates are made; raises if measuring would answer nothing.
    - `before`: what other processes had computed at the start of this program.

    Raises `RunError` if another process uses the results or if a worker was killed, and the errors
    of data and environments that cannot be made. What was measured is kept, and the same call
    continues.
    """
    results = root / "results"
    place = Place(root, results, plan.site, plan.experiment.name, timing_lock())
    with locks.exclusive(results, "rnnbench compare"), _interrupted_by(ENDING):
        write_plan(plan, results)
        rounds = unfinished_rounds(plan.rounds.values(), place, plan.experiment.repeats)
        certificates = lacking(plan.certificates.values(), place.folder)
        if rounds or certificates:
            _provide(plan, root)
            for warning in host_check.warnings(host_check.read_host_facts(before)):
                say(f"warning: {warning}.")
            say_if_unusable(root)
            with Loop(place) as loop:
                loop.certify(certificates)
                check()
                if rounds:
                    loop.measure(rounds)
        else:
            check()
        _log_to_mlflow(plan, place)
    return bool(rounds or certificates)


def _provide(plan: Plan, root: Path) -> None:
    """Makes the environments and the data sets that are missing."""
    for key, pins in plan.environments.items():
        file = root / ENVIRONMENTS / f"{key}.json"
        if not file.exists():
            write_json(file, make(pins, root, say))
    for path, name in plan.datasets.items():
        if not (root / path).exists():
            provide(read_dataset(name, root), root)


def _log_to_mlflow(plan: Plan, place: Place) -> None:
    """Logs the rounds to MLflow that are newer than what was logged. The report, which is published
    there too, then finds MLflow imported."""
    for number, batch in plan.batches.items():
        logged = place.folder / "tracked" / f"{number}.json"
        files = [round_file(place.folder, each.name) for each in batch.rounds]
        latest = max(file.stat().st_mtime for file in files)
        if logged.exists() and logged.stat().st_mtime >= latest:
            continue
        where = ["--root", str(place.root), "--output", str(logged)]
        track([*map(str, files), *where])


@contextmanager
def _interrupted_by(signals: Sequence[signal.Signals]) -> Iterator[None]:
    """Ends the block as Ctrl-C does on one of the `signals`, so that no worker outlives it. Without
    effect in a thread."""
    before = {}
    for number in signals:
        if signal.getsignal(number) is signal.SIG_DFL:  # nohup ignores SIGHUP
            with suppress(ValueError):
                before[number] = signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
