"""Which runs are measured again, which are not, and what survives a kill -9."""

from __future__ import annotations

import itertools
import os
import re
from pathlib import Path

import pytest

from rnnbench import workflow
from rnnbench.records.pointer import Pointer
from rnnbench.records.store import read_record, write_json, write_record
from tests.conftest import Project, kill_everything, turns, wait_until, working_in
from tests.factory import make_record, read_pointer


def names(records: list[Path]) -> list[str]:
    return sorted(path.parent.name for path in records)


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def record_of(results: Path, pointer: Path) -> Path:
    """The newest record of that name."""
    return max(results.glob(f"records/*/{pointer.stem}/2*Z.json"))


def again(project: Project, *arguments: str) -> str:
    """What Snakemake prints, which must succeed."""
    done = project.snakemake(*arguments, experiment="small")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_only_what_changed_is_measured_again(small: Project) -> None:
    measured, before = names(small.records()), contents(small.folder / "results")
    for file in (small.folder / "conf/config.yaml", small.conf / "rnn/fake_fast.yaml"):
        file.write_text("# only a comment\n" + file.read_text())
    os.utime(small.folder / "data/digits.npz")
    assert "Nothing to be done" in again(small), "in a folder that was copied, too"
    assert names(small.records()) == measured

    changed = small.conf / "rnn/fake_fast.yaml"
    changed.write_text(changed.read_text().replace("epoch_seconds: 0.10", "epoch_seconds: 0.12"))
    again(small)
    # The changed runs take turns with the reference, whose first records are kept.
    assert names(small.records()) == sorted(measured + measured)
    kept = [pointer for pointer in small.pointers("small") if "fake_middle" in pointer.stem]
    assert len(kept) == 2 and all(path.read_bytes() == before[path] for path in kept)
    records = [read_record(path) for path in small.records()]
    assert {r.run.choices["rnn"] for r in records if r.round.companion} == {"fake_middle"}

    chosen = small.rnnbench("retry", "small", "*fake_fast*r0")
    assert chosen.returncode == 0, chosen.stderr
    again(small)
    fast = [path for path in small.records() if "fake_fast" in str(path) and "r0" in str(path)]
    assert len(fast) == 3, "the earlier records are kept"
    assert "Nothing to be done" in again(small)


@pytest.mark.fault(
    "the record of a pointer is truncated or missing",
    "detected before anything starts; measured again",
    "run the same command",
)
def test_damage_behind_a_pointer(project: Project, capsys, monkeypatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.setenv("RNNBENCH_INTERVALS", "")
    config = {"experiment": "small", "conf": str(project.conf)}
    job = workflow.load(config, project.folder)
    pointers = list(job.pointers.values())
    results = project.folder / "results"
    for pointer in pointers:
        record = make_record(name=pointer.stem)
        write_record(results, record)
        write_json(pointer, Pointer.of(record))
    truncated, missing, invalid, _intact = pointers
    file = record_of(results, truncated)
    file.write_bytes(file.read_bytes()[:-100])
    record_of(results, missing).unlink()
    invalid.write_text("[]")
    assert workflow.made_again(job) == [], "no round is done yet"
    for name in job.rounds:
        write_json(project.folder / name, {"members": {}})
    before = contents(results)
    assert workflow.made_again(job) == job.rounds, "both rounds are damaged"
    assert contents(results) == before
    messages = capsys.readouterr().err
    assert messages.count("measured again") == 3 and truncated.stem in messages


@pytest.mark.fault(
    "the record of a pointer is damaged, followed by a dry run",
    "-n, --lint and --report change no file; a real run measures again",
    "run the same command",
)
def test_only_a_real_run_repairs_a_damaged_pointer(small: Project) -> None:
    truncated, invalid, *intact = small.pointers("small")
    record = record_of(small.folder / "results", truncated)
    record.write_bytes(record.read_bytes()[:-100])
    invalid.write_text("[]")
    before = contents(small.folder / "results")
    dry = again(small, "-n", "--quiet", "host")
    assert set(re.findall(r"^round +(\d+)$", dry, re.MULTILINE)) == {"2"}
    again(small, "--report", "page.html")
    small.snakemake("--lint", experiment="small")
    assert contents(small.folder / "results") == before

    again(small)
    assert record.with_suffix(".unreadable").exists(), "a record is never deleted"
    for pointer in (truncated, invalid):
        assert read_pointer(small.folder / "results", pointer).name == pointer.stem
    assert [path.read_bytes() for path in intact] == [before[path] for path in intact]
    assert "Nothing to be done" in again(small)


@pytest.mark.fault(
    "two Snakemake processes at once",
    "the second ends with a one-line error, the first continues",
    "wait for the first",
)
def test_a_second_snakemake_ends_at_once_and_kill_9_loses_no_record(project: Project) -> None:
    first = project.start()
    wait_until(lambda: len(project.records()) >= 1, 60, "a record")
    second = project.snakemake(experiment="small")
    assert second.returncode == 1
    assert "is in use by another process" in second.stderr
    assert "Traceback" not in second.stderr
    wait_until(lambda: len(project.records()) >= 4 or first.poll() is not None, 60, "the next one")
    assert len(project.records()) >= 4, "the first continues"

    kill_everything(first)
    wait_until(lambda: not working_in(project.folder), 10, "the end of all processes")
    before = {path: path.read_bytes() for path in project.records()}
    result = project.snakemake()
    assert result.returncode == 0, result.stdout + result.stderr
    after = project.records()
    assert len(after) == 9
    assert all(path.read_bytes() == content for path, content in before.items())
    assert all(one[1] <= other[0] for one, other in itertools.pairwise(turns(project)))
