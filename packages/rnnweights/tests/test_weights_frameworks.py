"""Files of other frameworks, with the layout that is stated: what Keras computes from the converted
arrays is what the framework computed, as recorded by `record_frameworks`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import safetensors.numpy
from asking import converted
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rnnweights import in_framework
from rnnweights.cells import Cell, cells_of, items_of, resets_after
from rnnweights.checkpoint import Refusal
from rnnweights.command import main
from rnnweights.conversion import Stated
from rnnweights.declared import gates_of
from rnnweights.formulas import FUNCTIONS, Function, formula_of
from rnnweights.layouts import AFTER, LAYOUTS, MATRICES, Layout, layouts_named
from rnnweights.onnx_files import read_onnx
from rnnweights.reading import read
from tests.conftest import SHARED

with np.load(Path(__file__).with_name("frameworks.npz")) as _file:
    RECORDED = {name: _file[name] for name in _file.files}
X = RECORDED["x"].astype("float64")
FILES = [name for name in RECORDED if "|" in name and not name.endswith("|y")]
OF_ONNX = [name.partition("|")[0] for name in FILES if name.endswith("|onnx")]


def no_framework(*_: Any, **__: Any) -> Any:
    raise AssertionError("no framework is needed")


def source(name: str, folder: Path) -> Path:
    layer, _, suffix = name.partition("|")
    path = folder / f"{layer}.{suffix}"
    path.write_bytes(RECORDED[name].tobytes())
    return path


def outputs(cells: Sequence[Cell], functions: Sequence[Function]) -> np.ndarray:
    """Of one layer in Keras's layout, both directions beside each other."""
    found = []
    for number, cell in enumerate(cells):
        way = 1 if number == 0 else -1
        found.append(formula_of(cell).outputs(X[:, ::way], *functions)[:, ::way])
    return np.concatenate(found, axis=-1)


TANH = (FUNCTIONS["tanh"], FUNCTIONS["sigmoid"])


@pytest.mark.parametrize("name", [name for name in FILES if not name.endswith("|onnx")])
@pytest.mark.parametrize("whole_framework", [False, True])
def test_keras_computes_what_the_framework_computed(
    name: str, whole_framework: bool, tmp_path: Path
) -> None:
    layer = name.partition("|")[0]
    stated = Stated(layout=layer)
    if whole_framework and not name.endswith("|eqx"):  # whose leaves have no names
        stated = Stated(layout=layer.rpartition(".")[0])
    converted(source(name, tmp_path), "keras", ".npz", stated)
    (tmp_path / "written").rename(tmp_path / "x.npz")
    cells = cells_of(items_of(read(tmp_path / "x.npz", no_framework).arrays))
    # The tanh of MindSpore on a CPU is approximate.
    limit = 1e-4 if layer.startswith("mindspore") else 1e-6
    np.testing.assert_allclose(outputs(cells, TANH), RECORDED[f"{layer}|y"], atol=limit)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("haiku.LSTM|npz", "1 is added to the bias of f"),
        ("haiku.GRU|npz", "z is negated"),
        ("haiku.GRU|npz", "reset_after=False"),
        ("chainer.NStepLSTM|npz", "its two biases are added"),
        ("chainer.StatefulGRU|npz", "first step leaves the biases of U out"),
        ("flax.nnx.GRUCell|npz", "assumed, .* activation=tanh; recurrent_activation=sigmoid"),
        ("paddle.SimpleRNN|npz", "assumed, .* activation=tanh"),
        ("mindspore.GRU|ckpt", "tanh on a CPU is approximate"),
    ],
)
def test_what_changes_or_is_assumed_is_said(name: str, said: str, tmp_path: Path) -> None:
    stated = Stated(layout=name.partition("|")[0])
    done = converted(source(name, tmp_path), "keras", ".npz", stated)
    assert re.search(said, "\n".join(done.lines()))


@pytest.mark.parametrize(
    "name", [name for name in FILES if name.partition(".")[0] not in ("onnx", "paddle")]
)
def test_a_file_that_does_not_say_its_layout_is_refused_without_one(
    name: str, tmp_path: Path
) -> None:
    with pytest.raises(Refusal) as error:
        converted(source(name, tmp_path), "keras", ".npz", Stated())
    assert "--layout" in error.value.remedy


