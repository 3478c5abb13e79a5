"""A bundle measures with Python alone, and its outcomes are judged like local runs."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rnnbench.records.record import Record
from rnnbench.records.store import read_record
from rnnbench.tables.effects import effects_of
from tests.conftest import Project, make_project
from tests.exchange.bundles import bundle, run
from tests.running.alone import outside, slept_effects


def outcomes(folder: Path, pattern: str = "*") -> list[Path]:
    return list(folder.glob(f"out/{pattern}/*/outcome.json"))


def restored(project: Project, folder: Path) -> list[Record]:
    """The records of the project after the import of the bundle."""
    result = project.rnnbench("import", str(folder), "--restore")
    assert result.returncode == 0, result.stderr
    return [read_record(path) for path in project.records()]


@pytest.fixture(scope="module")
def finished(bundled: tuple[Project, Path]) -> tuple[Project, Path, list[Record]]:
    """The project, the bundle after its four runs, which were interrupted once, and their
    records."""
    project, folder = bundled
    stopped = run(folder, "--stop-after", "0.001")
    assert stopped.returncode == 1 and "runs are left" in stopped.stdout
    assert len(outcomes(folder)) < 4
    resumed = run(folder)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert len(outcomes(folder)) == 4
    records = restored(project, folder)
    assert len(records) == 4
    return project, folder, records


def check_difference(members: Sequence[Record], within: float) -> None:
    """`fake_middle` took twice as long as `fake_fast`, or what the fake framework slept, as
    logarithms and `within` this distance."""
    effects = {record.run.choices["rnn"]: effects_of(members)[record.key] for record in members}
    slept = slept_effects(members)
    measured = effects["fake_middle"].log - effects["fake_fast"].log
    assert outside(measured, slept["fake_middle"] - slept["fake_fast"], math.log(2)) < within


def test_a_bundle_runs_resumes_and_is_imported(finished) -> None:
    project, folder, records = finished
    assert {record.verdict.status for record in records} <= {"clean", "suspect"}
    assert all(len(record.epochs) == 5 for record in records)
    by_round: dict[str, list[Record]] = {}
    for record in records:
        by_round.setdefault(record.round.id, []).append(record)
    assert len(by_round) == 2, "the runs of a repeat took turns"
    for members in by_round.values():
        check_difference(members, within=0.1)
    again = project.rnnbench("import", str(folder), "--restore")
    assert again.returncode == 0 and "0 files written" in again.stdout


TIMES = {"started", "finished", "id", "verdict", "turns", "peak_memory_bytes"}
# What only the machine that makes a bundle knows, or only the one that runs it.
OF_A_PROJECT = {"revision", "digest", "identity"}


def without_times(value: Any) -> Any:
    """JSON without its times and what depends on them."""
    if isinstance(value, dict):
        left_out = TIMES | OF_A_PROJECT
        return {key: without_times(item) for key, item in value.items() if key not in left_out}
    if isinstance(value, list | tuple):
        is_structure = bool(value) and isinstance(value[0], dict | str)
        return [without_times(item) for item in value] if is_structure else []
    return "seconds" if isinstance(value, float) else value


def test_records_of_a_bundle_and_of_this_project_are_equal_but_for_times(
    finished, measured_small: Project
) -> None:
    here = [read_record(path) for path in measured_small.records()]
    local, elsewhere = (
        {record.name: without_times(msgspec.to_builtins(record)) for record in records}
        for records in (here, finished[2])
    )
    assert local == elsewhere and len(local) == 4
    for record in (*here, *finished[2]):
        assert record.facts["asleep"]["seconds"] > 0
        assert record.measured.wall_seconds > 0 and record.turns["turn"]


def test_a_missing_run_of_a_round_takes_turns_with_the_reference(finished, tmp_path: Path) -> None:
    """The outcome is missing as after an interrupted bundle."""
    _, folder, _ = finished
    (lost,) = outcomes(folder, "*fake_fast*-r1")
    lost.unlink()
    for _ in range(2):  # the second time, all runs have an outcome
        again = run(folder)
        assert again.returncode == 0, again.stdout + again.stderr
        assert len(outcomes(folder)) == 5, "the reference once more"
    project = make_project(tmp_path)
    records = restored(project, folder)
    (companion,) = (record for record in records if record.is_companion)
    members = [record for record in records if record.round.id == companion.round.id]
    (late,) = (record for record in members if record is not companion)
    check_difference(members, within=0.3)
    results = project.finished("small")
    companions = {name: results[name].companions for name in results if name.endswith("-r1")}
    assert len(companions) == 2, "the result of the reference is its first run"
    assert companions.pop(late.name) == (companion.path,)
    assert list(companions.values()) == [()]


@pytest.mark.parametrize("file", ["rnnworker/events.py", "rnnlayers/block.py"])
def test_a_changed_worker_is_refused(file: str, bundled: tuple[Project, Path]) -> None:
    _, folder = bundled
    target = folder / file
    before = target.read_text()
    target.write_text(before + "\n# changed in transit\n")
    try:
        refused = run(folder)
        assert refused.returncode != 0
        assert f"{file} is not what was packed" in refused.stderr
    finally:
        target.write_text(before)


def test_what_runs_out_of_memory_before_its_limit_is_retried_on_its_own(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    grid = "model=fake build=fake device=cpu_1"
    (project.conf / "experiment/eats.yaml").write_text(
        f"title: x\nreference: {{rnn: fake_middle}}\ngrids:\n- {grid} rnn=fake_middle\n"
        f"- {grid} rnn=fake_fast rnn.fake.fault=memory rnn.fake.fault_epoch=1\n"
        f"- {grid} rnn=fake_slow rnn.fake.fault=eat_native limits.memory_bytes=536870912\n"
    )
    folder = bundle(project, "eats", tmp_path / "bundle")
    result = run(folder)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("ran out of memory; retrying it on its own") == 1, result.stdout
    records = {record.run.choices["rnn"]: record for record in restored(project, folder)}
    assert records.pop("fake_middle").verdict.status != "void"
    assert set(records) == {"fake_fast", "fake_slow"}
    for record in records.values():
        assert record.verdict.reasons[0].code == "out_of_memory"
        assert record.round.members == (record.name,)


def test_an_experiment_in_two_bundles(tmp_path: Path) -> None:
    project = make_project(tmp_path / "home")
    for repeat in ("1", "0", "1"):
        folder = tmp_path / repeat
        if not folder.exists():
            bundle(project, "small", folder, f"repeat={repeat}")
            assert run(folder).returncode == 0
        restored(project, folder)
    (plan,) = (project.folder / "results").glob("*/small/plan.jsonl")
    names = {json.loads(line)["name"] for line in plan.read_text().splitlines()}
    assert names == set(project.finished("small")) and len(names) == 4


def test_help_lists_the_exit_codes(bundled: tuple[Project, Path]) -> None:
    result = run(bundled[1], "--help")
    assert result.returncode == 0 and "3: the runs of a build were skipped" in result.stdout


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
    for home, yaml, python in (("a", YAML, MODEL), ("b", "implementation: mine.py\n", KERNEL)):
        (tmp_path / home).mkdir()
        (tmp_path / home / "mine.yaml").write_text(yaml)
        (tmp_path / home / "mine.py").write_text(python)
    grid = f"model={tmp_path}/a/mine.yaml rnn={tmp_path}/b/mine.yaml device=cpu_1 dataset=digits"
    (project.conf / "experiment/mine.yaml").write_text(f"grids: ['{grid}']\n")
    bundle(project, "mine", folder)
    originals = [tmp_path / home / "mine.py" for home in "ab"]
    for file in originals:
        file.rename(file.with_suffix(".gone"))
    result = run(folder)
    assert result.returncode == 0 and "in phase" not in result.stdout, result.stdout
    (record,) = restored(project, folder)
    assert record.verdict.status != "void", record.verdict
    assert len(record.epochs) == 2
    config = record.run.config
    assert config["rnn"]["implementation"] == str(originals[1]), "the planned identity is kept"
    (path,) = project.folder.glob("results/*/mine/certificates/*.json")
    assert json.loads(path.read_text())["implementations"]["mine"]["status"] == "certified"


REFUSED = """
from rnnworker.recurrent.cells import from_canonical, to_canonical

