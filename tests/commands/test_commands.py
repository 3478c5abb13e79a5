"""The arguments that commands about an experiment share, and the small commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from rnnbench.commands import plan
from rnnbench.commands.arguments import parse_words
from rnnbench.commands.experiment import command_of
from rnnbench.commands.machine import doctor
from rnnbench.errors import ConfigError
from rnnbench.records.store import write_json
from rnnworker import machine
from tests.conftest import ROOT, Project
from tests.factory import make_record


def test_words_are_a_name_and_overrides() -> None:
    assert parse_words(["mine", "a=1", "~b"]) == ("mine", ("a=1", "~b"))
    assert parse_words(["a=1", "experiment=mine"]) == ("mine", ("a=1",))
    assert parse_words([]) == ("quick", ())
    with pytest.raises(ConfigError, match="names two experiments, one and two"):
        parse_words(["one", "two"])


def test_run_composes_the_snakemake_command(tmp_path: Path) -> None:
    assert command_of([]) == ["--cores", "all", "--config", "experiment=quick"]
    given = ["mine", "model.epochs=3", "repeat=0", "--conf", str(tmp_path), "--cores", "2"]
    assert command_of([*given, "--", "-n", "--profile", "x"]) == [
        *("--cores", "2", "-n", "--profile", "x", "--config"),
        *("experiment=mine", "overrides=model.epochs=3 repeat=0", f"conf={tmp_path}"),
    ]
    with pytest.raises(ConfigError, match="is not a folder"):
        command_of(["--conf", str(tmp_path / "absent")])


def test_run_starts_snakemake(project: Project) -> None:
    (project.folder / "workflow").symlink_to(ROOT / "workflow")
    result = project.rnnbench("run", "small", "--conf", str(project.conf), "--", "-n", "--quiet")
    assert result.returncode == 0, result.stderr
    assert result.stderr.startswith("snakemake --cores all -n --quiet --config experiment=small")
    assert not list((project.folder / "results").glob("records/*"))


def test_doctor_lists_what_can_run_and_why_not(project: Project, monkeypatch, capsys) -> None:
    monkeypatch.chdir(project.folder)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    assert doctor(["--conf", str(project.conf)]) == 0
    output = capsys.readouterr().out
    assert machine.fingerprint()["machine"] in output
    (able,) = [line for line in output.splitlines() if line.startswith("devices")]
    assert "cpu_1" in able and "k80" not in able
    if not machine.gpus():
        (unavailable,) = (line for line in output.splitlines() if "no NVIDIA GPU on this" in line)
        assert unavailable.startswith("  not ") and " k80," in unavailable
    assert "fake" in output and "datasets   " in output
    assert "  generated without network access: digits\n" in output
    assert "MLflow: http://127.0.0.1:9: the MLflow server cannot be reached" in output


def test_plan_lists_what_changed(project: Project, monkeypatch, capsys) -> None:
    monkeypatch.chdir(project.folder)
    arguments = ["small", "--conf", str(project.conf), "--why"]
    assert plan.plan(arguments) == 0
    assert capsys.readouterr().out == "4 runs without a record\n"
    name = "fake-lstm-fake_fast-cpu_1-fake-s0-r0"
    planned = plan.make_plan("small", [project.folder / "conf", project.conf], project.folder)
    run = planned.runs[name]
    config = {**run.config, "model": {**run.config["model"], "epochs": 9}}
    record = make_record(
        name=name,
        machine=machine.fingerprint()["machine"],
        identity=run.identity,
        config=config,
    )
    write_json(project.folder / f"results/records/{record.key}.json", record.to_json())
    assert plan.plan(arguments) == 0
    output = capsys.readouterr().out
    assert "3 runs without a record" in output
    assert f"1 run, such as {name}:\n  model.epochs: 9 → 5\n" in output


def test_changes_leave_out_the_values_of_digests() -> None:
    before = {"worker": "0" * 64, "config": {"a": {"b": 1}}}
    after = {"worker": "1" * 64, "config": {"a": {"b": 2}, "c": None}, "dataset_md5": None}
    assert plan.changed(before, after) == ["worker changed", "a.b: 1 → 2"]
