"""``conf/model``: each published workload composes and has the common keys."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from rnnbench.datasets.pins import pinned
from rnnbench.grid.expand import expand
from rnnbench.grid.experiment import load_experiment
from rnnbench.planning.planner import make_plan
from rnnworker import user_functions
from tests.grid.conftest import Expand

ROOT = Path(__file__).parents[2]
# The published batch size, epochs and optimizer of each workload.
PUBLISHED = {
    "mnist_mlp": (128, 20, "rmsprop"),
    "mnist_cnn": (128, 12, "adadelta"),
    "cifar10_cnn": (32, 20, "rmsprop"),
    "imdb_fasttext": (32, 5, "adam"),
    "imdb_bilstm": (32, 4, "adam"),
    "imdb_lstm": (32, 15, "adam"),
    "lstm_textgen": (128, 10, "rmsprop"),
    "mnist_rnn": (32, 3, "adam"),
    "shape_short": (64, 20, "adam"),
    "shape_long": (32, 20, "adam"),
    "adding": (64, 5, "adam"),
}
WITHOUT_RECURRENT_LAYER = {"mnist_mlp", "mnist_cnn", "cifar10_cnn", "imdb_fasttext"}
MAKE_THEIR_OWN_DATA = {"shape_short", "shape_long", "adding"}


@pytest.fixture
def configs(expanded: Expand) -> dict[str, dict]:
    points = expanded(f"model={','.join(PUBLISHED)}")
    assert all(point.skip is None for point in points)
    return {point.choices["model"]: dict(point.config) for point in points}


def test_they_have_the_published_settings(configs: dict[str, dict]) -> None:
    models = {name: config["model"] for name, config in configs.items()}
    settings = {
        name: (model["batch"], model["epochs"], model["optimizer"]["name"])
        for name, model in models.items()
    }
    assert settings == PUBLISHED
    assert configs["mnist_cnn"]["model"]["optimizer"]["learning_rate"] == 1.0
    assert configs["cifar10_cnn"]["model"]["optimizer"]["decay"] == 1e-6
    for name in ("shape_short", "shape_long"):
        model = configs[name]["model"]
        assert model["train_samples"] * model["epochs"] == 500 * model["batch"]


def test_each_selects_its_implementation_and_dataset(configs: dict[str, dict]) -> None:
    for name, config in configs.items():
        model = config["model"]
        assert model["recurrent"] is (name not in WITHOUT_RECURRENT_LAYER)
        assert (config["rnn"]["name"] == "none") is (name in WITHOUT_RECURRENT_LAYER)
        path = config["dataset"]["path"]
        assert (path is None) is (name in MAKE_THEIR_OWN_DATA)
        assert path is None or path in pinned(ROOT)


def test_each_has_the_common_keys(configs: dict[str, dict]) -> None:
    for name, config in configs.items():
        model = config["model"]
        keys = {"about", "source", "loss", "metrics", "train_samples", "val_samples"}
        if model["recurrent"]:
            keys |= {"units", "sequence", "recurrent_dropout"}
        assert keys <= set(model), name
        assert "learning_rate" in model["optimizer"], name
        for reference in (model["function"], *model["data"].values()):
            assert callable(user_functions.function(reference)), name


def test_the_small_runs_have_all_models_with_data(conf: list[Path]) -> None:
    points = expand(load_experiment("seeds_small", conf), conf)
    assert {point.choices["model"] for point in points} == set(PUBLISHED) - {"cifar10_cnn"}
    assert all(point.skip is None for point in points)


def test_every_dataset_with_a_path_is_pinned() -> None:
    pins = pinned(ROOT)
    for file in (ROOT / "conf" / "dataset").glob("*.yaml"):
        path = yaml.safe_load(file.read_text())["path"]
        assert path in (None, "???") or path in pins, file


def test_recurrent_dropout_excludes_imdb_lstm_from_cudnn(expanded: Expand) -> None:
    skips = {
        point.overrides.get("model.recurrent_dropout"): point.skip
        for point in expanded("model=imdb_lstm rnn=cudnn device=gpu model.recurrent_dropout=0.2,0")
    }
    assert skips == {None: "cuDNN has no recurrent dropout", 0.0: None}


MINE = """
def prepare(source, config):
    return source

def build(keras, recurrent, config):
    inputs = keras.layers.Input(shape=(8, 8))
    return keras.models.Model(inputs, keras.layers.Dense(10)(recurrent(32)(inputs)))
"""
MINE_YAML = """
function: mine.py:build
data: {prepare: mine.py:prepare}
batch: 32
epochs: 5
optimizer: {name: adam, learning_rate: 0.001}
loss: sparse_categorical_crossentropy
recurrent: true
"""


def test_a_user_supplied_model_on_the_command_line(conf: list[Path], tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "mine.yaml").write_text(MINE_YAML)
    overrides = f"model={tmp_path}/mine.yaml rnn=keras,unrolled device=cpu_1 repeat=0"
    plan = make_plan("quick", conf, ROOT, overrides=overrides)
    names = {"mine-lstm-keras-cpu_1-current-s0-r0", "mine-lstm-unrolled-cpu_1-current-s0-r0"}
    assert set(plan.runs) == names
    function = plan.runs["mine-lstm-keras-cpu_1-current-s0-r0"].config["model"]["function"]
    assert function == f"{tmp_path}/mine.py:build"
    assert plan.datasets == {"data/digits.npz": "digits"}
