"""ONNX: the LSTM, GRU and RNN nodes of a model, read and written.

Their layouts and equations: onnx.ai/onnx/operators, LSTM, GRU and RNN (opset 14). The gates are i,
o, f, c and z, r, h, with two biases of gates·units each; ``linear_before_reset`` of a GRU is
``reset_after`` of Keras. What Keras's layers cannot compute is refused by name: peepholes, clip,
coupled gates, other activations, states at the start.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from rnnweights.cells import Cell, Item, resets_after
from rnnweights.checkpoint import Array, Refusal
from rnnweights.declared import Found, declared_cell
from rnnweights.layouts import AFTER, BEFORE, Layout, Part
from rnnweights.protobuf import (
    Value,
    bytes_field,
    integer_field,
    integers,
    message,
    octets,
)

# ONNX's number of a type → NumPy's name.
TYPES = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
}
NUMBERS = {name: number for number, name in TYPES.items()}
# Keras's name of a function → ONNX's, its alpha and beta.
FUNCTIONS: dict[str, tuple[str, float | None, float | None]] = {
    "tanh": ("Tanh", None, None),
    "sigmoid": ("Sigmoid", None, None),
    "relu": ("Relu", None, None),
    "softsign": ("Softsign", None, None),
    "softplus": ("Softplus", None, None),
    "hard_sigmoid of Keras 2": ("HardSigmoid", 0.2, 0.5),
    "hard_sigmoid of Keras 3": ("HardSigmoid", 1 / 6, 0.5),
}
DEFAULT_ALPHA = {"HardSigmoid": 0.2, "Elu": 1.0, "LeakyRelu": 0.01, "ThresholdedRelu": 1.0}
DEFAULT_BETA = {"HardSigmoid": 0.5}
HAS_ALPHA = ("HardSigmoid", "Elu", "LeakyRelu", "ThresholdedRelu", "ScaledTanh", "Affine")
HAS_BETA = ("HardSigmoid", "ScaledTanh", "Affine")
DEFAULTS = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}
ORDERS = {"LSTM": "iofg", "GRU": "zrn", "RNN": "h"}
CELLS = {"LSTM": "lstm", "GRU": "gru", "RNN": "rnn_tanh"}
OPS = {"LSTM": "LSTM", "GRU": "GRU", "SimpleRNN": "RNN"}  # by Keras's class
DIRECTIONS = ("forward", "backward")
OPSET = 14
IR_VERSION = 8


class Node(NamedTuple):
    """A node of a graph: its operator, inputs, outputs, name and attributes."""

    operator: str
    inputs: list[str]
    outputs: list[str]
    name: str
    attributes: dict[str, Any]


@dataclass
class Graph:
    """The nodes of a model and of the graphs in it, its constant arrays by their
    names, and the names of those that it stores and does not compute."""

    nodes: list[Node] = field(default_factory=list)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    stored: list[str] = field(default_factory=list)


def read_onnx(content: bytes) -> list[Item]:
    """The cells of a model of ONNX and its other arrays.

    Raises `Refusal` for nodes that no layer of Keras computes, and ValueError for a damaged file.
    """
    model = message(content)
    graph = Graph()
    for each in model[7]:
        _collect(message(each), graph)
    _fold(graph)

    items: list[Item] = []
    used = set()
    scopes: Counter[str] = Counter()
    recurrent = [node for node in graph.nodes if node.operator in ORDERS]
    for node in graph.nodes:
        if "LSTM" in node.operator and node.operator not in ORDERS:
            raise Refusal(
                f"node {node.name or node.outputs[0]} is a {node.operator}, whose arrays are "
                "rounded to 8 bits.",
                "use the model from before it was quantized.",
            )
    for number, node in enumerate(recurrent):
        scope = _scope(node, number)
        scopes[scope] += 1
        if scopes[scope] > 1:
            scope = f"{scope}_{scopes[scope] - 1}"
        items += _cells(node, scope, graph)
        used |= set(node.inputs)

    if not items:
        loops = any(node.operator in ("Loop", "Scan") for node in graph.nodes)
        why = ""
        if loops:
            why = ", but a loop: Keras and others export a GRU in this way"
        raise Refusal(
            f"it is an ONNX model without LSTM, GRU or RNN nodes{why}.",
            "use the file of the framework that made it.",
        )
    for name in graph.stored:
        array = Array(name, name, graph.constants[name], "")
        if name not in used and array.data.dtype.kind == "f" and array.data.size:
            items.append(array)
    return items


def _collect(graph: Mapping[int, list[Value]], found: Graph) -> None:
    """Adds the nodes and constants of a graph, and of the graphs in its nodes. Raises `Refusal` for
    arrays in other files."""
    for each in graph.get(5, []):
        name, values = _tensor(each)
        found.constants[name] = values
        found.stored.append(name)
    if graph.get(15):
        raise Refusal("it has sparse arrays.", "export the model with dense arrays.")
    for each in graph.get(1, []):
        node = message(each)
        attributes = {}
        for attribute in node.get(5, []):
            name, value = _attribute(message(attribute), found)
            attributes[name] = value
        made = Node(
            _text(node.get(4)),
            [octets(name).decode() for name in node.get(1, [])],
            [octets(name).decode() for name in node.get(2, [])],
            _text(node.get(3)),
            attributes,
        )
        found.nodes.append(made)
        if made.operator == "Constant" and isinstance(attributes.get("value"), np.ndarray):
            found.constants[made.outputs[0]] = attributes["value"]


def _text(values: list[Value] | None) -> str:
    return octets(values[-1]).decode() if values else ""


def _attribute(attribute: Mapping[int, list[Value]], found: Graph) -> tuple[str, Any]:
    """The name and the value of an attribute of a node. Its graphs are added to `found`."""
    name = _text(attribute.get(1))
    for each in (*attribute.get(6, []), *attribute.get(11, [])):
        _collect(message(each), found)
    value: Any = None
    if 2 in attribute:
        value = struct.unpack("<f", octets(attribute[2][-1]))[0]
    elif 3 in attribute:
        value = integers(attribute[3])[-1]
    elif 4 in attribute:
        value = octets(attribute[4][-1]).decode(errors="replace")
    elif 5 in attribute:
        value = _tensor(attribute[5][-1])[1]
    elif 7 in attribute:
        joined = b"".join(map(octets, attribute[7]))
        value = list(struct.unpack(f"<{len(joined) // 4}f", joined))
    elif 8 in attribute:
        value = integers(attribute[8])
    elif 9 in attribute:
        value = [octets(text).decode() for text in attribute[9]]
    return name, value


def _tensor(content: Value) -> tuple[str, np.ndarray]:
    """The name and the values of a TensorProto. Types that NumPy lacks become an empty array of
    objects. Raises `Refusal` for arrays in another file."""
    tensor = message(content)
    name = _text(tensor.get(8))
    shape = integers(tensor.get(1, []))
    if integers(tensor.get(14, [0]))[-1] == 1:
        raise Refusal(f"the bytes of {name} are in another file.", "save the model in one file.")
    kind = TYPES.get(integers(tensor.get(2, [0]))[-1])
    if kind is None:
        return name, np.empty(0, object)
    if 9 in tensor:
        values = np.frombuffer(octets(tensor[9][-1]), np.dtype(kind).newbyteorder("<"))
    elif kind in ("float32", "float64"):
        joined = b"".join(map(octets, tensor.get(4 if kind == "float32" else 10, [])))
        values = np.frombuffer(joined, np.dtype(kind).newbyteorder("<"))
    else:
        numbers = integers(tensor.get(7, []) or tensor.get(5, []))
        if kind == "float16":
            values = np.array(numbers, "uint16").view("float16")
        else:
            values = np.array(numbers, kind)
    return name, values.reshape(shape).astype(kind)


def _fold(graph: Graph) -> None:
    """Adds the arrays that nodes make of constants alone: some exporters transpose or join them."""
    for node in graph.nodes:
        if not node.outputs or any(name and name not in graph.constants for name in node.inputs):
            continue
        given = [graph.constants[name] for name in node.inputs if name]
        if not given:
            continue
        values = None
        if node.operator == "Identity":
            values = given[0]
        elif node.operator == "Transpose":
            values = np.transpose(given[0], node.attributes.get("perm"))
        elif node.operator == "Concat":
            values = np.concatenate(given, axis=node.attributes["axis"])
        elif node.operator == "Unsqueeze":
            axes = node.attributes.get("axes") or given[1].ravel().tolist()
            values = np.expand_dims(given[0], tuple(axes))
        elif node.operator == "Reshape" and 0 not in given[1].tolist():
            values = given[0].reshape(given[1].tolist())
        if values is not None:
            graph.constants[node.outputs[0]] = values


def _scope(node: Node, number: int) -> str:
    """A name for the cells of a node: its own, without slashes around it."""
    name = node.name or node.outputs[0] or f"{node.operator.lower()}_{number}"
    return re.sub(r"/+", "/", name).strip("/") or f"{node.operator.lower()}_{number}"


def _cells(node: Node, scope: str, graph: Graph) -> list[Cell]:
    """The cells of a recurrent node, one per direction. Raises `Refusal`."""

    def refuse(why: str) -> Refusal:
        return Refusal(
            f"node {scope} ({node.operator}) {why}, which no layer of Keras computes.",
            "train and export it without.",
        )

    attributes = node.attributes
    if attributes.get("clip"):
        raise refuse(f"has clip={attributes['clip']:g}")
    if attributes.get("input_forget"):
        raise refuse("has input_forget=1 (coupled gates)")
    given = dict(zip(("X", "W", "R", "B", "lens", "h", "c", "P"), node.inputs, strict=False))
    for name, what in (("P", "has peepholes"), ("h", "starts with"), ("c", "starts with")):
        source = given.get(name)
        values = graph.constants.get(source or "")
        if name == "P" and source and (values is None or np.any(values)):
            raise refuse(what)
        if name != "P" and values is not None and np.any(values):
            raise refuse(f"{what} the state {source}, which is not zero")

    arrays = {}
    for name in ("W", "R", "B"):
        source = given.get(name)
        if not source:
            continue
        if source not in graph.constants:
            raise Refusal(
                f"{source}, {name} of node {scope}, is computed and not stored.",
                "export the model with constant folding.",
            )
        arrays[name] = graph.constants[source]

    direction = attributes.get("direction", "forward")
    count = 2 if direction == "bidirectional" else 1
    functions = _functions(node, count)
    order = ORDERS[node.operator]
    shapes = ", ".join(f"{name} {values.shape}" for name, values in arrays.items())
    if set(arrays) < {"W", "R"} or any(len(values) != count for values in arrays.values()):
        raise Refusal(f"node {scope} ({node.operator}, {direction}) has {shapes}.")

    reset = ""
    if node.operator == "GRU":
        reset = AFTER if attributes.get("linear_before_reset") else BEFORE
    parts = {"W": Part("input", order), "R": Part("hidden", order)}
    if "B" in arrays:
        parts |= {"Wb": Part("input_bias", order), "Rb": Part("hidden_bias", order)}
    layout = Layout(
        f"onnx.{node.operator}",
        f"opset {OPSET}",
        CELLS[node.operator],
        parts,
        transposed=True,
        reset=reset,
    )
    cells = []
    for index in range(count):
        own = scope if count == 1 else f"{scope}/{DIRECTIONS[index]}"
        pieces = {"W": arrays["W"][index], "R": arrays["R"][index]}
        if "B" in arrays:
            pieces["Wb"], pieces["Rb"] = np.split(arrays["B"][index], 2)
        found: dict[str, Array] = {}
        for part, each in pieces.items():
            found[part] = Array(f"{own}/{part}", f"{own}/{part}", each, scope)
        try:
            cell = declared_cell(Found(layout, own, found))
        except ValueError as error:
            if isinstance(error, Refusal):
                raise
            raise Refusal(f"node {scope} ({node.operator}) has {shapes}.") from error
        hidden = attributes.get("hidden_size", cell.units)
        if hidden != cell.units:
            raise Refusal(f"node {scope} has hidden_size={hidden} and R {arrays['R'].shape}.")
        notes = cell.notes
        settings: dict[str, Any] = {}
        settings |= _keras_names(functions[index], node.operator, refuse)
        if direction == "reverse":
            settings["go_backwards"] = True
            note = "it runs backward in time, as with go_backwards=True, but Keras reverses outputs"
            notes = (*notes, note)
        cells.append(replace(cell, settings=settings, notes=notes, layer=scope))
    return cells


def _functions(node: Node, count: int) -> list[list[tuple[str, float | None, float | None]]]:
    """The activations of each direction: ONNX's names, alphas and betas. Values are consumed by the
    functions that take them, in their order."""
    names = node.attributes.get("activations") or DEFAULTS[node.operator] * count
    alphas = list(node.attributes.get("activation_alpha") or [])
    betas = list(node.attributes.get("activation_beta") or [])
    found = []
    for name in names:
        name = {each.lower(): each for each in (*HAS_ALPHA, "Tanh", "Sigmoid", "Relu")}.get(
            name.lower(), name
        )
        alpha = beta = None
        if name in HAS_ALPHA:
            alpha = alphas.pop(0) if alphas else DEFAULT_ALPHA.get(name)
        if name in HAS_BETA:
            beta = betas.pop(0) if betas else DEFAULT_BETA.get(name)
        found.append((name, alpha, beta))
    each = len(DEFAULTS[node.operator])
    if len(found) != each * count:
        raise Refusal(f"node {node.name} has {len(found)} activations for {count} directions.")
    return [found[start : start + each] for start in range(0, len(found), each)]


def _keras_names(
    functions: Sequence[tuple[str, float | None, float | None]], operator: str, refuse: Any
) -> dict[str, str]:
    """The activations of a cell of Keras. `refuse`: makes the `Refusal` for what it lacks."""
    names = []
    for name, alpha, beta in functions:
        same = []
        for known, (other, *values) in FUNCTIONS.items():
            equal = [_equal(*pair) for pair in zip((alpha, beta), values, strict=True)]
            if other == name and all(equal):
                same.append(known)
        if not same:
            numbers = [f"{value:g}" for value in (alpha, beta) if value is not None]
            shown = f"{name}({', '.join(numbers)})" if numbers else name
            raise refuse(f"has the activation {shown}")
        names.append(same[0])
    if operator == "RNN":
        return {"activation": names[0]}
    if len(set(names[1:])) > 1:
        raise refuse(f"has {names[1]} for the gate and {names[2]} for the output")
    return {"activation": names[1], "recurrent_activation": names[0]}


def _equal(first: float | None, second: float | None) -> bool:
    """Whether two values, of which one is rounded to float32, are equal, or both missing."""
    if first is None or second is None:
        return first is second
    return abs(first - second) < 1e-6


def onnx_model(cells: Sequence[Cell], functions: Mapping[str, Sequence[str]]) -> bytes:
    """The bytes of a model with a node for each recurrent layer, which are not connected.

    `cells`: in Keras's layout; `functions`: of each scope, the names of its activation and its
    recurrent activation in `FUNCTIONS`. An input is NAME/X (steps, batch, inputs), and outputs are
    NAME/Y (steps, directions, batch, units) and the last states. Raises `Refusal` for an activation
    that is not in `FUNCTIONS`.
    """
    layers: dict[str, list[Cell]] = {}
    for cell in cells:
        scope = cell.scope
        above = scope.rpartition("/")[0]
        if cell.direction and _are_alike(above, cells, functions):
            scope = above
        layers.setdefault(scope, []).append(cell)

    graph = b"".join(_node(scope, own, functions) for scope, own in layers.items())
    graph += bytes_field(2, "rnnweights")
    opset = bytes_field(1, "") + integer_field(2, OPSET)
    return (
        integer_field(1, IR_VERSION)
        + bytes_field(2, "rnnweights")
        + bytes_field(7, graph)
        + bytes_field(8, opset)
    )


def _are_alike(scope: str, cells: Sequence[Cell], functions: Mapping[str, Sequence[str]]) -> bool:
    """Whether both directions of a layer fit into one node."""
    facts = []
    for cell in cells:
        if cell.direction and cell.scope.rpartition("/")[0] == scope:
            shapes = tuple(values.shape for values in cell.arrays.values())
            facts.append((cell.kind, shapes, tuple(functions[cell.scope])))
    return len(facts) == 2 and facts[0] == facts[1]


def _node(scope: str, cells: Sequence[Cell], functions: Mapping[str, Sequence[str]]) -> bytes:
    """The fields of a graph for one layer."""
    first = cells[0]
    operator = OPS[first.kind]
    forward_first = sorted(cells, key=lambda cell: cell.direction == "backward")
    stacked: dict[str, list[np.ndarray]] = {}
    for cell in forward_first:
        for name, values in _arrays(cell, operator).items():
            stacked.setdefault(name, []).append(values)
    arrays = {f"{scope}/{name}": np.stack(values) for name, values in stacked.items()}

    direction = "forward"
    if len(cells) == 2:
        direction = "bidirectional"
    elif first.direction == "backward" or (first.settings or {}).get("go_backwards"):
        direction = "reverse"
    outputs = ["Y", "Y_h", "Y_c"] if operator == "LSTM" else ["Y", "Y_h"]
    node = b"".join(bytes_field(1, name) for name in (f"{scope}/X", *arrays))
    node += b"".join(bytes_field(2, f"{scope}/{name}") for name in outputs)
    node += bytes_field(3, scope) + bytes_field(4, operator)
    node += _integer("hidden_size", first.units) + _string("direction", direction)
    node += _activations(operator, [functions[cell.scope] for cell in forward_first], scope)
    if operator == "GRU":
        node += _integer("linear_before_reset", int(resets_after(first)))

    kind = NUMBERS[str(next(iter(arrays.values())).dtype)]
    graph = bytes_field(1, node)
    for name, values in arrays.items():
        graph += bytes_field(5, _encoded_tensor(name, values))
    graph += bytes_field(11, _described(f"{scope}/X", kind, ["steps", "batch", _inputs(first)]))
    units = first.units
    for name in outputs:
        shape: list[str | int] = [len(cells), "batch", units]
        if name == "Y":
            shape = ["steps", *shape]
        graph += bytes_field(12, _described(f"{scope}/{name}", kind, shape))
    return graph


def _inputs(cell: Cell) -> int:
    return len(cell.arrays["kernel"])


def _arrays(cell: Cell, operator: str) -> dict[str, np.ndarray]:
    """W, R and B of one direction, from Keras's layout."""
    keras = {"LSTM": "ifgo", "GRU": "zrn", "RNN": "h"}[operator]
    places = [keras.index(gate) for gate in ORDERS[operator]]

    def rows(values: np.ndarray) -> np.ndarray:
        pieces = np.split(values, len(keras), axis=-1)
        return np.concatenate([pieces[place] for place in places], axis=-1)

    arrays = {
        "W": rows(np.asarray(cell.arrays["kernel"])).T,
        "R": rows(np.asarray(cell.arrays["recurrent_kernel"])).T,
    }
    bias = cell.arrays.get("bias")
    if bias is not None:
        biases = np.atleast_2d(np.asarray(bias))
        if len(biases) == 1:
            biases = np.concatenate([biases, np.zeros_like(biases)])
        arrays["B"] = rows(biases).ravel()
    return arrays


