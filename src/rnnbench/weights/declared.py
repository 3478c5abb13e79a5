"""Layouts of recurrent cells in other frameworks, which the user declares with ``--layout``: which
array holds which gates, and what the cell computes with them.

Gates are letters: ``ifgo`` of an LSTM, ``rzn`` of a GRU, ``h`` of a plain RNN. Of a GRU whose one
array has all biases, ``m`` is the bias of n on the side of the state. All cells compute::

    LSTM    c = f c + i g,  h = o tanh(c)
    GRU     n = tanh(W x + b + R (r h) + c)     reset before the product
            n = tanh(W x + b + r (R h + c))     reset after the product
            h = z h + (1 - z) n                 or, with `new_update`, (1 - z) h + z n

Source: each row was run in its framework, in the version that it names, on random arrays and
compared with a formula in float64: at most 1.1e-6 off, MindSpore 4.3e-5, whose tanh is approximate.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from rnnbench.weights.cells import PARTS, Array, Cell, Refusal, checked

GATES = {"lstm": "ifgo", "gru": "zrn", "rnn_tanh": "h"}  # in Keras's order
BEFORE, AFTER = "before", "after"
MATRICES = ("input", "hidden", "both")


class Part(NamedTuple):
    """What an array holds.

    `side`: ``input`` or ``hidden``, a matrix for the inputs or the state; ``both``, one for the
    inputs followed by the state; ``input_bias``, ``hidden_bias``;
    `gates`: the letters of its gates, in their order.
    """

    side: str
    gates: str


@dataclass(frozen=True)
class Layout:
    """How a framework stores a cell.

    `name`: its module and class, such as ``haiku.LSTM``; `version`: the one that was run;
    `cell`: ``lstm``, ``gru`` or ``rnn_tanh``;
    `parts`: by the end of the array's name; biases may be missing;
    `transposed`: matrices are gates·units × inputs, for ``W @ x``;
    `interleaved`: the gates of a unit are beside each other;
    `forget`: what is added to the forget gate at run time, and is not in the file;
    `reset`: of a GRU, `BEFORE` or `AFTER` the product;
    `new_update`: of a GRU, z takes the new state;
    `says`: a further sentence for the user;
    `refused`: why no layer of Keras computes the same.
    """

    name: str
    version: str
    cell: str
    parts: Mapping[str, Part] = field(default_factory=dict)
    transposed: bool = False
    interleaved: bool = False
    forget: float = 0.0
    reset: str = ""
    new_update: bool = False
    says: str = ""
    refused: str = ""

    @property
    def is_stack(self) -> bool:
        """Whether its arrays have torch's names, with a level: ``weight_ih_l0``."""
        return TORCH_STACK[0] in self.parts

    @property
    def is_kerass(self) -> bool:
        return self.name.startswith("keras.")

    @property
    def order(self) -> str:
        """The gates of an array that has all of them, empty if each has an array of its own."""
        orders = {part.gates for part in self.parts.values() if part.side in MATRICES}
        if len(orders) == 1:
            return orders.pop()
        return ""


def _by_gate(side: str, names: Mapping[str, str]) -> dict[str, Part]:
    """A part per gate. `names`: those of the arrays by the letter of their gate."""
    return {name: Part(side, gate) for gate, name in names.items()}


def _numbered(gates: str, first: int, side: str, letter: str) -> dict[str, Part]:
    """The arrays ``w0``, ``w1``, … of Chainer's NStep links, one per gate."""
    parts = {}
    for number, gate in enumerate(gates, start=first):
        parts[f"{letter}{number}"] = Part(side, gate)
    return parts


def _two_biases(gates: str, names: Sequence[str]) -> dict[str, Part]:
    """Two matrices and two biases, with all gates each."""
    sides = ("input", "hidden", "input_bias", "hidden_bias")
    return {name: Part(side, gates) for name, side in zip(names, sides, strict=True)}