@pytest.mark.parametrize("name", ["haiku.LSTM|npz", "flax.nnx.GRUCell|npz", "mxnet.LSTM|params"])
@pytest.mark.parametrize("layout", ["torch.LSTM", "haiku.GRU", "chainer.LSTM", "keras.LSTM"])
def test_a_layout_that_the_names_contradict_is_refused(
    name: str, layout: str, tmp_path: Path
) -> None:
    with pytest.raises(Refusal, match="has no arrays of"):
        converted(source(name, tmp_path), "keras", ".npz", Stated(layout=layout))


@pytest.mark.parametrize("directions", [1, 2])
def test_two_directions_of_nnabla_are_not_read_as_one_of_twice_the_units(
    directions: int, tmp_path: Path
) -> None:
    arrays = {
        "l/weight_l0": np.ones((directions, 4, 3, 9)),
        "l/bias": np.ones((1, directions, 4, 3)),
    }
    np.savez(tmp_path / "x.npz", **arrays)
    stated = Stated(layout="nnabla.functions.lstm")
    if directions == 1:
        done = converted(tmp_path / "x.npz", "keras", ".npz", stated)
        assert "l: LSTM of 3 units, nnabla.functions.lstm → keras" in done.lines()
        return
    with pytest.raises(Refusal, match="has no arrays of nnabla"):
        converted(tmp_path / "x.npz", "keras", ".npz", stated)


def functions_of(layer: str) -> tuple[Function, Function]:
    activation = "relu" if "relu" in layer else "tanh"
    gate = "sigmoid"
    if "hard" in layer:
        gate = f"hard_sigmoid of Keras {layer[-1]}"
    return FUNCTIONS[activation], FUNCTIONS[gate]


@pytest.mark.parametrize("layer", OF_ONNX)
@pytest.mark.parametrize("target", [".npz", ".onnx"])
def test_nodes_of_onnx_are_read_and_written(layer: str, target: str, tmp_path: Path) -> None:
    """The outputs are those of onnxruntime."""
    to = "onnx" if target == ".onnx" else "keras"
    converted(source(f"{layer}|onnx", tmp_path), to, target, Stated())
    path = tmp_path / f"x{target}"
    (tmp_path / "written").rename(path)
    written = read(path, no_framework)
    cells = cells_of(written.items or items_of(written.arrays))
    found = outputs(cells, functions_of(layer))
    np.testing.assert_allclose(found, RECORDED[f"{layer}|y"], atol=1e-6)
    if target == ".onnx":  # the attributes of the nodes are the same
        settings = [cell.settings for cell in cells_of(read_onnx(RECORDED[f"{layer}|onnx"]))]
        assert [cell.settings for cell in cells] == settings


@pytest.mark.parametrize("layer", ["onnx.LSTM_hard_2", "onnx.LSTM_hard_3"])
def test_a_hard_sigmoid_is_never_written_under_the_name_of_the_other(
    layer: str, tmp_path: Path
) -> None:
    done = converted(source(f"{layer}|onnx", tmp_path), "keras", ".npz", Stated())
    assert f"recurrent_activation=hard_sigmoid of Keras {layer[-1]}" in done.lines()[1]
    with pytest.raises(Refusal, match=r"CuDNN layers cannot hold it: it has .*hard_sigmoid"):
        converted(source(f"{layer}|onnx", tmp_path), "cudnn", ".npz", Stated())


def edited(name: str, value: bytes) -> bytes:
    """The recorded LSTM of ONNX with a further attribute of its node."""
    from rnnweights.protobuf import bytes_field, fields

    def inside(content: bytes, numbers: Sequence[int]) -> bytes:
        if not numbers:
            return content + bytes_field(5, bytes_field(1, name) + value)
        written = b""
        for number, field in fields(content):
            if isinstance(field, int):
                written += bytes([number * 8, field])
            elif number == numbers[0]:
                written += bytes_field(number, inside(field, numbers[1:]))
            else:
                written += bytes_field(number, field)
        return written

    return inside(RECORDED["onnx.LSTM|onnx"].tobytes(), [7, 1])  # the graph, its node


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("clip", b"\x15" + np.float32(0.5).tobytes(), "has clip=0.5"),
        ("input_forget", b"\x18\x01", r"has input_forget=1 \(coupled gates\)"),
        ("activations", b"J\x06Affine" * 6, "has the activation Affine"),
        ("activations", b"J\x04Tanh" * 2, "has 2 activations for 2 directions"),
        ("hidden_size", b"\x18\x07", "hidden_size=7"),
    ],
)
def test_what_keras_does_not_compute_is_refused_by_name(
    name: str, value: bytes, reason: str, tmp_path: Path
) -> None:
    (tmp_path / "x.onnx").write_bytes(edited(name, value))
    with pytest.raises(Refusal, match=reason):
        converted(tmp_path / "x.onnx", "keras", ".npz", Stated())


