"""Classes that Keras does not have are no cells of ours, however they look; what a file does not
say is stated or said; the state of a training is no layer."""

from __future__ import annotations

import io
import json
import os
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from asking import ask
from test_weights_torch import stack
from torch_like import Tensor, save, tensors

from rnnweights.command import main
from rnnweights.layer_tree import Node, nodes
from rnnweights.reading import read
from rnnworker.recurrent import cudnn_layout


def models() -> dict[str, Any]:
    """Models of Keras 3 with cells of its own and others by name."""
    import keras

    os.environ.pop("TF2_BEHAVIOR", None)
    layers = keras.layers

    class LeakyCell(layers.SimpleRNNCell):
        def call(self, sequence: Any, states: Any, training: Any = False) -> Any:
            output, _ = super().call(sequence, states, training)
            leaky = 0.3 * output + 0.7 * states[0]
            return leaky, [leaky]

    class LSTMCell(layers.LSTMCell):
        pass

    class PeepholeCell(layers.LSTMCell):
        def build(self, shape: Any) -> None:
            super().build(shape)
            self.peephole = self.add_weight(shape=(self.units,), name="peephole")

    def own_function(x: Any) -> Any:
        return x

    with keras.utils.custom_object_scope({"LeakyCell": LeakyCell, "PeepholeCell": PeepholeCell}):
        parts = {
            "peepholes": [layers.RNN(PeepholeCell(4))],
            "peepholes_in_both": [layers.Bidirectional(layers.RNN(PeepholeCell(4)))],
            "forward": [
                layers.LSTM(4, name="forward", return_sequences=True),
                layers.LSTM(4, name="vars"),
            ],
            "backwards": [layers.LSTM(4, go_backwards=True, activation=own_function)],
            "merged": [layers.Bidirectional(layers.GRU(4), merge_mode="sum")],
            "no_bias": [layers.GRU(4, use_bias=False)],
            "cell": [layers.RNN(LeakyCell(4))],
            "directions": [layers.Bidirectional(layers.RNN(LeakyCell(4)))],
            "stack": [layers.RNN([layers.SimpleRNNCell(4), LeakyCell(4)])],
            "beside": [layers.LSTM(4, return_sequences=True), layers.RNN(LeakyCell(4))],
            "same": [layers.RNN(LSTMCell(4))],
            "own": [layers.RNN(layers.LSTMCell(4))],
            "named": [layers.RNN(layers.LSTMCell(4, name="mine"))],
            "renamed": [layers.Bidirectional(layers.LSTM(4, name="b"), name="both")],
        }
        built = {}
        for name, own in parts.items():
            built[name] = keras.Sequential([keras.Input((6, 3)), *own])
    return built


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("strangers")
    for name, model in models().items():
        model.save(folder / f"{name}.keras")
        model.save(folder / f"{name}.h5")
        model.save_weights(folder / f"{name}.weights.h5")
    return folder


def converted(
    source: Path, target: Path, capsys: pytest.CaptureFixture[str], *options: str
) -> tuple[int, str]:
    command = [str(source), "--to", "canonical", "-o", str(target), "--force"]
    code = main([*command, *options])
    out, error = capsys.readouterr()
    return code, error if code else out