LINEN = "flax.linen 0.12.12"
NNX = "flax.nnx 0.12.12"
HAIKU = "dm-haiku 0.0.17"
EQUINOX = "equinox 0.13.8"
MXNET = "mxnet 1.9.1"
CHAINER = "chainer 7.8.1"
NNABLA = "nnabla 1.39.0"
DYNET = "dynet38 2.2"
LASAGNE = "lasagne 0.1"
TORCH_CELL = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
TORCH_STACK = tuple(f"{name}_l" for name in TORCH_CELL)  # a number follows
GLUON = ("i2h_weight", "h2h_weight", "i2h_bias", "h2h_bias")
LSTM_OF_LASAGNE = {"i": "ingate", "f": "forgetgate", "g": "cell", "o": "outgate"}
GRU_OF_LASAGNE = {"r": "resetgate", "z": "updategate", "n": "hidden_update"}


def _named(pattern: str, names: Mapping[str, str]) -> dict[str, str]:
    return {gate: pattern.format(name) for gate, name in names.items()}


def _each(pattern: str, gates: str) -> dict[str, str]:
    return {gate: pattern.format(gate) for gate in gates}


def _of_keras(gates: str) -> dict[str, Part]:
    sides = ("input", "hidden", "input_bias")
    return {name: Part(side, gates) for name, side in zip(PARTS, sides, strict=True)}


LINEN_LSTM = {
    **_by_gate("input", _each("i{}/kernel", "ifgo")),
    **_by_gate("hidden", _each("h{}/kernel", "ifgo")),
    **_by_gate("hidden_bias", _each("h{}/bias", "ifgo")),
}
NNX_LSTM = {}
for _name, _part in LINEN_LSTM.items():
    NNX_LSTM[_name.replace("if/", "if_/")] = _part  # ``if`` is no name in Python
LSTM_ARRAYS = {
    **_by_gate("input", _named("W_in_to_{}", LSTM_OF_LASAGNE)),
    **_by_gate("hidden", _named("W_hid_to_{}", LSTM_OF_LASAGNE)),
    **_by_gate("input_bias", _named("b_{}", LSTM_OF_LASAGNE)),
}
GRU_ARRAYS = {
    **_by_gate("input", _named("W_in_to_{}", GRU_OF_LASAGNE)),
    **_by_gate("hidden", _named("W_hid_to_{}", GRU_OF_LASAGNE)),
    **_by_gate("input_bias", _named("b_{}", GRU_OF_LASAGNE)),
}
CHAINER_GRU = {}
for _gate, _end in {"r": "_r", "z": "_z", "n": ""}.items():
    CHAINER_GRU[f"W{_end}/W"] = Part("input", _gate)
    CHAINER_GRU[f"W{_end}/b"] = Part("input_bias", _gate)
    CHAINER_GRU[f"U{_end}/W"] = Part("hidden", _gate)
    CHAINER_GRU[f"U{_end}/b"] = Part("hidden_bias", _gate)
DYNET_GRU = {}
for _number, _gate in enumerate("zrn"):
    DYNET_GRU[f"_{3 * _number}"] = Part("input", _gate)
    DYNET_GRU[f"_{3 * _number + 1}"] = Part("hidden", _gate)
    DYNET_GRU[f"_{3 * _number + 2}"] = Part("input_bias", _gate)

