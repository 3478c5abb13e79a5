"""What a run is measured from changes after the plan was made, or between two starts."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable

import msgspec
import numpy as np
import pytest

from rnnbench.builds import launcher
from rnnbench.commands.rules import check_inputs
from rnnbench.errors import RunError
from rnnbench.planning import digests
from rnnbench.planning.plan import Plan, code_of, write_plan
from rnnbench.planning.planner import make_plan
from rnnbench.records.plan_file import PlannedCertificate
from rnnbench.records.store import read_record
from tests import forked_commands
from tests.conftest import Project, wait_until
from tests.faults.matrix import rows

SAME = "run the same command, which plans with what is there now"
CODE = """
def build(keras, recurrent, config):
    return {}

def prepare(source, config):
    return source
"""
MODEL = """
function: mine.py:build
data: {prepare: mine.py:prepare}
batch: 10
epochs: 2
optimizer: {name: adam}
arrays: [x]
loss: mse
recurrent: true
"""
BUILD = "framework: fake\npython: null\ncommand: null\nenvironment: {PYTHONPATH: %s}\n"
GRID = "model=mine build=mine rnn=fake_fast device=cpu_1 dataset=file dataset.path=%s"


@pytest.fixture
def own(project: Project) -> Project:
    """A project with an experiment ``mine`` of its own model, data and build."""
    files = project.folder / "files"
    installed(project, "9.1")
    np.savez(files / "mine.npz", x=np.zeros(9))
    (project.conf / "model/mine.py").write_text(CODE.format(1))
    (project.conf / "model/mine.yaml").write_text(MODEL)
    (project.conf / "build/mine.yaml").write_text(BUILD % (files / "packages"))
    grid = GRID % (files / "mine.npz")
    (project.conf / "experiment/mine.yaml").write_text(f"grids: ['{grid}']\n")
    return project


def installed(project: Project, version: str) -> None:
    """A package of the build in this version."""
    packages = project.folder / "files/packages"
    shutil.rmtree(packages, ignore_errors=True)
    metadata = f"Metadata-Version: 2.1\nName: ml_dtypes\nVersion: {version}\n"
    folder = packages / f"ml_dtypes-{version}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(metadata)


def edited_code(project: Project) -> None:
    (project.conf / "model/mine.py").write_text(CODE.format(2))


def replaced_data(project: Project) -> None:
    """Other bytes with equal size and modification time."""
    file = project.folder / "files/mine.npz"
    before = file.stat()
    np.savez(file, x=np.ones(9))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


def linked_elsewhere(name: str, change: Callable[[Project], None]) -> Callable[[Project], None]:
    """A symbolic link in place of a file leads to a changed copy."""

    def relink(project: Project) -> None:
        file = project.folder / name
        before = file.read_bytes()
        change(project)
        other = file.rename(file.with_name(f"other_{file.name}"))
        assert other.read_bytes() != before
        file.symlink_to(other)

    return relink


CHANGES = {
    "an own file is edited": (edited_code, "worker"),
    "data are replaced with equal size and time": (replaced_data, "dataset_md5"),
    "a package of the build is upgraded": (lambda own: installed(own, "9.2"), "build_lock"),
    "a link to the data is turned elsewhere": (
        linked_elsewhere("files/mine.npz", replaced_data),
        "dataset_md5",
    ),
    "an own file becomes a link to another file": (
        linked_elsewhere("own/model/mine.py", edited_code),
        "worker",
    ),
}


def planned(project: Project, experiment: str = "mine") -> Plan:
    """The plan as a new process makes it."""
    for function in (digests._digest, digests._tree, digests._imports):
        function.cache_clear()
    digests.parsed.cache_clear()
    launcher._foreign.cache_clear()
    plan = make_plan(experiment, [project.folder / "conf", project.conf], project.folder)
    write_plan(plan, project.folder / "results")
    return plan


def measure(project: Project, plan: Plan) -> forked_commands.Forked:
    """Starts the only round of the plan."""
    (members,) = plan.rounds.values()
    file = f"results/{plan.site}/mine/rounds/{members.name}.json"
    command = [sys.executable, "-m", "rnnbench", "round", file, "--digest", members.digest]
    return forked_commands.start(command, project.folder, project.environment)


def measured(project: Project, plan: Plan) -> None:
    process = measure(project, plan)
    _, error = process.communicate(timeout=300)
    assert process.returncode == 0, error


@rows("change key", CHANGES, "{}", "refused before it is measured", SAME)
def test_a_change_after_the_plan(own: Project, change: Callable[[Project], None], key: str) -> None:
    plan = planned(own)
    measured(own, plan)
    (record,) = own.records()
    before = record.read_bytes()

    change(own)
    own.rounds("mine")[0].unlink()
    refused = measure(own, plan)
    _, error = refused.communicate(timeout=300)
    assert refused.returncode == 1
    assert error.count("changed since the plan was made") == 1, error
    assert "Fix: run the same command again" in error and "Traceback" not in error
    assert own.records() == [record] and record.read_bytes() == before
    assert not own.rounds("mine")

    again = planned(own)
    (old,), (new,) = plan.runs.values(), again.runs.values()
    assert {name for name in new.identity if new.identity[name] != old.identity[name]} == {key}
    measured(own, again)
    records = [read_record(file) for file in own.records()]
    assert [record.run.digest for record in records] == [old.digest, new.digest]
    assert record.read_bytes() == before


@pytest.mark.fault(
    "an own file is edited while its run is measured", "the record is of the old file", SAME
)
def test_a_file_that_is_edited_during_its_run(own: Project) -> None:
    """The worker has read it before it trains."""
    experiment = own.conf / "experiment/mine.yaml"
    text = experiment.read_text()
    experiment.write_text(text.replace("grids: ['", "grids: ['model.epochs=9 "))
    plan = planned(own)
    process = measure(own, plan)
    events = own.folder / "results/records"

    def has_begun() -> bool:
        return any('"epoch"' in file.read_text() for file in events.rglob("*.events.jsonl"))

    wait_until(has_begun, 30, "an epoch")
    edited_code(own)
    _, error = process.communicate(timeout=300)
    assert process.returncode == 0, error
    (record,) = own.records()
    (old,), (new,) = plan.runs.values(), planned(own).runs.values()
    assert read_record(record).run.digest == old.digest != new.digest


def test_certificates_are_checked_too(project: Project) -> None:
    planned_here = next(iter(planned(project, "quick").certificates.values()))
    certificate = msgspec.json.decode(msgspec.json.encode(planned_here), type=PlannedCertificate)
    code = code_of(certificate)
    assert project.rnnbench("dataset", "digits").returncode == 0
    arguments = certificate.key, certificate.identity, certificate.config, project.folder
    assert check_inputs(*arguments, code) == certificate.identity["dataset_md5"]
    with pytest.raises(RunError, match="Python code of model, rnn or rnnbench changed"):
        check_inputs(*arguments, "0" * 64)


@pytest.mark.fault(
    "the results folder is a link that is turned elsewhere between two starts",
    "each folder has its own records, complete",
    "none",
)
def test_results_that_lead_elsewhere(own: Project) -> None:
    link = own.folder / "results"
    contents = {}
    for name in ("one", "two", "one"):
        folder = own.folder / name
        folder.mkdir(exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(folder)
        measured(own, planned(own))
        records = {file: file.read_bytes() for file in own.records()}
        assert len(records) == 1 and own.rounds("mine")
        assert contents.setdefault(name, records) == records