def _activations(operator: str, functions: Sequence[Sequence[str]], scope: str) -> bytes:
    """The attributes of the activations of all directions, empty if they are ONNX's defaults."""
    names = []
    alphas = []
    betas = []
    for activation, gate in functions:
        own = {"LSTM": [gate, activation, activation], "GRU": [gate, activation]}
        for name in own.get(operator, [activation]):
            if name not in FUNCTIONS:
                raise Refusal(
                    f"layer {scope} has the activation {name}, for which ONNX has no name.",
                    "convert with --to keras.",
                )
            other, alpha, beta = FUNCTIONS[name]
            names.append(other)
            if alpha is not None and beta is not None:
                alphas.append(alpha)
                betas.append(beta)
    if names == DEFAULTS[operator] * len(functions):
        return b""
    fields = b"".join(bytes_field(9, name) for name in names)
    written = bytes_field(5, bytes_field(1, "activations") + fields + integer_field(20, 8))
    for name, values in (("activation_alpha", alphas), ("activation_beta", betas)):
        if values:
            packed = struct.pack(f"<{len(values)}f", *values)
            attribute = bytes_field(1, name) + bytes_field(7, packed) + integer_field(20, 6)
            written += bytes_field(5, attribute)
    return written


def _integer(name: str, value: int) -> bytes:
    attribute = bytes_field(1, name) + integer_field(3, value) + integer_field(20, 2)
    return bytes_field(5, attribute)


def _string(name: str, value: str) -> bytes:
    attribute = bytes_field(1, name) + bytes_field(4, value) + integer_field(20, 3)
    return bytes_field(5, attribute)


def _encoded_tensor(name: str, values: np.ndarray) -> bytes:
    dims = b"".join(integer_field(1, size) for size in values.shape)
    kind = integer_field(2, NUMBERS[str(values.dtype)])
    raw = np.ascontiguousarray(values, values.dtype.newbyteorder("<")).tobytes()
    return dims + kind + bytes_field(8, name) + bytes_field(9, raw)


def _described(name: str, kind: int, shape: Sequence[str | int]) -> bytes:
    """The name, the type and the shape of an input or output. A size with a name is open."""
    dims = b""
    for size in shape:
        one = integer_field(1, size) if isinstance(size, int) else bytes_field(2, size)
        dims += bytes_field(1, one)
    tensor = integer_field(1, kind) + bytes_field(2, dims)
    return bytes_field(1, name) + bytes_field(2, bytes_field(1, tensor))
