"""Files of LiteRT, as `record_litert` has recorded them with what LiteRT computes."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from asking import converted

from rnnweights.cells import cells_of, items_of
from rnnweights.checkpoint import Refusal
from rnnweights.conversion import Stated
from rnnweights.formulas import FUNCTIONS, formula_of
from rnnweights.reading import read

with np.load(Path(__file__).with_name("litert.npz")) as _file:
    RECORDED = {name: _file[name] for name in _file.files}
X = RECORDED["x"].astype("float64")


def source(name: str, folder: Path) -> Path:
    path = folder / "x.tflite"
    path.write_bytes(RECORDED[f"{name}|tflite"].tobytes())
    return path


@pytest.mark.parametrize("name", ["lstm", "bidirectional"])
def test_keras_computes_what_litert_computed(name: str, tmp_path: Path) -> None:
    done = converted(source(name, tmp_path), "keras", ".npz", Stated())
    lines = "\n".join(done.lines())
    assert "LiteRT keeps the state c within ±10" in lines
    assert "assumed" not in lines
    (tmp_path / "written").rename(tmp_path / "x.npz")
    backward = {cell.scope: "runs backward" in str(cell.notes) for cell in cells_of(done.items)}
    outputs = {}
    for cell in cells_of(items_of(read(tmp_path / "x.npz", converted).arrays)):
        way = -1 if backward[cell.scope] else 1
        functions = FUNCTIONS["tanh"], FUNCTIONS["sigmoid"]
        outputs[way] = formula_of(cell).outputs(X[:, ::way], *functions)[:, ::way]
    assert set(outputs) == ({1, -1} if name == "bidirectional" else {1})
    own = np.concatenate([outputs[way] for way in sorted(outputs, reverse=True)], axis=-1)
    np.testing.assert_allclose(own, RECORDED[f"{name}|y"], atol=1e-6)


def test_arrays_of_other_layers_are_copied(tmp_path: Path) -> None:
    done = converted(source("dense", tmp_path), "keras", ".npz", Stated())
    assert done.lines()[0].endswith("2 copied")
    with np.load(tmp_path / "written") as file:
        names = [name for name in file.files if not name.startswith("lstm/")]
        assert {file[name].shape for name in names} == {(3, 6), (3,)}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gru", "loops of small operators"),
        ("unrolled", "no operator UNIDIRECTIONAL_SEQUENCE_LSTM"),
        ("quantized", "is quantized"),
    ],
)
def test_what_is_not_stored_as_whole_arrays_is_refused(
    name: str, said: str, tmp_path: Path
) -> None:
    with pytest.raises(Refusal, match=said):
        converted(source(name, tmp_path), "keras", ".npz", Stated())


def test_another_clip_and_a_layout_that_is_stated_are_refused(tmp_path: Path) -> None:
    path = source("lstm", tmp_path)
    with pytest.raises(Refusal, match="says its layout"):
        converted(path, "keras", ".npz", Stated(layout="torch.LSTM"))
    content = path.read_bytes()
    clip = struct.pack("<f", 10)
    assert content.count(clip) == 1
    path.write_bytes(content.replace(clip, struct.pack("<f", 3)))
    with pytest.raises(Refusal, match="clips its state at 3"):
        converted(path, "keras", ".npz", Stated())


def test_a_file_that_is_cut_is_refused(tmp_path: Path) -> None:
    path = source("lstm", tmp_path)
    content = path.read_bytes()
    for size in range(8, len(content) - 200, 97):
        path.write_bytes(content[:size])
        with pytest.raises(Refusal):
            converted(path, "keras", ".npz", Stated())