def make(keras, cell, units, options):
    class Mine(keras.layers.LSTM):
        def call(self, sequences, initial_state=None, mask=None, training=False):
            raise RuntimeError("cuDNN error: CUDNN_STATUS_NOT_SUPPORTED")

    return Mine(units, use_cudnn=False, **options)
"""


def test_a_run_that_its_library_refuses_is_void_with_that_reason_and_the_next_one_starts(
    tmp_path: Path,
) -> None:
    """As bfloat16 on torch, which cuDNN may refuse while TF32 is off."""
    project, folder = make_project(tmp_path / "project"), tmp_path / "bundle"
    (tmp_path / "mine.py").write_text(REFUSED)
    (tmp_path / "mine.yaml").write_text("implementation: mine.py\n")
    options = "device=cpu_1 measure.turns=false"
    grid = f"model=digits_rnn model.units=4 model.epochs=1 rnn={tmp_path}/mine.yaml {options}"
    after = f"model=fake build=fake rnn=fake_fast {options}"
    (project.conf / "experiment/mine.yaml").write_text(f"grids: ['{grid}', '{after}']\n")
    bundle(project, "mine", folder)
    result = run(folder, "--no-certificates")
    assert result.returncode == 0, result.stdout + result.stderr
    records = {record.run.choices["rnn"]: record for record in restored(project, folder)}
    assert records["fake_fast"].verdict.status != "void"
    refused = records["mine"].verdict
    assert refused.status == "void"
    assert "CUDNN_STATUS_NOT_SUPPORTED" in refused.reasons[0].text


def test_a_build_whose_framework_is_missing_or_broken_is_skipped_alone(tmp_path: Path) -> None:
    project = make_project(tmp_path / "home")
    (project.conf / "build/lacking.yaml").write_text(
        "framework: keras3_torch\npython: python3\nenvironment: {}\n"
    )
    (project.conf / "experiment/two.yaml").write_text(
        "title: x\ngrids:\n"
        "- model=digits_rnn rnn=keras build=lacking model.epochs=1 repeat=0,1\n"
        "- model=fake rnn=fake_fast build=fake\n"
    )
    folder = bundle(project, "two", tmp_path / "bundle")
    # This interpreter, with NumPy and without torch and Keras.
    python, site = tmp_path / "python", tmp_path / "site"
    site.mkdir()
    hidden = site / "sitecustomize.py"
    hidden.write_text("import sys; sys.modules.update(torch=None, keras=None)")
    python.write_text(f'#!/bin/sh\nPYTHONPATH={site} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    arguments = ("--python", f"lacking={python}", "--no-certificates")
    for _ in range(2):  # a failed build is tried again
        result = run(folder, *arguments)
        assert result.returncode == 3, result.stdout + result.stderr
        first, *others = result.stdout.splitlines()
        assert first.startswith(f"build lacking cannot run: {python} has no torch and no keras;")
        assert "--python lacking=PATH" in first
        assert not any("lacking" in line for line in others), result.stdout
        assert len(outcomes(folder, "fake*")) == 1
        assert not outcomes(folder, "*lacking*")
    skipped = json.loads((folder / "out/skipped.json").read_text())
    assert len(skipped) == 2 and "has no torch" in next(iter(skipped.values()))
    absent = run(folder, "--python", "lacking=/no/such/python", "--no-certificates")
    assert absent.returncode == 3 and "/no/such/python cannot be started" in absent.stdout

    hidden.unlink()
    for name in ("torch", "keras"):
        (site / f"{name}.py").write_text("raise OSError('libcudart is not here')")
    outcomes(folder, "fake*")[0].unlink()  # its run is done although the other build fails
    broken = run(folder, *arguments)
    assert broken.returncode == 3, broken.stdout + broken.stderr
    assert broken.stdout.count("build lacking cannot run") == 1
    assert "in phase import: OSError: libcudart is not here" in broken.stdout
    assert len(outcomes(folder, "*lacking*")) == len(outcomes(folder, "fake*")) == 1
