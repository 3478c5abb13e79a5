from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rnnbench.errors import RecordError
from rnnbench.records import store
from rnnbench.records.record import Record
from tests.conftest import ROOT
from tests.factory import make_late, make_record, read_pointer


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return tmp_path / "results"


def put(results: Path, record: Record) -> Path:
    """Writes the record and its pointer; returns the pointer."""
    path = store.record_folder(results, record.machine, record.name) / f"{record.started}.json"
    store.write_json(path, record.to_json())
    pointer = results / "here" / "quick" / f"{record.name}.json"
    store.write_json(
        pointer, {"record": str(path.relative_to(results)), "digest": record.run.digest}
    )
    return pointer


def test_a_record_is_read_through_its_pointer(results: Path) -> None:
    record = make_record()
    assert read_pointer(results, put(results, record)) == record


def test_a_pointer_moves_with_its_results_folder(results: Path, tmp_path: Path) -> None:
    pointer = put(results, make_record())
    moved = results.rename(tmp_path / "moved")
    assert read_pointer(moved, moved / pointer.relative_to(results)) == make_record()


@pytest.mark.parametrize("target", ["../outside.json", "records/../../outside.json", "absolute"])
def test_a_pointer_outside_the_results_is_refused(results: Path, target: str) -> None:
    outside = results.parent / "outside.json"
    store.write_json(outside, make_record().to_json())
    pointer = results / "pointer.json"
    store.write_json(pointer, {"record": str(outside) if target == "absolute" else target})
    with pytest.raises(RecordError, match="outside the results folder") as caught:
        read_pointer(results, pointer)
    assert caught.value.where == str(pointer)


def test_a_link_that_leads_outside_is_refused(results: Path) -> None:
    outside = results.parent / "outside.json"
    store.write_json(outside, make_record().to_json())
    store.write_json(results / "pointer.json", {"record": "link.json"})
    (results / "link.json").symlink_to(outside)
    with pytest.raises(RecordError, match="outside"):
        read_pointer(results, results / "pointer.json")


@pytest.mark.parametrize("data", [[], {"digest": "d"}, {"record": 7}, "records/x.json", None])
def test_invalid_pointers_are_reported(results: Path, data: object) -> None:
    store.write_json(results / "pointer.json", data)
    with pytest.raises(RecordError, match="not a pointer"):
        read_pointer(results, results / "pointer.json")


@pytest.mark.parametrize(
    "content", [b"", b'{"schema": 1, "na', b"\xff\xfe\x00", b"[" * 100_000, b"not json"]
)
def test_a_broken_file_gives_a_one_line_error_with_its_path(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "record.json"
    path.write_bytes(content)
    with pytest.raises(RecordError) as caught:
        store.read_record(path)
    assert caught.value.where == str(path)
    assert caught.value.remedy
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="does not exist") as caught:
        store.read_json(tmp_path / "absent.json")
    assert caught.value.where.endswith("absent.json")


def test_readable_records_are_returned_and_the_other_files_reported(results: Path) -> None:
    good, truncated, missing = (
        put(results, make_record(rnn=rnn)) for rnn in ("keras", "cell", "block")
    )
    target = results / json.loads(truncated.read_text())["record"]
    target.write_text(target.read_text()[:200])
    (results / json.loads(missing.read_text())["record"]).unlink()
    records, faults = store.records_of([good, truncated, missing])
    assert [record.run.choices["rnn"] for record in records] == ["keras"]
    assert faults[0].where == str(target)
    assert len(faults) == 2


@pytest.mark.parametrize("damage", ["none", "missing", "truncated"])
def test_a_pointer_is_valid_only_with_its_companions(results: Path, damage: str) -> None:
    reference, late, companion = make_late()
    put(results, reference)
    pointer, companion_file = put(results, late), results / f"records/{companion.key}.json"
    store.write_json(companion_file, companion.to_json())
    store.write_json(pointer, store.pointer_to(late, [f"records/{companion.key}.json"]))
    if damage == "missing":
        companion_file.unlink()
    elif damage == "truncated":
        companion_file.write_bytes(companion_file.read_bytes()[:100])
    is_intact = damage == "none"
    assert store.pointer_is_valid(results, pointer) == is_intact
    records, faults = store.records_of([pointer])
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
