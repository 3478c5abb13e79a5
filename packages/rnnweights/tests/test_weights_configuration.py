"""The configuration of a model decides about its cells: each is found, and what it says is used."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from asking import converted

from rnnweights.checkpoint import Refusal
from rnnweights.configuration import convert_classes
from rnnweights.conversion import Stated
from rnnweights.reading import read

SIGMOID = {"activation": "tanh", "recurrent_activation": "sigmoid"}
RELU = {**SIGMOID, "activation": "relu"}


def layer(kind: str, name: str, **settings: Any) -> dict[str, Any]:
    return {"class_name": kind, "config": {"name": name, **settings}}


def sequential(*layers: dict[str, Any], name: str = "model", **settings: Any) -> dict[str, Any]:
    return layer("Sequential", name, layers=list(layers), **settings)


def whole(model: Any, scopes: Sequence[tuple[str, int]], path: Path) -> Path:
    """An ``.h5`` file of a model whose first layer has the arrays of LSTMs: scopes and units."""
    first = model["config"]["layers"][0]["config"]["name"]
    with h5py.File(path, "w") as file:
        file.attrs["model_config"] = json.dumps(model)
        file.attrs["keras_version"] = "2.15.0"
        weights = file.create_group("model_weights")
        weights.attrs["layer_names"] = np.array([first.encode()])
        group, names = weights.create_group(first), []
        for scope, units in scopes:
            shapes = {
                "kernel": (3, 4 * units),
                "recurrent_kernel": (units, 4 * units),
                "bias": (4 * units,),
            }
            for part, shape in shapes.items():
                names.append(f"{scope}/{part}:0")
                group[names[-1]] = np.ones(shape, "f4")
        group.attrs["weight_names"] = np.array([name.encode() for name in names])
    return path


def refusal(source: Path) -> str:
    with pytest.raises(Refusal) as error:
        converted(source, "cudnn", ".h5", Stated("sigmoid"))
    return f"{error.value.what} Fix: {error.value.remedy}"


@pytest.mark.parametrize("first_is_relu", [True, False])
def test_stacked_cells_have_the_settings_of_their_own_names(
    first_is_relu: bool, tmp_path: Path
) -> None:
    """Keras numbers the cells of a session, so the first is not called lstm_cell."""
    settings = (RELU, SIGMOID) if first_is_relu else (SIGMOID, RELU)
    cells = [
        layer("LSTMCell", f"lstm_cell_{number}", units=4, **each)
        for number, each in enumerate(settings, start=1)
    ]
    model = sequential(layer("RNN", "rnn", cell=layer("StackedRNNCells", "stacked", cells=cells)))
    scopes = [(f"rnn/stacked_rnn_cells/lstm_cell_{number}", 4) for number in (1, 2)]
    source = whole(model, scopes, tmp_path / "x.h5")
    items = converted(source, "keras", ".h5", Stated()).items
    assert [item.settings["activation"] for item in items] == [  # type: ignore[union-attr, index]
        each["activation"] for each in settings
    ]


@pytest.mark.parametrize(
    "rnn",
    [
        layer("RNN", "rnn", cell=layer("LSTMCell", "lstm_cell", units=4, **SIGMOID)),
        layer("LSTM", "rnn", units=4, **SIGMOID),
    ],
)
def test_a_cell_of_an_rnn_layer_has_no_cudnn_layer(rnn: dict[str, Any], tmp_path: Path) -> None:
    source = whole(sequential(rnn), [("rnn/lstm_cell", 4)], tmp_path / "x.h5")
    if rnn["class_name"] == "RNN":
        assert "layer rnn: CuDNN layers cannot hold it: it is a cell of an RNN" in refusal(source)
    else:
        converted(source, "cudnn", ".h5", Stated())


def test_cells_without_a_configuration_are_known_by_their_place(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.weights.h5", "w") as file:
        for number, shape in enumerate([(3, 16), (4, 16), (16,)]):
            file[f"layers/rnn/cell/cells/lstm_cell/vars/{number}"] = np.ones(shape, "f4")
    with pytest.raises(Refusal, match="it is a cell of an RNN layer"):
        converted(tmp_path / "x.weights.h5", "cudnn", ".npz", Stated("sigmoid"))


def test_names_that_were_counted_on_do_not_move_settings_to_another_layer(tmp_path: Path) -> None:
    """TensorFlow 1 names the variables of a model that it has loaded a second time anew."""
    inner = sequential(
        layer("LSTM", "lstm", units=4, **RELU), layer("LSTM", "lstm_1", units=4, **SIGMOID),
        name="inner",
    )  # fmt: skip
    source = whole(sequential(inner), [("lstm_1", 4), ("lstm_1_1", 4)], tmp_path / "x.h5")
    assert "layer inner/lstm_1: " in refusal(source)
    assert "activation=relu" in refusal(source)


def test_layers_that_are_not_trained_come_last_in_the_file(tmp_path: Path) -> None:
    inner = sequential(
        layer("LSTM", "a", units=4, trainable=False, **RELU),
        layer("LSTM", "b", units=4, trainable=True, **SIGMOID),
        name="inner",
    )
    source = whole(sequential(inner), [("x", 4), ("y", 4)], tmp_path / "x.h5")
    items = converted(source, "keras", ".h5", Stated()).items
    assert [item.settings["activation"] for item in items] == ["tanh", "relu"]  # type: ignore[union-attr, index]


def test_equal_names_in_nested_models_are_told_apart(tmp_path: Path) -> None:
    models = [
        sequential(layer("LSTM", "rnn", units=units, **settings), name=name)
        for name, units, settings in (("a", 4, RELU), ("b", 4, SIGMOID))
    ]
    source = whole(
        sequential(sequential(*models, name="inner")),
        [("inner/b/rnn", 4), ("inner/a/rnn", 4)],
        tmp_path / "x.h5",
    )
    items = converted(source, "keras", ".h5", Stated()).items
    assert [item.settings["activation"] for item in items] == ["tanh", "relu"]  # type: ignore[union-attr, index]


def test_a_gru_without_bias_is_not_said_to_need_an_activation(tmp_path: Path) -> None:
    arrays = {"g/kernel": np.ones((3, 12)), "g/recurrent_kernel": np.ones((4, 12))}
    np.savez(tmp_path / "x.npz", **arrays)
    with pytest.raises(Refusal, match="no bias") as error:
        converted(tmp_path / "x.npz", "cudnn", ".h5", Stated())
    assert "--recurrent-activation" not in error.value.remedy


def test_a_configuration_without_the_recurrent_activation_leaves_it_to_the_user(
    tmp_path: Path,
) -> None:
    model = sequential(layer("LSTM", "a", units=4, activation="tanh"))
    source = whole(model, [("a", 4)], tmp_path / "x.h5")
    with pytest.raises(Refusal, match="its activations are not in the file") as error:
        converted(source, "cudnn", ".h5", Stated())
    assert error.value.remedy.startswith("state --recurrent-activation sigmoid")
    converted(source, "cudnn", ".h5", Stated("sigmoid"))


def test_what_keras_3_does_not_read_is_changed_in_every_layer() -> None:
    model = sequential(
        layer("ConvLSTM2D", "c", time_major=False),
        layer("RNN", "r", time_major=False, cell=layer("LSTMCell", "l", units=4)),
        layer("BatchNormalization", "b", axis=[2]),
    )
    convert_classes(model, "keras")
    configs = [each["config"] for each in model["config"]["layers"]]
    assert not any("time_major" in config for config in configs)
    assert configs[2]["axis"] == 2
    with pytest.raises(Refusal, match="layer c has time_major=True"):
        convert_classes(sequential(layer("ConvLSTM2D", "c", time_major=True)), "keras")


def test_an_early_sequential_model_in_a_model_is_read(tmp_path: Path) -> None:
    """Keras 2.2.2 and before have a list of layers, without the model's name."""
    inner = {"class_name": "Sequential", "config": [layer("LSTM", "lstm", units=4, **SIGMOID)]}
    model = sequential({**inner, "name": "inner"})
    model["config"]["layers"][0]["name"] = "inner"
    with h5py.File(
        whole(sequential(layer("LSTM", "inner")), [("lstm", 4)], tmp_path / "x.h5"), "a"
    ) as file:
        file.attrs["model_config"] = json.dumps(model)
    assert len(read(tmp_path / "x.h5", lambda *_: None).arrays) == 3
