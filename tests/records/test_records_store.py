"""Which files are records, next to files left by an interrupted run or another site."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import time
from pathlib import Path, PurePath

import pytest

from rnnbench import cli, workflow
from rnnbench.errors import RecordError
from rnnbench.records.rounds import (
    NotNeeded,
    Result,
    read_records,
    read_results,
    records_of,
    results_in,
    unfinished,
    write_results,
)
from rnnbench.records.store import (
    MAX_DEPTH,
    imported_machines,
    is_record,
    planned_folders,
    read_json,
    read_record,
    readable,
    record_files,
    site_folders,
    strict_loads,
    why_not_tracked,
    write_bytes,
    write_json,
    write_record,
)
from tests.conftest import ROOT, Project
from tests.factory import make_late, make_record, put, replace

LEFTOVERS = ("job.json", "events.jsonl", "log", "unreadable")


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return tmp_path / "results"


def test_results_move_with_their_folder(results: Path, tmp_path: Path) -> None:
    file = put(results, make_record())
    moved = results.rename(tmp_path / "moved")
    assert records_of([moved / file.relative_to(results).parents[1]]) == ([make_record()], [])


@pytest.mark.parametrize(
    "target", ["../outside.json", "records/../../outside.json", "absolute", "link.json"]
)
def test_a_record_outside_the_results_is_refused(results: Path, target: str) -> None:
    outside = results.parent / "outside.json"
    write_json(outside, make_record())
    results.mkdir()
    (results / "link.json").symlink_to(outside)
    result = Result(record=str(outside) if target == "absolute" else target)
    records, (fault,) = read_records([result], results)
    assert not records and "is outside the results folder" in str(fault)
    assert not result.is_valid(results, None)


@pytest.mark.parametrize(
    "data", [{"digest": "d"}, {"record": 7}, {"record": None}, "records/x.json", None, 1, []]
)
def test_invalid_results_are_reported(results: Path, data: object) -> None:
    file = results / "here/quick/rounds/a.json"
    for content in (data, {"members": data}, {"members": {"a": data}}):
        write_json(file, content)
        with pytest.raises(RecordError, match="is not the file of a round"):
            read_results(file)
    records, (fault,) = records_of([results / "here/quick"])
    assert not records and fault.where == str(file)


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


@pytest.mark.parametrize("data", [{}, {"schema": 3}, {"schema": 4}])
def test_a_file_that_holds_no_record_is_named(tmp_path: Path, data: dict) -> None:
    write_json(tmp_path / "record.json", data)
    with pytest.raises(RecordError) as caught:
        read_record(tmp_path / "record.json")
    assert caught.value.where == str(tmp_path / "record.json")


BIGGEST = 10**20 - 1


@pytest.mark.parametrize(
    ("content", "read"),
    [
        ("[" * MAX_DEPTH + "]" * MAX_DEPTH, None),
        ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), "nested too deeply"),
        ('{"a": ' * MAX_DEPTH + "[]" + "}" * MAX_DEPTH, "nested too deeply"),
        (f'{{"a": [{BIGGEST}, -{BIGGEST}, 1e25]}}', {"a": [BIGGEST, -BIGGEST, 1e25]}),
        (f'{{"a": [1, {BIGGEST + 1}]}}', "the number 100000000000000000000 is too large"),
        (f"[-{BIGGEST + 1}]", "the number -100000000000000000000 is too large"),
        ("1" * 30, f"the number {'1' * 30} is too large"),
        ("9" * 60, f"the number {'9' * 40} is too large"),
        (f'"{"7" * 30}"', "7" * 30),
        (f'["{"7" * 30}", {BIGGEST}]', ["7" * 30, BIGGEST]),
        (r'{"a\u001b": ["\u0007b", {"c": "d\u202e\n"}], "e": 5}',
         {"a": ["b", {"c": "d\n"}], "e": 5}),
        (r'"\u009b2Jx"', "2Jx"),
        ("NaN", "malformed"),
    ],
)  # fmt: skip
def test_untrusted_json_has_limits_and_no_control_characters(content: str, read: object) -> None:
    try:
        data = strict_loads(content.encode())
    except ValueError as error:
        assert isinstance(read, str) and read in str(error)
    else:
        assert read is None or data == read


@pytest.mark.parametrize("is_truncated", [True, False])
@pytest.mark.parametrize("damaged", [None, "record", "companion"])
def test_damaged_records_are_reported_and_make_their_result_invalid(
    results: Path, damaged: str | None, is_truncated: bool
) -> None:
    reference, late, companion = readable = make_late()
    put(results, reference)
    file, faulty = put(results, late, [companion]), []
    if damaged:
        path = results / {"record": late, "companion": companion}[damaged].path
        path.write_bytes(path.read_bytes()[:100])
        if not is_truncated:
            path.unlink()
        readable = [reference, {"record": companion, "companion": late}[damaged]]
        faulty = [str(path)]
    members = read_results(file)
    assert members[reference.name].is_valid(results, None)
    assert members[late.name].is_valid(results, None) == (not damaged)
    records, faults = records_of([file.parents[1]])
    assert [fault.where for fault in faults] == faulty
    assert sorted(record.key for record in records) == sorted(record.key for record in readable)


@pytest.mark.parametrize("bad", [float("nan"), object()])
def test_a_failed_write_leaves_the_old_bytes_and_nothing_else(tmp_path: Path, bad: object) -> None:
    path = tmp_path / "record.json"
    write_json(path, {"old": 1})
    with pytest.raises((ValueError, TypeError)):
        write_json(path, {"many": list(range(10_000)), "bad": bad})
    assert json.loads(path.read_text()) == {"old": 1}
    assert os.listdir(tmp_path) == ["record.json"]


def test_a_full_disk_is_an_error_that_names_the_file(tmp_path: Path, monkeypatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError) as caught:
        write_bytes(tmp_path / "record.json", b"{}")
    assert (caught.value.errno, caught.value.strerror, caught.value.filename) == (
        errno.ENOSPC, "No space left on device", str(tmp_path / "record.json"),
    )  # fmt: skip
    assert os.listdir(tmp_path) == []


def test_file_and_new_name_reach_the_disk(tmp_path: Path, monkeypatch) -> None:
    synced: list[str] = []

    def sync(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))

    monkeypatch.setattr(os, "fsync", sync)
    before = len(os.listdir("/proc/self/fd"))
    write_bytes(tmp_path / "record.json", b"{}")
    file, folder = synced
    assert Path(file).parent == tmp_path and Path(file).name.startswith(".record.json.")
    assert folder == str(tmp_path)
    assert len(os.listdir("/proc/self/fd")) == before


def test_written_files_are_readable_by_all_users(tmp_path: Path) -> None:
    write_json(tmp_path / "a" / "b.json", {"é": 1})
    assert (tmp_path / "a" / "b.json").stat().st_mode & 0o777 == 0o644
    assert read_json(tmp_path / "a" / "b.json") == {"é": 1}
    write_json(tmp_path / "a" / "b.json", [])
    assert (tmp_path / "a" / "b.json").read_text() == "[]\n"


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
    seen, deadline = set(), time.monotonic() + 120
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
    inputs = ["certificates/m-lstm-current.json", "rounds/a-s0-r0.json"]
    others = ["certificates.json", "experiment.json", "tracked/0.json"]
    others += ["a-s0-r0.json", "rounds/.a-s0-r0.json.abcd", "certificates/.m-lstm-current.json"]
    others += ["certificates/work/m-lstm-current.job.json"]
    others += ["attempts/a-s0-r0/1.json"]  # of an attempt; it is no input
    for name in inputs + others:
        write_json(project.folder / "results/imported/away/small" / name, {})
    assert job.imported_files == [f"results/imported/away/small/{name}" for name in inputs]


def test_sites_are_those_of_the_results_and_then_the_imported_ones(results: Path) -> None:
    for folder in ("here/small", "alps/small", "here/large", "imported/away/small"):
        (results / folder).mkdir(parents=True)
    (results / "imported/records").mkdir()
    for planned in ("here/small", "imported/away/small"):
        (results / planned / "plan.jsonl").touch()
    (results / "alps/small/plan.jsonl").mkdir()

    def found(folders: list[Path]) -> list[str]:
        return [folder.relative_to(results).as_posix() for folder in folders]

    assert found(site_folders(results, "small")) == [
        "alps/small", "here/small", "imported/away/small",
    ]  # fmt: skip
    assert found(site_folders(results, site="here")) == ["here/large", "here/small"]
    assert found(planned_folders(results, "small")) == ["here/small", "imported/away/small"]
    assert found(planned_folders(results, "small", "away")) == ["imported/away/small"]
    assert imported_machines(results) == frozenset()
    write_record(results / "imported", make_record(machine="away-1"))
    assert imported_machines(results) == {"away-1"}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ({"not_tracked": "the server is down"}, "the server is down"),
        ({"not_tracked": ""}, None),
        ({"run": "abc"}, None),
        ([], None),
        (None, None),
    ],
)
def test_why_records_are_not_in_mlflow(tmp_path: Path, content: object, why: str | None) -> None:
    """None stands for a file that is missing."""
    if content is not None:
        write_json(tmp_path / "0.json", content)
    assert why_not_tracked(tmp_path / "0.json") == why


def test_what_cannot_be_read_is_left_out_and_named(results: Path) -> None:
    good = write_record(results, make_record())
    missing = results / "missing.json"
    records, faults = readable([missing, good], read_record)
    assert records == [make_record()] and [fault.where for fault in faults] == [str(missing)]


def test_of_two_rounds_of_a_run_the_one_that_started_last_counts(results: Path) -> None:
    """A run is in two rounds if its experiment was planned differently in the meantime."""
    early, later = make_record(), replace(make_record(), started="20991121T075000_123456Z")
    for number, record in enumerate((early, later, early)):
        put(results, replace(record, run=replace(record.run, round=f"{number}-s0-r0")))
    assert [record.started for record in records_of([results / "here/quick"])[0]] == [later.started]


@pytest.mark.parametrize("is_needed", [True, False])
def test_of_two_rounds_of_a_run_the_one_that_is_planned_counts(
    results: Path, is_needed: bool
) -> None:
    """Even if the other one was measured later: its code or data are not those of the plan."""
    other = replace(make_record(), started="20991121T075000_123456Z")
    file = put(results, replace(other, run=replace(other.run, round="other", digest="other")))
    folder = file.parents[1]
    planned = make_record().run
    if is_needed:
        put(results, make_record())
    else:
        why = NotNeeded(spent=2.0, budget=1.0)
        unneeded = Result(record=None, digest=planned.digest, not_needed=why)
        write_results(folder / "rounds/planned.json", {planned.name: unneeded})
    (folder / "plan.jsonl").write_bytes(planned.line())
    found, _ = results_in(folder)
    assert found[planned.name].digest == planned.digest
    assert not unfinished([planned], found, results, None)
    changed = replace(planned, digest="changed")
    assert unfinished([changed], found, results, None) == [changed]
    by_another_rule = unfinished([planned], found, results, {"least": 2})
    assert by_another_rule == ([] if is_needed else [planned])


def test_results_with_a_file_for_each_run_are_named_instead_of_ignored(results: Path) -> None:
    folder = results / "imported/elsewhere/here/quick"
    write_json(folder / "mnist_rnn-lstm-keras-cpu_1-current-s0-r0.json", {"record": "records/x"})
    records, faults = records_of([folder])
    assert not records and [fault.where for fault in faults] == [str(folder)]
    assert "import its archive again" in str(faults[0])
