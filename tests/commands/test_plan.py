"""The estimate of an experiment, before and after some of its runs, and what changed."""

from __future__ import annotations

from rnnbench.commands import plan
from rnnbench.records.pointer import Pointer
from rnnbench.records.store import write_json, write_record
from rnnworker import machine
from tests.conftest import Project
from tests.factory import make_record

NAME = "fake-lstm-fake_fast-cpu_1-fake-s0-r0"


def test_plan_before_and_after_some_runs(project: Project, monkeypatch, capsys) -> None:
    monkeypatch.chdir(project.folder)
    arguments = ["small", "--conf", str(project.conf)]
    assert plan.plan(arguments) == 0
    output = capsys.readouterr().out
    assert "4 runs in 2 rounds, 0 done, 4 to do" in output and "a guess" in output

    local = machine.fingerprint()["machine"]
    for repeat, seconds in enumerate((0.5, 0.51)):
        record = make_record(name=f"{NAME[:-1]}{repeat}", machine=local, epoch_seconds=seconds)
        write_record(project.folder / "results", record)
    pointer = project.folder / f"results/{local}/small/{NAME}.json"
    write_json(pointer, Pointer.of(record))
    assert plan.plan(arguments) == 0
    output = capsys.readouterr().out
    assert "4 to do" in output, "a pointer to a run of another identity is not a finished run"
    assert "for 2 runs a guess" in output and "1 degrees of freedom" in output


def test_plan_lists_what_changed(project: Project, monkeypatch, capsys) -> None:
    monkeypatch.chdir(project.folder)
    arguments = ["small", "--conf", str(project.conf), "--why"]
    assert plan.plan(arguments) == 0
    assert capsys.readouterr().out == "4 runs without a record\n"
    planned = plan.make_plan("small", [project.folder / "conf", project.conf], project.folder)
    run = planned.runs[NAME]
    config = {**run.config, "model": {**run.config["model"], "epochs": 9}}
    local = machine.fingerprint()["machine"]
    record = make_record(name=NAME, machine=local, identity=run.identity, config=config)
    write_record(project.folder / "results", record)
    assert plan.plan(arguments) == 0
    output = capsys.readouterr().out
    assert "3 runs without a record" in output
    assert f"1 run, such as {NAME}:\n  model.epochs: 9 → 5\n" in output


def test_changes_leave_out_the_values_of_digests() -> None:
    before = {"worker": "0" * 64, "config": {"a": {"b": 1}}}
    after = {"worker": "1" * 64, "config": {"a": {"b": 2}, "c": None}, "dataset_md5": None}
    assert plan.changed(before, after) == ["worker changed", "a.b: 1 → 2"]
