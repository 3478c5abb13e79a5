"""What the command says about activations and values."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np
import pytest

from rnnweights.cells import cells_of
from rnnweights.command import main
from rnnweights.onnx_files import read_onnx


def whole_lstm(path: Path, version: str, **settings: str) -> None:
    config = {"name": "lstm", "units": 5, "activation": "tanh", **settings}
    layer = {"class_name": "LSTM", "config": config}
    with h5py.File(path, "w") as file:
        model = {"class_name": "Sequential", "config": {"name": "m", "layers": [layer]}}
        file.attrs["model_config"] = json.dumps(model)
        weights = file.create_group("model_weights")
        weights.attrs["keras_version"] = version
        weights.attrs["layer_names"] = np.array([b"lstm"])
        names = ["lstm/kernel:0", "lstm/recurrent_kernel:0", "lstm/bias:0"]
        weights.create_group("lstm").attrs["weight_names"] = np.array(names, "S")
        for name, shape in zip(names, ((3, 20), (5, 20), (20,)), strict=True):
            weights["lstm"][name] = np.ones(shape, "f4")


@pytest.mark.parametrize(("version", "number"), [("2.15.0", 2), ("3.15.1", 3)])
@pytest.mark.parametrize("setting", ["recurrent_activation", "activation"])
def test_a_hard_sigmoid_is_said_to_be_of_the_keras_of_the_source(
    version: str, number: int, setting: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = tmp_path / "x.h5", tmp_path / "y.npz"
    whole_lstm(source, version, **{"recurrent_activation": "sigmoid", setting: "hard_sigmoid"})
    assert main([str(source), "--to", "canonical", "-o", str(target)]) == 0
    said = [line for line in capsys.readouterr().out.splitlines() if "hard_sigmoid is" in line]
    assert said == [
        "lstm: hard_sigmoid is 0.2 x + 0.5 in Keras 2 and x / 6 + 0.5 in Keras 3: use it in Keras "
        f"{number}, as the source"
    ]


def test_a_hard_sigmoid_of_keras_2_is_not_written_for_keras_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = tmp_path / "x.h5", tmp_path / "y.keras"
    whole_lstm(source, "2.15.0", recurrent_activation="hard_sigmoid")
    assert main([str(source), "--to", "keras", "-o", str(target)]) == 1
    assert "layer lstm has the hard_sigmoid of Keras 2" in capsys.readouterr().err
    assert not target.exists()


@pytest.mark.parametrize(("stated", "code"), [("sigmoid", 0), ("hard_sigmoid", 1), ("sigmoyd", 1)])
def test_a_stated_activation_that_the_source_contradicts_is_refused(
    stated: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole_lstm(tmp_path / "x.h5", "2.15.0", recurrent_activation="sigmoid")
    torch = {"weight_ih_l0": (20, 3), "weight_hh_l0": (20, 5)}
    np.savez(tmp_path / "x.npz", **{name: np.ones(shape) for name, shape in torch.items()})
    for source in (tmp_path / "x.h5", tmp_path / "x.npz"):
        command = [str(source), "--to", "canonical", "-o", str(tmp_path / "y.npz")]
        assert main([*command, "--force", "--recurrent-activation", stated]) == code
        error = capsys.readouterr().err
        assert ("has the recurrent activation sigmoid. Fix: leave" in error) == bool(code)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_values_that_are_not_finite_are_named_beside_the_cells(
    value: float, dtype: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shapes = {"kernel": (3, 20), "recurrent_kernel": (5, 20), "bias": (40,)}
    arrays = {f"lstm/{part}": np.ones(shape) for part, shape in shapes.items()}
    dense = np.array([1, value], dtype)
    np.savez(tmp_path / "x.npz", **arrays, **{"dense/bias": dense, "good/bias": np.ones(2)})
    target = tmp_path / "y.npz"
    assert main([str(tmp_path / "x.npz"), "--to", "keras", "-o", str(target)]) == 0
    said = [line for line in capsys.readouterr().out.splitlines() if "infinite" in line]
    assert said == ["dense/bias: copied, but has NaN or infinite values"]
    with np.load(target) as file:
        np.testing.assert_array_equal(file["dense/bias"], dense)


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_arrays_keep_the_activations_of_their_layers(
    suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, arrays = tmp_path / "x.h5", str(tmp_path / f"x{suffix}")
    whole_lstm(source, "3.15.1", activation="relu", recurrent_activation="hard_sigmoid")
    assert main([str(source), "--to", "keras", "-o", arrays]) == 0
    capsys.readouterr()
    assert main([arrays, "--to", "cudnn", "-o", str(tmp_path / "y.h5")]) == 1
    reason = "it has activation=relu, recurrent_activation=hard_sigmoid"
    assert reason in capsys.readouterr().err
    again = str(tmp_path / "again.safetensors")
    assert main([arrays, "--to", "keras", "-o", again, "--activation", "tanh"]) == 1
    assert "has the activation relu" in capsys.readouterr().err
    assert main([arrays, "--to", "keras", "-o", again]) == 0
    out = capsys.readouterr().out
    assert "activation=relu, recurrent_activation=hard_sigmoid" in out and "assumed" not in out
    assert main([again, "--to", "onnx", "-o", str(tmp_path / "y.onnx")]) == 0
    cell = cells_of(read_onnx((tmp_path / "y.onnx").read_bytes()))[0]
    assert cell.settings == {
        "activation": "relu",
        "recurrent_activation": "hard_sigmoid of Keras 3",
    }
