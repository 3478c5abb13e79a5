"""Checkpoints as people reported them: each is converted and right, or refused with the reason."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from rnnbench import cli
from rnnbench.checkpoints.reading import read
from tests.conftest import SHARED
from tests.weights.conftest import ask

CASES = SHARED / "cases" / "weights"
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
    ("subclassed.keras", "cudnn", ".npz"): r"layer lstm: .*activations are not in the file",
    ("cudnngru_alphabetical.npz", "keras", ".keras"): r"no configuration of a model",
    ("lstm.pt", "keras", ".h5"): r"a file of torch, and build current has no torch",
}  # fmt: skip


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize(("case", "layout", "suffix"), CONVERTED)
def test_a_case_is_converted(
    case: str, layout: str, suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / f"x{suffix}"
    command = ["weights", str(CASES / case), "--to", layout, "-o", str(target)]
    assert cli.main(command) == 0
    out = capsys.readouterr().out
    assert out.startswith(CONVERTED[case, layout, suffix])
    before, after = (read(path, _worker).arrays for path in (CASES / case, target))
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
    command = ["weights", str(CASES / case), "--to", layout, "-o", str(target)]
    assert cli.main(command) == 1
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
    assert cli.main(["weights", str(CASES / case), "--to", "keras", "-o", target, "--check"]) == 0
    out = capsys.readouterr().out
    assert float(re.search(rf"check: {ran}.* difference (\S+)", out)[1]) <= 1e-5  # type: ignore[index]
    assert ("assumed activation=tanh" in out) == ("models" not in ran)


def test_a_new_bias_is_in_its_layer(tmp_path: Path) -> None:
    target = tmp_path / "x.h5"
    case = str(CASES / "layer_named_kernel.h5")
    assert cli.main(["weights", case, "--to", "cudnn", "-o", str(target)]) == 0
    bias = read(target, _worker).arrays[2]
    assert bias.name == "my_kernel_lstm/bias" and not np.any(bias.values)


def _worker(action: str, **question):
    return ask(action, build=None, root=None, **question)
