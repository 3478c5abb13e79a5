"""``rnnbench train POINTER --digest …``: measures one run. Snakemake calls this."""

from __future__ import annotations

import argparse
import ctypes
import json
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

from rnnbench.commands.planned import still_planned
from rnnbench.datasets.pins import pinned
from rnnbench.datasets.verify import verify
from rnnbench.records.record import Record, run_value
from rnnbench.records.store import write_json
from rnnbench.running import live, slurm
from rnnbench.running.needed import pointer_without_record, rule_of, why_not_needed
from rnnbench.running.progress import remaining, say
from rnnbench.running.train import Place, main_label, read_plan_line, timing_lock, train
from rnnbench.tracking.address import is_server, tracking_uri

PR_SET_PDEATHSIG = 1


def main(arguments: Sequence[str]) -> int:
    options = _parse(arguments)
    die_with_parent()
    signal.signal(signal.SIGTERM, interrupt)
    root, pointer = options.root.resolve(), options.pointer.resolve()
    experiment, site, results = (pointer.parents[i] for i in range(3))
    place = Place(root, results, site.name, experiment.name, timing_lock())
    planned, total = read_plan_line(place.folder / "plan.jsonl", pointer.stem)
    still_planned(planned, options.digest, pointer.stem)
    label = main_label(planned["order"], total, pointer.stem)
    rule = rule_of(place)
    if rule is not None and planned["repeat"] >= rule.least:
        # In a process of its own: this one waits beside the timed run, and needs no SciPy for it.
        with ProcessPoolExecutor(1, mp_context=get_context("fork")) as other:
            why = other.submit(why_not_needed, planned, place, rule).result()
        if why:
            write_json(pointer, pointer_without_record(planned["digest"], why, rule))
            say(f"{label}  not needed: {why}")
            return 0
    pinned_md5 = check_dataset(root, planned)
    say(f"{label}  starts{_estimate(place, total - planned['order'])}")
    record = train(planned, place, label=label, mirror=_mirror(place), pinned_md5=pinned_md5)
    say(f"{label}  {_summary(record)}")
    return 0


def _mirror(place: Place) -> Callable | None:
    """None in a job of a cluster that has no tracking server: SQLite on a shared file system is
    for one node at a time, and the one that runs Snakemake logs to it."""
    if slurm.job() and not is_server(tracking_uri(place.root)):
        return None
    return live.mirror_for(place)


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="rnnbench train", description=__doc__)
    parser.add_argument("pointer", type=Path, help="results/SITE/EXPERIMENT/NAME.json")
    parser.add_argument("--digest", required=True, help="of the run's identity, as planned")
    parser.add_argument("--root", type=Path, default=Path(), help="the project's folder")
    return parser.parse_args(arguments)


def check_dataset(root: Path, planned: Mapping) -> str | None:
    """The md5 that ``data.dvc`` pins the run's dataset to, verified; None for a user's file."""
    path = planned["config"]["dataset"].get("path")
    pins = pinned(root)
    if path not in pins:
        return None
    verify(root / path, pins[path], planned["config"]["dataset"]["name"])
    return pins[path].md5


def _summary(record: Record) -> str:
    verdict = record.verdict
    words = [verdict.status]
    if verdict.reasons:
        more = f" (and {len(verdict.reasons) - 1} more)" if len(verdict.reasons) > 1 else ""
        words = [f"{verdict.status}: {verdict.reasons[0].text}{more}"]
    if record.epochs and verdict.status != "void":
        last = record.epochs[-1]
        seconds = run_value([epoch.seconds for epoch in record.epochs])
        words.append(f"{seconds:.3g} s per epoch")
        if last.val_acc is not None:
            words.append(f"val_acc {last.val_acc:.3f}")
    return ", ".join(words)


def _estimate(place: Place, left: int, sample: int = 20) -> str:
    """Time for the `left` runs, from up to `sample` pointers that are there."""
    seconds = []
    for path in islice(place.folder.glob("*-s*-r*.json"), sample):
        with suppress(OSError, ValueError, TypeError, KeyError):
            seconds.append(float(json.loads(path.read_text())["wall_seconds"]))
    return remaining(seconds, left)


def die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def interrupt(signum, frame) -> None:
    raise KeyboardInterrupt
