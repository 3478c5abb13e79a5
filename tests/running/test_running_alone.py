"""A timed run has its host to itself, and a disturbed run is marked. With real processes."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from rnnbench.builds.launcher import lock_of
from rnnbench.builds.pins import build_of
from rnnbench.planning.digests import worker_digest
from rnnbench.records.plan_file import digest_of_round
from rnnbench.records.record import Record
from rnnbench.records.store import Place, read_record, write_json
from rnnworker import processors
from tests.conftest import ROOT, make_project, wait_until
from tests.factory import as_run, phase_of
from tests.running.alone import train
from tests.running.test_running_train import NAME, planned

HOG = "import os, sys\nos.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: pass"


@pytest.mark.slow_tier("a busy processor")
def test_a_cpu_hog_started_during_a_run_makes_the_run_suspect(place: Place) -> None:
    (core,) = processors.choose(processors.read_topology(), 1)
    hogs: list[subprocess.Popen] = []

    def begin() -> None:
        wait_until(lambda: has_trained_an_epoch(place), 60, "the first epoch's event")
        hogs.append(subprocess.Popen([sys.executable, "-S", "-c", HOG, str(core)]))

    starter = threading.Thread(target=begin)
    starter.start()
    try:
        line = planned(epoch_seconds=0.4)
        line["config"]["model"]["epochs"] = 12
        record = train(line, place)
    finally:
        starter.join()
        for hog in hogs:
            hog.kill()
            hog.wait()
    assert record.verdict.status == "suspect"
    assert "foreign_load" in [reason.code for reason in record.verdict.reasons]
    phase = phase_of(record, "train")
    assert phase.details.load.foreign > 0.4 * phase.seconds, (
        "the hog used more than half of the seconds"
    )


def has_trained_an_epoch(place: Place) -> bool:
    files = (place.results / "records").glob(f"*/{NAME}/*.events.jsonl")
    return any('"event": "epoch"' in path.read_text() for path in files)


def test_two_experiments_started_at_once_are_not_timed_at_once(tmp_path: Path) -> None:
    started = []
    for name in ("one", "two"):
        project = make_project(tmp_path / name)
        project.environment["RNNBENCH_TIMING_LOCK"] = str(tmp_path / "timing.lock")
        line = planned(epoch_seconds=3.0)  # longer than one process may start after the other
        config = line["config"]
        lock = lock_of(build_of(config["build"]), ROOT)
        line["identity"] = {
            "build_lock": lock, "dataset_md5": None, "worker": worker_digest(config),
        }  # fmt: skip
        folder = project.folder / f"results/here/{name}"
        facts = {"name": name, "title": name, "about": "", "reference": {}}
        write_json(folder / "experiment.json", facts)
        (folder / "plan.jsonl").write_bytes(as_run(line).line())
        digest = digest_of_round({NAME: line["digest"]})
        arguments = ["round", str(folder / f"rounds/{line['round']}.json"), "--digest", digest]
        started.append(
            subprocess.Popen(
                [sys.executable, "-m", "rnnbench", *arguments],
                cwd=project.folder, env=project.environment, stderr=subprocess.PIPE, text=True,
            )
        )  # fmt: skip
    output = [process.communicate(timeout=120)[1] for process in started]
    assert [process.returncode for process in started] == [0, 0], output
    waited = [text for text in output if "waiting for this host to finish timing (process " in text]
    assert len(waited) == 1, output
    other = tmp_path / ("two" if waited[0] is output[0] else "one")
    assert f"{line['round']} of {other}" in waited[0], "the holder of the lock is named"
    first, second = sorted(map(span, (tmp_path / "one", tmp_path / "two")))
    assert first[1] <= second[0], "their timed phases overlap"


def span(root: Path) -> tuple[float, float]:
    """Begin and end (monotonic seconds) of the timed phases of the only record."""
    (path,) = (p for p in root.glob("results/records/*/*/2*.json") if "job" not in p.name)
    record: Record = read_record(path)
    timed = [phase for phase in record.phases if phase.timed]
    return min(phase.start for phase in timed), max(phase.end for phase in timed)
