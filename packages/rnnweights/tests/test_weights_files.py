"""Targets that must not be replaced, formats that are not read, claims that files cannot keep, and
what cuDNN's layers cannot hold."""

from __future__ import annotations

import io
import json
import os
import pickle
import resource
import stat
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import safetensors.numpy

from rnnweights.array_files import write_npz, write_safetensors
from rnnweights.checkpoint import Array
from rnnweights.command import main
from rnnweights.reading import read
from rnnworker.recurrent import cudnn_layout

GRU = {"kernel": (5, 18), "recurrent_kernel": (6, 18), "bias": (36,)}


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("gru.npz", **random_arrays("gru", GRU))


def random_arrays(layer: str, shapes: Mapping[str, Any]) -> dict[str, np.ndarray]:
    stream = np.random.default_rng(0)
    return {f"{layer}/{name}": stream.normal(size=shape) for name, shape in shapes.items()}


def convert(source: str, target: str, *options: str, to: str = "keras") -> int:
    return main([source, "--to", to, "-o", target, *options])


def refused(capsys: pytest.CaptureFixture[str]) -> str:
    out, error = capsys.readouterr()
    assert out == "" and error.count("\n") == 1 and "Fix: " in error
    return error


def test_an_existing_file_is_replaced_only_with_force(capsys: pytest.CaptureFixture[str]) -> None:
    Path("x.h5").write_text("precious")
    assert convert("gru.npz", "x.h5") == 1
    assert "x.h5: exists. Fix: add --force" in refused(capsys)
    assert Path("x.h5").read_text() == "precious"
    assert convert("gru.npz", "x.h5", "--force") == 0
    assert h5py.is_hdf5("x.h5")


