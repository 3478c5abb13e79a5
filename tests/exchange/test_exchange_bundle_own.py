"""A bundle carries a user-supplied model and a user-supplied kernel."""

from __future__ import annotations

import json
from pathlib import Path

from rnnbench.records.store import read_record
from tests.conftest import make_project
from tests.exchange.bundles import bundle, run

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
