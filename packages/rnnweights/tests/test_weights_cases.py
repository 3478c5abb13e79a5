"""Checkpoints as people reported them: each is converted and right, or refused with the reason."""

from __future__ import annotations

import re
from pathlib import Path

import h5py
import numpy as np
import pytest
from asking import ask

from rnnweights.command import main
from rnnweights.reading import read
from tests.conftest import SHARED

CASES = SHARED / "cases" / "weights"
LAYOUTS = SHARED / "cases" / "layouts"
ROUND_5 = SHARED / "cases" / "weights5"
pytestmark = pytest.mark.skipif(not CASES.is_dir(), reason=f"there is no {CASES}")
# Case, layout, format of the target → the first line that is printed.
CONVERTED = {
    ("nested.keras", "keras", ".keras"): "8 arrays: 0 converted, 8 copied",
    ("nested.keras", "canonical", ".npz"): "8 arrays: 0 converted, 8 copied",
    ("nested.keras", "cudnn", ".h5"): "8 arrays: 6 converted (2 LSTM of 4 units), 2 copied",
    ("timedistributed_dense.keras", "keras", ".weights.h5"): "5 arrays: 0 converted, 5 copied",
    ("timedistributed_dense.keras", "canonical", ".npz"): "5 arrays: 0 converted, 5 copied",
    ("attention.keras", "canonical", ".safetensors"): "18 arrays: 0 converted, 18 copied",
    ("attention.keras", "cudnn", ".h5"): "18 arrays: 6 converted (1 LSTM of 4 units, 1 GRU of 3",
    ("attention.h5", "canonical", ".npz"): "18 arrays: 0 converted, 18 copied",
    ("attention.h5", "keras", ".keras"): "18 arrays: 0 converted, 18 copied",
    ("tf213.keras", "keras", ".keras"): "5 arrays: 0 converted, 5 copied",
    ("tf213.keras", "cudnn", ".h5"): "5 arrays: 3 converted (1 LSTM of 6 units), 2 copied",
    ("lstm.pt", "keras", ".h5"): "16 arrays: 16 converted (4 LSTM of 6 units), 0 copied",
    ("tf212_is_hdf5.keras", "keras", ".keras"): "5 arrays: 0 converted, 5 copied",
    ("cudnnlstm_tf215.keras", "keras", ".keras"): "5 arrays: 3 converted (1 LSTM of 6 units)",
    ("cudnnlstm_tf215.keras", "canonical", ".npz"): "5 arrays: 3 converted (1 LSTM of 6 units)",
    ("cudnngru_tf215.keras", "keras", ".h5"): "5 arrays: 3 converted (1 GRU of 6 units)",
    ("nested_cudnn_k224.h5", "canonical", ".npz"): "18 arrays: 12 converted",
    ("nested_cudnn_k224.h5", "keras", ".h5"): "18 arrays: 12 converted",
    ("cudnngru_alphabetical.npz", "keras", ".h5"): "3 arrays: 3 converted (1 GRU of 6 units)",
    ("torch_state.npz", "keras", ".h5"): "16 arrays: 16 converted (4 LSTM of 6 units)",
    ("lstm.safetensors", "canonical", ".npz"): "16 arrays: 16 converted (4 LSTM of 6 units)",
    ("gru.ckpt", "keras", ".h5"): "3 arrays: 3 converted (1 GRU of 6 units), 0 copied",
    ("gru.ckpt.index", "canonical", ".npz"): "3 arrays: 3 converted (1 GRU of 6 units)",
    ("sub.weights.h5", "keras", ".weights.h5"): "21 arrays: 15 converted",
    ("subclassed.keras", "canonical", ".npz"): "5 arrays: 0 converted, 5 copied",
    ("subclassed_cudnn_17623.h5", "keras", ".h5"): "21 arrays: 15 converted",
    ("layer_named_kernel.h5", "cudnn", ".h5"): "4 arrays: 2 converted (1 LSTM of 4 units)",
    ("gru_before_nobias.keras", "keras", ".keras"): "4 arrays: 0 converted, 4 copied",
}
REFUSED = {
    ("gru_before_nobias.h5", "cudnn", ".h5"): r"layer gru_5: .*reset_after=False",
    ("gru_before_nobias.keras", "cudnn", ".h5"): r"layer gru_5: .*reset_after=False",
    ("units_rec.h5", "keras", ".h5"): r"layer l: .*recurrent_kernel \(7, 24\).* are not the arrays",
    ("units_kernel.h5", "canonical", ".npz"): r"layer l: kernel \(5, 20\).* are not the arrays",
    ("bias2x24.h5", "keras", ".h5"): r"layer l: .*LSTM has no bias of \(2, 24\)",
    ("nan.h5", "keras", ".h5"): r"layer l: kernel has NaN",
    ("nan.h5", "cudnn", ".h5"): r"layer l: kernel has NaN",
    ("claim2g.h5", "keras", ".h5"): r"should have 2,148,693,120 bytes, but the file has only 8,432",
    ("keras1.h5", "keras", ".h5"): r"a file of Keras 1 .*lstm_1_W_i",
    ("sub.weights.h5", "keras", ".h5"): r"no configuration of a model, which .h5 needs",
    ("sub.weights.h5", "cudnn", ".h5"): r"the order of its 4 layers .* is not in the file",
    ("sub.weights.h5", "keras", ".keras"): r"no configuration of a model, which .keras needs",
    ("nested.keras", "cudnn", ".keras"): r"Keras 3, which writes .keras, has no CuDNN layers",
    ("nested.keras", "canonical", ".h5"): r".h5 files have Keras's names",
    ("subclassed.keras", "keras", ".h5"): r"Keras 3.* cannot load and save .*'Sub'",
    ("subclassed.keras", "cudnn", ".npz"): r"layer lstm_26: .*activations are not in the file",
    ("cudnngru_alphabetical.npz", "keras", ".keras"): r"no configuration of a model",
}  # fmt: skip


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize(("case", "layout", "suffix"), CONVERTED)
def test_a_case_is_converted(
    case: str, layout: str, suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / f"x{suffix}"
    command = [str(CASES / case), "--to", layout, "-o", str(target)]
    assert main(command) == 0
    out = capsys.readouterr().out
    assert out.startswith(CONVERTED[case, layout, suffix])
    before, after = (read(path, ask).arrays for path in (CASES / case, target))
    # What is no cell, bit by bit; and no array is lost: torch has two biases for one of Keras's.
    copied = int(re.search(r"(\d+) copied", out)[1])  # type: ignore[index]
    had, has = ([array.values.tobytes() for array in each] for each in (before, after))
    assert sum(each in has for each in had) >= copied
    added = 1 if "layer_named_kernel" in case else 0
    assert len(after) == len(before) + added - (4 if "16 converted" in out else 0)
    assert len({array.name for array in after}) == len(after)


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize(("case", "layout", "suffix"), REFUSED)
def test_a_case_is_refused(
    case: str, layout: str, suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / f"x{suffix}"
    command = [str(CASES / case), "--to", layout, "-o", str(target)]
    assert main(command) == 1
    out, error = capsys.readouterr()
    assert out == "" and not target.exists()
    assert case in error and "Fix: " in error and re.search(REFUSED[case, layout, suffix], error)


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize(
    ("case", "suffix", "ran"),
    [
        ("cudnnlstm_tf215.keras", ".keras", "both models"),
        ("cudnngru_tf215.keras", ".keras", "both models"),
        ("tf213.keras", ".keras", "both models"),
        ("nested.keras", ".keras", "both models"),
        ("nested_cudnn_k224.h5", ".h5", "each of 4 recurrent cells"),
        ("sub.weights.h5", ".weights.h5", "each of 5 recurrent cells"),
        ("subclassed_cudnn_17623.h5", ".h5", "each of 5 recurrent cells"),
        ("torch_state.npz", ".h5", "each of 4 recurrent cells"),
        ("lstm.safetensors", ".npz", "each of 4 recurrent cells"),
        ("gru.ckpt", ".h5", "each of 1 recurrent cells"),
    ],
)
def test_the_outputs_are_checked(
    case: str, suffix: str, ran: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = str(tmp_path / f"x{suffix}")
    assert main([str(CASES / case), "--to", "keras", "-o", target, "--check"]) == 0
    out = capsys.readouterr().out
    assert float(re.search(rf"check: {ran}.* difference (\S+)", out)[1]) <= 1e-5  # type: ignore[index]


def test_a_new_bias_is_in_its_layer(tmp_path: Path) -> None:
    target = tmp_path / "x.h5"
    case = str(CASES / "layer_named_kernel.h5")
    assert main([case, "--to", "cudnn", "-o", str(target)]) == 0
    bias = read(target, ask).arrays[2]
    assert bias.name == "my_kernel_lstm/bias" and not np.any(bias.values)


# Layers of other libraries, and arrays of other frameworks under Keras's names. The file, the
# options, and what is printed: an error, or lines.
OF_OTHERS = [
    ("layer_norm_lstm_tfa.h5", [], 1, r"class Addons>LayerNormLSTMCell in the configuration"),
    ("layer_norm_lstm_tfa.weights_alone.h5", [], 1, r"has rnn_2/.*/kernel_norm/gamma below"),
    ("layer_norm_lstm_tfa.weights.h5", [], 1, r"has rnn/kernel_norm/var_0 below its kernels"),
    ("layer_norm_simple_rnn_tfa.weights.h5", [], 1, r"has rnn/layernorm/var_0 below its kernels"),
    ("layer_norm_simple_rnn_tfa.weights.h5", ["--layout", "keras"], 1, r"layernorm/var_0 below"),
    ("esn_tfa.h5", [], 1, r"class Addons>ESNCell in the configuration"),
    ("torch_rnn_relu.safetensors", [], 0, r"rnn_l0: assumed, .* does not say it: activation=tanh"),
    ("torch_rnn_relu.safetensors", ["--activation", "relu"], 0, r"activation=relu as stated"),
    ("haiku_lstm.npz", [], 1, r"named like those of haiku.LSTM. Fix: .* --layout haiku.LSTM"),
    ("haiku_lstm_renamed.npz", [], 0, r"assumed, .* gates in Keras's order i, f, c, o; activation"),
    ("dynet_lstm_renamed.npz", [], 0, r"assumed, .* gates in Keras's order i, f, c, o; activation"),
    ("haiku_gru_renamed.npz", [], 0, r"assumed, .* z, r, h, and h = z h \+ \(1 - z\) n;"),
    ("nnx_gru_renamed.npz", [], 0, r"assumed, .* z, r, h, and h = z h \+ \(1 - z\) n;"),
]


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize("layout", ["keras", "canonical"])
@pytest.mark.parametrize(("case", "options", "code", "said"), OF_OTHERS)
def test_a_layer_that_only_looks_like_kerass_is_refused_or_what_is_assumed_is_said(
    case: str,
    options: list[str],
    code: int,
    said: str,
    layout: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    target = tmp_path / "x.npz"
    command = [str(LAYOUTS / case), "--to", layout, "-o", str(target), "--check"]
    assert main([*command, *options]) == code
    out, error = capsys.readouterr()
    assert re.search(said, error if code else out)
    assert target.exists() == (code == 0)
    if "renamed" in case:
        assert "check: not checked" in out and "difference" not in out


@pytest.mark.parametrize("target", [".npz", ".safetensors", ".weights.h5"])
def test_the_names_of_layers_are_those_in_the_file_and_not_of_its_groups(
    target: str, tmp_path: Path
) -> None:
    source = ROUND_5 / "swapped_names.weights.h5"
    written = tmp_path / f"x{target}"
    assert main([str(source), "--to", "keras", "-o", str(written)]) == 0
    arrays = {array.name: array.values for array in read(written, ask).arrays}
    with h5py.File(source) as file:
        first = file["layers/lstm/cell/vars/0"]
        assert first.parent.parent.parent["vars"].attrs["name"] == "lstm_1"
        np.testing.assert_array_equal(arrays["lstm_1/kernel"], first)
        assert not np.array_equal(arrays["lstm/kernel"], first)


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize("source", ["bi_lstm_gru.h5", "bi_lstm_gru.weights.h5"])
def test_an_lstm_forward_and_a_gru_backward_have_the_same_names_in_all_files(
    source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "x.npz"
    command = [str(ROUND_5 / source), "--to", "canonical", "-o", str(target)]
    assert main([*command, "--check"]) == 0
    arrays = read(target, ask).arrays
    shapes = {array.name: array.values.shape for array in arrays}
    assert shapes["bidirectional/forward/kernel"] == (3, 16)
    assert shapes["bidirectional/backward/bias"] == (2, 12)
    out = capsys.readouterr().out
    assert float(re.search(r"Keras 3.* difference (\S+)", out)[1]) <= 1e-6  # type: ignore[index]
