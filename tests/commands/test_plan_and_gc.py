from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from rnnbench import locks
from rnnbench.commands import results as gc
from rnnbench.commands.plan import plan
from rnnbench.errors import RunError
from rnnbench.records.store import pointer_to, write_json
from rnnworker import machine
from tests.conftest import Project
from tests.factory import make_late, make_record


def test_plan_before_and_after_some_runs(project: Project, monkeypatch, capsys) -> None:
    monkeypatch.chdir(project.folder)
    arguments = ["small", "--conf", str(project.conf)]
    assert plan(arguments) == 0
    output = capsys.readouterr().out
    assert "4 runs in 2 rounds, 0 done, 4 to do" in output and "a guess" in output

    name = "fake-lstm-fake_fast-cpu_1-fake-s0-r0"
    local = machine.fingerprint()["machine"]
    for repeat, seconds in enumerate((0.5, 0.51)):
        record = make_record(name=f"{name[:-1]}{repeat}", machine=local, epoch_seconds=seconds)
        path = project.folder / f"results/records/{record.key}.json"
        write_json(path, record.to_json())
    write_json(project.folder / f"results/{local}/small/{name}.json", pointer_to(record))
    assert plan(arguments) == 0
    output = capsys.readouterr().out
    assert "4 to do" in output, "a pointer to a run of another identity is not a finished run"
    assert "for 2 runs a guess" in output and "1 degrees of freedom" in output


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A record with its events and log, and the files of killed attempts."""
    results = tmp_path / "results"
    record = make_record()
    write_json(results / f"records/{record.key}.json", record.to_json())
    folder = (results / f"records/{record.key}.json").parent
    for name in (
        *(f"{record.started}.log", f"{record.started}.events.jsonl"),
        *("20200101T000000_000000Z.log", "20200101T000000_000000Z.job.json"),
        *("20210101T000000_000000Z.unreadable", "20210101T000000_000000Z.log"),
        ".20200101T000000_000000Z.json.abc123",
    ):
        (folder / name).write_text("x")
    (results / "envs/torch-01234567/bin").mkdir(parents=True)
    (results / "envs/torch-01234567.json").write_text("{}")
    (results / "envs/torch-01234567.lock").write_text("")
    (tmp_path / "mlflow.db.corrupt-20200101T000000_000000Z").write_text("x")
    long_ago = time.time() - 10 * gc.YOUNG_SECONDS
    for path in tmp_path.rglob("*"):
        os.utime(path, (long_ago, long_ago))
    return results


def test_gc_asks_and_then_removes_unused_files(results: Path, capsys) -> None:
    before = sorted(results.rglob("*"))
    assert gc.gc(["--root", str(results.parent)]) == 0
    assert "add --yes" in capsys.readouterr().out
    assert [p for p in sorted(results.rglob("*")) if p.name != ".lock"] == before
    assert gc.gc(["--root", str(results.parent), "--yes"]) == 0
    left = {path.name for path in results.rglob("*") if path.is_file()}
    record = make_record()
    assert left == {
        *(f"{record.started}{end}" for end in (".json", ".log", ".events.jsonl")),
        *("20210101T000000_000000Z.unreadable", "20210101T000000_000000Z.log"),
        *("torch-01234567.lock", ".lock"),
    }
    assert not list(results.parent.glob("mlflow.db*"))
    gc.gc(["--root", str(results.parent)])
    assert "nothing to remove" in capsys.readouterr().out


def test_gc_keeps_young_files_and_used_environments(results: Path, monkeypatch) -> None:
    for path in results.rglob("*"):
        os.utime(path)

    class Used:
        key = "torch-01234567"

    monkeypatch.setattr(gc, "pins_of", lambda build, root: Used)
    (results / "box/quick").mkdir(parents=True)
    (results / "box/quick/plan.jsonl").write_bytes(make_record().run.line())
    (results.parent / "mlflow.db.corrupt-20200101T000000_000000Z").unlink()
    assert list(gc.unused(results.parent, results)) == []


def test_gc_keeps_companions(tmp_path: Path) -> None:
    """Even those that no pointer names: records, their events and logs are never removed."""
    results = tmp_path / "results"
    for record in make_late():
        file = results / f"records/{record.key}.json"
        write_json(file, record.to_json())
        for end in (".log", ".events.jsonl"):
            file.with_suffix(end).write_text("x")
    long_ago = time.time() - 10 * gc.YOUNG_SECONDS
    for path in results.rglob("*"):
        os.utime(path, (long_ago, long_ago))
    assert list(gc.unused(tmp_path, results)) == []


def test_gc_fails_at_once_if_the_results_are_locked(results: Path) -> None:
    with locks.locked(results / ".lock", "process 7"), pytest.raises(RunError, match="process 7"):
        gc.gc(["--root", str(results.parent), "--yes"])
