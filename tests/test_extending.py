"""What is added to the project by few files: a kernel, a build, a model, an axis. Runs that do not
use it keep their digests, so that nothing is measured again; with a new axis, every run has it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

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
AXIS = 'AXES = (\n    Axis("start", group=True),'
# What is added → overrides that use it, number of files allowed, file → content or replacement.
ADDED: dict[str, tuple[str, int, dict[str, str | tuple[str, str]]]] = {
    "kernel": (
        "rnn=mine",
        2,
        {
            "src/rnnworker/kernels/mine.py": KERNEL,
            "conf/rnn/mine.yaml": "implementation: mine\nkernels: [while]\n",
        },
    ),
    "build": ("build=mine", 1, {"conf/build/mine.yaml": "framework: keras3_tensorflow\n"}),
    "model": (
        "model=mine",
        2,
        {"src/rnnworker/models/mine.py": MODEL, "conf/model/mine.yaml": MODEL_YAML},
    ),
    "axis": (
        "start=mine,zero",
        4,
        {
            "src/rnnbench/axes.py": ("AXES = (", AXIS),
            "conf/config.yaml": ("  - cell: lstm", "  - cell: lstm\n  - start: zero"),
            "conf/start/zero.yaml": "value: 0.0\n",
            "conf/start/mine.yaml": "value: 1.0\n",
        },
    ),
}
# Prints the digests of the runs of `quick`, without overrides and with those of the command line.
SCRIPT = """
import json, sys
from pathlib import Path
from rnnbench.planning.planner import make_plan
quick = ("quick", [Path("conf")], Path())
plans = [make_plan(*quick, site="x", overrides=overrides) for overrides in ("", sys.argv[1])]
print(json.dumps([{name: run.digest for name, run in plan.runs.items()} for plan in plans]))
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    for name in ("src", "conf"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copyfile(ROOT / "data.dvc", folder / "data.dvc")
    return folder


def digests(project: Path, overrides: str = "") -> list[dict[str, Any]]:
    process = subprocess.run(
        [sys.executable, "-c", SCRIPT, overrides],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(project / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


@pytest.mark.parametrize("thing", ADDED)
def test_something_is_added_by_few_files(copy: Path, tmp_path: Path, thing: str) -> None:
    overrides, allowed, files = ADDED[thing]
    before, _ = digests(copy)
    project = shutil.copytree(copy, tmp_path / "project")
    for name, content in files.items():
        file = project / name
        if isinstance(content, tuple):
            old, new = content
            assert old in file.read_text()
            content = file.read_text().replace(old, new, 1)
        file.parent.mkdir(exist_ok=True)
        file.write_text(content)
    assert len(files) <= allowed
    same, added = digests(project, f"repeat=0 {overrides}")
    assert added and all("mine" in name or thing == "axis" for name in added)
    if thing == "axis":
        assert {name.partition("-")[0] for name in added} == {"mine", "zero"}
    else:
        assert same == before
