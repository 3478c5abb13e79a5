"""Files with arrays that hold pickles, or lead to other files, are refused and execute nothing."""

from __future__ import annotations

import io
import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from rnnbench import cli
from rnnworker import data
from tests.outside.attacks import ESCAPE, packed

Fill = Callable[[h5py.Group], object]


class Attack:
    def __reduce__(self) -> tuple:
        return os.mkdir, ("executed",)


PICKLE = pickle.dumps(Attack())
TORCH = {"archive/data.pkl": PICKLE, "archive/version": b"3\n"}
SECRET = np.arange(4.0)


def npz(**arrays: np.ndarray) -> bytes:
    content = io.BytesIO()
    np.savez(content, **arrays)
    return content.getvalue()


def npy(array: np.ndarray) -> bytes:
    content = io.BytesIO()
    np.save(content, array)
    return content.getvalue()


def hdf5(fill: Fill) -> bytes:
    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        fill(file)
    return content.getvalue()


def checkpoint(fill: Fill, name: str = "rnn") -> bytes:
    """A checkpoint of Keras 2 with one layer, whose weight ``k`` is added by `fill`."""

    def layer(file: h5py.File) -> None:
        file.attrs["layer_names"] = np.array([name.encode()])
        group = file.create_group(name)
        group.attrs["weight_names"] = np.array([b"k"])
        fill(group)

    return hdf5(layer)


def linked_layer(file: h5py.File) -> None:
    file.attrs["layer_names"] = np.array([b"rnn"])
    file["rnn"] = h5py.ExternalLink("secret.h5", "/")


def virtual(group: h5py.Group) -> None:
    layout = h5py.VirtualLayout(SECRET.shape, SECRET.dtype)
    layout[:] = h5py.VirtualSource("secret.h5", "k", SECRET.shape)
    group.create_virtual_dataset("k", layout)


def weight(values: object, **options: object) -> Fill:
    return lambda group: group.create_dataset("k", data=values, **options)


def keras_3(config: object, fill: Fill = lambda file: None) -> bytes:
    return packed({"config.json": json.dumps(config).encode(), "model.weights.h5": hdf5(fill)})


DENSE = {"config": {"layers": [{"class_name": "Dense", "config": {"name": "d"}}]}}
LINK = h5py.ExternalLink("secret.h5", "/k")
REFUSED = {
    "objects.npz": npz(k=np.array([Attack()], dtype=object)),
    "pickle.npz": PICKLE,
    "objects_alone.npz": npy(np.array([Attack()], dtype=object)),
    "array_alone.npz": npy(SECRET),
    "torch.npz": packed(TORCH),
    "pickle.pt": PICKLE,
    "torch.pt": packed(TORCH),
    "pickle.h5": PICKLE,
    "pickle.keras": PICKLE,
    "torch.keras": packed(TORCH),
    "link.h5": checkpoint(lambda group: group.__setitem__("k", LINK)),
    "linked_layer.h5": hdf5(linked_layer),
    "raw.h5": checkpoint(
        lambda group: group.create_dataset("k", (5,), "u1", external=[("/etc/passwd", 0, 5)])
    ),
    "virtual.h5": checkpoint(virtual),
    "link.keras": keras_3(DENSE, lambda file: file.__setitem__("layers/dense/vars/0", LINK)),
    "texts.h5": checkpoint(weight(np.array([b"x"], dtype=object), dtype=h5py.string_dtype())),
    "references.h5": checkpoint(
        lambda group: weight(np.array([group.ref]), dtype=h5py.ref_dtype)(group)
    ),
    "bytes.h5": checkpoint(weight(np.array([PICKLE]))),
    "group.h5": checkpoint(lambda group: group.create_group("k")),
    "list.keras": keras_3([]),
    "none.keras": keras_3({"config": None}),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with h5py.File("secret.h5", "w") as file:
        file["k"] = SECRET
        file.attrs["weight_names"] = np.array([b"k"])


@pytest.mark.parametrize("layout", ["canonical", "keras"])
@pytest.mark.parametrize("name", REFUSED)
def test_a_checkpoint_that_is_none_is_refused(
    name: str, layout: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(name).write_bytes(REFUSED[name])
    assert cli.main(["weights", name, "--to", layout, "-o", "out.h5"]) == 1
    out, error = capsys.readouterr()
    assert out == ""
    assert error.count("\n") == 1 and f"{name}: cannot be read" in error and "Fix: " in error
    assert not Path("out.h5").exists() and not Path("executed").exists()


def test_functions_in_a_checkpoint_are_not_called() -> None:
    function = {"class_name": "__lambda__", "config": {"code": "b3MubWtkaXIoJ2V4ZWN1dGVkJyk="}}
    layer = {"class_name": "Lambda", "config": {"name": "x", "function": function}}
    config = {"class_name": "Sequential", "config": {"layers": [layer]}}
    fill = weight(SECRET)
    Path("lambda.keras").write_bytes(
        keras_3(config, lambda file: fill(file.create_group("layers/x/vars")))
    )
    assert cli.main(["weights", "lambda.keras", "--to", "canonical", "-o", "out.npz"]) == 0
    assert not Path("executed").exists()


def test_the_names_of_layers_do_not_control_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("x.h5").write_bytes(checkpoint(weight(SECRET), name=f"x{ESCAPE}"))
    assert cli.main(["weights", "x.h5", "--to", "canonical", "-o", "out.npz"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("1 arrays: 0 converted") and "\x1b" not in out


@pytest.mark.parametrize("name", ["objects.npz", "pickle.npz", "objects_alone.npz", "evil.tar.gz"])
def test_pickles_of_own_data_are_not_loaded(name: str) -> None:
    Path(name).write_bytes(REFUSED.get(name, PICKLE))
    for pinned in (None, "0" * 32):
        with pytest.raises(ValueError, match="pickle"):
            data.source(name, pinned)
    assert not Path("executed").exists()


@pytest.mark.parametrize("name", ["torch.pt", "pickle.h5", "link.h5"])
def test_other_formats_of_own_data_are_not_opened(name: str) -> None:
    """The model's function receives their path."""
    Path(name).write_bytes(REFUSED[name])
    assert data.source(name) == str(Path(name).absolute())
    assert not Path("executed").exists()


def test_a_torch_file_named_npz_gives_only_bytes() -> None:
    Path("torch.npz").write_bytes(REFUSED["torch.npz"])
    assert data.source("torch.npz") == TORCH
    assert not Path("executed").exists()
