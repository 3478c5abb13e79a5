"""Which files are records, next to files left by an interrupted run or another site."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path, PurePath

import pytest

from rnnbench import cli, workflow
from rnnbench.errors import RecordError
from rnnbench.records.pointer import is_valid, records_of
from rnnbench.records.store import (
    is_record,
    read_json,
    read_record,
    record_files,
    write_json,
    write_record,
)
from tests.conftest import ROOT, Project
from tests.factory import make_late, make_record, put, read_pointer

LEFTOVERS = ("job.json", "events.jsonl", "log", "unreadable")


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return tmp_path / "results"


def test_a_pointer_moves_with_its_results_folder(results: Path, tmp_path: Path) -> None:
    pointer = put(results, make_record())
    moved = results.rename(tmp_path / "moved")
    assert read_pointer(moved, moved / pointer.relative_to(results)) == make_record()


@pytest.mark.parametrize(
    "target", ["../outside.json", "records/../../outside.json", "absolute", "link.json"]
)
def test_a_pointer_outside_the_results_is_refused(results: Path, target: str) -> None:
    outside, pointer = results.parent / "outside.json", results / "pointer.json"
    write_json(outside, make_record())
    write_json(pointer, {"record": str(outside) if target == "absolute" else target})
    (results / "link.json").symlink_to(outside)
    with pytest.raises(RecordError, match="outside the results folder") as caught:
        read_pointer(results, pointer)
    assert caught.value.where == str(pointer)


@pytest.mark.parametrize(
    "data", [[], {"digest": "d"}, {"record": 7}, {"record": None}, "records/x.json", None]
)
def test_invalid_pointers_are_reported(results: Path, data: object) -> None:
    write_json(results / "pointer.json", data)
    with pytest.raises(RecordError, match="not a pointer"):
        read_pointer(results, results / "pointer.json")


@pytest.mark.parametrize(
    "content", [b"", b'{"schema": 1, "na', b"\xff\xfe\x00", b"[" * 100_000, b"not json", None]
)
def test_a_broken_file_gives_a_one_line_error_with_its_path(
    tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "record.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(RecordError) as caught:
        read_record(path)
    assert caught.value.where == str(path)
    assert caught.value.remedy or "does not exist" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("is_truncated", [True, False])
@pytest.mark.parametrize("damaged", [None, "record", "companion"])
def test_damaged_records_are_reported_and_make_their_pointer_invalid(
    results: Path, damaged: str | None, is_truncated: bool
) -> None:
    reference, late, companion = readable = make_late()
    pointers, faulty = [put(results, reference), put(results, late, [companion])], []
    if damaged:
        file = results / {"record": late, "companion": companion}[damaged].path
        file.write_bytes(file.read_bytes()[:100])
        if not is_truncated:
            file.unlink()
        readable, faulty = readable[: 1 if damaged == "record" else 2], [str(file)]
    assert [is_valid(pointer, results) for pointer in pointers] == [True, not damaged]
    records, faults = records_of(pointers)
    assert records == list(readable) and [fault.where for fault in faults] == faulty


@pytest.mark.parametrize("bad", [float("nan"), object()])
def test_a_failed_write_leaves_the_old_bytes_and_nothing_else(tmp_path: Path, bad: object) -> None:
    path = tmp_path / "record.json"
    write_json(path, {"old": 1})
    with pytest.raises((ValueError, TypeError)):
        write_json(path, {"many": list(range(10_000)), "bad": bad})
    assert json.loads(path.read_text()) == {"old": 1}
    assert os.listdir(tmp_path) == ["record.json"]


def test_written_files_are_readable_by_all_users(tmp_path: Path) -> None:
    write_json(tmp_path / "a" / "b.json", {"é": 1})
    assert (tmp_path / "a" / "b.json").stat().st_mode & 0o777 == 0o644


def test_a_killed_writer_leaves_the_old_or_the_new_bytes(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    write_json(path, {"number": 0, "filler": []})
    script = """
import itertools, sys
from pathlib import Path
from rnnbench.records.store import write_json
for number in itertools.count(1):
    write_json(Path(sys.argv[1]), {"number": number, "filler": [number] * 20000})
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    writer = subprocess.Popen([sys.executable, "-c", script, str(path)], env=environment)
    seen, deadline = set(), time.monotonic() + 20
    try:
        while len(seen) < 5 and time.monotonic() < deadline:
            data = read_json(path)
            assert set(data["filler"]) <= {data["number"]}
            seen.add(data["number"])
    finally:
        writer.kill()
        writer.wait()
    assert len(seen) >= 5
    last = read_json(path)
    assert set(last["filler"]) == {last["number"]}
    # The killed writer's unfinished file is never mistaken for a record.
    assert [name for name in os.listdir(tmp_path) if not name.startswith(".")] == ["record.json"]


def test_files_of_an_interrupted_run_are_not_records(results: Path, capsys) -> None:
    file = write_record(results, make_record())
    leftovers = [f"20990101T000000_000000Z.{ending}" for ending in LEFTOVERS]
    for name in (*leftovers, f".{file.name}.abcd"):
        (file.parent / name).write_text("{}\n")
    assert is_record(PurePath(file.name)) and not any(is_record(PurePath(n)) for n in leftovers)
    assert record_files(results) == [file]
    assert record_files(results, name="another*") == []
    assert cli.main(["show", file.parent.name, "--results", str(results)]) == 0
    assert file.stem in capsys.readouterr().out


def test_a_companion_is_shown_if_there_is_no_other_record(tmp_path: Path, capsys) -> None:
    reference, _, companion = make_late()
    for record in (companion, reference):
        write_record(tmp_path, record)
        assert cli.main(["show", record.name, "--results", str(tmp_path)]) == 0
        assert record.started in capsys.readouterr().out


def test_report_inputs_from_another_site(project: Project, monkeypatch) -> None:
    job = workflow.load({"experiment": "small", "conf": str(project.conf)}, project.folder)
    inputs = ["a-s0-r0.json", "certificates/m-lstm-current.json"]
    others = ["certificates.json", "experiment.json", "tracked/0.json"]
    others += [".a-s0-r0.json.abcd", "certificates/.m-lstm-current.json"]
    others += ["certificates/work/m-lstm-current.job.json"]
    others += ["attempts/a-s0-r0/1.json"]  # renewed every 10 s
    for name in inputs + others:
        write_json(project.folder / "results/imported/away/small" / name, {})
    assert job.imported_files == [f"results/imported/away/small/{name}" for name in inputs]