# A second name of an array in Paddle, as ``rnn.0.cell.weight_ih``.
PADDLE_CELL = re.compile(r"(^|[./])\d+[./]cell(_[fb]w)?[./](weight|bias)_(ih|hh)$")
APPROXIMATE = "MindSpore's tanh on a CPU is approximate: its outputs are up to 1e-4 off"
COUPLED = "its forget gate is 1 - i (coupled gates)"
OWN = (
    # Those of flax's cells called LSTMCell and OptimizedLSTMCell have the same arrays in linen.
    Layout("flax.linen.LSTMCell", LINEN, "lstm", LINEN_LSTM),
    Layout("flax.linen.OptimizedLSTMCell", LINEN, "lstm", LINEN_LSTM),
    Layout(
        "flax.linen.GRUCell",
        LINEN,
        "gru",
        {
            **_by_gate("input", _each("i{}/kernel", "rzn")),
            **_by_gate("input_bias", _each("i{}/bias", "rzn")),
            **_by_gate("hidden", _each("h{}/kernel", "rzn")),
            "hn/bias": Part("hidden_bias", "n"),
        },
        reset=AFTER,
    ),
    Layout(
        "flax.linen.SimpleCell",
        LINEN,
        "rnn_tanh",
        {
            "i/kernel": Part("input", "h"),
            "i/bias": Part("input_bias", "h"),
            "h/kernel": Part("hidden", "h"),
        },
    ),
    Layout("flax.nnx.LSTMCell", NNX, "lstm", NNX_LSTM),
    Layout(
        "flax.nnx.OptimizedLSTMCell",
        NNX,
        "lstm",
        {
            "dense_i/kernel": Part("input", "ifgo"),
            "dense_h/kernel": Part("hidden", "ifgo"),
            "dense_h/bias": Part("hidden_bias", "ifgo"),
        },
    ),
    Layout(
        "flax.nnx.GRUCell",
        NNX,
        "gru",
        {
            "dense_i/kernel": Part("input", "rzn"),
            "dense_i/bias": Part("input_bias", "rzn"),
            "dense_h/kernel": Part("hidden", "rzn"),
        },
        reset=AFTER,
    ),
    Layout(
        "haiku.LSTM",
        HAIKU,
        "lstm",
        {"linear/w": Part("both", "igfo"), "linear/b": Part("input_bias", "igfo")},
        forget=1.0,
    ),
    Layout(
        "haiku.GRU",
        HAIKU,
        "gru",
        {
            "w_i": Part("input", "zrn"),
            "w_h": Part("hidden", "zrn"),
            "b": Part("input_bias", "zrn"),
        },
        reset=BEFORE,
        new_update=True,
    ),
    Layout(
        "equinox.LSTMCell",
        EQUINOX,
        "lstm",
        {
            "weight_ih": Part("input", "ifgo"),
            "weight_hh": Part("hidden", "ifgo"),
            "bias": Part("input_bias", "ifgo"),
        },
        transposed=True,
    ),
    Layout(
        "equinox.GRUCell",
        EQUINOX,
        "gru",
        {
            "weight_ih": Part("input", "rzn"),
            "weight_hh": Part("hidden", "rzn"),
            "bias": Part("input_bias", "rzn"),
            "bias_n": Part("hidden_bias", "n"),
        },
        transposed=True,
        reset=AFTER,
    ),
    Layout("mxnet.LSTM", MXNET, "lstm", _two_biases("ifgo", GLUON), transposed=True),
    Layout("mxnet.GRU", MXNET, "gru", _two_biases("rzn", GLUON), transposed=True, reset=AFTER),
    Layout(
        "mindspore.LSTMCell",
        "mindspore 2.10.0",
        "lstm",
        _two_biases("ifgo", TORCH_CELL),
        transposed=True,
        says=APPROXIMATE,
    ),
    Layout(
        "mindspore.GRUCell",
        "mindspore 2.10.0",
        "gru",
        _two_biases("rzn", TORCH_CELL),
        transposed=True,
        reset=AFTER,
        says=APPROXIMATE,
    ),
    Layout("torch.LSTMCell", "torch 2.13.0", "lstm", _two_biases("ifgo", TORCH_CELL), True),
    Layout(
        "torch.GRUCell", "torch 2.13.0", "gru", _two_biases("rzn", TORCH_CELL), True, reset=AFTER
    ),
    Layout("torch.RNNCell", "torch 2.13.0", "rnn_tanh", _two_biases("h", TORCH_CELL), True),
    Layout("tinygrad.LSTMCell", "tinygrad 0.14.0", "lstm", _two_biases("ifgo", TORCH_CELL), True),
    Layout(
        "chainer.NStepLSTM",
        CHAINER,
        "lstm",
        {
            **_numbered("ifgo", 0, "input", "w"),
            **_numbered("ifgo", 4, "hidden", "w"),
            **_numbered("ifgo", 0, "input_bias", "b"),
            **_numbered("ifgo", 4, "hidden_bias", "b"),
        },
        transposed=True,
    ),
    Layout(
        "chainer.NStepGRU",
        CHAINER,
        "gru",
        {
            **_numbered("rzn", 0, "input", "w"),
            **_numbered("rzn", 3, "hidden", "w"),
            **_numbered("rzn", 0, "input_bias", "b"),
            **_numbered("rzn", 3, "hidden_bias", "b"),
        },
        transposed=True,
        reset=AFTER,
    ),
    Layout(
        "chainer.LSTM",
        CHAINER,
        "lstm",
        {
            "upward/W": Part("input", "gifo"),
            "upward/b": Part("input_bias", "gifo"),
            "lateral/W": Part("hidden", "gifo"),
        },
        transposed=True,
        interleaved=True,
    ),
    Layout(
        "chainer.StatefulPeepholeLSTM",
        CHAINER,
        "lstm",
        refused="it has peepholes with full matrices",
    ),
    Layout(
        "chainer.StatefulGRU",
        CHAINER,
        "gru",
        CHAINER_GRU,
        transposed=True,
        reset=BEFORE,
        new_update=True,
        says="without a state, Chainer's first step leaves the biases of U out; Keras adds them",
    ),
    Layout(
        "chainer.StatelessGRU",
        CHAINER,
        "gru",
        CHAINER_GRU,
        transposed=True,
        reset=BEFORE,
        new_update=True,
    ),
    Layout(
        "nnabla.functions.lstm",
        NNABLA,
        "lstm",
        {"weight_l0": Part("both", "ifgo"), "bias": Part("input_bias", "ifgo")},
        transposed=True,
    ),
    Layout(
        "nnabla.functions.gru",
        NNABLA,
        "gru",
        {"weight_l0": Part("both", "rzn"), "bias": Part("input_bias", "rznm")},
        transposed=True,
        reset=AFTER,
    ),
    Layout(
        "nnabla.functions.rnn",
        NNABLA,
        "rnn_tanh",
        {"weight_l0": Part("both", "h"), "bias": Part("input_bias", "h")},
        transposed=True,
    ),
    Layout(
        "nnabla.parametric_functions.lstm_cell",
        NNABLA,
        "lstm",
        {"affine/W": Part("both", "iofg"), "affine/b": Part("input_bias", "iofg")},
    ),
    Layout(
        "dynet.LSTMBuilder",
        DYNET,
        "lstm",
        {
            "_0": Part("input", "ifog"),
            "_1": Part("hidden", "ifog"),
            "_2": Part("input_bias", "ifog"),
        },
        transposed=True,
        forget=1.0,
    ),
    Layout("dynet.CoupledLSTMBuilder", DYNET, "lstm", refused=f"{COUPLED}, and it has peepholes"),
    Layout("dynet.FastLSTMBuilder", DYNET, "lstm", refused=COUPLED),
    Layout(
        "dynet.GRUBuilder",
        DYNET,
        "gru",
        DYNET_GRU,
        transposed=True,
        reset=BEFORE,
        new_update=True,
    ),
    Layout(
        "dynet.SimpleRNNBuilder",
        DYNET,
        "rnn_tanh",
        {
            "_0": Part("input", "h"),
            "_1": Part("hidden", "h"),
            "_2": Part("input_bias", "h"),
        },
        transposed=True,
    ),
    Layout("lasagne.LSTMLayer", LASAGNE, "lstm", LSTM_ARRAYS),
    Layout("lasagne.GRULayer", LASAGNE, "gru", GRU_ARRAYS, reset=AFTER, new_update=True),
    Layout("keras.LSTM", "keras 3.15.1", "lstm", _of_keras("ifgo")),
    Layout("keras.GRU", "keras 3.15.1", "gru", _of_keras("zrn")),
    Layout("keras.SimpleRNN", "keras 3.15.1", "rnn_tanh", _of_keras("h")),
    Layout(
        "tensorflow_addons.PeepholeLSTMCell",
        "tensorflow-addons 0.23.0",
        "lstm",
        refused="it has peepholes",
    ),
    Layout(
        "tensorflow_addons.LayerNormLSTMCell",
        "tensorflow-addons 0.23.0",
        "lstm",
        refused="it normalizes its sums and its state",
    ),
)


