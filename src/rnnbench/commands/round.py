"""``rnnbench round ROUND --digest …``: measures the runs of a round. Snakemake calls this."""

from __future__ import annotations

import argparse
import ctypes
import json
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from functools import cache
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

from rnnbench.commands.planned_item import still_planned
from rnnbench.datasets.pins import pinned
from rnnbench.datasets.verify import verify
from rnnbench.grid.rounds import digest_of_round
from rnnbench.records.record import Record, run_value
from rnnbench.records.store import read_json, stands, write_json
from rnnbench.running import live_mirror, slurm
from rnnbench.running.progress import remaining, say
from rnnbench.running.repeats_needed import (
    pointer_without_record,
    read_facts,
    rule_of,
    why_not_needed,
)
from rnnbench.running.round import measure
from rnnbench.running.train import Place, progress_label, read_round, timing_lock
from rnnbench.tracking.address import is_server, tracking_uri
from rnnworker.rounds import reference_of

PR_SET_PDEATHSIG = 1
SAMPLE = 20  # rounds, for an estimate


def main(arguments: Sequence[str]) -> int:
    options = _parse(arguments)
    die_with_parent()
    signal.signal(signal.SIGTERM, interrupt)
    root, file = options.root.resolve(), options.round.resolve()
    experiment, site, results = (file.parents[i] for i in range(1, 4))
    place = Place(root, results, site.name, experiment.name, timing_lock())
    planned, number, total = read_round(place.folder / "plan.jsonl", file.stem)
    digests = {run["name"]: run["digest"] for run in planned}
    still_planned({"digest": digest_of_round(digests)}, options.digest, file.stem)
    label = progress_label(number, total, file.stem)
    if wanted := _needed(planned, place, label):
        left = sum(not _is_there(run, place) for run in wanted)
        words = "1 run starts" if left == 1 else f"{left} runs start"
        say(f"{label}  {words}{_estimate(place, total - number)}")
        _measure(planned, wanted, place, label, file.stem)
    pointers = {name: read_json(place.pointer(name)) for name in digests}
    write_json(file, {"members": pointers})
    return 0


def _measure(
    planned: Sequence[Mapping], wanted: Sequence[Mapping], place: Place, label: str, name: str
) -> None:
    checked = cache(lambda path, dataset: checked_md5(place.root, path, dataset))
    records = measure(
        wanted,
        place,
        label=label,
        name=name,
        reference=_reference(planned, place),
        mirror=_mirror(place),
        pinned_md5={run["name"]: checked(*_dataset_of(run)) for run in wanted},
    )
    for run, record in records.items():
        say(f"{label}  {run}  {_summary(record)}")


def _is_there(run: Mapping, place: Place) -> bool:
    """Whether the run has a record of its present identity."""
    pointer = place.pointer(run["name"])
    stood = stands(place.results, pointer)
    return stood and bool(read_json(pointer).get("digest") == run["digest"])


def _needed(planned: Sequence[Mapping], place: Place, label: str) -> list[Mapping]:
    """The runs that are still needed by the experiment's ``repeats``. The others get a pointer that
    says why not."""
    rule = rule_of(place)
    pointers = (place.pointer(run["name"]) for run in planned)
    begun = any(stands(place.results, pointer) for pointer in pointers)
    if rule is None or planned[0]["repeat"] < rule.least or begun:
        return list(planned)
    # In a process of its own: this one waits beside what is timed, and needs no SciPy for it.
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as other:
        reference = _reference(planned, place)
        whys = other.submit(why_not_needed, planned, place, rule, reference).result()
    for run in planned:
        if why := whys.get(run["name"]):
            write_json(place.pointer(run["name"]), pointer_without_record(run["digest"], why, rule))
            say(f"{label}  {run['name']}  not needed: {why}")
    return [run for run in planned if run["name"] not in whys]


def _reference(planned: Sequence[Mapping], place: Place) -> str | None:
    found = reference_of(planned, read_facts(place).get("reference") or {})
    return str(found["name"]) if found else None


def _mirror(place: Place) -> Callable | None:
    """None in a job of a cluster that has no tracking server: SQLite on a shared file system is
    for one node at a time, and the one that runs Snakemake logs to it."""
    if slurm.job() and not is_server(tracking_uri(place.root)):
        return None
    return live_mirror.mirror_for(place)


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="rnnbench round", description=__doc__)
    parser.add_argument("round", type=Path, help="results/SITE/EXPERIMENT/rounds/ROUND.json")
    parser.add_argument("--digest", required=True, help="of the runs' identities, as planned")
    parser.add_argument("--root", type=Path, default=Path(), help="the project's folder")
    return parser.parse_args(arguments)


def check_dataset(root: Path, planned: Mapping) -> str | None:
    """As `checked_md5`, of the dataset of a planned run or certificate."""
    return checked_md5(root, *_dataset_of(planned))


def checked_md5(root: Path, path: str | None, name: str) -> str | None:
    """The md5 that ``data.dvc`` pins the dataset `name` at `path` to, verified; None for a user's
    file."""
    pins = pinned(root)
    if path not in pins:
        return None
    verify(root / path, pins[path], name)
    return pins[path].md5


def _dataset_of(planned: Mapping) -> tuple[str | None, str]:
    dataset = planned["config"]["dataset"]
    return dataset.get("path"), dataset["name"]


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


def _estimate(place: Place, left: int) -> str:
    """Time for the `left` rounds, by those of this experiment that are there."""
    seconds = []
    for path in islice((place.folder / "rounds").glob("*.json"), SAMPLE):
        with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
            members = json.loads(path.read_text())["members"].values()
            seconds.append(sum(float(one["wall_seconds"]) for one in members))
    return remaining(seconds, left)


def die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def interrupt(signum, frame) -> None:
    raise KeyboardInterrupt