def test_source_links_pipes_devices_and_folders_are_never_replaced(
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = Path("gru.npz").read_bytes()
    os.link("gru.npz", "hard.npz")
    os.symlink("gru.npz", "soft.npz")
    os.symlink("nowhere", "dangling.npz")
    os.mkfifo("pipe.npz")
    os.mkdir("folder.npz")
    reasons = {
        "gru.npz": "part of the source",
        "./gru.npz": "part of the source",
        "hard.npz": "part of the source",
        "soft.npz": "is a link",
        "dangling.npz": "is a link",
        "pipe.npz": "is not a file",
        "folder.npz": "is not a file",
        "missing/x.npz": "its folder does not exist",
        "x.bin": "the name does not say its format",
    }
    if os.geteuid() == 0:
        os.mknod("null.npz", stat.S_IFCHR | 0o666, os.makedev(1, 3))
        reasons["null.npz"] = "is not a file"
    for target, reason in reasons.items():
        assert convert("gru.npz", target, "--force") == 1
        assert reason in refused(capsys)
    assert Path("gru.npz").read_bytes() == before
    assert Path("pipe.npz").is_fifo() and not Path("missing").exists()
    assert os.readlink("dangling.npz") == "nowhere"


@pytest.mark.parametrize("target", ["x.npz", "x.safetensors", "x.h5"])
def test_a_file_that_cannot_be_written_to_its_end_leaves_nothing(
    target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shapes = {"kernel": (100, 300), "recurrent_kernel": (100, 300), "bias": (600,)}
    np.savez("large.npz", **{f"gru/{part}": np.ones(shape) for part, shape in shapes.items()})
    before = sorted(os.listdir())
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        code = convert("large.npz", target)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert code == 1 and "free some disk space" in refused(capsys)
    assert sorted(os.listdir()) == before


def zeros(name: str, size: int) -> bytes:
    content = io.BytesIO()
    header = {"descr": "<f4", "fortran_order": False, "shape": (size // 4,)}
    packed = zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED)
    with packed as archive, archive.open(name, "w") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for _ in range(size // 2**20):
            file.write(bytes(2**20))
    return content.getvalue()


def claiming_npz() -> bytes:
    """A header of 2 GB before 8 bytes."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive, archive.open("a/kernel.npy", "w") as file:
        shape = {"descr": "<f4", "fortran_order": False, "shape": (2**29,)}
        np.lib.format.write_array_header_1_0(file, shape)
        file.write(bytes(8))
    return content.getvalue()


def claiming_keras() -> bytes:
    content, weights = io.BytesIO(), io.BytesIO()
    with h5py.File(weights, "w") as file:
        file.create_dataset("layers/lstm/cell/vars/0", (2**29,), "f4")
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("config.json", '{"class_name": "Sequential", "config": {"layers": []}}')
        archive.writestr("model.weights.h5", weights.getvalue())
    return content.getvalue()


HEADER = b'{"a/kernel":{"dtype":"F32","shape":[536870912],"data_offsets":[0,2147483648]}}'


@pytest.mark.parametrize("kind", ["bomb.npz", "header.npz", "header.keras", "header.safetensors"])
def test_a_claim_is_checked_before_memory_is_taken(
    kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    contents = {
        "bomb.npz": lambda: zeros("a/kernel.npy", 2**28),
        "header.npz": claiming_npz,
        "header.keras": claiming_keras,
        "header.safetensors": lambda: len(HEADER).to_bytes(8, "little") + HEADER + bytes(100),
    }
    Path(kind).write_bytes(contents[kind]())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert convert(kind, "x.npz") == 1
    assert f"{kind}: cannot be read" in refused(capsys)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # KiB


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("m.onnx", b"\x08\x07\x12\x07pytorch", "a damaged file of ONNX"),
        ("m.h5", b"\x08\x07\x12\x07pytorch", "a damaged file of ONNX"),
        ("m.tflite", b"\x1c\x00\x00\x00TFL3", "a damaged file of LiteRT"),
        ("m.pkl", pickle.dumps([1.0]), "a Python pickle"),
        ("m.pt", pickle.dumps([1.0]), "a Python pickle"),
        ("m.npy", b"\x93NUMPY\x01\x00", "one NumPy array without a name"),
        ("m.json", b'{"class_name": "Model"}', "a JSON file"),
        ("m.gz", b"\x1f\x8b\x08", "a gzip file"),
        ("m.gguf", b"GGUF\x03", "a GGUF file"),
        ("m.bin", b"hello there", "its format is unknown"),
        ("m.keras", b"", "it is empty"),
        ("m.pt", b"PK\x03\x04 cut off", "a damaged or incomplete ZIP archive"),
        ("m.joblib", b"BZh91", "a bzip2 file"),
        ("saved_model.pb", b"\x08\x01\x12\x02", "the graph of a SavedModel, without arrays"),
    ],
)
def test_a_format_that_is_not_read_is_named(
    name: str, content: bytes, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(name).write_bytes(content)
    assert convert(name, "x.npz") == 1
    assert reason in refused(capsys)


def test_what_does_not_exist_is_no_checkpoint(capsys: pytest.CaptureFixture[str]) -> None:
    os.mkdir("folder")
    os.mkfifo("pipe")
    for name, reason in {"no.h5": "does not exist", "folder": "not a file", "pipe": "not"}.items():
        assert convert(name, "x.npz") == 1
        assert reason in refused(capsys)


KERAS_GRU = {"kernel": (5, 18), "recurrent_kernel": (6, 18), "bias": (2, 18)}
LSTM = {"kernel": (5, 24), "recurrent_kernel": (6, 24), "bias": (24,)}


@pytest.mark.parametrize(
    ("shapes", "options", "reason"),
    [
        (LSTM, (), "its activations are not in the file"),
        (LSTM, ("--recurrent-activation", "hard_sigmoid"), "recurrent_activation=hard_sigmoid"),
        (LSTM, ("--recurrent-activation", "sigmoid"), None),
        (KERAS_GRU, ("--recurrent-activation", "sigmoid"), None),
        ({**KERAS_GRU, "bias": (18,)}, ("--recurrent-activation", "sigmoid"), "reset_after=False"),
        (
            {name: KERAS_GRU[name] for name in ("kernel", "recurrent_kernel")},
            ("--recurrent-activation", "sigmoid"),
            "has no bias, and the file does not say",
        ),
        ({"kernel": (5, 6), "recurrent_kernel": (6, 6), "bias": (6,)}, (), "SimpleRNN"),
    ],
)
def test_what_cudnn_layers_cannot_hold_is_refused(
    shapes: dict, options: tuple, reason: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez("layer.npz", **random_arrays("layer", shapes))
    assert convert("layer.npz", "x.h5", *options, to="cudnn") == (reason is not None)
    if reason is not None:
        error = refused(capsys)
        assert "layer layer: " in error and reason in error


@pytest.mark.parametrize(
    ("cell", "layers", "directions"), [("lstm", 2, 2), ("gru", 1, 2), ("gru", 3, 1)]
)
@pytest.mark.usefixtures("in_this_process")
def test_an_opaque_buffer_is_read_with_what_is_stated(
    cell: str, layers: int, directions: int, capsys: pytest.CaptureFixture[str]
) -> None:
    size = cudnn_layout.trained_size(cell, 5, 4, layers, directions)
    size += 0 if cell == "gru" else layers * directions * 16
    buffer = np.random.default_rng(0).normal(size=size).astype("float32")
    safetensors.numpy.save_file({"cudnn_rnn/opaque_kernel": buffer}, "buffer.safetensors")
    assert convert("buffer.safetensors", "x.h5") == 1
    assert "--buffer" in refused(capsys)
    assert convert("buffer.safetensors", "x.h5", "--buffer", f"{cell},{layers},{directions},5") == 1
    assert "do not have" in refused(capsys)
    stated = ("--buffer", f"{cell},{layers},{directions},4")
    assert convert("buffer.safetensors", "x.h5", *stated, "--check") == 0
    out = capsys.readouterr().out
    count = layers * directions
    assert out.startswith(f"1 arrays: 1 converted ({count} {cell.upper()} of 4 units), 0 copied")
    assert float(out.partition("difference ")[2].split()[0]) < 1e-5
    assert len(read(Path("x.h5"), lambda *_: None).arrays) == 3 * count


@pytest.mark.usefixtures("in_this_process")
def test_the_cells_of_two_opaque_buffers_are_checked(capsys: pytest.CaptureFixture[str]) -> None:
    stream = np.random.default_rng(0)
    buffers = {}
    for name, inputs in (("first", 5), ("second", 8)):
        size = cudnn_layout.trained_size("gru", inputs, 4, 1, 2)
        buffers[f"{name}/opaque_kernel"] = stream.normal(size=size).astype("float32")
    safetensors.numpy.save_file(buffers, "buffers.safetensors")
    assert convert("buffers.safetensors", "x.npz", "--buffer", "gru,1,2,4", "--check") == 0
    out = capsys.readouterr().out
    assert "check: each of 4 recurrent cells" in out
    assert float(out.partition("difference ")[2].split()[0]) < 1e-5


def test_arrays_that_no_name_recognises_are_not_copied_as_they_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arrays = list(random_arrays("", GRU).values())
    for name, given in {
        "list.npz": {f"arr_{number}": array for number, array in enumerate(arrays)},
        "other.npz": {f"cu_dnngru/{'abc'[number]}": array for number, array in enumerate(arrays)},
        "dense.npz": {"dense/kernel": np.ones((2, 3)), "dense/bias": np.ones(3)},
    }.items():
        np.savez(name, **given)
        assert convert(name, "x.npz") == 1
        error = refused(capsys)
        assert "name" in error or "CuDNN" in error
    np.savez("keras.npz", **{f"{name}:0": array for name, array in random_arrays("g", GRU).items()})
    assert convert("keras.npz", "x.h5") == 0


@pytest.mark.parametrize(
    ("kind", "settings", "reason"),
    [
        ("LSTM", {"units": 6}, None),
        ("LSTM", {"units": 5}, "LSTM of 5 units"),
        ("GRU", {"units": 6, "reset_after": True}, "GRU of 6 units"),
        ("LSTM", {"units": 6, "use_bias": False}, "use_bias=False"),
        ("CuDNNLSTM", {"units": 6}, "layout cudnn"),
        ("LSTM", {"units": 6, "time_major": True}, "time_major=True"),
    ],
)
def test_the_configuration_must_agree_with_the_arrays(
    kind: str, settings: dict, reason: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    layer = {"class_name": kind, "config": {"name": "rnn", **settings}}
    model = {"class_name": "Sequential", "config": {"name": "m", "layers": [layer]}}
    with h5py.File("whole.h5", "w") as file:
        file.attrs["model_config"] = json.dumps(model)
        weights = file.create_group("model_weights")
        weights.attrs["layer_names"] = np.array([b"rnn"])
        names = [f"rnn/{name}:0" for name in LSTM]
        weights.create_group("rnn").attrs["weight_names"] = np.array(names, dtype="S")
        for name, array in random_arrays("rnn", LSTM).items():
            weights["rnn"][f"{name}:0"] = array
    assert convert("whole.h5", "x.h5") == (reason is not None)
    if reason is not None:
        error = refused(capsys)
        assert "layer rnn" in error and reason in error


def whole_h5(model: Any, arrays: Mapping[str, np.ndarray], name: str = "whole.h5") -> str:
    """A file of Keras 2 with one layer, of these arrays, and the model's configuration."""
    layer = next(iter(arrays)).partition("/")[0]
    with h5py.File(name, "w") as file:
        file.attrs["model_config"] = json.dumps(model)
        file.attrs["keras_version"] = "2.15.0"
        weights = file.create_group("model_weights")
        weights.attrs["layer_names"] = np.array([layer.encode()])
        group = weights.create_group(layer)
        group.attrs["weight_names"] = np.array([f"{key}:0".encode() for key in arrays])
        for key, values in arrays.items():
            group[f"{key}:0"] = values
    return name


@pytest.mark.parametrize(
    "model",
    [
        [1, 2],
        {"class_name": "Sequential", "config": None},
        {"class_name": "Sequential", "config": {"layers": ["lstm"]}},
        {"class_name": "Sequential", "config": {"layers": [{"class_name": "CuDNNGRU"}]}},
    ],
)
def test_a_configuration_that_describes_no_layers_is_refused(
    model: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    source = whole_h5(model, random_arrays("rnn", GRU))
    assert convert(source, "x.h5") == 1
    assert "its configuration does not describe the layers" in refused(capsys)


def test_a_file_without_arrays_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with h5py.File("nothing.h5", "w") as file:
        file.attrs["layer_names"] = np.array([], "S1")
    assert convert("nothing.h5", "x.npz") == 1
    assert "has no arrays" in refused(capsys)


@pytest.mark.parametrize("dtype", ["M8[s]", "S3", "V2"])
def test_arrays_that_are_no_numbers_are_refused(
    dtype: str, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez("x.npz", **random_arrays("gru", GRU), times=np.zeros(2, dtype))
    assert convert("x.npz", "y.safetensors") == 1
    assert "times is not an array of numbers" in refused(capsys)


STRUCTURE = np.zeros(2, [("Ж", "f4")])  # has a header of version 3.0 of NumPy's format


@pytest.mark.filterwarnings("ignore:Stored array in format 3.0")
@pytest.mark.parametrize(
    ("array", "reason"),
    [
        (STRUCTURE, "further is not an array of numbers"),
        (np.array([{}], object), "not all of its arrays are numbers that NumPy has"),
    ],
)
def test_arrays_of_structures_and_objects_are_refused_with_a_remedy_that_helps(
    array: np.ndarray, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez("x.npz", **random_arrays("gru", GRU), further=array)
    assert convert("x.npz", "y.npz") == 1
    error = refused(capsys)
    assert reason in error and "as float32" in error


@pytest.mark.parametrize("names", ["gru, dense", '[["kernel"]]', '{"a": 1}', ""])
def test_the_names_in_safetensors_may_be_of_another_program(names: str) -> None:
    safetensors.numpy.save_file(random_arrays("gru", GRU), "x.safetensors", {"names": names})
    assert convert("x.safetensors", "y.npz") == 0


def test_names_of_other_arrays_are_those_of_an_incomplete_file(
    capsys: pytest.CaptureFixture[str],
) -> None:
    safetensors.numpy.save_file(random_arrays("gru", GRU), "x.safetensors", {"names": '["lost"]'})
    assert convert("x.safetensors", "y.npz") == 1
    assert "its header names other arrays than it has. Fix: use a comp" in refused(capsys)


def test_types_that_numpy_lacks_are_refused_with_a_remedy_that_helps(
    capsys: pytest.CaptureFixture[str],
) -> None:
    header = b'{"kernel":{"dtype":"BF16","shape":[4],"data_offsets":[0,8]}}'
    Path("x.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    assert convert("x.safetensors", "y.npz") == 1
    error = refused(capsys)
    assert "bfloat16" in error and "as float32" in error


def test_arrays_of_a_model_itself_are_in_no_layer() -> None:
    """Keras refuses a file with more layers than the model has."""
    with h5py.File("whole.h5", "w") as file:
        file.attrs["layer_names"] = np.array([b"gru"])
        for layer, names in {"gru": list(GRU), "top_level_model_weights": ["scale"]}.items():
            group = file.create_group(layer)
            group.attrs["weight_names"] = np.array([f"{name}:0".encode() for name in names])
            for name in names:
                group[f"{name}:0"] = random_arrays("", {**GRU, "scale": 3})[f"/{name}"]
    assert convert("whole.h5", "x.npz") == 0
    assert convert("x.npz", "direct.h5") == convert("whole.h5", "edited.h5") == 0
    for name in ("direct.h5", "edited.h5"):
        with h5py.File(name) as file:
            assert [layer.decode() for layer in file.attrs["layer_names"]] == ["gru"]
            assert list(file["top_level_model_weights"].attrs["weight_names"])


def test_a_damaged_directory_of_an_archive_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    content = Path("gru.npz").read_bytes()
    Path("damaged.npz").write_bytes(content.replace(b"PK\x01\x02", b"PK\x01\x07"))
    assert convert("damaged.npz", "x.h5") == 1
    assert "damaged or incomplete ZIP archive" in refused(capsys)


@pytest.mark.parametrize("comment", [b"made by hand", b'{"keras_version": 3}', b"[1]"])
def test_another_programs_comment_in_an_archive_is_ignored(comment: bytes) -> None:
    with zipfile.ZipFile("gru.npz", "a") as archive:
        archive.comment = comment
    assert convert("gru.npz", "x.h5") == 0


def test_the_metrics_of_a_compiled_model_are_no_layers(capsys: pytest.CaptureFixture[str]) -> None:
    with h5py.File("m.weights.h5", "w") as file:
        for number, array in enumerate(random_arrays("gru", GRU).values()):
            file[f"_layer_checkpoint_dependencies/cu_dnngru/vars/{number}"] = array
        file["metrics/mean/vars/0"] = 1.0
    assert convert("m.weights.h5", "x.npz") == 0
    out = capsys.readouterr().out
    assert out.startswith("3 arrays: 3 converted")
    assert "not in the target: 1 arrays of the optimizer and the metrics" in out


def test_a_cudnn_layer_without_its_bias_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    arrays = random_arrays("cu_dnngru", GRU)
    del arrays["cu_dnngru/bias"]
    np.savez("x.npz", **arrays)
    assert convert("x.npz", "y.npz") == 1
    assert "the bias of a CuDNN layer is missing" in refused(capsys)


def test_the_directions_of_cudnn_layers_have_keras_order_in_h5() -> None:
    """A ``.keras`` file has an order of its layers, not of the directions in them."""
    inner = {"class_name": "CuDNNGRU", "config": {"name": "cu_dnngru", "units": 6}}
    both = {"class_name": "Bidirectional", "config": {"name": "both", "layer": inner}}
    model = {"class_name": "Sequential", "config": {"name": "m", "layers": [both]}}
    weights = io.BytesIO()
    with h5py.File(weights, "w") as file:
        for direction in ("backward", "forward"):
            for number, array in enumerate(random_arrays("g", GRU).values()):
                file[f"layers/bidirectional/{direction}_layer/vars/{number}"] = array
    with zipfile.ZipFile("x.keras", "w") as archive:
        archive.writestr("config.json", json.dumps(model))
        archive.writestr("metadata.json", '{"keras_version": "2.15.0"}')
        archive.writestr("model.weights.h5", weights.getvalue())
    assert convert("x.keras", "y.h5", to="cudnn") == 0
    with h5py.File("y.h5") as file:
        names = [name.decode().partition(":")[0] for name in file["both"].attrs["weight_names"]]
    assert names == [
        f"both/{direction}/{part}" for direction in ("forward", "backward") for part in GRU
    ]


def test_each_type_and_shape_is_written(tmp_path: Path) -> None:
    written = {}
    for character in "?bhiqefdF":
        written[f"type_{character}"] = np.arange(6).reshape(2, 3).astype(character)
    written["empty"] = np.empty((0, 3), "float32")
    written["number"] = np.array(2, "float32")
    written["swapped"] = np.arange(3, dtype=">f4")
    arrays = [Array(name, name, values, "") for name, values in written.items()]
    write_npz(tmp_path / "all.npz", arrays, {})
    with np.load(tmp_path / "all.npz") as read:
        for name, values in written.items():
            np.testing.assert_array_equal(read[name], values)
            assert read[name].dtype == values.dtype

    del written["type_F"]  # safetensors has it only in newer versions
    write_safetensors(tmp_path / "all.safetensors", [x for x in arrays if x.name in written], {})
    loaded = safetensors.numpy.load_file(tmp_path / "all.safetensors")
    for name, values in written.items():
        np.testing.assert_array_equal(loaded[name], values)