def _stacks(framework: str, version: str, plain: str, says: str = "") -> list[Layout]:
    """The three layers of a framework that names and lays out its arrays as torch does.

    `plain`: the name of its plain RNN. The other arguments are those of a `Layout`.
    """
    layouts = []
    for name, cell, gates in (
        ("LSTM", "lstm", "ifgo"),
        ("GRU", "gru", "rzn"),
        (plain, "rnn_tanh", "h"),
    ):
        layout = Layout(
            f"{framework}.{name}",
            version,
            cell,
            _two_biases(gates, TORCH_STACK),
            transposed=True,
            reset=AFTER if cell == "gru" else "",
            says=says,
        )
        layouts.append(layout)
    return layouts


LAYOUTS = (
    *OWN,
    *_stacks("torch", "torch 2.13.0", "RNN"),
    *_stacks("paddle", "paddlepaddle 3.3.1", "SimpleRNN"),
    *_stacks("mindspore", "mindspore 2.10.0", "RNN", APPROXIMATE),
)


def layouts_named(name: str) -> list[Layout]:
    """The layouts with a name or in a module, such as ``haiku.LSTM`` or ``haiku``, in any case of
    letters. Raises `Refusal` for a name that is none, and for cells that Keras lacks."""
    wanted = name.lower()
    found = []
    for layout in LAYOUTS:
        own = layout.name.lower()
        if own == wanted or own.startswith(f"{wanted}."):
            found.append(layout)
    if not found:
        names = ", ".join(sorted(layout.name for layout in LAYOUTS))
        raise Refusal(f"no layout is called {name}.", f"state one of {names}.")

    known = [layout for layout in found if not layout.refused]
    if not known:
        why = found[0].refused
        raise Refusal(
            f"no LSTM, GRU or SimpleRNN computes what {found[0].name} does: {why}.",
            "train with another cell.",
        )
    return known


