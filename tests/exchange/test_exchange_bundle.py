"""A bundle measures with Python alone, and its outcomes are judged like local runs."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import pytest

from rnnbench.records.record import Record
from rnnbench.records.store import read_record
from rnnbench.tables.effects import effects_of
from rnnworker.bundle import NEEDED
from rnnworker.frameworks import FRAMEWORKS
from tests.conftest import Project, make_project
from tests.exchange.bundles import bundle, run


def test_a_bundle_runs_resumes_and_is_imported(bundled: tuple[Project, Path]) -> None:
    project, folder = bundled
    stopped = run(folder, "--stop-after", "0.001")
    assert stopped.returncode == 1 and "runs are left" in stopped.stdout
    assert len(list(folder.glob("out/*/*/outcome.json"))) < 4
    resumed = run(folder)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert len(list(folder.glob("out/*/*/outcome.json"))) == 4

    imported = project.rnnbench("import", str(folder), "--restore")
    assert imported.returncode == 0, imported.stderr
    records = [read_record(path) for path in project.records()]
    assert len(records) == 4
    assert {record.verdict.status for record in records} <= {"clean", "suspect"}
    assert all(len(record.epochs) == 5 for record in records)
    by_round: dict[str, list[Record]] = {}
    for record in records:
        by_round.setdefault(record.round.id, []).append(record)
    assert len(by_round) == 2, "the runs of a repeat took turns"
    for members in by_round.values():
        assert {record.run.choices["rnn"] for record in members} == {"fake_middle", "fake_fast"}
        effects = effects_of(members)
        effect = {record.run.choices["rnn"]: effects[record.key].effect for record in members}
        assert effect["fake_middle"] - effect["fake_fast"] == pytest.approx(math.log(2), abs=0.1)
    again = project.rnnbench("import", str(folder), "--restore")
    assert again.returncode == 0 and "0 files written" in again.stdout


def test_a_changed_worker_is_refused(bundled: tuple[Project, Path], tmp_path: Path) -> None:
    _, folder = bundled
    target = folder / "rnnworker" / "events.py"
    before = target.read_text()
    target.write_text(before + "\n# changed in transit\n")
    try:
        refused = run(folder)
        assert refused.returncode != 0
        assert "rnnworker/events.py is not what was packed" in refused.stderr
    finally:
        target.write_text(before)


def test_the_memory_limit_applies_in_a_bundle(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    grid = "model=fake build=fake rnn=fake_fast device=cpu_1 rnn.fake.fault=eat_native"
    (project.conf / "experiment/eats.yaml").write_text(
        f"title: x\ngrids: ['{grid} limits.memory_bytes=536870912']\n"
    )
    folder = tmp_path / "bundle"
    bundle(project, "eats", folder)
    assert run(folder).returncode == 0
    imported = project.rnnbench("import", str(folder), "--restore")
    assert imported.returncode == 0, imported.stderr
    (record,) = map(read_record, project.records())
    assert record.verdict.reasons[0].code == "out_of_memory"


def test_an_experiment_in_two_bundles(tmp_path: Path) -> None:
    project = make_project(tmp_path / "home")
    for repeat in ("1", "0", "1"):
        folder = tmp_path / repeat
        if not folder.exists():
            bundle(project, "small", folder, f"repeat={repeat}")
            assert run(folder).returncode == 0
        assert project.rnnbench("import", str(folder), "--restore").returncode == 0
    (plan,) = (project.folder / "results").glob("*/small/plan.jsonl")
    names = {json.loads(line)["name"] for line in plan.read_text().splitlines()}
    assert names == {path.stem for path in project.pointers("small")} and len(names) == 4


def test_help_lists_the_exit_codes(bundled: tuple[Project, Path]) -> None:
    result = run(bundled[1], "--help")
    assert result.returncode == 0 and "3: the runs of a build were skipped" in result.stdout
    assert set(NEEDED) == set(FRAMEWORKS)


YAML = """
function: mine.py:build
data: {prepare: mine.py:prepare}
batch: 16
epochs: 2
optimizer: {name: adam}
loss: sparse_categorical_crossentropy
recurrent: true
"""
MODEL = """
def prepare(source, config):
    return {name: array[:64] for name, array in source.items()}

def build(keras, recurrent, config):
    inputs = keras.layers.Input(shape=(8, 8))
    outputs = keras.layers.Dense(10, activation="softmax")(recurrent(4)(inputs))
    return keras.models.Model(inputs, outputs)
"""
KERNEL = """
def make(keras, cell, units, options):
    return keras.layers.LSTM(units, use_cudnn=False, **options)

def to_canonical(layer, values=None):
    values = layer.get_weights() if values is None else values
    return dict(zip(("kernel", "recurrent", "bias"), values))

