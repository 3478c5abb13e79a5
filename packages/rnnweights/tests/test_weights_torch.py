"""Stacks of torch's layers agree among themselves; of a file of torch, arrays alone are read."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from asking import ask, converted
from torch_like import Tensor, save, tensors

from rnnweights.checkpoint import Refusal
from rnnweights.conversion import Stated
from rnnweights.reading import read


def stack(
    gates: int = 4, units: int = 5, inputs: int = 3, layers: int = 2, bias: bool = True
) -> dict[str, np.ndarray]:
    """The arrays of one direction of torch's LSTM or GRU."""
    stream = np.random.default_rng(0)
    arrays = {}
    for number in range(layers):
        features = units if number else inputs
        arrays[f"rnn.weight_ih_l{number}"] = stream.normal(size=(gates * units, features))
        arrays[f"rnn.weight_hh_l{number}"] = stream.normal(size=(gates * units, units))
        if bias:
            arrays[f"rnn.bias_ih_l{number}"] = stream.normal(size=gates * units)
            arrays[f"rnn.bias_hh_l{number}"] = stream.normal(size=gates * units)
    return arrays


def without(arrays: Mapping[str, np.ndarray], part: str) -> dict[str, np.ndarray]:
    return {name: values for name, values in arrays.items() if part not in name}


def second(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name.replace("_l0", "_l1"): values for name, values in arrays.items()}


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        (without(stack(layers=3), "_l1"), "module rnn of torch has layer 2, but not layer 1"),
        (without(stack(), "_l0"), "module rnn of torch has layer 1, but not layer 0"),
        (stack(layers=1) | second(stack(layers=1, inputs=7)), "rnn_l1 of torch has 7 inputs; "),
        (stack(layers=1) | second(stack(gates=3, inputs=5, layers=1)), "1 × GRU of 5 units"),
        (stack(layers=1) | second(stack(inputs=5, layers=1, bias=False)), "bias=False"),
    ],
)
def test_the_layers_of_a_module_of_torch_must_agree(
    arrays: dict[str, np.ndarray], reason: str, tmp_path: Path
) -> None:
    np.savez(tmp_path / "x.npz", **arrays)
    with pytest.raises(Refusal, match=reason):
        converted(tmp_path / "x.npz", "keras", ".npz", Stated())


