"""Workers that are forked from an importer: real workers with the fake framework."""

from __future__ import annotations

import functools
import gc
import importlib.util
import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from rnnbench.running import worker
from rnnbench.running.worker import supervise
from rnnworker import forked_workers, importer, members, rounds
from rnnworker.members import Member, Outcome
from tests.conftest import wait_until
from tests.running.test_running_train import planned


@pytest.fixture
def workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Makes the members of a round, {name: settings of the fake framework}."""
    monkeypatch.setattr(members, "GRACE_SECONDS", 0.3)
    with (tmp_path / "timing.lock").open("a") as lock:
        options = {"timing": lock.fileno(), "limits": {"default": 30, "train": 2.0}}

        def make(on_event: Callable = lambda event: None, **fakes: dict[str, Any]) -> list[Member]:
            jobs = {
                name: worker.job_of(planned(name, **fake)["config"], tmp_path)
                for name, fake in fakes.items()
            }
            return [
                worker.member(name, job, tmp_path, tmp_path / name, on_event=on_event, **options)
                for name, job in jobs.items()
            ]

        yield make


@pytest.fixture
def importers(monkeypatch: pytest.MonkeyPatch) -> list[forked_workers.Importer]:
    """The importers that were started."""
    started = []
    watch = forked_workers.Importer.watch
    monkeypatch.setattr(
        forked_workers.Importer,
        "watch",
        lambda importer, selector: (started.append(importer), watch(importer, selector)),
    )
    return started


def wait_until_ended(pid: int) -> None:
    """Orphans of an importer may not be reaped here."""

    def ended() -> bool:
        try:
            return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True

    wait_until(ended, 20, f"end of process {pid}")


def is_forked(outcome: Outcome) -> bool:
    """Whether its phase `import` says what happened before the fork."""
    ends = [event for event in outcome.events if event["event"] == "phase_end"]
    return "before_fork" in next(e["details"] for e in ends if e["phase"] == "import")


def exit_codes(outcomes: dict[str, Outcome]) -> list[int | None]:
    return [outcome.exit_code for outcome in outcomes.values()]


def pid_of(outcome: Outcome) -> int:
    return next(event["pid"] for event in outcome.events if event["event"] == "hello")


def noting(parents: list[int]) -> Callable[[dict], None]:
    """An observer of events that appends the parent of each worker that begins."""

    def note(event: dict[str, Any]) -> None:
        if event["event"] == "hello":
            parents.append(psutil.Process(event["pid"]).ppid())

    return note


@pytest.fixture
def fork():
    """`supervise` with importers, which end with the test."""
    ours = forked_workers.Importers()
    yield functools.partial(supervise, importers=ours)
    ours.end()


def test_members_of_one_build_are_forked_from_one_process(workers, importers) -> None:
    """Without importers, none is."""
    single = supervise(workers(a={}))["a"]
    assert not importers and not is_forked(single)
    parents: list[int] = []
    a, b, other = workers(noting(parents), a={}, b={}, other={})
    other = other._replace(environment={**other.environment, "ONE_DNN": "0"})
    ours = forked_workers.Importers()
    outcomes = supervise([a, b, other], importers=ours)
    ours.end()
    assert exit_codes(outcomes) == [0, 0, 0] and all(each.turns for each in outcomes.values())
    assert all(map(is_forked, outcomes.values()))
    first, second = importers
    assert [first._process.returncode, second._process.returncode] == [0, 0]
    assert sorted(parents) == sorted([first._process.pid] * 2 + [second._process.pid])
    assert len({pid_of(outcome) for outcome in outcomes.values()}) == 3


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str | None], int]:
    """Calls `importer.main` in this process, whose event loop is over with the job file of a
    forked worker, or with None. Returns the exit code."""
    job_file = tmp_path / "job.json"
    job_file.write_text(json.dumps(worker.job_of(planned("a")["config"], tmp_path)))
    monkeypatch.setattr(importer.run, "die_with_parent", lambda parent: None)

    def call(forked_for: str | None) -> int:
        monkeypatch.setattr(importer, "serve", lambda owner: forked_for)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours:
            return importer.main(str(job_file), str(theirs.detach()))

    return call


def test_no_collection_in_a_worker_looks_at_what_was_imported(serve) -> None:
    frozen = gc.get_freeze_count()
    assert serve(None) == 0
    assert gc.get_freeze_count() > frozen


def test_a_forked_worker_frees_nothing_at_its_end(serve, monkeypatch: pytest.MonkeyPatch) -> None:
    def end(code: int) -> None:
        raise ValueError(f"ended with {code}")

    monkeypatch.setattr(importer.run, "main", lambda arguments, imported: 3)
    monkeypatch.setattr(importer.os, "_exit", end)
    with pytest.raises(ValueError, match="ended with 3"):
        serve("job.json")


def test_a_forked_worker_leaves_no_generated_source(
    serve, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    generated = tmp_path / "generated"
    generated.mkdir()

    def trains(arguments: list[str], imported: object) -> int:
        source = generated / "__autograph_generated_filex1.py"
        source.write_text("a = 1\n")
        spec = importlib.util.spec_from_file_location(source.stem, source)
        module = importlib.util.module_from_spec(spec)  # as TensorFlow's loader does
        spec.loader.exec_module(module)
        monkeypatch.setitem(sys.modules, source.stem, module)
        assert len(list(generated.rglob("*.py*"))) == 2
        return 3

    monkeypatch.setattr(importer.run, "main", trains)
    monkeypatch.setattr(importer.os, "_exit", lambda code: None)
    serve("job.json")
    assert not list(generated.rglob("*.py*"))


def test_a_forked_worker_ends_and_prints_like_a_started_one(workers, fork, tmp_path: Path) -> None:
    faults = {"raised": "raise", "aborted": "crash", "hung": "hang", "good": None}
    fakes = {name: {"fault": fault, "fault_epoch": 1} for name, fault in faults.items()}
    forked = fork(workers(**fakes))
    logs = {name: (tmp_path / f"{name}.log").read_text() for name in fakes}
    assert {name for name in logs if "a made-up fault in the model" in logs[name]} == {"raised"}
    started = fork([member._replace(forks=False) for member in workers(**fakes)])
    for name in fakes:
        assert is_forked(forked[name]) and not is_forked(started[name])
        for what in ("exit_code", "over_limit", "phase"):
            assert getattr(forked[name], what) == getattr(started[name], what)
    assert forked["aborted"].exit_code == -signal.SIGABRT
    assert forked["hung"].over_limit == "train"


def test_members_of_a_failed_importer_start_on_their_own(
    workers, importers, fork, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill(importer: forked_workers.Importer, selector) -> None:
        os.kill(importer._process.pid, signal.SIGKILL)
        watch(importer, selector)

    watch = forked_workers.Importer.watch
    monkeypatch.setattr(forked_workers.Importer, "watch", kill)
    outcomes = fork(workers(a={}, b={}))
    assert importers and exit_codes(outcomes) == [0, 0]
    assert not any(map(is_forked, outcomes.values()))


def test_the_importers_of_a_loop_last(workers, importers, monkeypatch) -> None:
    """Single members too are forked. What has died is replaced, and what no round needs makes room
    for what one needs."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0})
    ours = forked_workers.Importers()
    parents: list[int] = []

    def measure(**changed: str) -> None:
        (member,) = workers(noting(parents), a={})
        member = member._replace(environment={**member.environment, **changed})
        outcome = rounds.supervise([member], importers=ours)["a"]
        assert outcome.exit_code == 0 and is_forked(outcome)

    try:
        measure()
        measure()
        (first,) = importers
        assert parents == [first._process.pid] * 2
        os.kill(first._process.pid, signal.SIGKILL)
        first._process.wait()
        (member,) = workers(noting(parents), a={})
        outcomes = rounds.supervise([member], importers=ours)
        assert outcomes["a"].exit_code == 0 and parents.pop() == os.getpid(), "it was not known"
        measure()
        measure(ONE_DNN="0")
        _, second, third = importers
        assert second._process.returncode == 0, "it has made room"
        assert third._process.poll() is None
        assert parents[2:] == [second._process.pid, third._process.pid]
    finally:
        ours.end()
    assert third._process.returncode == 0