def order_in_words(layout: Layout) -> str:
    """The order of the gates in an array, for people: ``i, g, f, o``."""
    return ", ".join(layout.order)


class Found(NamedTuple):
    """A cell in a file: its `layout`, its `scope` and its arrays by the names in `Layout.parts`."""

    layout: Layout
    scope: str
    parts: dict[str, Array]


def find(arrays: Iterable[Array], layouts: Sequence[Layout]) -> list[Found]:
    """The cells among arrays whose names end like the parts of one of the layouts, by scope.

    If several layouts fit a scope, the first with the most arrays is taken; the shapes decide
    between those of other cells.
    """
    best: dict[str, Found] = {}
    for layout in layouts:
        if layout.is_stack or layout.is_kerass:
            continue
        scopes: dict[str, dict[str, Array]] = {}
        for array in arrays:
            path = re.sub(r"(/value)?(/raw_value)?$", "", array.name.replace(".", "/"))
            for part in layout.parts:
                separators = "/_" if layout.name.startswith("mxnet") else "/"
                if path == part:
                    scopes.setdefault("", {})[part] = array
                elif path.endswith(part) and path[-len(part) - 1] in separators:
                    scope = path[: -len(part) - 1].lstrip("/")
                    scopes.setdefault(scope, {})[part] = array

        for scope, parts in scopes.items():
            if not _fits(layout, parts):
                continue
            before = best.get(scope)
            if before is None or len(parts) > len(before.parts):
                best[scope] = Found(layout, scope, parts)
    return list(best.values())


