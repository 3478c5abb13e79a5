"""Export and import between machines: nothing of this machine is touched, tampered archives are
refused. See also ``tests/outside``."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from rnnbench import cli
from rnnbench.exchange import archive
from rnnbench.locks import take
from rnnbench.records.pointer import records_of
from rnnbench.records.store import (
    planned_folders,
    read_record,
    record_files,
    roots,
    write_json,
)
from tests.factory import make_late, make_probe, make_record, put

EXPERIMENT = "quick"
IMPORTED = "results/imported"


def lay_down(results: Path, *records) -> None:
    """Writes records, pointers and plan as a site has them."""
    for record in records:
        site = results / record.machine / EXPERIMENT
        put(results, record, site=record.machine, experiment=EXPERIMENT)
        facts = {"name": EXPERIMENT, "title": "t", "about": "", "reference": {}, "lead": "time",
                 "repeats": None, "skipped": []}  # fmt: skip
        write_json(site / "experiment.json", facts)
        with (site / "plan.jsonl").open("ab") as plan:
            plan.write(record.run.line())


def exported(folder: Path, *records) -> Path:
    lay_down(folder / "results", *records)
    return packed(folder / "export.zip", files_in(folder / "results"))


def files_in(results: Path) -> dict[str, bytes]:
    """Name → content of all that an export of the experiment has."""
    folders = planned_folders(results, EXPERIMENT)
    files = {name: file for folder in folders for name, file in archive.files_of(folder).items()}
    return {name: file.read_bytes() for name, file in files.items()}


def packed(path: Path, files: dict[str, bytes]) -> Path:
    """An archive of `files`."""
    with tempfile.TemporaryDirectory() as folder:
        sources = {name: Path(folder, str(number)) for number, name in enumerate(files)}
        for name, source in sources.items():
            source.write_bytes(files[name])
        archive.write(path, sources)
    return path


def everything(folder: Path) -> dict[str, bytes]:
    files = (p for p in folder.rglob("*") if p.is_file() and p.name != ".lock")
    return {str(p.relative_to(folder)): p.read_bytes() for p in files}


def run(*arguments: str) -> int:
    return cli.main(list(arguments))


@pytest.fixture
def here(tmp_path: Path, monkeypatch) -> Path:
    folder = tmp_path / "here"
    lay_down(folder / "results", make_record(machine="home", experiment=EXPERIMENT))
    monkeypatch.chdir(folder)
    return folder


def test_records_of_two_machines_side_by_side(here: Path, tmp_path: Path) -> None:
    other = make_record(machine="away", experiment=EXPERIMENT)
    assert run("import", str(exported(tmp_path / "away", other))) == 0
    own, imported = roots(here / "results")
    assert {read_record(path).machine for path in record_files(own)} == {"home"}
    assert {read_record(path).machine for path in record_files(imported)} == {"away"}
    assert run("import", str(tmp_path / "away/export.zip")) == 0


def test_an_export_is_imported_unchanged(here: Path, tmp_path: Path, monkeypatch) -> None:
    assert run("export", EXPERIMENT, "-o", str(tmp_path / "x.zip")) == 0
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    assert run("import", str(tmp_path / "x.zip"), "--restore") == 0
    assert everything(tmp_path / "empty/results") == everything(here / "results")


def test_both_records_of_a_run_are_kept_and_the_pointer_names_the_newer(here, tmp_path) -> None:
    first = make_record(machine="away", experiment=EXPERIMENT)
    second = make_record(machine="away", experiment=EXPERIMENT, started=later(first))
    assert second.started > first.started
    newer = str(exported(tmp_path / "b", second))
    assert run("import", newer) == 0
    assert run("import", str(exported(tmp_path / "a", first))) == 0
    assert len(list((here / IMPORTED / "records/away").glob("*/*.json"))) == 2
    pointer = here / IMPORTED / "away" / EXPERIMENT / f"{first.name}.json"
    assert second.started in pointer.read_text()


def with_companion(folder: Path) -> tuple[Path, list]:
    """A project with a reference and a run that names its companion, and their records."""
    first, late, again = make_late(machine="away", experiment=EXPERIMENT)
    results = folder / "results"
    lay_down(results, first, late)
    put(results, late, [again], site="away", experiment=EXPERIMENT)
    (results / again.path).with_suffix(".log").write_text("a line\n")
    return folder, [first, late, again]


def test_companions_travel_with_the_runs_that_name_them(here: Path, tmp_path, monkeypatch) -> None:
    away, records = with_companion(tmp_path / "away")
    monkeypatch.chdir(away)
    assert run("export", EXPERIMENT, "-o", str(away / "x.zip")) == 0
    monkeypatch.chdir(here)
    assert run("import", str(away / "x.zip")) == 0
    logs = {name for name in everything(away / "results") if name.endswith(".log")}
    assert logs, "logs name users and folders, so that they are not exported"
    without_logs = {k: v for k, v in everything(away / "results").items() if k not in logs}
    assert everything(here / IMPORTED) == without_logs
    pointers = sorted((here / IMPORTED / "away" / EXPERIMENT).glob("*-s*-r*.json"))
    imported, faults = records_of(pointers)
    assert {record.key for record in imported} == {record.key for record in records} and not faults


def test_a_companion_may_come_later(here, tmp_path) -> None:
    away, (_, late, again) = with_companion(tmp_path / "away")
    complete = files_in(away / "results")
    without = {k: v for k, v in complete.items() if k != again.path}
    pointer = here / IMPORTED / "away" / EXPERIMENT / f"{late.name}.json"
    for files, expected in ((without, []), (complete, [again]), (without, [again])):
        assert run("import", str(packed(away / "x.zip", files))) == 0
        content = json.loads(pointer.read_text())
        assert content.get("companions", []) == [r.path for r in expected]


def test_a_backup_is_restored_and_says_what_it_replaces(here: Path, tmp_path, capsys) -> None:
    (old,) = (read_record(path) for path in record_files(here / "results"))
    newer = make_record(machine="home", experiment=EXPERIMENT, started=later(old))
    file = str(exported(tmp_path / "backup", newer))
    before = everything(here)
    assert run("import", file) == 1
    error = capsys.readouterr().err
    assert "is a machine or site of this project" in error and "--restore" in error
    assert everything(here) == before
    assert run("import", file, "--restore") == 0
    pointer = Path("results/home") / EXPERIMENT / f"{newer.name}.json"
    assert f"replaced: {pointer}" in capsys.readouterr().out
    assert newer.started in pointer.read_text()
    assert len(record_files(here / "results")) == 2


def test_nothing_is_imported_while_the_results_are_locked(here: Path, tmp_path, capsys) -> None:
    other = make_record(machine="away", experiment=EXPERIMENT)
    file = exported(tmp_path / "away", other)
    lock, _ = take(here / "results/.lock", "process 7")
    assert lock is not None
    before = everything(here)
    assert run("import", str(file)) != 0
    error = capsys.readouterr().err
    assert "is in use by another process (process 7)" in error and error.count("\n") == 1
    assert everything(here) == before
    os.close(lock)
    assert run("import", str(file)) == 0


def later(record):
    from datetime import timedelta

    from rnnbench.records.timestamps import read

    return read(record.started) + timedelta(hours=1)


def test_an_existing_record_is_not_replaced(here: Path, tmp_path: Path) -> None:
    first = make_record(machine="away", experiment=EXPERIMENT)
    other = make_record(machine="away", experiment=EXPERIMENT, epoch_seconds=9.0)
    assert first.key == other.key
    assert run("import", str(exported(tmp_path / "first", first))) == 0
    before = everything(here)
    assert run("import", str(exported(tmp_path / "other", other))) == 1
    assert everything(here) == before


def test_one_damaged_archive_of_two_prevents_both_imports(here: Path, tmp_path: Path) -> None:
    good = exported(tmp_path / "away", make_record(machine="away", experiment=EXPERIMENT))
    bad = tmp_path / "bad.zip"
    bad.write_bytes(good.read_bytes()[:-40])
    before = everything(here)
    assert run("import", str(good), str(bad)) == 1
    assert everything(here) == before


def test_an_unknown_experiment_cannot_be_exported(here: Path, tmp_path: Path, capsys) -> None:
    assert run("export", "other", "-o", str(tmp_path / "x.zip")) == 2
    assert "has no runs of other" in capsys.readouterr().err


CERTIFICATE = {
    "schema": 1,
    "key": "digits_rnn-lstm-current",
    "machine": "away",
    "digest": "d",
    "implementations": {},
    "pairs": [],
}


def write_preflights(results: Path, machine: str, **changes: Any) -> tuple[Path, Path]:
    """Writes a certificate and a probe at a machine's site."""
    site = results / machine / EXPERIMENT
    preflights = {
        "certificates": {**CERTIFICATE, "machine": machine, **changes},
        "probes": {**make_probe(machine=machine), **changes},
    }
    files = {kind: site / kind / f"{data['key']}.json" for kind, data in preflights.items()}
    for kind, file in files.items():
        write_json(file, preflights[kind])
    return files["certificates"], files["probes"]


def test_they_are_imported_with_the_runs_and_replaced_if_planned_differently(
    here: Path, tmp_path: Path
) -> None:
    record = make_record(machine="away", experiment=EXPERIMENT)
    for digest, precision in (("first", None), ("second", "float32"), ("second", "tf32")):
        write_preflights(tmp_path / "away" / "results", "away", digest=digest, precision=precision)
        assert run("import", str(exported(tmp_path / "away", record))) == 0
    site = here / "results/imported/away" / EXPERIMENT
    (certificate,) = site.glob("certificates/*.json")
    (probe,) = site.glob("probes/*.json")
    assert [json.loads(file.read_text())["digest"] for file in (certificate, probe)] == [
        "second"
    ] * 2
    assert json.loads(certificate.read_text())["precision"] == "float32"
