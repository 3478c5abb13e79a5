"""Misbehaving workers, a full disk and truncated files, as `rnnbench round` meets them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from rnnbench import cli
from rnnbench.errors import RecordError
from rnnbench.records.store import Place, read_record
from rnnworker import proc_files
from tests.faults.mounts import small_disk
from tests.running.alone import train
from tests.running.test_running_train import NAME, files, planned

SAME = "run the same command"
LOG = "follow the reason's fix; the log has details"


def limited(run: dict, **limits: float) -> dict:
    return {**run, "config": {**run["config"], "limits": {"default": 30, **limits}}}


def reasons(place: Place, run: dict) -> dict[str, str]:
    record = train(run, place, label="[1/1]")
    assert record == read_record(place.results / "records" / f"{record.key}.json")
    assert record.verdict.status == "void"
    return {reason.code: reason.text for reason in record.verdict.reasons}


@pytest.mark.fault(
    "a worker hangs", "terminated at the phase's limit; void: names the last event", LOG
)
def test_a_worker_that_hangs(place: Place) -> None:
    texts = reasons(place, limited(planned(fault="hang"), train=5))
    assert "phase train exceeded its time limit" in texts["over_limit"]
    assert texts["over_limit"].endswith("its last event was epoch 1")


@pytest.mark.fault("a worker prints garbage", "ignored and counted; the run is valid", "nothing")
def test_garbage(place: Place) -> None:
    record = train(planned(fault="garbage"), place, label="[1/1]")
    assert record.measured["garbage_lines"] == 1
    assert record.verdict.status != "void"


@pytest.mark.fault("a worker crashes in native code", "void: names the signal and the phase", LOG)
def test_native_crash(place: Place) -> None:
    assert "SIGABRT" in reasons(place, planned(fault="crash"))["died"]


@pytest.mark.parametrize("fault", ["eat", "eat_native"])
@pytest.mark.fault(
    "a worker uses too much memory",
    "void: out of memory, at `limits.memory_bytes`",
    "use a smaller batch, or a higher limit",
)
def test_memory(place: Place, fault: str) -> None:
    run = limited(planned(fault=fault), memory_bytes=2**29)
    assert next(iter(reasons(place, run))) == "out_of_memory"


@pytest.mark.fault(
    "the kernel's OOM killer ends the worker", "void: out of memory", "use a smaller batch"
)
def test_killed_for_memory(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = iter((4, 5))
    monkeypatch.setattr(proc_files, "oom_kills", lambda: next(counts))
    run = planned()
    build = run["config"]["build"]
    build["command"] = "sh -c 'kill -9 $$' sh"
    assert "kernel" in reasons(place, run)["out_of_memory"]


@pytest.fixture
def disk_of_96k(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", "96k") as disk:
        yield disk


@pytest.mark.fault("the disk is full when a record is written", "no record", "free disk space")
def test_disk_full(place: Place, disk_of_96k: Path) -> None:
    place = Place(place.root, disk_of_96k / "results", "here", "selftest", place.timing_lock)
    done = train(planned(), place, label="[1/2]")
    first = place.results / "records" / f"{done.key}.json"
    content = first.read_bytes()
    ballast = disk_of_96k / "ballast"
    size = 96 * 1024
    with pytest.raises(OSError) as caught:
        for number in range(40):  # until the remaining space is too small for the record
            ballast.write_bytes(b"x" * max(0, size - 8192 - used(disk_of_96k, ballast)))
            train(planned(f"other-s0-r{number}"), place, label="[2/2]")
    assert "free" in cli.FIXES[caught.value.errno]
    assert first.read_bytes() == content
    other = place.pointer(f"other-s0-r{number}")
    assert not other.exists() and not list(disk_of_96k.rglob(".*.json.*"))

    ballast.unlink()
    for old in disk_of_96k.rglob("*.events.jsonl"):
        old.unlink()
    train(planned(f"other-s0-r{number}"), place, label="[2/2]")
    assert other.exists()


def used(disk: Path, excluded: Path) -> int:
    """Bytes used on the disk without `excluded`, in whole pages as a tmpfs counts."""
    sizes = [p.stat().st_size for p in disk.rglob("*") if p.is_file() and p != excluded]
    return sum(-(-size // 4096) * 4096 for size in sizes)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
@pytest.mark.fault(
    "a record is truncated by a power failure", "detected, set aside, measured again", SAME
)
def test_truncated_record(place: Place, share: float, capsys: pytest.CaptureFixture) -> None:
    train(planned(), place, label="[1/1]")
    (path,) = files(place, "2*.json")
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(RecordError):
        read_record(path)
    place.pointer(NAME).unlink()  # `damaged` has it made again
    record = train(planned(), place, label="[1/1]")
    assert "It was set aside as" in capsys.readouterr().err
    assert record.verdict.status != "void"
    assert path.with_suffix(".unreadable").exists() and not path.exists()


@pytest.mark.fault("events.jsonl is truncated", "the record has all events", "nothing")
def test_truncated_events(place: Place) -> None:
    record = train(planned(), place, label="[1/1]")
    (events,) = files(place, "*.events.jsonl")
    events.write_bytes(events.read_bytes()[:777])
    place.pointer(NAME).unlink()
    assert train(planned(), place, label="[1/1]") == record


@pytest.mark.fault("a pointer is truncated", "detected; the record is found again", SAME)
def test_truncated_pointer(place: Place) -> None:
    record = train(planned(), place, label="[1/1]")
    content = place.pointer(NAME).read_bytes()
    place.pointer(NAME).write_bytes(content[:20])
    with pytest.raises(json.JSONDecodeError):
        json.loads(place.pointer(NAME).read_bytes())
    assert train(planned(), place, label="[1/1]") == record
    assert place.pointer(NAME).read_bytes() == content