def _fits(layout: Layout, parts: Mapping[str, Array]) -> bool:
    """Whether there are all matrices, all or none of the biases, and as many rows or columns as the
    cell has gates."""
    matrices = {name for name, part in layout.parts.items() if part.side in MATRICES}
    biases = set(layout.parts) - matrices
    if not matrices <= set(parts) or set(parts) & biases not in (set(), biases):
        return False
    values = {name: array.values for name, array in parts.items()}
    try:
        gates_of(layout, values)
    except ValueError:
        return False
    return True


class Gates(NamedTuple):
    """The arrays of a cell by the letters of its gates.

    `W`: (inputs, units) each, to be multiplied as ``x @ W``; `R`: (units, units); `b`, `c`:
    (units,), the biases on the side of the inputs and of the state, both empty without a bias.
    """

    W: dict[str, np.ndarray]
    R: dict[str, np.ndarray]
    b: dict[str, np.ndarray]
    c: dict[str, np.ndarray]


def gates_of(layout: Layout, values: Mapping[str, np.ndarray]) -> Gates:
    """The arrays of one cell, by the names in `Layout.parts`. Raises ValueError if their shapes
    contradict each other or the layout."""
    gates = Gates({}, {}, {}, {})
    units = _units(layout, values)
    for name, part in layout.parts.items():
        if name not in values:
            continue
        array = values[name]
        pieces = _split(layout, part, array, units)
        for gate, piece in pieces.items():
            if part.side == "both":
                gates.W[gate] = piece[:-units]
                gates.R[gate] = piece[-units:]
            elif part.side == "input":
                gates.W[gate] = piece
            elif part.side == "hidden":
                gates.R[gate] = piece
            elif part.side == "hidden_bias":
                gates.c[gate] = piece
            elif part.side == "input_bias" and gate == "m":
                gates.c["n"] = piece
            elif part.side == "input_bias":
                gates.b[gate] = piece

    inputs = {matrix.shape for matrix in gates.W.values()}
    states = {matrix.shape for matrix in gates.R.values()}
    letters = set(GATES[layout.cell])
    if len(inputs) != 1 or states != {(units, units)} or set(gates.W) != letters:
        raise ValueError("has arrays of contradicting shapes")
    if set(gates.R) != letters or inputs.pop()[0] < 1:
        raise ValueError("has arrays of contradicting shapes")
    return gates


def _units(layout: Layout, values: Mapping[str, np.ndarray]) -> int:
    """The units of a cell, from a matrix for its state. Raises ValueError if there is none."""
    rows = -1 if layout.transposed else 0  # the axis over what is multiplied
    for name, part in layout.parts.items():
        if name not in values or part.side not in ("hidden", "both") or values[name].ndim < 2:
            continue
        shape = values[name].shape
        if len(shape) > 2:  # gates and units are axes of their own
            return shape[-2] if layout.transposed else shape[-1]
        units = shape[rows]
        if part.side == "both" and units:
            units = values[name].size // units // len(part.gates)
        if units:
            return units
    raise ValueError("has no units")


def _split(layout: Layout, part: Part, array: np.ndarray, units: int) -> dict[str, np.ndarray]:
    """The pieces of an array by gate: matrices as (rows, units), biases as (units,)."""
    count = len(part.gates)
    if part.side in MATRICES:
        if array.ndim < 2:
            raise ValueError("has arrays of contradicting shapes")
        if layout.transposed:
            array = array.reshape(-1, array.shape[-1]).T
        else:
            array = array.reshape(array.shape[0], -1)
    else:
        array = array.reshape(1, -1)
    if array.shape[1] != count * units:
        raise ValueError("has arrays of contradicting shapes")

    pieces = {}
    for number, gate in enumerate(part.gates):
        if layout.interleaved:
            piece = array[:, number::count]
        else:
            piece = array[:, number * units : (number + 1) * units]
        pieces[gate] = piece if part.side in MATRICES else piece[0]
    return pieces


