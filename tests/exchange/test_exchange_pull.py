"""Records are pulled from MLflow exactly as they were logged; changed ones are refused."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest

from rnnbench import cli
from rnnbench.locks import take
from rnnbench.records.store import pointer_to, read_json, write_json
from rnnbench.tracking.track import track
from tests.exchange.test_exchange_import import everything
from tests.factory import BEGINNING, make_late, make_record

RECORDS = 3


def log(root: Path, monkeypatch) -> list:
    """Logs records of another machine to a shared store. Returns (record, file) of each."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{root}/shared.db")
    logged = []
    for number in range(RECORDS):
        moment = BEGINNING + timedelta(hours=number)
        record = make_record(seed=number // 2, started=moment, machine="away", block=0)
        file = root / "away/results/records" / f"{record.key}.json"
        write_json(file, record.to_json())
        file.with_suffix(".log").write_text(f"log {number}\n")
        file.with_suffix(".events.jsonl").write_text("{}\n")
        logged.append((record, file))
    track(logged, root / "away")
    return logged


@pytest.fixture
def here(tmp_path: Path, monkeypatch) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def test_records_are_pulled_with_log_and_events(here: Path, tmp_path, monkeypatch, capsys) -> None:
    logged = log(tmp_path, monkeypatch)
    assert cli.main(["pull", "quick"]) == 0
    away = everything(tmp_path / "away/results/records")
    assert everything(here / "results/records") == away and len(away) == 3 * RECORDS
    pointers = sorted((here / "results/away/quick").glob("*-s*-r*.json"))
    assert [p.stem for p in pointers] == sorted({record.name for record, _ in logged})
    assert logged[1][0].started in pointers[0].read_text(), "points to the latest"
    before = everything(here)
    capsys.readouterr()
    assert cli.main(["pull", "quick"]) == 0
    assert "3 known already, 0 files written" in capsys.readouterr().out
    assert everything(here) == before
    assert cli.main(["report", "quick", "--site", "away"]) == 0


def test_companions_stay_companions(here: Path, tmp_path: Path, monkeypatch) -> None:
    """The reference's companion is later than the reference's run but has no pointer."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/shared.db")
    first, late, again = make_late(machine="away")
    logged = []
    for record in (first, late, again):
        file = tmp_path / "away/results/records" / f"{record.key}.json"
        write_json(file, record.to_json())
        logged.append((record, file))
    track(logged, tmp_path / "away")
    assert cli.main(["pull", "quick"]) == 0
    folder = here / "results/away/quick"
    assert read_json(folder / f"{first.name}.json") == pointer_to(first)
    companion = f"records/{again.key}.json"
    assert read_json(folder / f"{late.name}.json") == pointer_to(late, [companion])
    assert (here / "results" / companion).is_file()
    assert cli.main(["report", "quick", "--site", "away"]) == 0


def test_a_server_without_companions_removes_none(here: Path, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/shared.db")
    first, late, again = make_late(machine="away")
    for record in (first, late, again):
        write_json(here / f"results/records/{record.key}.json", record.to_json())
    pointer = here / f"results/away/quick/{late.name}.json"
    write_json(pointer, pointer_to(late, [f"records/{again.key}.json"]))
    before = pointer.read_bytes()
    track([(late, here / f"results/records/{late.key}.json")], tmp_path / "away")
    assert cli.main(["pull", "quick"]) == 0
    assert pointer.read_bytes() == before


def test_nothing_is_pulled_while_the_results_are_locked(here, tmp_path, monkeypatch, capsys):
    log(tmp_path, monkeypatch)
    lock, _ = take(here / "results/.lock", "process 7")
    assert lock is not None
    assert cli.main(["pull", "quick"]) != 0
    error = capsys.readouterr().err
    assert "is in use (process 7)" in error and error.count("\n") == 1
    assert everything(here / "results") == {}
    os.close(lock)


def test_a_record_that_was_changed_in_mlflow_is_refused(here, tmp_path, monkeypatch, capsys):
    log(tmp_path, monkeypatch)
    artifact = next(tmp_path.rglob("artifacts/record.json"))
    artifact.write_text(artifact.read_text().replace('"seconds": ', '"seconds": 0', 1))
    assert cli.main(["pull", "quick"]) == 1
    error = capsys.readouterr().err
    assert "differs from what was logged" in error and error.count("\n") == 1
    assert not (here / "results").exists()


def test_an_existing_record_with_other_content_is_kept(here, tmp_path, monkeypatch) -> None:
    (record, _), *_ = log(tmp_path, monkeypatch)
    local = make_record(seed=0, machine="away", block=0, epoch_seconds=9.0)
    assert local.key == record.key
    write_json(here / "results/records" / f"{local.key}.json", local.to_json())
    write_json(here / f"results/away/quick/{local.name}.json", pointer_to(local))
    before = everything(here)
    assert cli.main(["pull", "quick"]) == 1
    assert everything(here) == before


def test_an_unknown_experiment_cannot_be_pulled(here, tmp_path, monkeypatch, capsys) -> None:
    log(tmp_path, monkeypatch)
    assert cli.main(["pull", "quickk"]) == 1
    assert "quickk" in capsys.readouterr().err