def test_an_onnx_file_that_is_cut_is_refused(tmp_path: Path) -> None:
    content = RECORDED["onnx.LSTM|onnx"].tobytes()
    for size in range(1, len(content), 97):
        (tmp_path / "x.onnx").write_bytes(content[:size])
        with pytest.raises(Refusal):
            converted(tmp_path / "x.onnx", "keras", ".npz", Stated())


GATES = {"lstm": "ifgo", "gru": "rzn", "rnn_tanh": "h"}


def made(layout: Layout, units: int, inputs: int, stream: np.random.Generator) -> dict[str, Any]:
    """Arrays of a layout, as it describes them."""
    arrays = {}
    for name, part in layout.parts.items():
        columns = len(part.gates) * units
        rows = {"input": inputs, "hidden": units, "both": inputs + units}.get(part.side)
        shape: tuple[int, ...] = (columns,)
        if rows is not None:
            shape = (columns, rows) if layout.transposed else (rows, columns)
        arrays[name] = stream.normal(size=shape)
    return arrays


READABLE = [layout for layout in LAYOUTS if layout.parts and not layout.is_stack]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    layout=st.sampled_from(READABLE),
    other=st.sampled_from(READABLE),
    units=st.integers(1, 5),
    inputs=st.integers(1, 5),
)
def test_arrays_of_one_layout_are_not_read_as_another_where_names_tell_them_apart(
    layout: Layout, other: Layout, units: int, inputs: int, tmp_path_factory: Any
) -> None:
    folder = tmp_path_factory.mktemp("layouts")
    arrays = made(layout, units, inputs, np.random.default_rng(0))
    np.savez(folder / "x.npz", **{f"net/{name}": values for name, values in arrays.items()})
    stated = Stated(layout=other.name)
    try:
        done = converted(folder / "x.npz", "keras", ".npz", stated)
    except Refusal:
        assert layout.name != other.name
        return
    (cell,) = cells_of(done.items)
    # Keras's names may be those that a user has given them, in the order that is stated.
    assert layout.is_kerass or set(layout.parts) == set(other.parts)
    assert cell.name == layout.cell == other.cell
    said = "keras" if other.is_kerass else other.name
    assert f"{said} → keras" in "\n".join(done.lines()) or cell.layout == "keras"


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    layout=st.sampled_from([layout for layout in LAYOUTS if layout.order]),
    units=st.integers(1, 5),
    inputs=st.integers(1, 5),
    suffix=st.sampled_from([".npz", ".safetensors"]),
)
def test_where_nothing_tells_layouts_apart_the_order_that_is_assumed_is_said(
    layout: Layout, units: int, inputs: int, suffix: str, tmp_path_factory: Any
) -> None:
    """Arrays of any layout, cut and turned as Keras's are and called so, and no layout stated."""
    folder = tmp_path_factory.mktemp("renamed")
    columns = len(layout.order) * units
    stream = np.random.default_rng(0)
    arrays = {
        "net/kernel": stream.normal(size=(inputs, columns)),
        "net/recurrent_kernel": stream.normal(size=(units, columns)),
        "net/bias": stream.normal(size=columns),
    }
    path = folder / f"x{suffix}"
    if suffix == ".npz":
        np.savez(path, **arrays)  # type: ignore[arg-type]
    else:
        safetensors.numpy.save_file(arrays, path)
    done = converted(path, "keras", ".npz", Stated())
    assumed = [line for line in done.lines() if line.startswith("net: assumed, because the file")]
    said = {
        "lstm": "gates in Keras's order i, f, c, o",
        "gru": "gates in Keras's order z, r, h, and h = z h + (1 - z) n",
        "rnn_tanh": "the layout of Keras's SimpleRNN",
    }
    assert len(assumed) == 1 and said[layout.cell] in assumed[0]