class InKeras(NamedTuple):
    """A cell in Keras's layout.

    `arrays`: ``kernel``, ``recurrent`` and ``bias``; `exact`: whether two biases can be had back
    from their sum; `reset_after`: of a GRU; `notes`: what was changed, in words.
    """

    arrays: dict[str, np.ndarray]
    exact: bool
    reset_after: bool | None
    notes: tuple[str, ...]


def in_keras(layout: Layout, gates: Gates) -> InKeras:
    """The arrays of a cell that computes the same in Keras."""
    letters = GATES[layout.cell]
    notes = []
    negated: set[str] = set()
    if layout.new_update:
        negated = {"z"}
        notes.append("z is negated, because there h = (1 - z) h + z n")

    arrays = {
        "kernel": _joined(gates.W, letters, negated),
        "recurrent": _joined(gates.R, letters, negated),
    }
    has_bias = bool(gates.b or gates.c)
    exact = True
    if has_bias or layout.forget:
        zeros = np.zeros_like(arrays["kernel"], shape=len(arrays["recurrent"]))
        of_inputs = {gate: gates.b.get(gate, zeros) for gate in letters}
        of_state = {gate: gates.c.get(gate, zeros) for gate in letters}
        if layout.forget:
            of_inputs["f"] = of_inputs["f"] + of_inputs["f"].dtype.type(layout.forget)
            notes.append(f"{layout.forget:g} is added to the bias of f, as there at run time")
        first = _joined(of_inputs, letters, negated)
        second = _joined(of_state, letters, negated)
        if layout.reset == AFTER:
            arrays["bias"] = np.stack([first, second])
        else:
            arrays["bias"] = first + second
            if gates.b and gates.c:
                exact = bool(np.array_equal(first, second))

    reset_after = None
    if layout.cell == "gru":
        reset_after = layout.reset == AFTER
        if not reset_after:
            notes.append("the reset gate is applied before the product: reset_after=False")
    return InKeras(arrays, exact, reset_after, tuple(notes))


def _joined(pieces: Mapping[str, np.ndarray], letters: str, negated: set[str]) -> np.ndarray:
    """The pieces of all gates beside each other."""
    columns = []
    for gate in letters:
        columns.append(-pieces[gate] if gate in negated else pieces[gate])
    return np.concatenate(columns, axis=-1)


def declared_cells(
    arrays: Sequence[Array], layouts: Sequence[Layout]
) -> tuple[list[Cell], list[Array]]:
    """The cells whose arrays one of the layouts describes, and the other arrays.

    Arrays that a user has renamed to ``LAYER/kernel``, ``LAYER/recurrent_kernel`` and
    ``LAYER/bias`` are read in the layout's order of the gates. Raises `Refusal` if there is no such
    cell, or if it has further arrays.
    """
    found = find(arrays, layouts)
    taken = {array.name for each in found for array in each.parts.values()}
    rest = [array for array in arrays if array.name not in taken]
    if not any(layout.is_kerass for layout in layouts):
        renamed = _renamed(rest, layouts)
        taken = {array.name for each in renamed for array in each.parts.values()}
        rest = [array for array in rest if array.name not in taken]
        found += renamed
    for each in found:
        _check_alone(each, rest)
    return [declared_cell(each) for each in found], rest


def _renamed(arrays: Sequence[Array], layouts: Sequence[Layout]) -> list[Found]:
    """Cells with Keras's names, in the order of the gates that one of the layouts has."""
    scopes: dict[str, dict[str, Array]] = {}
    for array in arrays:
        if array.part in PARTS:
            scopes.setdefault(array.scope, {})[array.part] = array

    found = []
    for scope, parts in scopes.items():
        if not set(PARTS[:2]) <= set(parts):
            continue
        values = {name: array.values for name, array in parts.items()}
        fitting = []
        for layout in layouts:
            renamed = _with_kerass_names(layout, parts)
            if renamed is None:
                continue
            try:
                gates_of(renamed, values)
            except ValueError:
                continue
            fitting.append(renamed)
        distinct = {(layout.cell, layout.order, layout.reset) for layout in fitting}
        if len(distinct) != 1:
            names = ", ".join(layout.name for layout in fitting or layouts)
            shapes = ", ".join(f"{name} {array.values.shape}" for name, array in parts.items())
            raise Refusal(
                f"layer {scope}: {shapes} are not one array of all gates of {names}.",
                "name its arrays as the framework does, or state one layout that has them.",
            )
        found.append(Found(fitting[0], scope, parts))
    return found


