"""Workers that are forked from an importer: real workers with the fake framework."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from rnnbench.running import worker
from rnnbench.running.worker import supervise
from rnnworker import forked_workers, members
from rnnworker.members import Member, Outcome
from tests.conftest import wait_until
from tests.running.test_running_train import planned

FORKED = {"before_fork"}


@pytest.fixture
def workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Makes the members of a round, {name: settings of the fake framework}."""
    monkeypatch.setattr(members, "GRACE_SECONDS", 0.3)
    lock = (tmp_path / "timing.lock").open("a")

    def make(on_event: Callable = lambda event: None, **fakes: dict[str, Any]) -> list[Member]:
        return [
            worker.member(
                name,
                worker.job_of(planned(name, **fake)["config"], tmp_path),
                tmp_path,
                tmp_path / name,
                timing=lock.fileno(),
                limits={"default": 30, "train": 2.0},
                on_event=on_event,
            )
            for name, fake in fakes.items()
        ]

    yield make
    lock.close()


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


def imports(outcome: Outcome) -> dict[str, Any]:
    """Details of its phase `import`."""
    ends = [event for event in outcome.events if event["event"] == "phase_end"]
    return next(event["details"] for event in ends if event["phase"] == "import")


def pid_of(outcome: Outcome) -> int:
    return next(event["pid"] for event in outcome.events if event["event"] == "hello")


def noting(parents: list[int]) -> Callable[[dict], None]:
    """An observer of events that appends the parent of each worker that begins."""

    def note(event: dict[str, Any]) -> None:
        if event["event"] == "hello":
            parents.append(psutil.Process(event["pid"]).ppid())

    return note


def test_members_of_one_build_are_forked_from_one_process(workers, importers) -> None:
    parents: list[int] = []
    outcomes = supervise(workers(noting(parents), a={}, b={}, c={}))
    assert [outcome.exit_code for outcome in outcomes.values()] == [0, 0, 0]
    assert len(importers) == 1 and set(parents) == {importers[0]._process.pid}
    assert len({pid_of(outcome) for outcome in outcomes.values()}) == 3
    assert all(imports(outcome).keys() >= FORKED for outcome in outcomes.values())
    assert all(outcome.turns for outcome in outcomes.values())
    assert importers[0]._process.returncode == 0


def test_a_member_without_equals_is_not_forked(workers, importers) -> None:
    single = supervise(workers(a={}))["a"]
    assert not importers and "before_fork" not in imports(single)
    a, b, c = workers(a={}, b={}, c={})
    b = b._replace(environment={**b.environment, "ONE_DNN": "0"})
    outcomes = supervise([a, b, c])
    assert [outcome.exit_code for outcome in outcomes.values()] == [0, 0, 0]
    forked = {name for name, outcome in outcomes.items() if "before_fork" in imports(outcome)}
    assert forked == {"a", "c"}


def test_a_forked_worker_ends_and_prints_like_a_started_one(workers, tmp_path: Path) -> None:
    faults = {"raised": "raise", "aborted": "crash", "hung": "hang", "good": None}
    fakes = {name: {"fault": fault, "fault_epoch": 1} for name, fault in faults.items()}
    forked = supervise(workers(**fakes))
    logs = {name: (tmp_path / f"{name}.log").read_text() for name in fakes}
    assert {name for name in logs if "a made-up fault in the model" in logs[name]} == {"raised"}
    started = supervise([member._replace(forks=False) for member in workers(**fakes)])
    for name in fakes:
        assert "before_fork" in imports(forked[name])
        assert "before_fork" not in imports(started[name])
        for what in ("exit_code", "over_limit", "phase"):
            assert getattr(forked[name], what) == getattr(started[name], what)
    assert forked["aborted"].exit_code == -signal.SIGABRT
    assert forked["hung"].over_limit == "train"


def test_members_of_a_failed_importer_start_on_their_own(
    workers, importers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill(importer: forked_workers.Importer, selector) -> None:
        importers.append(importer)
        os.kill(importer._process.pid, signal.SIGKILL)
        watch(importer, selector)

    watch = forked_workers.Importer.watch
    monkeypatch.setattr(forked_workers.Importer, "watch", kill)
    outcomes = supervise(workers(a={}, b={}))
    assert importers and [outcome.exit_code for outcome in outcomes.values()] == [0, 0]
    assert not any("before_fork" in imports(outcome) for outcome in outcomes.values())


def test_an_importer_over_its_limit_is_killed(workers, importers, monkeypatch) -> None:
    limited = [
        member._replace(limits={**member.limits, "import": 0.0}) for member in workers(a={}, b={})
    ]
    monkeypatch.setattr(members.Running, "check_limit", lambda member, selector: None)
    outcomes = supervise(limited)
    assert [outcome.exit_code for outcome in outcomes.values()] == [0, 0]
    assert importers[0].gone and importers[0]._process.returncode is not None


def test_members_end_with_their_importer(workers, importers) -> None:
    def kill(event) -> None:
        if event["event"] == "gate":
            os.kill(importers[0]._process.pid, signal.SIGKILL)

    outcomes = supervise(workers(kill, a={}, b={}))
    assert {outcome.exit_code for outcome in outcomes.values()} == {-signal.SIGKILL}
    for outcome in outcomes.values():
        wait_until_ended(pid_of(outcome))


@pytest.fixture
def start_shared(workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Starts the importer of a workflow, which all supervisors use. Not in the set-up, where
    pytest's own variable differs."""
    monkeypatch.setenv(forked_workers.FOLDER, "")
    started = []

    def start() -> forked_workers.Importer:
        started.append(worker.WorkflowImporters([planned()["config"]], tmp_path))
        return next(iter(started[0]._importers.values()))

    yield start
    started[0].end()


def test_the_importer_of_a_workflow_serves_rounds_and_single_workers(start_shared, workers) -> None:
    shared, parents = start_shared(), []
    first = supervise(workers(noting(parents), a={}, b={"fault": "crash", "fault_epoch": 1}))
    second = supervise(workers(noting(parents), c={}))
    exits = [outcome.exit_code for outcome in (*first.values(), *second.values())]
    assert exits == [0, -signal.SIGABRT, 0]
    assert parents == [shared._process.pid] * 3
    assert shared._process.poll() is None
    assert os.environ[forked_workers.FOLDER] != ""


def test_the_workers_of_a_killed_supervisor_end(start_shared, workers, tmp_path: Path) -> None:
    shared = start_shared()
    supervisor = os.fork()
    if supervisor == 0:
        supervise(workers(a={"fault": "hang", "fault_epoch": 1}, b={}))
        os._exit(0)
    events = tmp_path / "a.events.jsonl"
    wait_until(lambda: events.exists() and "gate" in events.read_text(), 30, "a waiting worker")
    hello = json.loads(events.read_text().splitlines()[0])
    assert psutil.pid_exists(hello["pid"])
    os.kill(supervisor, signal.SIGKILL)
    os.waitpid(supervisor, 0)
    wait_until_ended(hello["pid"])
    assert supervise(workers(c={}))["c"].exit_code == 0 and shared._process.poll() is None


def test_workers_do_without_an_importer_that_has_ended(start_shared, workers) -> None:
    shared = start_shared()
    shared._process.kill()
    shared._process.wait()
    assert supervise(workers(a={}))["a"].exit_code == 0


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
