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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from rnnweights.checkpoint import PARTS, Refusal

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
    `starts`: the arrays of its states at the start, which must be zero;
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
    starts: tuple[str, ...] = ()
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
    Layout(
        "lasagne.LSTMLayer",
        LASAGNE,
        "lstm",
        LSTM_ARRAYS,
        starts=("hid_init", "cell_init"),
    ),
    Layout(
        "lasagne.GRULayer",
        LASAGNE,
        "gru",
        GRU_ARRAYS,
        reset=AFTER,
        new_update=True,
        starts=("hid_init",),
    ),
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