CLASSES = st.text("abcLSTMGRUCell", min_size=1, max_size=12)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    name=CLASSES | st.sampled_from(["LSTM", "GRU", "LSTMCell", "ESNCell", "CuDNNLSTM"]),
    module=st.sampled_from([None, "keras.layers", "my.layers", "tensorflow_addons.rnn"]),
    package=st.sampled_from([None, "Addons", "Custom"]),
)
def test_a_class_that_is_stated_tells_layers_apart(
    name: str, module: str | None, package: str | None, tmp_path_factory: Any
) -> None:
    """Arrays of a Keras LSTM in an ``.h5`` file whose configuration names some class."""
    folder = tmp_path_factory.mktemp("classes")
    layer: dict[str, Any] = {"class_name": name, "config": {"name": "net", "units": 3}}
    if package is not None:
        layer["registered_name"] = f"{package}>{name}"
    if module is not None:
        layer["module"] = module
    model = {"class_name": "Sequential", "config": {"name": "model", "layers": [layer]}}
    with h5py.File(folder / "x.h5", "w") as file:
        file.attrs["model_config"] = json.dumps(model)
        weights = file.create_group("model_weights")
        weights.attrs["layer_names"] = [b"net"]
        group = weights.create_group("net")
        shapes = {"kernel": (2, 12), "recurrent_kernel": (3, 12), "bias": (12,)}
        group.attrs["weight_names"] = [f"net/{part}:0".encode() for part in shapes]
        for part, shape in shapes.items():
            group[f"net/{part}:0"] = np.ones(shape)
    is_kerass = name in ("LSTM", "LSTMCell") and package is None
    is_kerass = is_kerass and module in (None, "keras.layers")
    try:
        converted(folder / "x.h5", "keras", ".npz", Stated())
    except Refusal as refusal:
        assert not is_kerass and (name in refusal.what or "net" in refusal.what)
    else:
        assert is_kerass


@pytest.mark.parametrize("layout", READABLE, ids=[layout.name for layout in READABLE])
def test_the_converted_cell_computes_the_formula_of_its_layout(
    layout: Layout, tmp_path: Path
) -> None:
    if layout.is_kerass:
        return
    arrays = made(layout, 4, 5, np.random.default_rng(0))
    np.savez(tmp_path / "x.npz", **{f"net/{name}": values for name, values in arrays.items()})
    stated = Stated(layout=layout.name)
    done = converted(tmp_path / "x.npz", "keras", ".npz", stated)
    (before,) = cells_of(done.items)
    (tmp_path / "written").rename(tmp_path / "y.npz")
    (after,) = cells_of(items_of(read(tmp_path / "y.npz", no_framework).arrays))
    x = np.random.default_rng(1).normal(size=(2, 6, 5))
    expected = formula_of(before).outputs(x, *TANH)
    np.testing.assert_allclose(formula_of(after).outputs(x, *TANH), expected, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "array"),
    [("lasagne.LSTMLayer", "W_cell_to_ingate"), ("chainer.LSTM", "peep_i/W")],
)
def test_peepholes_are_refused_by_name(name: str, array: str, tmp_path: Path) -> None:
    (layout,) = layouts_named(name)
    arrays = made(layout, 4, 5, np.random.default_rng(0)) | {array: np.ones(4)}
    np.savez(tmp_path / "x.npz", **{f"net/{each}": values for each, values in arrays.items()})
    with pytest.raises(Refusal, match="layer net has peepholes"):
        converted(tmp_path / "x.npz", "keras", ".npz", Stated(layout=name))


@pytest.mark.parametrize("value", [0.0, 0.5])
def test_states_at_the_start_are_left_out_if_they_are_zero(value: float, tmp_path: Path) -> None:
    """Lasagne's ``get_all_params`` has them, also if they are not trained."""
    (layout,) = layouts_named("lasagne.LSTMLayer")
    arrays = made(layout, 4, 5, np.random.default_rng(0))
    arrays |= {"cell_init": np.zeros((1, 4)), "hid_init": np.full((1, 4), value)}
    np.savez(tmp_path / "x.npz", **{f"net.{name}": values for name, values in arrays.items()})
    stated = Stated(layout=layout.name)
    if value:
        with pytest.raises(Refusal, match=r"starts with the state .*_init, which is not"):
            converted(tmp_path / "x.npz", "keras", ".npz", stated)
        return
    done = converted(tmp_path / "x.npz", "keras", ".npz", stated)
    assert done.lines()[0] == "14 arrays: 14 converted (1 LSTM of 4 units), 0 copied"
    assert "are left out" in "\n".join(done.lines())