FORMATS = [".keras", ".h5", ".weights.h5"]


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("name", ["cell", "directions", "stack", "beside", "same"])
def test_a_class_that_the_file_names_and_keras_lacks_is_no_cell_of_ours(
    name: str, suffix: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = converted(folder / f"{name}{suffix}", tmp_path / "x.npz", capsys)
    if (name, suffix) in [("same", ".weights.h5"), ("same", ".h5")]:
        # The names are Keras's: nothing tells them apart in .weights.h5.
        assert code == (1 if suffix == ".h5" else 0)
        return
    assert code == 1 and not (tmp_path / "x.npz").exists()
    assert re.search(r"LeakyCell|leaky_cell|LSTMCell of ", said)
    assert "--layout keras.LSTM" in said
    options = ("--layout", "keras")
    code, said = converted(folder / f"{name}{suffix}", tmp_path / "x.npz", capsys, *options)
    # The names in an .h5 file do not say which cell of a stack is which.
    assert code == ((name, suffix) == ("stack", ".h5")), said


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("name", ["own", "named", "renamed"])
def test_kerass_own_cells_are_converted_and_an_unknown_class_is_said(
    name: str, suffix: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = converted(folder / f"{name}{suffix}", tmp_path / "x.npz", capsys)
    assert code == 0, said
    assert ("the class LSTM" in said) == (
        (name, suffix) in [("named", ".weights.h5"), ("renamed", ".weights.h5")]
    )
    assert ("activation=tanh" in said) == (suffix == ".weights.h5")
    if name == "renamed":
        names = {array.scope for array in read(tmp_path / "x.npz", lambda *_: None).arrays}
        assert names == {"both/forward", "both/backward"}


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("name", ["peepholes", "peepholes_in_both"])
def test_a_cell_with_arrays_that_kerass_lack_is_refused(
    name: str, suffix: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = converted(folder / f"{name}{suffix}", tmp_path / "x.npz", capsys)
    assert code == 1 and not (tmp_path / "x.npz").exists()
    assert re.search(r"has (peephole|var_3) besides its kernels", said)
    assert "train with one of Keras's" in said


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_layer_that_is_called_like_a_direction_or_a_group_is_none(
    suffix: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = converted(folder / f"forward{suffix}", tmp_path / "x.npz", capsys)
    assert code == 0, said
    assert "forward: LSTM of 4 units" in said and "vars: LSTM of 4 units" in said


@pytest.mark.parametrize("suffix", [".keras", ".h5"])
@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("backwards", "it runs backward in time (go_backwards=True)"),
        ("backwards", "activation=own_function (a function or layer of its own)"),
        ("merged", "its directions are merged by sum"),
    ],
)
def test_what_arrays_alone_do_not_say_is_said(
    name: str,
    line: str,
    suffix: str,
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, said = converted(folder / f"{name}{suffix}", tmp_path / "x.npz", capsys)
    assert code == 0 and line in said


def test_where_a_gru_without_bias_applies_the_reset_gate_is_assumed_or_refused(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Weights alone do not say it: the GRU of Keras 3 resets after the product by default."""
    source = folder / "no_bias.weights.h5"
    code, said = converted(source, tmp_path / "x.npz", capsys)
    assert code == 0 and "does not say it: reset_after=False" in said
    assert main([str(source), "--to", "torch", "-o", str(tmp_path / "y.npz")]) == 1
    assert "does not say whether the GRU has reset_after=True" in capsys.readouterr().err
    code, said = converted(folder / "no_bias.keras", tmp_path / "z.npz", capsys)
    assert code == 0 and "GRU of 4 units, reset_after, no bias" in said and "assumed" not in said


def test_an_archive_is_not_taken_for_the_hdf5_file_in_it(folder: Path, tmp_path: Path) -> None:
    """HDF5 may begin at byte 512, 1024, … of a file."""
    with zipfile.ZipFile(folder / "own.keras") as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    weights = files.pop("model.weights.h5")
    for size in range(0, 600):
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w") as archive:
            archive.writestr("padding", b" " * size)
            archive.writestr("model.weights.h5", weights)
            for name, data in files.items():
                archive.writestr(name, data)
        if content.getvalue()[512:516] == b"\x89HDF":
            break
    (tmp_path / "x.keras").write_bytes(content.getvalue())
    assert h5py.is_hdf5(tmp_path / "x.keras")
    assert read(tmp_path / "x.keras", lambda *_: None).kind == ".keras"


def weights_alone(path: Path, scope: str, below: Mapping[str, int]) -> Path:
    """An ``.h5`` file of Keras 2 without a configuration, with the arrays of an LSTM."""
    layer = scope.partition("/")[0]
    shapes: dict[str, Any] = {
        "kernel": (3, 16),
        "recurrent_kernel": (4, 16),
        "bias": (16,),
        **below,
    }
    with h5py.File(path, "w") as file:
        file.attrs["layer_names"] = np.array([layer.encode()])
        names = [f"{scope}/{name}:0" for name in shapes]
        group = file.create_group(layer)
        group.attrs["weight_names"] = np.array([name.encode() for name in names])
        for name, shape in zip(names, shapes.values(), strict=True):
            group[name] = np.ones(shape, "f4")
    return path


@pytest.mark.parametrize(
    ("scope", "below", "said"),
    [
        ("lstm/lstm_cell", {}, ""),
        ("lstm_3/lstm_cell_17", {}, ""),
        ("encoder/lstm_cell", {}, "the class LSTM"),
        ("rnn/mine", {}, "the class LSTM"),
        ("rnn/gated_lstm_cell", {}, "called after the class of gated_lstm_cell"),
        ("rnn/cell", {}, "called after the class of cell"),
        ("rnn/lstm_cell", {"norm/gamma": 16}, "has rnn/.*norm/gamma below its kernels"),
        ("rnn/lstm_cell", {"peephole": 4}, "has peephole besides its kernels"),
        ("lstm/lstm_cell", {"seed_generator/state": 2}, ""),
    ],
)
def test_names_of_weights_alone_say_the_class_or_do_not(
    scope: str,
    below: Mapping[str, int],
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source = weights_alone(tmp_path / "x.h5", scope, below)
    code, out = converted(source, tmp_path / "y.npz", capsys)
    assert code == bool(re.search("called after|has ", said))
    assert re.search(said, out)
    assert ("the class" in out) == ("the class" in said)


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--recurrent-activation", "sigmoid"], 0, "lstm: assumed, .* activation=tanh"),
        (["--recurrent-activation", "sigmoid", "--activation", "tanh"], 0, "activation=tanh as st"),
        (
            ["--recurrent-activation", "sigmoid", "--activation", "relu"],
            1,
            "it has activation=relu",
        ),
        (["--activation", "tanh"], 1, "state --recurrent-activation sigmoid and --activation tanh"),
    ],
)
def test_cudnn_layers_are_asked_for_or_say_both_activations(
    options: list[str],
    code: int,
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source = weights_alone(tmp_path / "x.h5", "lstm/lstm_cell", {})
    command = [str(source), "--to", "cudnn", "-o", str(tmp_path / "y.npz")]
    assert main([*command, *options]) == code
    printed = capsys.readouterr()
    assert re.search(said, printed.err if code else printed.out)


@pytest.mark.parametrize(
    ("inputs", "code"), [([], 0), (["--inputs", "6"], 0), (["--inputs", "3"], 1)]
)
def test_a_buffer_says_the_inputs_that_it_implies(
    inputs: list[str], code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    size = cudnn_layout.trained_size("gru", 6, 4, 2, 1)
    np.savez(tmp_path / "x.npz", **{"rnn/opaque_kernel": np.ones(size, "f4")})
    command = [str(tmp_path / "x.npz"), "--to", "keras", "-o", str(tmp_path / "y.npz")]
    assert main([*command, "--buffer", "gru,2,1,4", *inputs]) == code
    out, error = capsys.readouterr()
    if code:
        assert "the first layer has 6 inputs, not 3. Fix: correct --buffer or --inputs" in error
    else:
        assert "rnn_l0: GRU of 4 units, reset_after, 6 inputs, 1 direction, buffer → keras" in out


def test_the_state_of_a_training_is_no_layer(tmp_path: Path) -> None:
    """As in a checkpoint of Lightning: lists of optimizers, callbacks and loops with arrays."""
    optimizer = {
        "state": {0: tensors({"exp_avg": np.ones(3), "step": np.ones(1)})},
        "param_groups": [{"lr": 0.1}],
    }
    tree = {
        "state_dict": tensors(stack()),
        "optimizer_states": [optimizer],
        "callbacks": {"stopping": tensors({"best": np.ones(1)})},
        "lr_schedulers": [],
        "rng": Tensor(np.ones(5)),
        "ema_state_dict": tensors({"w": np.ones(3)}),
    }
    found = read(save(tmp_path / "x.ckpt", tree), ask)
    names = [*(f"state_dict.{name}" for name in stack()), "ema_state_dict.w"]
    assert [array.place for array in found.arrays] == names
    assert found.optimizer == 4


@pytest.mark.parametrize("key", ["net.body.{}", "{}"])
def test_a_state_dict_without_anything_beside_it_is_read(key: str, tmp_path: Path) -> None:
    arrays = {key.format(name): values for name, values in stack().items()}
    found = read(save(tmp_path / "x.pt", tensors(arrays)), ask)
    assert [array.place for array in found.arrays] == list(arrays) and found.optimizer == 0


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        (
            "x.pth",
            b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02",
            "a file of torch before 1.6",
        ),
        ("x.pdparams", b"\x80\x04\x95", r"layer.state_dict\(\)"),
        ("x.ckpt.data-00000-of-00001", b"\0\0", "x.ckpt.index is missing"),
        ("x.ckpt.meta", b"\n\x02", "x.ckpt.index is missing"),
    ],
)
def test_the_true_reason_is_named(
    name: str, content: bytes, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_bytes(content)
    code, said = converted(tmp_path / name, tmp_path / "y.npz", capsys)
    assert code == 1 and re.search(reason, said)


def test_a_projection_of_torch_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arrays = {"weight_ih_l0": (20, 3), "weight_hh_l0": (20, 2), "weight_hr_l0": (2, 5)}
    np.savez(tmp_path / "x.npz", **{name: np.ones(shape) for name, shape in arrays.items()})
    code, said = converted(tmp_path / "x.npz", tmp_path / "y.npz", capsys)
    assert code == 1 and "proj_size" in said


@pytest.mark.parametrize("hard", [False, True])
def test_a_model_of_tensorflow_js_has_the_functions_of_keras_2(
    hard: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = np.random.default_rng(0)
    shapes = {"kernel": (3, 16), "recurrent_kernel": (4, 16), "bias": (16,)}
    weights = []
    data = b""
    for part, shape in shapes.items():
        weights.append({"name": f"net/l/lstm_cell/{part}", "shape": shape, "dtype": "float32"})
        data += stream.normal(size=shape).astype("float32").tobytes()
    (tmp_path / "group1-shard1of2.bin").write_bytes(data[:100])
    (tmp_path / "group1-shard2of2.bin").write_bytes(data[100:])
    config = {
        "name": "l",
        "units": 4,
        "activation": "tanh",
        "recurrent_activation": "hard_sigmoid" if hard else "sigmoid",
    }
    layer = {"class_name": "LSTM", "config": config}
    model = {"class_name": "Sequential", "config": {"name": "net", "layers": [layer]}}
    paths = ["group1-shard1of2.bin", "group1-shard2of2.bin"]
    manifest = [{"paths": paths, "weights": weights}]
    source = tmp_path / "model.json"
    topology = {"model_config": model}
    source.write_text(json.dumps({"modelTopology": topology, "weightsManifest": manifest}))
    code, said = converted(source, tmp_path / "y.npz", capsys)
    assert code == 0 and "l: LSTM of 4 units" in said
    assert ("use it in Keras 2" in said) == hard
    with np.load(tmp_path / "y.npz") as file:
        together = b"".join(file[f"l/{part}"].tobytes() for part in shapes)
    assert together == data
    (tmp_path / "group1-shard2of2.bin").unlink()
    code, said = converted(source, tmp_path / "z.npz", capsys)
    assert code == 1 and "its shard group1-shard2of2.bin is missing" in said


@pytest.mark.parametrize(
    ("layer", "stranger"),
    [
        ({"class_name": "LSTM"}, ""),  # Keras 2 has no modules in .h5 files
        ({"class_name": "LSTM", "module": "keras.layers", "registered_name": None}, ""),
        ({"class_name": "LSTM", "module": "tensorflow.keras.layers"}, ""),
        (
            {"class_name": "LSTM", "module": None, "registered_name": "LSTM"},
            "LSTM of a module that",
        ),
        ({"class_name": "LSTM", "module": "mine", "registered_name": "LSTM"}, "LSTM of mine"),
        ({"class_name": "LSTM", "module": "kerasx", "registered_name": None}, "LSTM of kerasx"),
        ({"class_name": "LSTM", "module": "mine", "registered_name": "Custom>LSTM"}, "Custom>LSTM"),
        ({"class_name": "Custom>LSTM"}, "Custom>LSTM"),
        ({"class_name": "ConvLSTM2D", "module": "keras.layers"}, "ConvLSTM2D"),
    ],
)
def test_a_class_is_kerass_if_its_module_is(layer: dict[str, Any], stranger: str) -> None:
    assert Node({**layer, "config": {}}, "layers/lstm", ("lstm",)).stranger.startswith(stranger)
    assert bool(Node({**layer, "config": {}}, "layers/lstm", ("lstm",)).stranger) == bool(stranger)


def test_a_wrapper_that_keras_lacks_makes_its_layer_a_stranger() -> None:
    lstm = {"class_name": "LSTM", "config": {"name": "l"}}
    for kind, stranger in (("TimeDistributed", ""), ("WeightNormalization", "WeightNormalization")):
        wrapper = {"class_name": kind, "config": {"name": "w", "layer": lstm}}
        model = {"class_name": "Sequential", "config": {"name": "m", "layers": [wrapper]}}
        assert list(nodes(model))[-1].stranger == stranger


@pytest.mark.parametrize(("options", "checked"), [([], False), (["--layout", "keras"], True)])
def test_what_is_assumed_is_not_checked(
    options: list[str], checked: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = np.random.default_rng(0)
    shapes = {"kernel": (3, 16), "recurrent_kernel": (4, 16), "bias": (32,)}
    arrays = {f"l/{part}": stream.normal(size=shape) for part, shape in shapes.items()}
    np.savez(tmp_path / "x.npz", **arrays)
    code, said = converted(tmp_path / "x.npz", tmp_path / "y.npz", capsys, "--check", *options)
    assert code == 0
    assert ("check: not checked: l: the file does not say its layout" in said) != checked
    assert ("largest difference" in said) == checked


def test_a_wrapper_of_a_cell_that_names_alone_tell_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """TensorFlow's ResidualWrapper adds the inputs; its arrays have Keras's names."""
    parts = {"kernel": (5, 20), "recurrent_kernel": (5, 20), "bias": (20,)}
    for inside, code in (("residual_wrapper", 1), ("my_wrapper/lstm_cell", 0)):
        with h5py.File(tmp_path / "x.h5", "w") as file:
            file.attrs["layer_names"] = [b"rnn_8"]
            group = file.create_group("rnn_8")
            places = [f"rnn_8/{inside}/{part}:0" for part in parts]
            group.attrs["weight_names"] = [place.encode() for place in places]
            for place, shape in zip(places, parts.values(), strict=True):
                group[place] = np.ones(shape, "float32")
        found, said = converted(tmp_path / "x.h5", tmp_path / "y.npz", capsys)
        assert found == code, said
        if code:
            assert "after the class of residual_wrapper" in said


def test_a_file_in_which_keras_has_left_out_the_arrays_has_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with h5py.File(tmp_path / "x.weights.h5", "w") as file:
        file.create_group("layers/rnn/vars")
    code, said = converted(tmp_path / "x.weights.h5", tmp_path / "y.npz", capsys)
    assert code == 1 and "it has no arrays of layers" in said


def test_an_archive_says_where_a_gru_without_bias_applies_the_reset_gate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arrays = {"g/w_i": (5, 18), "g/w_h": (6, 18)}
    ones = {name: np.ones(shape, "float32") for name, shape in arrays.items()}
    np.savez(tmp_path / "x.npz", **ones)  # type: ignore[arg-type]
    options = ("--layout", "haiku.GRU")
    code, said = converted(tmp_path / "x.npz", tmp_path / "y.npz", capsys, *options)
    assert code == 0 and "no bias, reset_after=False" in said
    code, said = converted(tmp_path / "y.npz", tmp_path / "z.npz", capsys)
    assert code == 0 and "no bias, reset_after=False" in said and "reset_after=False;" not in said


def test_cells_of_a_stack_in_both_directions_keep_their_names_and_get_a_direction(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import keras
    from keras import layers

    stack = layers.RNN([layers.LSTMCell(3), layers.LSTMCell(2)])
    model = keras.Sequential([keras.Input((6, 3)), layers.Bidirectional(stack)])
    model.save(tmp_path / "x.h5")
    code, said = converted(tmp_path / "x.h5", tmp_path / "y.npz", capsys)
    assert code == 0
    for direction in ("forward", "backward"):
        assert re.search(rf"/{direction}/stacked_rnn_cells\S*/lstm_cell\S*: LSTM of 2", said)
