"""Workers that are forked from one process that imports for them: real workers, with the fake
framework."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rnnbench.running import worker
from rnnbench.running.supervise import supervise
from rnnworker import forked_workers, members, rounds
from rnnworker.members import Member, Outcome
from tests.running.test_running_train import planned

FORKED = {"before_fork"}


@pytest.fixture
def workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Members of a round, by what the fake framework does in each."""
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
    """Those that were started."""
    started = []
    watch = forked_workers.Importer.watch
    monkeypatch.setattr(
        forked_workers.Importer,
        "watch",
        lambda one, selector: (started.append(one), watch(one, selector)),
    )
    return started


def imports(outcome: Outcome) -> dict[str, Any]:
    """Details of its phase `import`."""
    ends = [one for one in outcome.events if one["event"] == "phase_end"]
    return next(one["details"] for one in ends if one["phase"] == "import")


def pid_of(outcome: Outcome) -> int:
    return next(one["pid"] for one in outcome.events if one["event"] == "hello")


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_members_of_one_build_are_forked_from_one_process(workers, importers) -> None:
    parents = []
    found = supervise(
        workers(
            lambda event: event["event"] == "hello" and parents.append(parent_of(event["pid"])),
            a={},
            b={},
            c={},
        )
    )
    assert [one.exit_code for one in found.values()] == [0, 0, 0]
    assert len(importers) == 1 and set(parents) == {importers[0]._process.pid}
    assert len({pid_of(one) for one in found.values()}) == 3
    assert all(imports(one).keys() >= FORKED for one in found.values())
    assert all(one.turns for one in found.values())
    assert importers[0]._process.returncode == 0


def test_one_alone_and_one_of_another_environment_start_by_themselves(workers, importers) -> None:
    alone = supervise(workers(a={}))["a"]
    assert not importers and "before_fork" not in imports(alone)
    a, b, c = workers(a={}, b={}, c={})
    b.environment = {**b.environment, "ONE_DNN": "0"}
    found = supervise([a, b, c])
    assert [one.exit_code for one in found.values()] == [0, 0, 0]
    assert {name for name, one in found.items() if "before_fork" in imports(one)} == {"a", "c"}


def test_what_ends_a_forked_worker_is_told_as_of_one_that_was_started(workers) -> None:
    faults = {"raised": "raise", "aborted": "crash", "hung": "hang", "good": None}
    fakes = {name: {"fault": fault, "fault_epoch": 1} for name, fault in faults.items()}
    forks = supervise(workers(**fakes))
    plain = workers(**fakes)
    for one in plain:
        one.forks = False
    starts = supervise(plain)
    for name in fakes:
        assert "before_fork" in imports(forks[name]) and "before_fork" not in imports(starts[name])
        assert forks[name].exit_code == starts[name].exit_code
        assert forks[name].over_limit == starts[name].over_limit
        assert forks[name].phase == starts[name].phase
    assert forks["aborted"].exit_code == -signal.SIGABRT and forks["hung"].over_limit == "train"


def test_what_a_member_prints_goes_to_its_own_log(workers, tmp_path: Path) -> None:
    supervise(workers(a={"fault": "raise", "fault_epoch": 1}, b={}))
    assert "a made-up fault in the model" in (tmp_path / "a.log").read_text()
    assert "made-up" not in (tmp_path / "b.log").read_text()


def test_an_importer_that_fails_leaves_its_members_to_start_by_themselves(
    workers, importers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill(one: forked_workers.Importer, selector) -> None:
        importers.append(one)
        os.kill(one._process.pid, signal.SIGKILL)
        watch(one, selector)

    watch = forked_workers.Importer.watch
    monkeypatch.setattr(forked_workers.Importer, "watch", kill)
    found = supervise(workers(a={}, b={}))
    assert importers and [one.exit_code for one in found.values()] == [0, 0]
    assert not any("before_fork" in imports(one) for one in found.values())


def test_one_that_imports_too_long_is_given_up(workers, importers, monkeypatch) -> None:
    made = workers(a={}, b={})
    for one in made:
        one.limits = {**one.limits, "import": 0.0}
    monkeypatch.setattr(members.Running, "check_limit", lambda one, selector: None)
    found = supervise(made)
    assert [one.exit_code for one in found.values()] == [0, 0]
    assert importers[0].gone and importers[0]._process.returncode is not None


def test_members_end_with_their_importer(workers, importers) -> None:
    def kill(event) -> None:
        if event["event"] == "gate":
            os.kill(importers[0]._process.pid, signal.SIGKILL)

    found = supervise(workers(kill, a={}, b={}))
    assert {one.exit_code for one in found.values()} == {-signal.SIGKILL}
    for outcome in found.values():
        wait_for_end(pid_of(outcome))


def wait_for_end(pid: int) -> None:
    deadline = time.monotonic() + 20
    while Path(f"/proc/{pid}").exists():
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        if state == "Z":  # nobody here collects what an importer left
            return
        assert time.monotonic() < deadline, f"process {pid} still runs"
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("device", "kind", "gpu"),
        ("build", "framework", "keras2_tensorflow1"),
        ("build", "command", "apptainer exec image.sif python3"),
    ],
)
def test_who_may_not_be_forked(section: str, key: str, value: str) -> None:
    config = planned()["config"]
    assert rounds.may_fork(config)
    config[section][key] = value
    assert not rounds.may_fork(config)