def test_an_importer_over_its_limit_is_killed(workers, importers, monkeypatch, fork) -> None:
    limited = [
        member._replace(limits={**member.limits, "import": 0.0}) for member in workers(a={}, b={})
    ]
    monkeypatch.setattr(members.Running, "check_limit", lambda member, selector: None)
    assert exit_codes(fork(limited)) == [0, 0]
    assert importers[0].gone and importers[0]._process.wait(10) is not None


def test_members_end_with_their_importer(workers, importers, fork) -> None:
    said = []

    def kill(event) -> None:
        said.append(event["event"])
        if event["event"] == "gate" and said.count("hello") == 2:
            os.kill(importers[0]._process.pid, signal.SIGKILL)

    outcomes = fork(workers(kill, a={}, b={}))
    assert exit_codes(outcomes) == [-signal.SIGKILL] * 2
    for outcome in outcomes.values():
        wait_until_ended(pid_of(outcome))


def test_the_workers_of_a_killed_loop_end(workers, tmp_path: Path) -> None:
    loop = os.fork()
    if loop == 0:
        fakes = workers(a={"fault": "hang", "fault_epoch": 1}, b={})
        rounds.supervise(fakes, importers=forked_workers.Importers())
        os._exit(0)
    events = tmp_path / "a.events.jsonl"
    wait_until(lambda: events.exists() and "gate" in events.read_text(), 30, "a waiting worker")
    hello = json.loads(events.read_text().splitlines()[0])
    importer = psutil.Process(hello["pid"]).ppid()
    assert psutil.Process(importer).ppid() == loop
    os.kill(loop, signal.SIGKILL)
    os.waitpid(loop, 0)
    for pid in (hello["pid"], importer):
        wait_until_ended(pid)


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("device", "kind", "gpu"),
        ("build", "framework", "keras3_torch"),
        ("build", "command", "apptainer exec image.sif python3"),
    ],
)
def test_configs_that_may_not_be_forked(section: str, key: str, value: str) -> None:
    config = planned()["config"]
    assert forked_workers.may_fork(config)
    config[section][key] = value
    assert not forked_workers.may_fork(config)