CONVENTIONS = SHARED / "conventions" / "layouts.csv"
FRAMEWORKS = {
    "dm-haiku": "haiku",
    "paddlepaddle": "paddle",
    "dynet38": "dynet",
    "lasagne": "lasagne",
    "tensorflow-addons": "tensorflow_addons",
}
# Row → name of the layout, where they differ by more than the framework.
NAMED = {
    "LSTMBuilder = VanillaLSTMBuilder": "LSTMBuilder",
    "CompactVanillaLSTMBuilder": "LSTMBuilder",
    "LSTMLayer(peepholes=False)": "LSTMLayer",
    "GRU(reset_after=True)": "GRU",
    "GRU(reset_after=False)": "GRU",
    "rnn.PeepholeLSTMCell": "PeepholeLSTMCell",
    "rnn.LayerNormLSTMCell": "LayerNormLSTMCell",
    "gluon.rnn.LSTMCell": "LSTM",
    "gluon.rnn.GRUCell": "GRU",
}
# Rows without a layout: not arrays of a file, or refused by their arrays.
WITHOUT = ("lstm_ref", "nn.LSTM(proj_size=P)", "lstm", "gru", "LSTMLayer")


@pytest.mark.skipif(not CONVENTIONS.is_file(), reason=f"there is no {CONVENTIONS}")
def test_the_layouts_are_those_that_were_measured() -> None:
    import csv

    known = {layout.name: layout for layout in LAYOUTS}
    seen = set()
    with CONVENTIONS.open() as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        framework = FRAMEWORKS.get(row["framework"], row["framework"])
        framework = FRAMEWORKS.get(framework.split(" ")[0], framework)
        layer = NAMED.get(row["layer"], re.sub(r"^(nn|gluon\.rnn|links)\.", "", row["layer"]))
        name = f"{framework}.{layer}"
        if row["layer"] in WITHOUT:
            continue
        layout = known[name]
        seen.add(name)
        if layout.refused:
            why = (row["peepholes"], row["gate_order"], row["remarks"])
            assert why[0] != "none" or "f = 1 - i" in why[1] or "norms of" in why[2], name
            continue
        order = re.match(r"(?:by name \(|separate: )?([ifgozrn](?: [ifgozrn])+)", row["gate_order"])
        if layout.order and layout.cell != "rnn_tanh":
            assert order and order[1].replace(" ", "") == layout.order, name
        if row["matrix_layout"]:
            assert row["matrix_layout"].startswith("W @") == layout.transposed, name
        assert ("added at run time" in row["forget_bias"]) == (layout.forget == 1), name
        assert ("interleaved" in row["gate_order"]) == layout.interleaved, name
        if layout.cell == "gru" and not layout.is_kerass:
            assert row["gru_reset"].startswith("after") == (layout.reset == AFTER), name
            assert row["gru_update"].startswith("(1-z)*h") == layout.new_update, name
    recorded = {name.partition("|")[0] for name in FILES}
    assert set(known) - seen - recorded == {"keras.SimpleRNN"}


def test_a_framework_stands_for_all_of_its_layouts() -> None:
    assert [layout.name for layout in layouts_named("HAIKU")] == ["haiku.LSTM", "haiku.GRU"]
    with pytest.raises(Refusal, match="no layout is called haik"):
        layouts_named("haik")
    with pytest.raises(Refusal, match="has peepholes"):
        layouts_named("tensorflow_addons.PeepholeLSTMCell")


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "SimpleRNN"])
@pytest.mark.parametrize("activation", ["tanh", "relu", "softsign", "softplus", "elu", "linear"])
def test_the_formula_is_what_keras_computes(kind: str, activation: str) -> None:
    """Of Keras's own layout, for ``--check``."""
    stream = np.random.default_rng(0)
    gates = {"LSTM": 4, "GRU": 3, "SimpleRNN": 1}[kind]
    for gate in ("sigmoid", "hard_sigmoid"):
        for reset_after in (False, True):
            arrays = {
                "kernel": stream.normal(size=(5, 4 * gates)) * 0.3,
                "recurrent_kernel": stream.normal(size=(4, 4 * gates)) * 0.3,
                "bias": stream.normal(size=4 * gates),
            }
            options: dict[str, Any] = {"activation": activation}
            if kind != "SimpleRNN":
                options["recurrent_activation"] = gate
            if kind == "GRU":
                options["reset_after"] = reset_after
                if reset_after:
                    arrays["bias"] = stream.normal(size=(2, 12))
            question = {
                "number": 0,
                "kind": kind,
                "units": 4,
                "settings": options,
                "parts": list(arrays),
            }
            given = {f"0/{name}": values.astype("float32") for name, values in arrays.items()}
            given["0/inputs"] = X.astype("float32")
            answer = in_framework.outputs([question], given)

            named = [(f"l/{name}", values) for name, values in arrays.items()]
            from rnnweights.checkpoint import named as arrays_named

            (cell,) = cells_of(items_of(arrays_named(named)))
            cell = replace(cell, reset_after=reset_after if kind == "GRU" else None)
            assert resets_after(cell) == reset_after or kind != "GRU"
            name = gate if gate == "sigmoid" else "hard_sigmoid of Keras 3"
            found = formula_of(cell).outputs(X, FUNCTIONS[activation], FUNCTIONS[name])
            np.testing.assert_allclose(found, answer["arrays"]["0"], atol=3e-5, rtol=1e-5)


