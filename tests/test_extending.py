"""A kernel, a build and a model are added by the files of `CHOICES`, an axis by those of `AXIS` and
its choices. Runs that do not use what was added keep their digests, so that nothing is measured
again; with a new axis, every run has it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

KERNEL = """
def make(keras, cell, units, options): ...
def to_canonical(layer, values=None): ...
def from_canonical(layer, arrays): ...
"""
MODEL = """
def prepare(source, config): ...
def build(keras, recurrent, config): ...
"""
MODEL_YAML = """
function: rnnworker.models.mine:build
data: {prepare: rnnworker.models.mine:prepare}
batch: 32
epochs: 1
optimizer: {name: adam, learning_rate: 0.001}
loss: sparse_categorical_crossentropy
recurrent: true
"""
# File → content.
CHOICES = {
    "src/rnnworker/kernels/mine.py": KERNEL,
    "conf/rnn/mine.yaml": "implementation: mine\nkernels: [while]\n",
    "conf/build/mine.yaml": "framework: keras3_tensorflow\n",
    "src/rnnworker/models/mine.py": MODEL,
    "conf/model/mine.yaml": MODEL_YAML,
}
# File → what is replaced in it, and by what.
AXIS = {
    "src/rnnbench/axes.py": ("AXES = (", 'AXES = (\n    Axis("start", group=True),'),
    "conf/config.yaml": ("  - cell: lstm", "  - cell: lstm\n  - start: zero"),
}
# Prints the digests of the runs of `quick`, for each argument that has overrides.
SCRIPT = """
import json, sys
from pathlib import Path
from rnnbench.planning.planner import make_plan
quick = ("quick", [Path("conf")], Path())
plans = [make_plan(*quick, site="x", overrides=overrides) for overrides in sys.argv[1:]]
print(json.dumps([{name: run.digest for name, run in plan.runs.items()} for plan in plans]))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("src", "conf"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copyfile(ROOT / "data.dvc", tmp_path / "data.dvc")
    return tmp_path


def digests(project: Path, *overrides: str) -> list[dict[str, str]]:
    process = subprocess.run(
        [sys.executable, "-c", SCRIPT, *overrides],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(project / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


def test_a_kernel_a_build_and_a_model_leave_the_digests_of_other_runs(project: Path) -> None:
    (before,) = digests(project, "")
    for name, content in CHOICES.items():
        (project / name).write_text(content)
    axes = ("rnn", "build", "model")
    same, *added = digests(project, "", *(f"repeat=0 {axis}=mine" for axis in axes))
    assert same == before
    for runs in added:
        assert runs and all("mine" in name for name in runs)


def test_every_run_has_a_new_axis(project: Path) -> None:
    for name, (old, new) in AXIS.items():
        file = project / name
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new, 1))
    (project / "conf/start").mkdir()
    for name, value in (("zero", 0.0), ("mine", 1.0)):
        (project / f"conf/start/{name}.yaml").write_text(f"value: {value}\n")
    default, added = digests(project, "repeat=0", "repeat=0 start=mine,zero")
    assert {name.partition("-")[0] for name in default} == {"zero"}
    assert {name.partition("-")[0] for name in added} == {"mine", "zero"}
