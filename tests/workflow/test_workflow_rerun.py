"""Which runs are measured again, which are not, and what survives a kill -9."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest

from rnnbench.records.store import read_record
from tests.conftest import Project, kill_everything, turns, wait_until, working_in


def names(records: list[Path]) -> list[str]:
    return sorted(path.parent.name for path in records)


def test_only_changed_runs_are_measured_again(project: Project) -> None:
    first = project.snakemake(experiment="small")
    assert first.returncode == 0, first.stdout + first.stderr
    measured = names(project.records())
    assert len(measured) == 4
    before = {pointer: pointer.read_bytes() for pointer in project.pointers("small")}

    again = project.snakemake(experiment="small")
    assert "Nothing to be done" in again.stdout + again.stderr
    assert names(project.records()) == measured

    for file in (project.folder / "conf/config.yaml", project.conf / "rnn/fake_fast.yaml"):
        file.write_text("# only a comment\n" + file.read_text())
    os.utime(project.folder / "data/digits.npz")
    commented = project.snakemake(experiment="small")
    assert "Nothing to be done" in commented.stdout + commented.stderr

    changed = project.conf / "rnn/fake_fast.yaml"
    changed.write_text(changed.read_text().replace("epoch_seconds: 0.10", "epoch_seconds: 0.12"))
    third = project.snakemake(experiment="small")
    assert third.returncode == 0, third.stdout + third.stderr
    # The changed runs take turns with the reference, whose first records are kept.
    assert names(project.records()) == sorted(measured + measured)
    kept = [name for name in project.pointers("small") if "fake_middle" in name.stem]
    assert [pointer.read_bytes() for pointer in kept] == [before[pointer] for pointer in kept]
    records = [read_record(path) for path in project.records()]
    assert {r.run.choices["rnn"] for r in records if r.round.companion} == {"fake_middle"}
    assert "Nothing to be done" in project.snakemake(experiment="small").stderr


def test_kill_9_loses_no_record(project: Project) -> None:
    process = project.start()
    wait_until(lambda: len(project.records()) >= 3, 60, "three records")
    kill_everything(process)
    before = {path: path.read_bytes() for path in project.records()}

    result = project.snakemake()
    assert result.returncode == 0, result.stdout + result.stderr
    after = project.records()
    assert len(after) == 9
    assert all(path.read_bytes() == content for path, content in before.items())
    assert all(one[1] <= other[0] for one, other in itertools.pairwise(turns(project)))


def test_a_killed_snakemake_ends_its_run(project: Project) -> None:
    process = project.start()
    wait_until(lambda: len(project.records()) >= 1, 60, "a record")
    os.kill(process.pid, 9)
    process.wait()
    wait_until(lambda: not working_in(project.folder), 10, "the end of worker and controller")


@pytest.mark.fault(
    "two Snakemake processes at once",
    "the second ends with a one-line error, the first continues",
    "wait for the first",
)
def test_a_second_snakemake_ends_at_once(project: Project) -> None:
    first = project.start(experiment="small")
    wait_until(lambda: len(project.records()) >= 1, 60, "a record")
    second = project.snakemake(experiment="small")
    assert second.returncode == 1
    assert "is in use by another process" in second.stderr
    assert "Traceback" not in second.stderr
    first.communicate(timeout=120)
    assert first.returncode == 0
    assert len(project.records()) == 4


def test_retry_measures_again_and_keeps_both(project: Project) -> None:
    assert project.snakemake(experiment="small").returncode == 0
    chosen = project.rnnbench("retry", "small", "*fake_fast*r0")
    assert chosen.returncode == 0, chosen.stderr
    assert project.snakemake(experiment="small").returncode == 0
    fast = [path for path in project.records() if "fake_fast" in str(path) and "r0" in str(path)]
    assert len(fast) == 2
