"""Export and import between machines: nothing is overwritten, tampered archives are refused."""

from __future__ import annotations

import io
import json
import os
import tarfile
from pathlib import Path

import pytest

from rnnbench import cli
from rnnbench.exchange import archive, pack
from rnnbench.locks import take
from rnnbench.records.store import pointer_to, read_record, records_of, write_json
from tests.factory import make_late, make_record

EXPERIMENT = "quick"


def lay_down(results: Path, *records) -> None:
    """Writes records, pointers and plan as a site has them."""
    for record in records:
        site = results / record.machine / EXPERIMENT
        write_json(results / "records" / f"{record.key}.json", record.to_json())
        write_json(site / f"{record.name}.json", pointer_to(record))
        facts = {"name": EXPERIMENT, "title": "t", "about": "", "reference": {}, "skipped": []}
        write_json(site / "experiment.json", facts)
        with (site / "plan.jsonl").open("a") as plan:
            plan.write(json.dumps({"name": record.name}) + "\n")


def exported(folder: Path, *records) -> Path:
    lay_down(folder / "results", *records)
    file = folder / "export.tar.gz"
    archive.write(
        file,
        pack.KIND,
        pack.files_of(folder / "results", EXPERIMENT, sorted({r.machine for r in records})),
        {"experiment": EXPERIMENT},
    )
    return file


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
    machines = {read_record(p).machine for p in (here / "results/records").glob("*/*/*.json")}
    assert machines == {"home", "away"}
    assert run("import", str(tmp_path / "away/export.tar.gz")) == 0


def test_an_export_is_imported_unchanged(here: Path, tmp_path: Path, monkeypatch) -> None:
    assert run("export", EXPERIMENT, "-o", str(tmp_path / "x.tar.gz")) == 0
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    assert run("import", str(tmp_path / "x.tar.gz")) == 0
    assert everything(tmp_path / "empty/results") == everything(here / "results")


def test_both_records_of_a_run_are_kept_and_the_pointer_names_the_newer(here, tmp_path) -> None:
    first = make_record(machine="away", experiment=EXPERIMENT)
    second = make_record(machine="away", experiment=EXPERIMENT, started=later(first))
    assert second.started > first.started
    newer = str(exported(tmp_path / "b", second))
    assert run("import", newer) == 0
    assert run("import", str(exported(tmp_path / "a", first))) == 0
    assert len(list((here / "results/records/away").glob("*/*.json"))) == 2
    pointer = here / "results/away" / EXPERIMENT / f"{first.name}.json"
    assert second.started in pointer.read_text()


def with_companion(folder: Path) -> tuple[Path, list]:
    """A project with a reference and a run that names its companion, and their records."""
    first, late, again = make_late(machine="away", experiment=EXPERIMENT)
    results = folder / "results"
    lay_down(results, first, late)
    companion = results / f"records/{again.key}.json"
    write_json(companion, again.to_json())
    companion.with_suffix(".log").write_text("a line\n")
    pointer = results / "away" / EXPERIMENT / f"{late.name}.json"
    write_json(pointer, pointer_to(late, [f"records/{again.key}.json"]))
    return folder, [first, late, again]


def test_companions_travel_with_the_runs_that_name_them(here: Path, tmp_path, monkeypatch) -> None:
    away, records = with_companion(tmp_path / "away")
    monkeypatch.chdir(away)
    assert run("export", EXPERIMENT, "-o", str(away / "x.tar.gz")) == 0
    monkeypatch.chdir(here)
    assert run("import", str(away / "x.tar.gz")) == 0
    exported_files, imported_files = everything(away / "results"), everything(here / "results")
    assert {name: imported_files[name] for name in exported_files} == exported_files
    pointers = sorted((here / "results/away" / EXPERIMENT).glob("*-s*-r*.json"))
    imported, faults = records_of(here / "results", pointers)
    assert {record.key for record in imported} == {record.key for record in records} and not faults


def without_file(files: dict[str, bytes], name: str) -> None:
    del files[name]


def outside_of_records(files: dict[str, bytes], name: str) -> None:
    """Replaces the companion in the pointer by a file of the archive that is not a record."""
    for pointer, content in files.items():
        if pointer.endswith("-s0-r0.json") and b"companions" in content:
            other = f"away/{EXPERIMENT}/experiment.json"
            files[pointer] = content.replace(name.encode(), other.encode())


@pytest.mark.parametrize("change", [without_file, outside_of_records])
def test_a_missing_companion_is_refused(here, tmp_path, change, capsys) -> None:
    away, (*_, again) = with_companion(tmp_path / "away")
    files = pack.files_of(away / "results", EXPERIMENT, ["away"])
    change(files, f"records/{again.key}.json")
    before = everything(here)
    assert run("import", str(packed_by_hand(away / "x.tar.gz", files))) == 1
    assert "names a companion whose record does not exist" in capsys.readouterr().err
    assert everything(here) == before


def test_a_pointer_without_companions_does_not_replace_one_with_them(here, tmp_path) -> None:
    away, (_, late, _) = with_companion(tmp_path / "away")
    complete = pack.files_of(away / "results", EXPERIMENT, ["away"])
    name = f"away/{EXPERIMENT}/{late.name}.json"
    without = {**complete, name: json.dumps(pointer_to(late)).encode()}
    for files in (without, complete, without):
        assert run("import", str(packed_by_hand(away / "x.tar.gz", files))) == 0
    assert (here / "results" / name).read_bytes() == complete[name]