@pytest.mark.usefixtures("in_this_process")
def test_the_command_says_what_it_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = source("haiku.LSTM|npz", tmp_path)
    command = [str(path), "--to", "keras", "-o", str(tmp_path / "x.npz")]
    assert main([*command, "--layout", "haiku.LSTM", "--check"]) == 0
    out = capsys.readouterr().out
    assert "lstm: LSTM of 6 units, haiku.LSTM → keras" in out
    assert re.search(
        r"check: each of 1 recurrent cells, formulas in float64.*difference \S+e-0", out
    )


def test_every_part_of_a_layout_is_a_matrix_or_a_bias() -> None:
    for layout in LAYOUTS:
        sides = {part.side for part in layout.parts.values()}
        assert sides <= {*MATRICES, "input_bias", "hidden_bias"}
        if layout.parts and not layout.is_stack:
            values = made(layout, 3, 2, np.random.default_rng(0))
            assert set(gates_of(layout, values).W) == set(GATES[layout.cell])


@pytest.mark.parametrize("name", [name for name in FILES if not name.startswith("onnx")])
def test_what_is_written_for_a_framework_computes_what_it_computed(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Framework → Keras → framework; `benchmarks/round_trips.py` loads it into the framework."""
    layer = name.partition("|")[0]
    keras, again = str(tmp_path / "keras.npz"), str(tmp_path / "again.npz")
    assert main([str(source(name, tmp_path)), "--to", "keras", "-o", keras, "--layout", layer]) == 0
    stated = ["--recurrent-activation", "sigmoid"]
    if layer.endswith(("SimpleRNN", "RNN", "RNNCell", "SimpleCell")):
        stated = ["--activation", "tanh"]
    assert main([keras, "--to", layer, "-o", again, *stated, "--check"]) == 0
    assert float(capsys.readouterr().out.rpartition("difference ")[2]) < 1e-6
    converted(Path(again), "keras", ".npz", Stated(layout=layer))
    (tmp_path / "written").rename(tmp_path / "x.npz")
    cells = cells_of(items_of(read(tmp_path / "x.npz", no_framework).arrays))
    limit = 1e-4 if layer.startswith("mindspore") else 1e-6
    np.testing.assert_allclose(outputs(cells, TANH), RECORDED[f"{layer}|y"], atol=limit)


@pytest.mark.parametrize(
    ("name", "to", "target", "reason"),
    [
        ("torch.GRUCell|npz", "haiku.GRU", ".npz", "applies the reset gate after the product"),
        ("torch.GRUCell|npz", "flax.nnx.GRUCell", ".npz", "has a bias of the gate n that"),
        ("torch.GRUCell|npz", "torch.LSTM", ".npz", "is a GRU, and torch.LSTM is none"),
        ("torch.GRUCell|npz", "torch.GRU", ".h5", "have Keras's layout or ONNX's"),
        ("torch.GRUCell|npz", "torch.Transformer", ".npz", "no layout is called torch.Transformer"),
        ("torch.GRUCell|npz", "dynet.FastLSTMBuilder", ".npz", "coupled gates"),
        ("onnx.RNN_relu|onnx", "torch.RNN", ".npz", "activation=relu, which a file of torch.RNN"),
    ],
)
def test_what_a_framework_does_not_compute_is_not_written_for_it(
    name: str, to: str, target: str, reason: str, tmp_path: Path
) -> None:
    layout = None if name.startswith("onnx") else name.partition("|")[0]
    with pytest.raises(Refusal, match=re.escape(reason)):
        converted(source(name, tmp_path), to, target, Stated(layout=layout))
