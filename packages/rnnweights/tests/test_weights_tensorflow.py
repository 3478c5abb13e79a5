"""Checkpoints of `tf.train.Saver`: a layer is not the optimizer's, whatever its scope is called."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest
from asking import ask

from rnnweights import tensorflow_files
from rnnweights.checkpoint import Refusal
from rnnweights.command import main
from rnnweights.reading import read

pytestmark = pytest.mark.usefixtures("in_this_process")
STREAM = np.random.default_rng(0)


def cudnn_lstm(scope: str) -> dict[str, np.ndarray]:
    shapes = {"kernel": (3, 20), "recurrent_kernel": (5, 20), "bias": (40,)}
    arrays = {}
    for part, shape in shapes.items():
        arrays[f"{scope}/{part}"] = STREAM.normal(size=shape).astype("float32")
    return arrays


def save(folder: Path, variables: Mapping[str, np.ndarray]) -> Path:
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        for name, values in variables.items():
            v1.get_variable(name, initializer=values)
        session.run(v1.global_variables_initializer())
        v1.train.Saver().save(session, str(folder / "x.ckpt"))
    return folder / "x.ckpt"


ADAM = {
    "lstm/kernel/Adam": np.ones((3, 20)),
    "training/Adam/lstm/bias/m": np.ones(40),
    "beta1_power": np.array(0.9),
}


@pytest.mark.parametrize(
    ("variables", "first"),
    [
        ({**cudnn_lstm("lstm"), **ADAM}, "3 arrays: 3 converted (1 LSTM of 5 units), 0 copied"),
        (
            {**cudnn_lstm("training/encoder"), **cudnn_lstm("optimizer/a"), "b": np.ones(2)},
            "7 arrays: 6 converted (2 LSTM of 5 units), 1 copied",
        ),
        (
            {**cudnn_lstm("encoder"), "encoder": np.ones(7)},
            "4 arrays: 3 converted (1 LSTM of 5 units), 1 copied",
        ),
    ],
)
def test_only_the_variables_of_an_optimizer_are_left_out(
    variables: dict[str, np.ndarray],
    first: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source = save(tmp_path, variables)
    assert main([str(source), "--to", "keras", "-o", str(tmp_path / "y.npz")]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0] == first
    left_out = len(variables) - int(first.split()[0])
    assert (f"not in the target: {left_out} arrays" in out) == (left_out > 0)


def test_variables_of_all_kinds_of_numbers_are_kept(tmp_path: Path) -> None:
    kinds = {"a": "float16", "b": "int64", "c": "bool", "d": "complex64", "e": "float64"}
    source = save(tmp_path, {name: np.ones(2, kind) for name, kind in kinds.items()})
    arrays = read(source, ask).arrays
    assert {array.name: array.values.dtype for array in arrays} == kinds


def test_a_damaged_file_of_variables_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = save(tmp_path, cudnn_lstm("lstm"))
    data = tmp_path / "x.ckpt.data-00000-of-00001"
    content = bytearray(data.read_bytes())
    content[100:108] = b"\xff" * 8
    data.write_bytes(content)
    assert main([str(source), "--to", "keras", "-o", str(tmp_path / "y.npz")]) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert "lstm/" in error and "is damaged: its checksum differs" in error


@pytest.mark.parametrize("end", [10, 60, 120])
def test_a_damaged_table_of_variables_is_refused(end: int, tmp_path: Path) -> None:
    source = save(tmp_path, cudnn_lstm("lstm"))
    index = tmp_path / "x.ckpt.index"
    content = bytearray(index.read_bytes())
    content[end] ^= 1
    index.write_bytes(content)
    with pytest.raises(Refusal, match="its table is damaged: its checksum differs"):
        read(source, ask)
    index.write_bytes(content[: -end // 2])
    with pytest.raises(Refusal, match="damaged"):
        read(source, ask)


@pytest.mark.parametrize("size", [0, 9, 8191, 8192, 8193, 100_000])
def test_checksums_are_those_of_a_loop_over_bits(size: int) -> None:
    assert tensorflow_files.crc32c(b"123456789") == 0xE3069283
    content = np.random.default_rng(0).integers(0, 256, size, "u1")
    expected = 0xFFFFFFFF
    for octet in content.tolist():
        expected ^= octet
        for _ in range(8):
            expected = (expected >> 1) ^ (0x82F63B78 if expected & 1 else 0)
    assert tensorflow_files.crc32c(content) == expected ^ 0xFFFFFFFF


def test_what_only_tensorflow_reads_is_the_same_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Saver's first version; for the comparison, also what is read without it."""
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        for name, values in {**cudnn_lstm("lstm"), **ADAM}.items():
            v1.get_variable(name, initializer=values)
        session.run(v1.global_variables_initializer())
        v1.train.Saver(write_version=v1.train.SaverDef.V1).save(session, str(tmp_path / "one"))
        v1.train.Saver().save(session, str(tmp_path / "two"))
    of_tensorflow, ours = read(tmp_path / "one", ask), read(tmp_path / "two", no_framework)
    assert (of_tensorflow.order, of_tensorflow.optimizer) == (ours.order, ours.optimizer)
    for first, second in zip(of_tensorflow.arrays, ours.arrays, strict=True):
        assert first.name == second.name and first.layer == second.layer
        np.testing.assert_array_equal(first.values, second.values)


def no_framework(action: str, **question: object) -> NoReturn:
    raise AssertionError(f"{action} is asked")


def test_numbers_that_numpy_lacks_are_refused(tmp_path: Path) -> None:
    """bfloat16 comes from TensorFlow as two bytes without a type."""
    import tensorflow as tf

    (tmp_path / "old").write_bytes(b"\0" * 40 + bytes.fromhex("57fb808b247547db"))
    answer = {"keys": ["dense/kernel"]}
    with pytest.raises(Refusal, match="dense/kernel is not an array of numbers"):
        read(tmp_path / "old", lambda *_, **__: (answer, {"0": np.zeros(2, "V2")}))
    source = save(tmp_path, {"dense/kernel": tf.ones(2, tf.bfloat16).numpy()})
    with pytest.raises(Refusal, match="dense/kernel has the type bfloat16"):
        read(source, ask)