def test_a_local_plan_is_kept(here: Path, tmp_path: Path, capsys) -> None:
    """Another checkout on the same machine has the same site but another plan."""
    site = here / "results/home" / EXPERIMENT
    write_json(site / "certificates.json", {})
    before = everything(site)
    other = make_record(machine="home", experiment=EXPERIMENT, seed=7)
    file = exported(tmp_path / "other", other)
    assert run("import", str(file)) == 0
    after = everything(site)
    assert {name: after[name] for name in before} == before
    assert f"{other.name}.json" in after
    assert "1 newer or planned files kept" in capsys.readouterr().out


def test_a_file_that_exports_do_not_hold_is_refused(here: Path, tmp_path: Path, capsys) -> None:
    away = tmp_path / "away"
    lay_down(away / "results", make_record(machine="away", experiment=EXPERIMENT))
    files = pack.files_of(away / "results", EXPERIMENT, ["away"])
    files[f"home/{EXPERIMENT}/certificates.json"] = b"{}"
    archive.write(away / "x.tar.gz", pack.KIND, files, {"experiment": EXPERIMENT})
    before = everything(here)
    assert run("import", str(away / "x.tar.gz")) == 1
    assert "is not a file of an export" in capsys.readouterr().err
    assert everything(here) == before


def test_nothing_is_imported_while_the_results_are_locked(here: Path, tmp_path, capsys) -> None:
    other = make_record(machine="away", experiment=EXPERIMENT)
    file = exported(tmp_path / "away", other)
    lock, _ = take(here / "results/.lock", "process 7")
    assert lock is not None
    before = everything(here)
    assert run("import", str(file)) != 0
    error = capsys.readouterr().err
    assert "is in use (process 7)" in error and error.count("\n") == 1
    assert everything(here) == before
    os.close(lock)
    assert run("import", str(file)) == 0


def later(record):
    from datetime import timedelta

    from rnnbench.records.timestamps import read

    return read(record.started) + timedelta(hours=1)


def repacked(source: Path, target: Path, change) -> Path:
    """Writes the archive with its files (name → content) changed and its manifest unchanged."""
    with tarfile.open(source) as old:
        files = {entry.name: old.extractfile(entry).read() for entry in old}
    change(files)
    with tarfile.open(target, "w:gz") as new:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            new.addfile(entry, io.BytesIO(content))
    return target


def record_name(files) -> str:
    return next(name for name in files if name.startswith("records/"))


def faster(files) -> None:
    name = record_name(files)
    files[name] = files[name].replace(b'"seconds": ', b'"seconds": 0', 1)


def newer_schema(files) -> None:
    files["manifest.json"] = files["manifest.json"].replace(b'"schema": 1', b'"schema": 2')


def outside(files) -> None:
    files["../outside.json"] = b"{}"


def absolute(files) -> None:
    files["/tmp/outside.json"] = b"{}"


def additional(files) -> None:
    files["records/a/b/c.json"] = b"{}"


@pytest.mark.parametrize("change", [faster, newer_schema, outside, absolute, additional])
def test_tampered_archives_change_nothing(here: Path, tmp_path: Path, change, capsys) -> None:
    record = make_record(machine="away", experiment=EXPERIMENT)
    file = repacked(exported(tmp_path / "away", record), tmp_path / "bad.tar.gz", change)
    before = everything(here)
    assert run("import", str(file)) == 1
    assert everything(here) == before
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "nothing was imported" in error and "bad.tar.gz" in error


def test_a_link_is_refused(here: Path, tmp_path: Path) -> None:
    file = tmp_path / "link.tar.gz"
    with tarfile.open(file, "w:gz") as packed:
        link = tarfile.TarInfo("records/link.json")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        packed.addfile(link)
    assert run("import", str(file)) == 1


def packed_by_hand(path: Path, files: dict[str, bytes]) -> Path:
    archive.write(path, pack.KIND, files, {"experiment": EXPERIMENT})
    return path


def test_an_existing_record_is_not_replaced(here: Path, tmp_path: Path) -> None:
    mine = make_record(machine="home", experiment=EXPERIMENT)
    theirs = make_record(machine="home", experiment=EXPERIMENT, epoch_seconds=9.0)
    assert mine.key == theirs.key
    before = everything(here)
    assert run("import", str(exported(tmp_path / "away", theirs))) == 1
    assert everything(here) == before


def test_a_record_in_the_folder_of_another_machine_is_refused(here: Path, tmp_path: Path) -> None:
    record = make_record(machine="away", experiment=EXPERIMENT)
    content = json.dumps(record.to_json()).encode()
    name = f"records/third/{record.name}/{record.started}.json"
    before = everything(here)
    assert run("import", str(packed_by_hand(tmp_path / "x.tar.gz", {name: content}))) == 1
    assert everything(here) == before


def test_a_newer_record_schema_is_refused(here: Path, tmp_path: Path, capsys) -> None:
    record = make_record(machine="away", experiment=EXPERIMENT)
    data = {**record.to_json(), "schema": 99}
    files = {f"records/{record.key}.json": json.dumps(data).encode()}
    assert run("import", str(packed_by_hand(tmp_path / "x.tar.gz", files))) == 1
    assert "schema 99" in capsys.readouterr().err


def test_one_damaged_archive_of_two_prevents_both_imports(here: Path, tmp_path: Path) -> None:
    good = exported(tmp_path / "away", make_record(machine="away", experiment=EXPERIMENT))
    bad = tmp_path / "bad.tar.gz"
    bad.write_bytes(good.read_bytes()[:-40])
    before = everything(here)
    assert run("import", str(good), str(bad)) == 1
    assert everything(here) == before


def test_an_unknown_experiment_cannot_be_exported(here: Path, tmp_path: Path, capsys) -> None:
    assert run("export", "other", "-o", str(tmp_path / "x.tar.gz")) == 2
    assert "has no runs of other" in capsys.readouterr().err
