"""Export and import between machines: nothing of this machine is touched, tampered archives are
refused. See also ``tests/outside``."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import msgspec
import pytest

from rnnbench import cli
from rnnbench.exchange import archive
from rnnbench.locks import take
from rnnbench.records.record import Record
from rnnbench.records.rounds import Result, records_of, results_in
from rnnbench.records.store import planned_folders, read_record, record_files, roots, write_json
from tests.factory import BEGINNING, make_late, make_record, put

EXPERIMENT = "quick"
IMPORTED = "results/imported"
SITE = f"{IMPORTED}/away/{EXPERIMENT}"
LATER = BEGINNING + timedelta(hours=1)


def lay_down(results: Path, *records: Record) -> None:
    """Writes records, rounds and plan as a site has them."""
    for record in records:
        site = put(results, record, site=record.machine).parents[1]
        facts = {"name": EXPERIMENT, "title": "t", "about": "", "reference": {}, "lead": "time"}
        facts |= {"repeats": None, "skipped": [], "rerun": "", "peak_tflops": {}, "varied": []}
        write_json(site / "experiment.json", {**facts, "models": [], "obstacle": None})
        with (site / "plan.jsonl").open("ab") as plan:
            plan.write(record.run.line())


def files_in(results: Path) -> dict[str, bytes]:
    """Name → content of all that an export of the experiment has."""
    folders = planned_folders(results, EXPERIMENT)
    files = {name: file for folder in folders for name, file in archive.files_of(folder).items()}
    return {name: file.read_bytes() for name, file in files.items()}


def packed(path: Path, files: dict[str, bytes]) -> str:
    """An archive of `files`."""
    with tempfile.TemporaryDirectory() as folder:
        sources = {name: Path(folder, str(number)) for number, name in enumerate(files)}
        for name, source in sources.items():
            source.write_bytes(files[name])
        archive.write(path, sources)
    return str(path)


def exported(folder: Path, machine: str = "away", **changes: Any) -> str:
    """An export of a record of another machine. `changes`: arguments of `make_record`."""
    lay_down(folder / "results", make_record(machine=machine, **changes))
    return packed(folder / "export.zip", files_in(folder / "results"))


def everything(folder: Path) -> dict[str, bytes]:
    files = (p for p in folder.rglob("*") if p.is_file() and p.name != ".lock")
    return {str(p.relative_to(folder)): p.read_bytes() for p in files}


def run(*arguments: str) -> int:
    """A command in the current folder, which is a project."""
    Path("Snakefile").touch()
    return cli.main(list(arguments))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "here"
    lay_down(folder / "results", make_record(machine="home"))
    (folder / "Snakefile").touch()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def refused(here: Path, capsys: pytest.CaptureFixture) -> Callable[..., str]:
    """Imports what must be refused; returns the error."""

    def refuse(*files: str) -> str:
        before = everything(here)
        assert run("import", *files) == 1
        assert everything(here) == before
        return capsys.readouterr().err

    return refuse


def test_records_of_two_machines_side_by_side(here: Path, tmp_path: Path) -> None:
    file = exported(tmp_path / "away")
    for _ in range(2):
        assert run("import", file) == 0
    for root, machine in zip(roots(here / "results"), ("home", "away"), strict=True):
        assert {read_record(path).machine for path in record_files(root)} == {machine}


def test_an_export_is_imported_unchanged(here: Path, tmp_path: Path, monkeypatch) -> None:
    assert run("export", EXPERIMENT, "-o", str(tmp_path / "x.zip")) == 0
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    assert run("import", str(tmp_path / "x.zip"), "--restore") == 0
    assert everything(tmp_path / "empty/results") == everything(here / "results")


def test_both_records_of_a_run_are_kept_and_the_newer_counts(here, tmp_path) -> None:
    assert run("import", exported(tmp_path / "b", started=LATER)) == 0
    assert run("import", exported(tmp_path / "a")) == 0
    paths = (here / IMPORTED / "records/away").glob("*/*.json")
    first, second = sorted(map(read_record, paths), key=lambda record: record.started)
    assert second.started > first.started
    assert result_of(here, first).record == second.path


def test_the_record_of_the_imported_plan_counts_before_a_newer_one_of_another(
    here, tmp_path
) -> None:
    assert run("import", exported(tmp_path / "b", started=LATER, epochs=4)) == 0
    planned = make_record(machine="away")
    assert run("import", exported(tmp_path / "a")) == 0
    assert result_of(here, planned).record == planned.path
    assert len(list((here / IMPORTED / "records/away").glob("*/*.json"))) == 2


def result_of(here: Path, record: Record) -> Result:
    """What was imported of a run."""
    return results_in(here / SITE)[0][record.name]


def with_companion(folder: Path) -> list[Record]:
    """Lays down a reference and a run that names its companion; returns the three records."""
    first, late, again = make_late(machine="away")
    results = folder / "results"
    lay_down(results, first, late)
    put(results, late, [again], site="away")
    (results / again.path).with_suffix(".log").write_text("a line\n")
    return [first, late, again]


def test_companions_travel_with_the_runs_that_name_them(here: Path, tmp_path, monkeypatch) -> None:
    away = tmp_path / "away"
    records = with_companion(away)
    monkeypatch.chdir(away)
    assert run("export", EXPERIMENT, "-o", str(away / "x.zip")) == 0
    monkeypatch.chdir(here)
    assert run("import", str(away / "x.zip")) == 0
    logs = {name for name in everything(away / "results") if name.endswith(".log")}
    assert logs, "logs name users and folders, so that they are not exported"
    without_logs = {k: v for k, v in everything(away / "results").items() if k not in logs}
    assert everything(here / IMPORTED) == without_logs
    imported, faults = records_of([here / SITE])
    assert {record.key for record in imported} == {record.key for record in records} and not faults


def test_a_companion_may_come_later(here: Path, tmp_path: Path) -> None:
    _, late, again = with_companion(tmp_path)
    complete = files_in(tmp_path / "results")
    without = {k: v for k, v in complete.items() if k != again.path}
    for files, expected in ((without, []), (complete, [again.path]), (without, [again.path])):
        assert run("import", packed(tmp_path / "x.zip", files)) == 0
        assert list(result_of(here, late).companions) == expected


def test_a_backup_is_restored_and_says_what_it_replaces(here, tmp_path, capsys, refused) -> None:
    file = exported(tmp_path / "backup", machine="home", started=LATER)
    backup = file
    error = refused(file)
    assert "is a machine or site of this project" in error and "--restore" in error
    assert run("import", file, "--restore") == 0
    newest = max(map(read_record, record_files(here / "results")), key=lambda r: r.started)
    file = Path("results/home") / EXPERIMENT / f"rounds/{newest.run.round}.json"
    assert f"replaced: {file}" in capsys.readouterr().out
    assert newest.started in file.read_text()
    assert len(record_files(here / "results")) == 2
    assert run("import", backup, "--restore") == 0
    assert "replaced" not in capsys.readouterr().out


@pytest.mark.parametrize("is_earlier", [False, True])
def test_runs_that_were_not_needed_stay_so_unless_they_have_a_record(
    here: Path, tmp_path: Path, is_earlier: bool
) -> None:
    """Exports of earlier versions have a file of each such run."""
    record = make_record(machine="away")
    unneeded = {
        "record": None,
        "digest": record.run.digest,
        "not_needed": {"spent": 2.0, "budget": 1.0},
        "repeats": {"least": 1},
    }
    measured = exported(tmp_path / "measured")
    lay_down(tmp_path / "results", record)
    site = tmp_path / "results/away" / EXPERIMENT
    file = site / f"rounds/{record.run.round}.json"
    write_json(file, {"members": {record.name: unneeded}})
    files = files_in(tmp_path / "results")
    assert f"away/{EXPERIMENT}/rounds/{file.name}" in files and record.path not in files
    if is_earlier:
        del files[f"away/{EXPERIMENT}/rounds/{file.name}"]
        files[f"away/{EXPERIMENT}/{record.name}.json"] = json.dumps(unneeded).encode()
    without = packed(tmp_path / "without.zip", files)
    for _ in range(2):
        assert run("import", without) == 0
        assert msgspec.to_builtins(result_of(here, record))["not_needed"] == unneeded["not_needed"]
    for archive_ in (measured, without):
        assert run("import", archive_) == 0
        assert result_of(here, record).record == record.path


def test_nothing_is_imported_while_the_results_are_locked(here: Path, tmp_path, refused) -> None:
    file = exported(tmp_path / "away")
    lock, _ = take(here / "results/.lock", "process 7")
    assert lock is not None
    error = refused(file)
    assert "is in use by another process (process 7)" in error and error.count("\n") == 1
    os.close(lock)
    assert run("import", file) == 0


def test_an_existing_record_is_not_replaced(tmp_path: Path, refused) -> None:
    assert run("import", exported(tmp_path / "first")) == 0
    refused(exported(tmp_path / "other", epoch_seconds=9.0))


def test_one_damaged_archive_of_two_prevents_both_imports(tmp_path: Path, refused) -> None:
    good, bad = exported(tmp_path / "away"), tmp_path / "bad.zip"
    bad.write_bytes(Path(good).read_bytes()[:-40])
    refused(good, str(bad))


def test_an_unknown_experiment_cannot_be_exported(here: Path, tmp_path: Path, capsys) -> None:
    assert run("export", "other", "-o", str(tmp_path / "x.zip")) == 2
    assert "has no runs of other" in capsys.readouterr().err


def test_certificates_are_replaced_if_they_are_planned_differently(
    here: Path, tmp_path: Path
) -> None:
    key = "digits_rnn-lstm-current"
    made = {"schema": 3, "key": key, "machine": "away", "implementations": {}, "pairs": []}
    for digest, precision in (("first", None), ("second", "float32"), ("second", "tf32")):
        file = tmp_path / f"results/away/{EXPERIMENT}/certificates/{key}.json"
        write_json(file, {**made, "digest": digest, "precision": precision})
        assert run("import", exported(tmp_path)) == 0
    (imported,) = (here / SITE / "certificates").glob("*.json")
    content = json.loads(imported.read_text())
    assert (content["digest"], content["precision"]) == ("second", "float32")


def planned_here(here: Path) -> set[str]:
    plan = (here / SITE / "plan.jsonl").read_text()
    return {json.loads(line)["name"] for line in plan.splitlines()}


def skipped_here(here: Path) -> dict[str, str]:
    facts = json.loads((here / SITE / "experiment.json").read_text())
    return {each["name"]: each["why"] for each in facts["skipped"]}


def part(folder: Path, measured: Record, missing: Record, skipped: dict[str, str]) -> str:
    """An export of a part of the experiment: a run with a record, one without, and skipped runs."""
    lay_down(folder / "results", measured)
    site = folder / "results/away" / EXPERIMENT
    with (site / "plan.jsonl").open("ab") as plan:
        plan.write(missing.run.line())
    facts = json.loads((site / "experiment.json").read_text())
    facts["skipped"] = [{"name": name, "why": why} for name, why in skipped.items()]
    write_json(site / "experiment.json", facts)
    return packed(folder / "export.zip", files_in(folder / "results"))


def test_a_second_part_of_an_experiment_leaves_what_the_first_one_lacks(
    here: Path, tmp_path: Path
) -> None:
    records = [make_record(machine="away", repeat=repeat) for repeat in range(4)]
    names = [record.name for record in records]
    first = part(tmp_path / "1", records[0], records[1], {"x": "no GPU", names[2]: "no jax"})
    second = part(tmp_path / "2", records[2], records[3], {"y": "no H100"})
    assert run("import", first) == 0
    assert planned_here(here) == set(names[:2])
    for _ in range(2):
        assert run("import", second) == 0
        assert planned_here(here) == set(names), "also the runs that are missing"
        assert skipped_here(here) == {"x": "no GPU", "y": "no H100"}, "the other was measured"
    assert run("import", first) == 0
    assert planned_here(here) == set(names)
    assert skipped_here(here) == {"x": "no GPU", "y": "no H100"}, "the other is still measured"


def test_two_parts_in_one_import_are_added_up(here: Path, tmp_path: Path) -> None:
    records = [make_record(machine="away", repeat=repeat) for repeat in range(4)]
    names = [record.name for record in records]
    first = part(tmp_path / "1", records[0], records[1], {"x": "no GPU", names[2]: "no jax"})
    second = part(tmp_path / "2", records[2], records[3], {"y": "no H100"})
    assert run("import", first, second) == 0
    assert planned_here(here) == set(names)
    assert skipped_here(here) == {"x": "no GPU", "y": "no H100"}


def test_two_sources_that_contradict_each_other(here: Path, tmp_path: Path, capsys) -> None:
    first = exported(tmp_path / "first")
    other = exported(tmp_path / "other", epoch_seconds=9.0)
    assert run("import", first, other) == 1
    error = capsys.readouterr().err
    assert "exists already with other content; the sources before it were imported." in error
    assert files_in(here / "results").items() >= files_in(tmp_path / "first/results").items()


def test_probes_of_earlier_versions_are_left_out_and_counted(
    here: Path, tmp_path: Path, capsys
) -> None:
    archive = Path(exported(tmp_path))
    with ZipFile(archive, "a") as file:
        for name in ("cpu_1-current", "cpu_2-current"):
            file.writestr(f"away/{EXPERIMENT}/probes/{name}.json", "{}")
    assert run("import", str(archive)) == 0
    assert "left out: 2 probes, which rnnbench no longer makes" in capsys.readouterr().out
    assert not list(here.rglob("probes"))
