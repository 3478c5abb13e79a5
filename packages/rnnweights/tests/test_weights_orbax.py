"""Folders of orbax, whose arrays tensorstore reads. It is a stand-in here, which has the arrays of
a dictionary: benchmarks/round_trips.py reads what orbax itself has written."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest
from asking import converted

from rnnweights.checkpoint import Refusal
from rnnweights.conversion import Conversion, Stated

UNITS, INPUTS = 3, 2
LINEN = Stated(layout="flax.linen.LSTMCell")


def state() -> dict[str, np.ndarray]:
    """What flax's TrainState has: a cell, and the same arrays of Adam."""
    stream = np.random.default_rng(0)
    arrays = {}
    for above in ("params/cell", "opt_state/0/mu/cell"):
        for gate in "ifgo":
            arrays[f"{above}/i{gate}/kernel"] = stream.random((INPUTS, UNITS), "float32")
            arrays[f"{above}/h{gate}/kernel"] = stream.random((UNITS, UNITS), "float32")
            arrays[f"{above}/h{gate}/bias"] = stream.random(UNITS, "float32")
    return arrays


class Store:
    """An array of tensorstore, and the future that has it."""

    def __init__(self, values: np.ndarray, kind: str):
        self.values = values
        self.size = values.size
        numpys = np.dtype("V2") if kind == "bfloat16" else np.dtype(kind)
        self.dtype = SimpleNamespace(name=kind, numpy_dtype=numpys)

    def read(self) -> SimpleNamespace:
        return SimpleNamespace(result=lambda: self.values)

    def result(self) -> Store:
        return self


def saved(
    folder: Path,
    arrays: Mapping[str, np.ndarray],
    monkeypatch: pytest.MonkeyPatch,
    kinds: Mapping[str, str] | None = None,
    **about: Any,
) -> list[dict[str, Any]]:
    """Writes the names of the arrays as orbax does, and returns what tensorstore is asked for."""
    tree = {"('step',)": {"key_metadata": [], "value_metadata": {"value_type": "scalar"}}}
    for name in arrays:
        keys = [{"key": key, "key_type": 2} for key in name.split("/")]
        value = {"value_type": "jax.Array"}
        tree[name] = {"key_metadata": keys, "value_metadata": value}
    folder.mkdir(parents=True)
    (folder / "_METADATA").write_text(json.dumps({"tree_metadata": tree, **about}))
    asked = []

    def opened(spec: dict[str, Any], **_: Any) -> Store:
        asked.append(spec)
        path = str(spec["kvstore"]["path"]).removeprefix(f"{folder.resolve()}/")
        name = path.rstrip("/").replace(".", "/")
        return Store(arrays[name], (kinds or {}).get(name, "float32"))

    monkeypatch.setitem(sys.modules, "tensorstore", SimpleNamespace(open=opened))
    return asked


def check(done: Conversion, written: Path, arrays: Mapping[str, np.ndarray]) -> None:
    assert "not in the target: 12 arrays of the optimizer and the metrics" in done.lines()
    with np.load(written) as file:
        assert set(file.files) == {
            f"params/cell/{part}" for part in ("kernel", "recurrent_kernel", "bias")
        }
        kernels = [arrays[f"params/cell/i{gate}/kernel"] for gate in "ifgo"]
        np.testing.assert_array_equal(file["params/cell/kernel"], np.concatenate(kernels, axis=1))


@pytest.mark.parametrize(
    ("about", "driver", "kvstore"),
    [
        ({"use_ocdbt": True}, "zarr", "ocdbt"),
        ({"use_ocdbt": True, "use_zarr3": True}, "zarr3", "ocdbt"),
        ({"use_ocdbt": False}, "zarr", "file"),
    ],
)
def test_a_folder_of_orbax_is_read_without_the_state_of_its_optimizer(
    about: dict[str, bool],
    driver: str,
    kvstore: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arrays = state()
    about["store_array_data_equal_to_fill_value"] = True
    asked = saved(tmp_path / "run/3/default", arrays, monkeypatch, **about)
    done = converted(tmp_path / "run", "keras", ".npz", LINEN)
    check(done, tmp_path / "written", arrays)
    for spec in asked:
        assert (spec["driver"], spec["kvstore"]["driver"]) == (driver, kvstore)
        assert spec["fill_missing_data_reads"] is False


def test_the_state_of_an_optimizer_in_msgpack_is_no_layer(tmp_path: Path) -> None:
    def extension(values: np.ndarray) -> msgspec.msgpack.Ext:
        content = (values.shape, values.dtype.name, values.tobytes())
        return msgspec.msgpack.Ext(1, msgspec.msgpack.encode(content))

    arrays = state()
    tree: dict[str, Any] = {}
    for name, values in arrays.items():
        *above, last = name.split("/")
        inside = tree
        for key in above:
            inside = inside.setdefault(key, {})
        inside[last] = extension(values)
    (tmp_path / "x.msgpack").write_bytes(msgspec.msgpack.encode(tree))
    done = converted(tmp_path / "x.msgpack", "keras", ".npz", LINEN)
    check(done, tmp_path / "written", arrays)


def test_what_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(folder: Path, stated: Stated = LINEN) -> str:
        with pytest.raises(Refusal) as error:
            converted(folder, "keras", ".npz", stated)
        return error.value.line()

    one, another = tmp_path / "run/0/default", tmp_path / "run/5/default"
    bias = "params/cell/hf/bias"
    saved(another, state(), monkeypatch, {bias: "bfloat16"})
    values = another / "_METADATA"
    assert f"{bias} has the type bfloat16" in refused(another)
    assert "does not say the order" in refused(another, Stated())
    assert "name its folder" in refused(values)
    saved(one, state(), monkeypatch)
    assert "0/default, 5/default" in refused(tmp_path / "run")
    monkeypatch.setitem(sys.modules, "tensorstore", None)
    assert "pip install tensorstore" in refused(one)
    values.rename(another / "manifest.ocdbt")
    assert "not complete" in refused(another)
