"""A checkpoint is converted in pieces: what is copied is never in memory as a whole, and what
changes is there once."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import NoReturn

import h5py
import numpy as np
import pytest
from asking import converted

from rnnweights.checkpoint import Refusal, pieces
from rnnweights.conversion import Stated
from rnnweights.reading import read

UNITS = 2048
LARGEST = 4 * UNITS * UNITS * 4  # bytes of a matrix of an LSTM: 64 MiB


def keras_arrays(bias: int) -> dict[str, np.ndarray]:
    stream = np.random.default_rng(0)
    return {
        "kernel": stream.random((UNITS, 4 * UNITS), "float32"),
        "recurrent_kernel": stream.random((UNITS, 4 * UNITS), "float32"),
        "bias": stream.random(bias, "float32"),
    }


def hdf5(path: Path, bias: int) -> Path:
    """Weights alone of Keras 2: of an LSTM, or of a CuDNNLSTM, which has two biases."""
    with h5py.File(path, "w") as file:
        file.attrs["layer_names"] = [b"lstm"]
        group = file.create_group("lstm")
        arrays = keras_arrays(bias)
        group.attrs["weight_names"] = [f"lstm/lstm_cell/{name}:0".encode() for name in arrays]
        for name, values in arrays.items():
            group[f"lstm/lstm_cell/{name}:0"] = values
    return path


def torch_npz(path: Path, _: int) -> Path:
    shapes = {
        "weight_ih_l0": (4 * UNITS, UNITS),
        "weight_hh_l0": (4 * UNITS, UNITS),
        "bias_ih_l0": (4 * UNITS,),
        "bias_hh_l0": (4 * UNITS,),
    }
    stream = np.random.default_rng(0)
    np.savez(path, **{name: stream.random(shape, "float32") for name, shape in shapes.items()})  # type: ignore[arg-type]
    return path


@pytest.mark.parametrize(
    ("make", "name", "bias", "to", "target", "limit"),
    [
        (hdf5, "x.h5", 4 * UNITS, "keras", ".npz", 0.3),
        (hdf5, "x.h5", 4 * UNITS, "keras", ".h5", 0.3),
        (hdf5, "x.h5", 4 * UNITS, "torch.LSTM", ".safetensors", 1.3),
        (hdf5, "x.h5", 4 * UNITS, "flax.linen.LSTMCell", ".npz", 1.3),
        (hdf5, "x.h5", 8 * UNITS, "keras", ".h5", 1.3),
        (torch_npz, "x.npz", 0, "keras", ".safetensors", 1.3),
    ],
)
def test_an_array_is_in_memory_once_at_most(
    make, name: str, bias: int, to: str, target: str, limit: float, tmp_path: Path
) -> None:
    source = make(tmp_path / name, bias)
    tracemalloc.start()
    converted(source, to, target, Stated())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak <= limit * LARGEST
    (tmp_path / "written").rename(tmp_path / f"y{target}")
    after = {array.name: array.values for array in read(tmp_path / f"y{target}", asked).arrays}
    before = {array.name: array.values for array in read(source, asked).arrays}
    kernel = next(iter(before.values()))
    gates = np.split(kernel, 4, axis=1)
    if to == "torch.LSTM":
        np.testing.assert_array_equal(after["lstm.weight_ih_l0"], kernel.T)
    elif to.startswith("flax"):
        np.testing.assert_array_equal(after["lstm/if/kernel"], gates[1])
    elif make is torch_npz:
        np.testing.assert_array_equal(after["rnn_l0/kernel"], kernel.T)
    elif bias > 4 * UNITS:
        transposed = np.concatenate([gate.T for gate in gates], axis=1)
        np.testing.assert_array_equal(after["lstm/kernel"], transposed)
    else:
        assert set(after) == set(before)
        for name, values in before.items():
            np.testing.assert_array_equal(after[name], values)


def asked(*_: object, **__: object) -> NoReturn:
    raise AssertionError("no framework is needed")


@pytest.mark.parametrize("to", ["keras", "torch.LSTM"])
def test_a_value_that_is_not_finite_is_found_in_the_last_piece(to: str, tmp_path: Path) -> None:
    with h5py.File(hdf5(tmp_path / "x.h5", 4 * UNITS), "r+") as file:
        file["lstm/lstm/lstm_cell/kernel:0"][-1, -1] = np.nan
    with pytest.raises(Refusal, match="layer lstm: kernel has NaN"):
        converted(tmp_path / "x.h5", to, ".npz", Stated())


@pytest.mark.parametrize("chunks", [None, (100, 512)])
def test_the_pieces_are_the_array(chunks: tuple[int, int] | None, tmp_path: Path) -> None:
    with h5py.File(hdf5(tmp_path / "x.h5", 4 * UNITS), "r+") as file:
        values = file["lstm/lstm/lstm_cell/kernel:0"][()]
        del file["lstm/lstm/lstm_cell/kernel:0"]
        file.create_dataset("lstm/lstm/lstm_cell/kernel:0", data=values, chunks=chunks)
    (kernel, *_) = read(tmp_path / "x.h5", asked).arrays
    found = [piece.copy() for piece in pieces(kernel.data)]
    assert len(found) > 5
    np.testing.assert_array_equal(np.concatenate(found), values)