def _with_kerass_names(layout: Layout, parts: Mapping[str, Array]) -> Layout | None:
    """The layout with Keras's names and orientation; None if its biases would be ambiguous, or its
    gates have arrays of their own."""
    order = layout.order
    if not order:
        return None
    biases = [part for part in layout.parts.values() if part.side not in MATRICES]
    named = {
        "kernel": Part("input", order),
        "recurrent_kernel": Part("hidden", order),
    }
    if "bias" in parts:
        one = len(biases) == 1 and biases[0].gates == order
        if not one or parts["bias"].values.ndim != 1:
            return None
        named["bias"] = Part(biases[0].side, order)
    return Layout(
        layout.name,
        layout.version,
        layout.cell,
        named,
        interleaved=layout.interleaved,
        forget=layout.forget,
        reset=layout.reset,
        new_update=layout.new_update,
        says=layout.says,
    )


def _check_alone(found: Found, rest: Iterable[Array]) -> None:
    """Raises `Refusal` if a cell has arrays that its layout does not have, such as peepholes."""
    scope = found.scope
    for array in rest:
        path = array.name.replace(".", "/").lstrip("/")
        is_own = path.startswith((f"{scope}/", f"{scope}_")) if scope else "/" not in path
        if is_own:
            raise Refusal(
                f"layer {scope or 'of the file'} has {array.name} besides the arrays of "
                f"{found.layout.name} ({', '.join(found.parts)}): it computes something else.",
                "state the layout of this cell, or leave the array out if it is of another layer.",
            )


def declared_cell(found: Found) -> Cell:
    """The cell that was found. Raises `Refusal` for values that are not finite real numbers, and
    ValueError if its arrays contradict each other."""
    layout = found.layout
    values = {name: array.values for name, array in found.parts.items()}
    converted = in_keras(layout, gates_of(layout, values))
    scope = found.scope or layout.name.rpartition(".")[2].lower()
    cell = checked(
        scope,
        scope,
        layout.name,
        converted.arrays,
        list(found.parts.values()),
        converted.exact,
    )
    notes = converted.notes
    if layout.says:
        notes = (*notes, layout.says)
    return replace(
        cell,
        reset_after=converted.reset_after,
        notes=notes,
        declared=found,
        is_stated=True,
    )


def without_copies(arrays: Sequence[Array], layouts: Sequence[Layout]) -> list[Array]:
    """The arrays without those that Paddle stores a second time, for each of its cells. Raises
    `Refusal` for projections."""
    if not any(layout.name.startswith("paddle.") for layout in layouts):
        return list(arrays)
    rest = []
    contents = {array.values.tobytes() for array in arrays if not PADDLE_CELL.search(array.name)}
    for array in arrays:
        if array.name.endswith("weight_ho"):
            raise Refusal(
                f"{array.name} projects the state (proj_size), which no layer of Keras does.",
                "train without proj_size.",
            )
        if not PADDLE_CELL.search(array.name) or array.values.tobytes() not in contents:
            rest.append(array)
    return rest


def suggestion(arrays: Sequence[Array]) -> list[str]:
    """The names of layouts whose arrays are called as some in the file."""
    names = []
    for found in find(arrays, LAYOUTS):
        parts = set(found.parts)
        for layout in LAYOUTS:
            if set(layout.parts) == parts and _fits(layout, found.parts):
                names.append(layout.name)
    return list(dict.fromkeys(names))
