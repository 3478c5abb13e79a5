"""A checkpoint is converted in pieces: what is copied is never in memory as a whole, and what
changes is there once, as pages of its file (which `tracemalloc` does not count)."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import NoReturn

import h5py
import numpy as np
import pytest
from asking import converted

from rnnweights.checkpoint import Computed, Refusal, numbers, pieces
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
    ("make", "name", "bias", "to", "target"),
    [
        (hdf5, "x.h5", 4 * UNITS, "keras", ".npz"),
        (hdf5, "x.h5", 4 * UNITS, "keras", ".h5"),
        (hdf5, "x.h5", 4 * UNITS, "torch.LSTM", ".safetensors"),
        (hdf5, "x.h5", 4 * UNITS, "flax.linen.LSTMCell", ".npz"),
        (hdf5, "x.h5", 8 * UNITS, "keras", ".h5"),
        (torch_npz, "x.npz", 0, "keras", ".safetensors"),
    ],
)
def test_an_array_is_never_copied_as_a_whole(
    make, name: str, bias: int, to: str, target: str, tmp_path: Path
) -> None:
    source = make(tmp_path / name, bias)
    tracemalloc.start()
    converted(source, to, target, Stated())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak <= 0.3 * LARGEST
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


def test_numbers_of_a_type_that_numpy_lacks_are_read_by_hdf5(tmp_path: Path) -> None:
    """bfloat16 as HDF5 describes it: its bytes are not those of the float32 that h5py reads."""
    kind = h5py.h5t.IEEE_F32LE.copy()
    kind.set_fields(15, 7, 8, 0, 7)
    kind.set_size(2)
    kind.set_ebias(127)
    values = np.array([[0.5, -1.75, 3.0]], "float32")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        space = h5py.h5s.create_simple(values.shape)
        array = h5py.h5d.create(file.id, b"kernel", kind, space)
        array.write(h5py.h5s.ALL, h5py.h5s.ALL, values)
    with h5py.File(tmp_path / "x.h5", "r") as file:
        np.testing.assert_array_equal(np.asarray(numbers("kernel", file["kernel"])), values)


@pytest.mark.parametrize("shape", [(3, 5), (300, 700), (1, 1)])
def test_a_transposed_array_is_the_array(shape: tuple[int, int]) -> None:
    values = np.arange(shape[0] * shape[1], dtype="float32").reshape(shape)
    computed = Computed(shape[::-1], values.dtype, lambda: [values.T])
    found = [piece.copy() for piece in computed.rows(64)]
    np.testing.assert_array_equal(np.concatenate(found), values.T)
