"""Single runs with the fake framework: a real worker that sleeps instead of training."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rnnbench import cli
from rnnbench.commands.results import retry
from rnnbench.errors import RecordError, RunError
from rnnbench.records.plan_file import read_rounds
from rnnbench.records.rounds import Result, read_records, results_in
from rnnbench.records.store import Place, read_record, write_json
from rnnbench.running import round as measuring
from rnnworker import measuring as loop
from rnnworker import proc_files
from rnnworker.shared_file import timing_lock
from tests.factory import as_run, phase_of, put
from tests.running.alone import results, train

SAME = "run the same command"
LOG = "follow the reason's fix; the log has details"
NAME = "fake-lstm-fake_fast-cpu_1-fake-s0-r0"


def planned(name: str = NAME, **fake: Any) -> dict[str, Any]:
    """A line of the plan. `fake`: options of the fake framework."""
    times = {"epoch_seconds": 0.01, "evaluate_seconds": 0.001, "predict_seconds": 0.001}
    functions = "rnnworker.models.digits_rnn"
    return {
        "name": name,
        "order": 4,
        "block": 1,
        "digest": "d" * 64,
        "round": "fake-lstm-cpu_1-fake-s0-r0",
        "identity": {"config": {}, "worker": "w"},
        "choices": {"model": "fake", "rnn": "fake_fast"},
        "overrides": {},
        "seed": 0,
        "repeat": 0,
        "alias": None,
        "config": {
            "model": {
                "function": f"{functions}:build",
                "data": {"prepare": f"{functions}:prepare"},
                "batch": 10,
                "epochs": 2,
            },
            "cell": {"name": "lstm"},
            "rnn": {"implementation": "fake", "fake": {**times, **fake}},
            "device": {"name": "cpu_1", "kind": "cpu", "threads": 1},
            "build": {"name": "fake", "framework": "fake", "environment": {}},
            "dataset": {"name": "digits", "path": None},
            "measure": {"warmup_steps": 2, "evaluate_calls": 2, "predict_calls": 2},
            "limits": {"default": 20},
            "seed": 0,
            "repeat": 0,
        },
    }


def files(place: Place, pattern: str, name: str = NAME) -> list[Path]:
    return sorted((place.results / "records").glob(f"*/{name}/{pattern}"))


def the_worker_must_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments, **options):
        pytest.fail("a worker was started")

    monkeypatch.setattr(measuring, "supervise", refuse)


def test_a_run_leaves_its_record(place: Place, monkeypatch) -> None:
    record = train(planned(), place, label="[1/1]")
    result = results(place, planned())[NAME]
    (path,) = files(place, "2*.json")
    assert msgspec.to_builtins(result) == {
        "record": f"records/{record.machine}/{NAME}/{record.started}.json",
        "digest": "d" * 64,
        "verdict": record.verdict.status,
        "wall_seconds": record.measured.wall_seconds,
    }
    assert read_records([result], place.results) == ({record.key: read_record(path)}, [])
    assert json.loads(path.read_text()) == msgspec.json.decode(msgspec.json.encode(record))
    assert path.stat().st_mode & 0o444 == 0o444
    assert record.verdict.status != "void", record.verdict
    assert record.started < record.finished
    assert (record.run.order, record.run.block) == (4, 1)
    assert (record.experiment, record.site) == ("selftest", "here")
    phases = ["import", "data", "build", "first_step", "warmup", "train", "evaluate", "predict"]
    assert [phase.name for phase in record.phases] == phases
    timed = {phase.name for phase in record.phases if phase.timed}
    assert timed == {"train", "evaluate", "predict"}
    assert [epoch.epoch for epoch in record.epochs] == [1, 2]
    within = phase_of(record, "train").seconds
    assert all(0.01 <= epoch.seconds < within for epoch in record.epochs)
    assert record.hardware["machine"] == record.machine
    assert record.environment["fake"] == "1"
    assert record.facts["threads"]["asked"] == 1
    assert len(record.facts["threads"]["pinned_to"]) == 1
    assert record.facts["garbage_lines"] == 0
    # The worker's job file is removed; the files for people remain.
    assert {path.suffix for path in files(place, "2*")} == {".json", ".jsonl", ".log"}
    assert not files(place, "*.job.json")


def test_inputs_are_compared_when_they_have_been_read_and_once(place: Place) -> None:
    called: list[float] = []
    record = train(planned(), place, label="[1/1]", check=lambda: called.append(time.monotonic()))
    (at,) = called
    ends = {phase.name: phase.end for phase in record.phases}
    assert ends["data"] < at < ends["train"]


@pytest.mark.parametrize(
    "is_damaged",
    [
        False,
        pytest.param(
            True,
            marks=pytest.mark.fault(
                "events.jsonl is truncated", "the record has all events", "nothing"
            ),
        ),
    ],
)
def test_a_record_is_adopted(place: Place, monkeypatch, is_damaged: bool) -> None:
    first = train(planned(), place)
    before = results(place, planned())
    if is_damaged:
        (events,) = files(place, "*.events.jsonl")
        events.write_bytes(events.read_bytes()[:777])
    the_worker_must_not_start(monkeypatch)
    assert train(planned(), place) == first
    assert results(place, planned()) == before


def test_an_adopted_record_is_the_newest(place: Place, monkeypatch) -> None:
    first = train(planned(), place)
    the_worker_must_not_start(monkeypatch)
    # The plan may have changed since.
    assert train({**planned(), "order": 17, "block": 2}, place) == first
    newer = "20990101T000000_000000Z"
    (path,) = files(place, "2*.json")
    write_json(path.with_name(f"{newer}.json"), {**msgspec.to_builtins(first), "started": newer})
    assert train(planned(), place).started == newer


@pytest.mark.parametrize(("site", "adopted"), [("here", True), ("elsewhere", False)])
def test_a_record_of_another_machine_is_adopted_at_the_same_site_only(
    place: Place, site: str, adopted: bool
) -> None:
    first = train(planned(), place)
    (path,) = files(place, "2*.json")
    other = {**msgspec.to_builtins(first), "machine": "node-2", "site": site}
    write_json(place.results / "records" / "node-2" / first.name / path.name, other)
    path.unlink()
    again = train(planned(), place)
    assert (again.machine == "node-2") == adopted
    assert len(files(place, "2*.json")) == (1 if adopted else 2)


@pytest.mark.parametrize("change", [{"digest": "e" * 64}, {"experiment": "other"}])
def test_a_record_of_another_run_is_not_adopted(place: Place, change: dict) -> None:
    train(planned(), place)
    experiment = change.get("experiment", "selftest")
    other_place = Place(place.root, place.results, "here", experiment, place.timing_lock)
    train({**planned(), "digest": change.get("digest", "d" * 64)}, other_place)
    assert len(files(place, "2*.json")) == 2


@pytest.mark.parametrize(
    "clock",
    [
        None,
        pytest.param(
            "20400101T000000_000000Z",
            marks=pytest.mark.fault(
                "the clock is ahead, and set back before `rnnbench retry`",
                "the run is measured again",
                "none",
            ),
        ),
    ],
)
def test_retry_has_the_run_measured_again_once(place: Place, monkeypatch, clock) -> None:
    with monkeypatch.context() as changed:
        if clock:
            changed.setattr(loop, "now_as_stamp", lambda: clock)
        first = train(planned(), place)
    assert clock in (None, first.started)
    put(place.results, first, site="here", experiment="selftest")
    (path,) = files(place, "2*.json")
    assert retry(["selftest", NAME, "--site", "here", "--results", str(place.results)]) == 0
    assert not results(place, planned()) and not results_in(place.folder)[0]
    second = train(planned(), place)
    assert second.started > first.started
    assert [read_record(file) for file in files(place, "2*.json")] == [second]
    assert read_record(path.with_suffix(".retried")) == first
    the_worker_must_not_start(monkeypatch)
    assert train(planned(), place).started == second.started


@pytest.mark.fault(
    "a record is truncated by a power failure", "detected, set aside, measured again", SAME
)
def test_a_truncated_record_is_set_aside_and_reported(place: Place, capsys) -> None:
    first = train(planned(), place)
    (path,) = files(place, "2*.json")
    content = path.read_bytes()
    for share in (0.0, 0.99, 0.3):
        part = content[: int(share * len(content))]
        path.write_bytes(part)
        with pytest.raises(RecordError):
            read_record(path)
    second = train(planned(), place)
    assert second.started > first.started and second.verdict.status != "void"
    assert path.with_suffix(".unreadable").read_bytes() == part
    assert not path.exists()
    (message,) = [line for line in capsys.readouterr().err.splitlines() if "set aside" in line]
    assert str(path) in message


@pytest.mark.fault(
    "the clock is set back", "file names still sort in the order of measurement", "nothing"
)
def test_starts_are_unique_and_in_order_if_the_clock_is_set_back(place: Place, monkeypatch) -> None:
    first = train(planned(), place)
    monkeypatch.setattr(loop, "now_as_stamp", lambda: "20200101T000000_000000Z")
    second = train({**planned(), "digest": "e" * 64}, place)
    third = train({**planned(), "digest": "f" * 64}, place)
    assert first.started < second.started < third.started
    assert len(files(place, "2*.json")) == 3


def misbehaving(fault: str, code: str, text: str, epochs: int | None, *row: str) -> Any:
    """A fault of the fake framework. `epochs`: None if the last one may be lost; `row`: its row in
    the table of faults."""
    marks = [pytest.mark.fault(*row)] if row else []
    return pytest.param(fault, code, text, epochs, marks=marks, id=fault)


TOO_MUCH = (
    "a worker uses too much memory",
    "void: out of memory, at `limits.memory_bytes`",
    "use a smaller batch, or a higher limit",
)


@pytest.mark.parametrize(
    ("fault", "code", "text", "epochs"),
    [
        misbehaving("not_finite", "loss_not_finite", "in epoch 2", 2),
        misbehaving("raise", "exception", "RuntimeError in phase train", 1),
        misbehaving("memory", "out_of_memory", "MemoryError in phase train", 1),
        misbehaving("eat", "out_of_memory", "MemoryError in phase train", 1, *TOO_MUCH),
        misbehaving("eat_native", "out_of_memory", "(SIGABRT) in phase train", None, *TOO_MUCH),
        misbehaving(
            # A crash in native code loses events that had not been sent.
            *("crash", "died", "SIGABRT in phase train", 0),
            *("a worker crashes in native code", "void: names the signal and the phase", LOG),
        ),
        misbehaving(
            *("hang", "over_limit", "phase train exceeded its time limit", 1),
            *("a worker hangs", "terminated at the phase's limit; void: names the last event", LOG),
        ),
    ],
)
def test_a_fault_in_the_model_is_a_void_record(
    place: Place, fault: str, code: str, text: str, epochs: int | None
) -> None:
    line = planned(fault=fault)
    limits = {"default": 60, "memory_bytes": 2**29}
    line["config"]["limits"] = limits | ({"train": 4.0} if fault == "hang" else {})
    record = train(line, place)
    assert record.verdict.status == "void"
    reason = record.verdict.reasons[0]
    assert reason.code == code and text in reason.text
    assert fault != "hang" or reason.text.endswith("its last event was epoch 1")
    assert epochs in (None, len(record.epochs))
    assert results(place, line) == {NAME: Result.of(record)}


@pytest.mark.fault("a worker prints garbage", "ignored and counted; the run is valid", "nothing")
def test_garbage_among_the_events_is_counted_and_harmless(place: Place) -> None:
    record = train(planned(fault="garbage"), place)
    assert record.facts["garbage_lines"] == 1
    assert record.verdict.status != "void"
    assert len(record.epochs) == 2


def started_by(script: Path, text: str) -> dict[str, Any]:
    """A line of the plan whose build is started by a shell script."""
    script.write_text(f"#!/bin/sh\n{text}\n")
    script.chmod(0o755)
    line = planned()
    line["config"]["build"]["command"] = f"{script} {sys.executable}"
    return line


def test_a_worker_that_ends_without_finishing_is_void(place: Place, tmp_path: Path) -> None:
    record = train(started_by(tmp_path / "ends", "true"), place)
    assert [reason.code for reason in record.verdict.reasons] == ["died"]


@pytest.mark.parametrize("script", ["kill -9 $$", "sh -c 'kill -9 $$'\nexit $?"])
def test_a_worker_that_receives_an_external_sigkill_leaves_no_record(
    place: Place, tmp_path: Path, script: str
) -> None:
    """Also below a launcher."""
    with pytest.raises(RunError, match="received an external SIGKILL in phase start"):
        train(started_by(tmp_path / "killed", script), place)
    assert not results(place, planned())
    assert not files(place, "2*.json")


@pytest.mark.fault(
    "the kernel's OOM killer ends the worker", "void: out of memory", "use a smaller batch"
)
def test_a_sigkill_that_the_kernel_counts_is_out_of_memory(
    place: Place, tmp_path: Path, monkeypatch
) -> None:
    counts = iter((4, 5))
    monkeypatch.setattr(proc_files, "oom_kills", lambda: next(counts))
    record = train(started_by(tmp_path / "killed", "kill -9 $$"), place)
    (reason,) = record.verdict.reasons
    assert reason.code == "out_of_memory" and "kernel" in reason.text


def test_a_launcher_may_start_the_worker_as_its_child(place: Place, tmp_path, monkeypatch) -> None:
    """As launchers of containers and environments do. What Snakemake exports does not reach it."""
    monkeypatch.setenv("MKL_NUM_THREADS", "99")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PASSES", "through")
    record = train(started_by(tmp_path / "wrapper", 'env\n"$@"\nexit $?'), place)
    assert record.verdict.status != "void", record.verdict
    assert len(record.epochs) == 2
    (log,) = files(place, "2*.log")
    environment = dict(entry.partition("=")[::2] for entry in log.read_text().splitlines())
    expected = {"PASSES": "through", "OMP_NUM_THREADS": "1", "RNNWORKER_HANDSHAKE": "1"}
    assert expected.items() <= environment.items()
    assert not {"MKL_NUM_THREADS", "PYTHONPATH"} & set(environment)


def test_an_unwritable_results_folder_is_reported(place: Place) -> None:
    place.results.write_text("a file is in the way")
    with pytest.raises(OSError) as caught:
        train(planned(), place)
    assert caught.value.errno in cli.FIXES and str(place.results) in caught.value.filename


def test_too_many_threads_leave_no_record(place: Place) -> None:
    line = planned()
    line["config"]["device"]["threads"] = 4096
    with pytest.raises(RunError, match="asks for 4096 threads"):
        train(line, place)
    assert not files(place, "2*")


def test_the_lines_of_a_round_are_read_from_the_plan(tmp_path: Path) -> None:
    plan = tmp_path / "plan.jsonl"
    runs = [
        as_run({"name": name, "order": order, "round": name[:-2]})
        for order, name in enumerate(["a-r1-k", "a-r10-k", "b-k", "a-r1-l"])
    ]
    plan.write_bytes(b"".join(run.line() for run in runs))
    assert read_rounds(plan, ["a-r1"]) == [(0, 3, [runs[0], runs[3]])]
    assert read_rounds(plan, ["a-r10"]) == [(1, 3, [runs[1]])]
    with pytest.raises(RecordError, match="has no round a-r\\."):
        read_rounds(plan, ["a-r"])
    with pytest.raises(RecordError, match="cannot be read"):
        read_rounds(tmp_path / "absent", ["b"])


def test_there_is_one_timing_lock_per_host_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RNNBENCH_TIMING_LOCK", raising=False)
    monkeypatch.setenv("TMPDIR", "/elsewhere")
    assert timing_lock() == Path("/tmp/rnnbench-timing.lock")
    monkeypatch.setenv("PLACE", "/x")
    monkeypatch.setenv("RNNBENCH_TIMING_LOCK", "$PLACE/lock")
    assert timing_lock() == Path("/x/lock")