def from_canonical(layer, arrays):
    layer.set_weights([arrays[name] for name in ("kernel", "recurrent", "bias")])
"""


def test_a_bundle_with_a_user_supplied_model_and_kernel(tmp_path: Path) -> None:
    project, folder = make_project(tmp_path / "project"), tmp_path / "bundle"
    for home, yaml, python in (
        ("a", YAML, MODEL),
        ("b", "implementation: mine.py\n", KERNEL),
    ):
        (tmp_path / home).mkdir()
        (tmp_path / home / "mine.yaml").write_text(yaml)
        (tmp_path / home / "mine.py").write_text(python)
    grid = f"model={tmp_path}/a/mine.yaml rnn={tmp_path}/b/mine.yaml device=cpu_1 dataset=digits"
    (project.conf / "experiment/mine.yaml").write_text(f"probe: false\ngrids: ['{grid}']\n")
    bundle(project, "mine", folder)
    originals = [tmp_path / home / "mine.py" for home in "ab"]
    for file in originals:
        file.rename(file.with_suffix(".gone"))
    result = run(folder)
    assert result.returncode == 0 and "in phase" not in result.stdout, result.stdout
    imported = project.rnnbench("import", str(folder), "--restore")
    assert imported.returncode == 0, imported.stderr
    (record,) = map(read_record, project.records())
    assert record.verdict.status != "void", record.verdict
    assert len(record.epochs) == 2
    config = record.run.config
    assert config["rnn"]["implementation"] == str(originals[1]), "the planned identity is kept"
    (path,) = project.folder.glob("results/*/mine/certificates/*.json")
    assert json.loads(path.read_text())["implementations"]["mine"]["status"] == "certified"


def bundle_of_two_builds(folder: Path) -> Path:
    """A bundle of the fake build and of a build with torch, which the tests' Python lacks."""
    project = make_project(folder / "home")
    (project.conf / "build/lacking.yaml").write_text(
        "framework: keras3_torch\npython: python3\nenvironment: {}\n"
    )
    (project.conf / "experiment/two.yaml").write_text(
        "title: x\nprobe: false\ngrids:\n"
        "- model=digits_rnn rnn=keras build=lacking model.epochs=1 repeat=0,1\n"
        "- model=fake rnn=fake_fast build=fake\n"
    )
    return bundle(project, "two", folder / "bundle")


def python_without_torch(folder: Path) -> Path:
    """This interpreter, with NumPy and without torch and Keras."""
    python = folder / "python"
    hidden = "import sys; sys.modules.update(torch=None, keras=None)"
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(hidden)
    python.write_text(f'#!/bin/sh\nPYTHONPATH={folder}/site exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return python


def test_a_python_without_the_framework_is_reported_once_and_first(tmp_path: Path) -> None:
    folder = bundle_of_two_builds(tmp_path)
    python = python_without_torch(tmp_path)
    for _ in range(2):  # a failed build is tried again
        result = run(folder, "--python", f"lacking={python}", "--no-certificates")
        assert result.returncode == 3, result.stdout + result.stderr
        first, *others = result.stdout.splitlines()
        assert first.startswith(f"build lacking cannot run: {python} has no torch and no keras;")
        assert "--python lacking=PATH" in first
        assert not any("lacking" in line for line in others), result.stdout
        assert len(list(folder.glob("out/fake*/*/outcome.json"))) == 1
        assert not list(folder.glob("out/*lacking*/*/outcome.json"))
    skipped = json.loads((folder / "out/skipped.json").read_text())
    assert len(skipped) == 2 and "has no torch" in next(iter(skipped.values()))
    absent = run(folder, "--python", "lacking=/no/such/python", "--no-certificates")
    assert absent.returncode == 3 and "/no/such/python cannot be started" in absent.stdout


def test_a_framework_that_cannot_be_imported_ends_only_its_build(tmp_path: Path) -> None:
    folder = bundle_of_two_builds(tmp_path)
    python = python_without_torch(tmp_path)
    (tmp_path / "site" / "sitecustomize.py").unlink()
    for name in ("torch", "keras"):
        (tmp_path / "site" / f"{name}.py").write_text("raise OSError('libcudart is not here')")
    result = run(folder, "--python", f"lacking={python}", "--no-certificates")
    assert result.returncode == 3, result.stdout + result.stderr
    assert result.stdout.count("build lacking cannot run") == 1
    assert "in phase import: OSError: libcudart is not here" in result.stdout
    assert len(list(folder.glob("out/*lacking*/*/outcome.json"))) == 1
    assert len(list(folder.glob("out/fake*/*/outcome.json"))) == 1
