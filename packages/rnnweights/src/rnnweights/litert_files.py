"""Files of LiteRT (``.tflite``): the LSTMs that TensorFlow's converter has kept whole, each as the
operator UNIDIRECTIONAL_SEQUENCE_LSTM, whose inputs are the arrays of the gates, and other arrays.

Other recurrent layers become loops of small operators there, which nothing says are a layer: files
with such loops are refused. Source: tensorflow/compiler/mlir/lite/schema/schema.fbs and
tensorflow/lite/kernels/unidirectional_sequence_lstm.cc, 2.21; FlatBuffers' internals.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rnnweights.cells import Cell, Item
from rnnweights.checkpoint import Array, Refusal
from rnnweights.declared import Found, declared_cell
from rnnweights.layouts import Layout, Part

TYPES = {
    0: "float32",
    1: "float16",
    2: "int32",
    3: "uint8",
    4: "int64",
    6: "bool",
    7: "int16",
    9: "int8",
    10: "float64",
}
DEQUANTIZE, CUSTOM, LSTM, REVERSE, WHILE = 6, 32, 44, 105, 119  # numbers of operators
OF_CELLS = {
    16: "LSTM",
    24: "RNN",
    35: "UNIDIRECTIONAL_SEQUENCE_RNN",
    46: "BIDIRECTIONAL_SEQUENCE_RNN",
    52: "BIDIRECTIONAL_SEQUENCE_LSTM",
}
GATES = "ifgo"  # in the order of the operator's inputs
PEEPHOLES, PROJECTIONS, NORMS = range(9, 12), range(16, 18), range(20, 24)
ACTIVATIONS = {1: "relu", 4: "tanh"}
CLIP = 10  # of the state: TensorFlow's converter adds it to each LSTM of Keras
LAYOUT = Layout(
    "litert.UNIDIRECTIONAL_SEQUENCE_LSTM",
    "tensorflow 2.15.1",
    "lstm",
    {
        **{f"input_to_{gate}": Part("input", gate) for gate in GATES},
        **{f"recurrent_to_{gate}": Part("hidden", gate) for gate in GATES},
        **{f"bias_{gate}": Part("input_bias", gate) for gate in GATES},
    },
    transposed=True,
)
PLACES = dict(zip(LAYOUT.parts, (*range(1, 9), *range(12, 16)), strict=True))
ORIGINAL = "use the Keras model that it was converted from."


class Table:
    """A table of a FlatBuffer, whose fields have numbers. Raises struct.error or ValueError for a
    file that is damaged."""

    def __init__(self, content: bytes, place: int):
        self.content = content
        self.place = place

    def _at(self, field: int) -> int:
        """Where a field is, 0 if it has its default value."""
        table = self.place - self._read("i", self.place)
        offset = 4 + 2 * field
        if offset >= self._read("H", table):
            return 0
        relative = self._read("H", table + offset)
        return self.place + relative if relative else 0

    def _read(self, form: str, place: int) -> Any:
        if place < 0:
            raise ValueError("a place before the file")
        return struct.unpack_from(f"<{form}", self.content, place)[0]

    def number(self, field: int, form: str, default: float = 0) -> Any:
        place = self._at(field)
        return self._read(form, place) if place else default

    def table(self, field: int) -> Table | None:
        place = self._at(field)
        return Table(self.content, place + self._read("I", place)) if place else None

    def _vector(self, field: int) -> tuple[int, int]:
        """The place of the first item of a vector, and their number."""
        place = self._at(field)
        if not place:
            return 0, 0
        place += self._read("I", place)
        return place + 4, self._read("I", place)

    def numbers(self, field: int, dtype: str) -> np.ndarray:
        place, count = self._vector(field)
        return np.frombuffer(self.content, dtype, count, place) if count else np.empty(0, dtype)

    def tables(self, field: int) -> list[Table]:
        place, count = self._vector(field)
        if 4 * count > len(self.content):
            raise ValueError("a list that is longer than the file")
        places = range(place, place + 4 * count, 4)
        return [Table(self.content, each + self._read("I", each)) for each in places]

    def text(self, field: int) -> str:
        return self.numbers(field, "u1").tobytes().decode()


class Graph:
    """A graph of a model: the constant arrays by the numbers of their tensors, the `names` of all
    tensors, and the operators with their numbers."""

    def __init__(self, graph: Table, buffers: Sequence[Table], codes: Sequence[int]):
        self.operators = [(codes[each.number(0, "I")], each) for each in graph.tables(3)]
        self.names = []
        self.constants: dict[int, np.ndarray] = {}
        for number, tensor in enumerate(graph.tables(0)):
            name = tensor.text(3)
            self.names.append(name)
            buffer = buffers[tensor.number(2, "I")]
            data = buffer.numbers(0, "u1")
            if buffer.number(1, "Q") > 1:
                raise Refusal(f"the bytes of {name} are behind the model.", ORIGINAL)
            kind = TYPES.get(tensor.number(1, "b"))
            quantization = tensor.table(4)
            is_quantized = quantization is not None and len(quantization.numbers(2, "<f4"))
            if data.size and (is_quantized or kind is None):
                raise Refusal(
                    f"{name} is quantized: its numbers are rounded.",
                    "convert the model without quantization.",
                )
            if data.size:
                self.constants[number] = data.view(kind).reshape(tensor.numbers(0, "<i4"))
        for code, operator in self.operators:
            source, target = operator.numbers(1, "<i4"), operator.numbers(2, "<i4")
            if code == DEQUANTIZE and source[0] in self.constants:  # float16
                self.constants[target[0]] = self.constants[source[0]].astype("float32")


def read_litert(content: bytes) -> list[Item]:
    """The cells of a model of LiteRT and its other arrays.

    Raises `Refusal` for operators that no layer of Keras computes, loops and quantized arrays, and
    struct.error or ValueError for a damaged file.
    """
    model = Table(content, struct.unpack_from("<I", content)[0])
    codes = []
    for each in model.tables(1):
        codes.append(max(each.number(0, "b"), each.number(3, "i")))
    if WHILE in codes:
        raise Refusal(
            "it has loops of small operators (WHILE), such as recurrent layers become that are no "
            "LSTM with all arrays and tanh: nothing says what they compute.",
            ORIGINAL,
        )
    for code in codes:
        if code in OF_CELLS or code == CUSTOM:
            name = OF_CELLS.get(code, "of its own")
            raise Refusal(f"it has an operator {name}, which is not read.", ORIGINAL)
    if LSTM not in codes:
        raise Refusal(
            "it has no operator UNIDIRECTIONAL_SEQUENCE_LSTM: recurrent layers of another kind are "
            "small operators, and nothing says what they compute.",
            ORIGINAL,
        )
    items: list[Item] = []
    buffers = model.tables(4)
    for subgraph in model.tables(2):
        graph = Graph(subgraph, buffers, codes)
        reversed_ = set()
        for code, operator in graph.operators:
            if code == REVERSE:
                reversed_.add(int(operator.numbers(2, "<i4")[0]))
        used: set[int] = set()
        for code, operator in graph.operators:
            inputs = operator.numbers(1, "<i4").tolist()
            if code == LSTM:
                number = sum(isinstance(item, Cell) for item in items)
                scope = f"lstm_{number}" if number else "lstm"
                items.append(_cell(scope, operator, inputs, graph, inputs[0] in reversed_))
                used |= set(inputs)
        items += _others(graph, used)
    return items


def _cell(
    scope: str, operator: Table, inputs: Sequence[int], graph: Graph, is_reversed: bool
) -> Cell:
    """The cell of an operator. Raises `Refusal`."""

    def refuse(why: str) -> Refusal:
        what = f"the LSTM {graph.names[int(operator.numbers(2, '<i4')[0])]} {why}"
        return Refusal(f"{what}, which no layer of Keras computes.", "train it without.")

    given = dict(enumerate(inputs))
    for what, places in (
        ("has peepholes", PEEPHOLES),
        ("projects its state", PROJECTIONS),
        ("has layer norms", NORMS),
    ):
        if any(given.get(place, -1) >= 0 for place in places):
            raise refuse(what)
    if given.get(PLACES["input_to_i"], -1) < 0:
        raise refuse("has coupled gates")
    options = operator.table(4)
    if options is None or options.number(0, "b") not in ACTIVATIONS:
        raise refuse("has an unknown activation")
    clip = options.number(1, "f")
    if clip not in (0, CLIP) or options.number(2, "f"):
        raise refuse(f"clips its state at {clip:g}")
    found = {}
    for part, place in PLACES.items():
        number = given.get(place, -1)
        if number not in graph.constants:
            raise Refusal(f"{part} of its LSTM {scope} is not stored.", ORIGINAL)
        name = f"{scope}/{part}"
        found[part] = Array(name, name, graph.constants[number], scope)
    cell = declared_cell(Found(LAYOUT, scope, found))
    settings: dict[str, Any] = {
        "activation": ACTIVATIONS[options.number(0, "b")],
        "recurrent_activation": "sigmoid",
    }
    notes = cell.notes
    if clip:
        notes = (*notes, f"LiteRT keeps the state c within ±{clip:g}, Keras does not")
    if is_reversed:
        settings["go_backwards"] = True
        notes = (*notes, "its inputs are reversed: it runs backward in time")
    return replace(cell, settings=settings, notes=notes)


def _others(graph: Graph, used: set[int]) -> list[Array]:
    """The arrays of real numbers that belong to no cell."""
    arrays = []
    for number, values in graph.constants.items():
        if number in used or values.dtype.kind != "f" or not values.ndim:
            continue
        name = graph.names[number]
        if graph.names.count(name) > 1:
            name = f"{name}_{number}"
        arrays.append(Array(name, name, values, ""))
    return arrays