def test_a_gru_of_torch_without_bias_is_one_of_cudnn(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", **stack(gates=3, bias=False))
    done = converted(tmp_path / "x.npz", "cudnn", ".h5", Stated())
    assert "rnn_l0: GRU of 5 units, reset_after, no bias, torch → cudnn" in done.lines()


OPTIMIZER = {"state": {0: tensors({"exp_avg": np.ones(3)})}, "param_groups": [{"lr": 0.1}]}


@pytest.mark.parametrize(
    ("others", "names", "left_out"),
    [
        ({}, list(stack()), 0),
        ({"epoch": 3, "optimizer_state_dict": OPTIMIZER}, list(stack()), 1),
        ({"ema": tensors({"w": np.ones(3)})}, [*(f"model.{name}" for name in stack()), "ema.w"], 0),
    ],
)
@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_the_arrays_beside_a_state_dict_are_kept_unless_they_are_the_optimizers(
    others: dict[str, Any], names: list[str], left_out: int, compression: int, tmp_path: Path
) -> None:
    tree = {"model": tensors(stack()), **others}
    found = read(save(tmp_path / "x.pt", tree, compression), ask)
    assert [array.place for array in found.arrays] == names
    assert found.optimizer == left_out
    for array, values in zip(found.arrays, stack().values(), strict=False):
        np.testing.assert_array_equal(array.values, values)


def test_views_of_an_array_are_read_with_their_strides(tmp_path: Path) -> None:
    """What torch saves of a transposed array or a part of one is the whole storage."""
    whole = np.arange(24, dtype="f4").reshape(4, 6)
    views = {
        "transposed": whole.T,
        "part": whole[:3, :4],
        "skipping": whole[::2, ::3],
        "repeated": np.broadcast_to(whole[0], (2, 6)),
        "empty": np.empty((0, 3), "f8"),
        "half": np.ones((2, 1), "f2"),
        "number": np.array(5),
    }
    found = read(save(tmp_path / "x.pt", tensors(views)), ask)
    for array in found.arrays:
        np.testing.assert_array_equal(array.values, views[array.place])
        assert array.values.dtype == views[array.place].dtype


@pytest.mark.parametrize(
    ("tree", "reason"),
    [
        ([Tensor(np.ones(3))], "it has a list, not a state_dict"),
        (Tensor(np.ones(3)), "it has a Tensor, not a state_dict"),
        ({"w": Tensor(np.ones(3)), "more": os.getcwd}, "it names posix.getcwd"),
        ({"w": Tensor(np.ones(3)), "more": Path}, "it names pathlib.Path"),
        ({"net.w": Tensor(np.ones(3), "BFloat16Storage")}, "net.w has the type bfloat16"),
        ({"w": Tensor(np.ones(3), strides=(2,))}, "an array w that is not in its storage"),
        ({"w": Tensor(np.ones(3), strides=(-1,))}, "an array w that is not in its storage"),
    ],
)
def test_what_is_no_state_dict_is_refused(tree: Any, reason: str, tmp_path: Path) -> None:
    with pytest.raises(Refusal, match=re.escape(reason)):
        read(save(tmp_path / "x.pt", tree), ask)


class Attack:
    """What a pickle can ask for: a call of any function, here one that leaves a trace."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def test_no_code_of_a_file_runs(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    file = save(tmp_path / "x.pt", {"w": Tensor(np.ones(3)), "a": Attack(trace)})
    with pytest.raises(Refusal, match=r"it names posix.mkdir"):
        read(file, ask)
    assert not trace.exists()


@pytest.mark.parametrize(
    "name",
    [
        "rnn.parametrizations.weight_hh_l0.original0",
        "rnn.weight_hh_l0_g",
        "rnn.weight_hh_l0_reverse_v",
        "rnn.weight_hh_l1_orig",
    ],
)
def test_a_matrix_that_torch_computes_is_refused_by_name(name: str, tmp_path: Path) -> None:
    """As of ``weight_norm``, ``spectral_norm`` and torch.nn.utils.prune."""
    np.savez(tmp_path / "x.npz", **without(stack(), "weight_hh"), **{name: np.ones(3)})
    with pytest.raises(Refusal, match="computes a matrix") as caught:
        converted(tmp_path / "x.npz", "keras", ".npz", Stated())
    assert name in caught.value.what and "remove_parametrizations" in caught.value.remedy


def test_a_program_of_torch_export_is_named(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.pt2", "w") as archive:
        archive.writestr("x/data/weights/weight_0", bytes(8))
        archive.writestr("x/archive_format", "pt2")
    with pytest.raises(Refusal, match=r"a program of torch\.export"):
        read(tmp_path / "x.pt2", ask)


def pickled(path: Path, content: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x/data.pkl", content)
    return path


GETCWD = b"posix\ngetcwd\n"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\x80\x02ctorch\nScriptObject\n)R.", "of a quantized model: it names torch.ScriptObject"),
        (b"\x80\x02c" + GETCWD + b")R.", "it names posix.getcwd"),
        (b"\x80\x04\x8c\x05posix\x8c\x06getcwd\x93)R.", "it names posix.getcwd"),
        (b"\x80\x02(i" + GETCWD + b".", "the instruction INST"),
        (b"\x80\x02(c" + GETCWD + b"o.", "the instruction OBJ"),
        (b"\x80\x02c" + GETCWD + b")\x81.", "it names posix.getcwd"),
        (b"\x80\x02ctorch\nSize\n)\x81.", "NEWOBJ class argument must be a type"),
        (b"\x80\x02\x82\x01.", "the instruction EXT1"),
        (b"\x80\x02Pname\n.", "the instruction PERSID"),
        (b"\x80\x04\x8c\x05torch\x8c\x10Size.__class__.x\x93.", "names torch.Size.__class__.x"),
        (b"\x80\x02}r\xff\xff\xff\x7f.", "has a memo of 2,147,483,647 values"),
        (b"\x80\x02ccollections\nOrderedDict\n}X\x01\x00\x00\x00aK\x01sb.", "mappingproxy"),
        (b"\x80\x02ctorch\nSize\n}X\x01\x00\x00\x00aK\x01sb.", "attribute"),
    ],
)
def test_no_instruction_of_a_pickle_reaches_anything(
    content: bytes, reason: str, tmp_path: Path
) -> None:
    """Calls in every form that a pickle has, a place in the memo for which 16 GiB would be taken,
    and attributes set on what the names mean."""
    with pytest.raises(Refusal, match=re.escape(reason)):
        read(pickled(tmp_path / "x.pt", content), ask)


def test_every_protocol_of_pickle_is_read(tmp_path: Path) -> None:
    for protocol in (2, 3, 4, 5):
        save(tmp_path / "x.pt", tensors(stack()), protocol=protocol)
        assert [array.place for array in read(tmp_path / "x.pt", ask).arrays] == list(stack())


def test_a_tree_within_itself_ends(tmp_path: Path) -> None:
    tree: dict[str, Any] = {"w": Tensor(np.ones(3))}
    tree["again"] = tree
    with pytest.raises(Refusal, match="a damaged file of torch"):
        read(save(tmp_path / "x.pt", tree), ask)
    many: Any = [1.0] * 10
    for _ in range(7):
        many = [many] * 10
    with pytest.raises(Refusal, match="a damaged file of torch"):
        read(save(tmp_path / "x.pt", {"w": Tensor(np.ones(3)), "m": many}), ask)
