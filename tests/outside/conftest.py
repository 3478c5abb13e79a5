"""A project with results of the machine ``home``, and an export of the machine ``away``."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from rnnbench import cli
from rnnbench.exchange.archive import files_of
from rnnbench.records.keys import certificate_key
from rnnbench.records.store import write_json
from tests.factory import in_round, make_record, put, replace
from tests.outside.attacks import EXPERIMENT, Files

LEVELS = {"keras": 0.5, "unrolled": 0.35, "block": 0.3}


def records(machine: str, factor: float = 1.0) -> list[Any]:
    """Three rounds of three implementations."""
    rounds = [
        in_round(
            [
                make_record(rnn=rnn, machine=machine, repeat=repeat, epoch_seconds=level * factor)
                for rnn, level in LEVELS.items()
            ],
            [0.5 + 0.01 * repeat, 0.15, 0.0],
            number=repeat,
        )
        for repeat in range(3)
    ]
    return [replace(record, name=record.name) for members in rounds for record in members]


def certificate(machine: str) -> dict[str, Any]:
    record = make_record()
    choices = {name: record.run.choices[name] for name in ("model", "cell", "build")}
    batches = [{"rows": rows, "training": training, "outputs": 3e-7, "gradients": 2e-6}
               for rows in (32, 30, 7, 359 % 32) for training in (True, False)]  # fmt: skip
    entry = {
        "status": "certified", "why": None, "outputs": 3e-7, "gradients": 2e-6,
        "round_trip": True, "function": None, "function_why": None,
        "probed": {"cpu_1": {"batches": batches, "wrong": None, "why": None}},
        "applied": {"cpu_1": {"steps": 30, "off": 0, "worst": 2e-7, "why": None}},
    }  # fmt: skip
    errors = {"outputs": 1e-7, "gradients": 1e-6, "loss_curve": 1e-6}
    pairs = [{"a": "keras", "b": name, "equal": True, **errors} for name in ("unrolled", "block")]
    return {
        "schema": 3, "key": certificate_key(record.run.choices, record.run.config, 3), **choices,
        "overrides": {}, "machine": machine, "digest": "d", "precision": "float32",
        "implementations": dict.fromkeys(LEVELS, entry), "pairs": pairs,
    }  # fmt: skip


def lay_down(results: Path, machine: str, factor: float = 1.0) -> None:
    """The results of a machine as its project has them."""
    site = results / machine / EXPERIMENT
    for record in records(machine, factor):
        put(results, record, site=machine, experiment=EXPERIMENT)
        with (site / "plan.jsonl").open("ab") as plan:
            plan.write(record.run.line())
    facts = {"name": EXPERIMENT, "title": "Quick", "about": "", "reference": {"rnn": "keras"}}
    write_json(site / "experiment.json", {**facts, "lead": "time", "skipped": []})
    data = certificate(machine)
    write_json(site / "certificates" / f"{data['key']}.json", data)


def contents(folder: Path) -> Files:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.fixture(scope="session")
def away(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """The files of an export, by name."""
    folder = tmp_path_factory.mktemp("away")
    lay_down(folder, "away", factor=0.1)
    return {name: file.read_bytes() for name, file in files_of(folder / "away/quick").items()}


@pytest.fixture(scope="session")
def project_of_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with results of ``home``."""
    folder = tmp_path_factory.mktemp("home")
    lay_down(folder / "results", "home")
    (folder / "Snakefile").touch()
    return folder


@pytest.fixture
def home(project_of_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the project, in which the test runs."""
    folder = shutil.copytree(project_of_home, tmp_path / "home")
    monkeypatch.chdir(folder)
    return folder


def report(out: Path, *arguments: str) -> Files:
    """The files of the report."""
    assert cli.main(["report", EXPERIMENT, "--out", str(out), *arguments]) == 0
    return contents(out)


def without_imports(results: Path) -> Files:
    return {
        name: content for name, content in contents(results).items()
        if not name.startswith("imported/")
    }  # fmt: skip
