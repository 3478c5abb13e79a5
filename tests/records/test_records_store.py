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
from rnnbench.records import store
from rnnbench.records.pointer import is_valid, records_of
from rnnbench.records.store import is_record, record_files, write_json, write_record
from tests.conftest import ROOT, Project
from tests.factory import make_late, make_record, put, read_pointer


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
    outside = results.parent / "outside.json"
    store.write_json(outside, make_record())
    pointer = results / "pointer.json"
    store.write_json(pointer, {"record": str(outside) if target == "absolute" else target})
    (results / "link.json").symlink_to(outside)
    with pytest.raises(RecordError, match="outside the results folder") as caught:
        read_pointer(results, pointer)
    assert caught.value.where == str(pointer)


@pytest.mark.parametrize(
    "data", [[], {"digest": "d"}, {"record": 7}, {"record": None}, "records/x.json", None]
)
def test_invalid_pointers_are_reported(results: Path, data: object) -> None:
    store.write_json(results / "pointer.json", data)
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
        store.read_record(path)
    assert caught.value.where == str(path)
    assert caught.value.remedy or "does not exist" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_readable_records_are_returned_and_the_other_files_reported(results: Path) -> None:
    good, truncated, missing = (
        put(results, make_record(rnn=rnn)) for rnn in ("keras", "cell", "block")
    )
    target = results / json.loads(truncated.read_text())["record"]
    target.write_text(target.read_text()[:200])
    (results / json.loads(missing.read_text())["record"]).unlink()
    records, faults = records_of([good, truncated, missing])
    assert [record.run.choices["rnn"] for record in records] == ["keras"]
    assert faults[0].where == str(target)
    assert len(faults) == 2


@pytest.mark.parametrize("damage", ["none", "missing", "truncated"])
def test_a_pointer_is_valid_only_with_its_companions(results: Path, damage: str) -> None:
    reference, late, companion = make_late()
    put(results, reference)
    pointer, companion_file = put(results, late, [companion]), results / companion.path
    if damage == "missing":
        companion_file.unlink()
    elif damage == "truncated":
        companion_file.write_bytes(companion_file.read_bytes()[:100])
    is_intact = damage == "none"
    assert is_valid(pointer, results) == is_intact
    records, faults = records_of([pointer])
    assert late in records and (companion in records) == is_intact
    assert len(faults) == (0 if is_intact else 1)


@pytest.mark.parametrize("bad", [float("nan"), object()])
def test_a_failed_write_leaves_the_old_bytes_and_nothing_else(tmp_path: Path, bad: object) -> None:
    path = tmp_path / "record.json"
    store.write_json(path, {"old": 1})
    with pytest.raises((ValueError, TypeError)):
        store.write_json(path, {"many": list(range(10_000)), "bad": bad})
    assert json.loads(path.read_text()) == {"old": 1}
    assert os.listdir(tmp_path) == ["record.json"]


def test_written_files_are_readable_by_all_users(tmp_path: Path) -> None:
    store.write_json(tmp_path / "a" / "b.json", {"é": 1})
    assert (tmp_path / "a" / "b.json").stat().st_mode & 0o777 == 0o644


def test_a_killed_writer_leaves_the_old_or_the_new_bytes(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    store.write_json(path, {"number": 0, "filler": []})
    script = """
import itertools, sys
from pathlib import Path
from rnnbench.records.store import write_json
for number in itertools.count(1):
    write_json(Path(sys.argv[1]), {"number": number, "filler": [number] * 20000})
"""
    writer = subprocess.Popen(
        [sys.executable, "-c", script, str(path)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    try:
        seen = set()
        deadline = time.monotonic() + 20
        while len(seen) < 5 and time.monotonic() < deadline:
            data = store.read_json(path)
            assert set(data["filler"]) <= {data["number"]}
            seen.add(data["number"])
    finally:
        writer.kill()
        writer.wait()
    assert len(seen) >= 5
    last = store.read_json(path)
    assert set(last["filler"]) == {last["number"]}
    # The killed writer's unfinished file is never mistaken for a record.
    assert [name for name in os.listdir(tmp_path) if not name.startswith(".")] == ["record.json"]


LEFTOVERS = ("job.json", "events.jsonl", "log", "unreadable")


@pytest.fixture
def record(tmp_path: Path, monkeypatch) -> Path:
    """A record, next to the files of a later attempt that was interrupted."""
    record = make_record()
    file = write_record(tmp_path / "results", record)
    for ending in LEFTOVERS:
        (file.parent / f"20990101T000000_000000Z.{ending}").write_text("{}\n")
    (file.parent / f".{file.name}.abcd").write_text("half a file")
    monkeypatch.chdir(tmp_path)
    return file


def test_records_are_recognised_by_their_names(record: Path) -> None:
    assert is_record(PurePath("20261121T075000_123456Z.json"))
    assert not any(is_record(PurePath(f"20261121T075000_123456Z.{end}")) for end in LEFTOVERS)
    assert record_files(record.parents[3]) == [record]
    assert record_files(record.parents[3], name="another*") == []


def test_files_of_an_interrupted_run_are_not_shown(record: Path, capsys) -> None:
    assert cli.main(["show", record.parent.name]) == 0
    assert record.stem in capsys.readouterr().out


def test_a_companion_is_shown_if_there_is_no_other_record(tmp_path: Path, capsys) -> None:
    reference, _, companion = make_late()
    for record in (companion, reference):
        write_record(tmp_path, record)
        assert cli.main(["show", record.name, "--results", str(tmp_path)]) == 0
        assert record.started in capsys.readouterr().out


def test_files_of_an_interrupted_run_are_not_tracked(record: Path, capsys, monkeypatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{record.parents[4]}/mlflow.db")
    assert cli.main(["track", "--all", "--output", "tracked.json"]) == 0
    assert capsys.readouterr().err.count("cannot") == 0


def test_report_inputs_from_another_site(project: Project, monkeypatch) -> None:
    job = workflow.load({"experiment": "small", "conf": str(project.conf)}, project.folder)
    inputs = ["a-s0-r0.json", "certificates/m-lstm-current.json", "probes/cpu_1-current.json"]
    others = [
        "attempts/a-s0-r0/1.json",  # renewed every 10 s
        "certificates/work/m-lstm-current.job.json",
        "certificates.json",
        "probes.json",
        "experiment.json",
        "tracked/0.json",
        ".a-s0-r0.json.abcd",
        "certificates/.m-lstm-current.json",
    ]
    for name in inputs + others:
        write_json(project.folder / "results/imported/away/small" / name, {})
    assert job.imported_files == [f"results/imported/away/small/{name}" for name in inputs]
