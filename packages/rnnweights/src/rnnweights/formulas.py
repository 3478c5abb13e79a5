"""What a cell computes from its arrays as they are in a file, in float64. The layouts are described
here a second time, so that the check does not share the converter's mistakes.

Sources: cuDNN's documentation of cudnnRNNMode_t, Keras's and torch's of their layers, the formulas
of `rnnweights.layouts`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from rnnweights import declared
from rnnweights.cells import Buffer, Cell, resets_after
from rnnweights.layouts import AFTER

Function = Callable[[np.ndarray], np.ndarray]
HARD_SIGMOID_2 = "hard_sigmoid of Keras 2"
LETTERS = {"LSTM": "ifgo", "GRU": "zrn", "SimpleRNN": "h"}  # Keras's order
OF_TORCH = {"LSTM": "ifgo", "GRU": "rzn", "SimpleRNN": "h"}  # and cuDNN's


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 0.5 * (1 + np.tanh(0.5 * x))


def _hard_sigmoid_2(x: np.ndarray) -> np.ndarray:
    return np.clip(0.2 * x + 0.5, 0, 1)


def _hard_sigmoid_3(x: np.ndarray) -> np.ndarray:
    return np.clip(x / 6 + 0.5, 0, 1)


FUNCTIONS: dict[str, Function] = {
    "tanh": np.tanh,
    "sigmoid": _sigmoid,
    "relu": lambda x: np.maximum(x, 0),
    "linear": lambda x: x,
    "softsign": lambda x: x / (1 + np.abs(x)),
    "softplus": lambda x: np.logaddexp(x, 0),
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    HARD_SIGMOID_2: _hard_sigmoid_2,
    "hard_sigmoid of Keras 3": _hard_sigmoid_3,
}


@dataclass(frozen=True)
class Formula:
    """A cell for the inputs of one time step.

    `W`, `R`, `b`, `c`: by the letters of the gates, as in `declared.Gates`, in float64;
    `forget`, `reset_after` and `new_update`: as in `layouts.Layout`.
    """

    W: Mapping[str, np.ndarray]
    R: Mapping[str, np.ndarray]
    b: Mapping[str, np.ndarray]
    c: Mapping[str, np.ndarray]
    forget: float = 0.0
    reset_after: bool = False
    new_update: bool = False

    def outputs(self, x: np.ndarray, activation: Function, gate: Function) -> np.ndarray:
        """The outputs (batch, steps, units) for inputs (batch, steps, inputs), from zero states.

        `activation`: of the state; `gate`: the recurrent activation.
        """
        units = len(next(iter(self.R.values())))
        h = np.zeros((len(x), units))
        memory = h
        outputs = []
        for step in range(x.shape[1]):
            h, memory = self._step(x[:, step], h, memory, activation, gate)
            outputs.append(h)
        return np.stack(outputs, axis=1)

    def _step(
        self,
        x: np.ndarray,
        h: np.ndarray,
        memory: np.ndarray,
        activation: Function,
        gate: Function,
    ) -> tuple[np.ndarray, np.ndarray]:
        a = {name: x @ self.W[name] + self.b.get(name, 0) for name in self.W}
        q = {name: h @ self.R[name] + self.c.get(name, 0) for name in self.R}
        if "h" in a:
            return activation(a["h"] + q["h"]), memory
        if "f" in a:
            i, f, o = (gate(a[name] + q[name] + extra) for name, extra in self._gates())
            memory = f * memory + i * activation(a["g"] + q["g"])
            return o * activation(memory), memory

        z = gate(a["z"] + q["z"])
        r = gate(a["r"] + q["r"])
        if self.reset_after:
            new = activation(a["n"] + r * q["n"])
        else:
            new = activation(a["n"] + (r * h) @ self.R["n"] + self.c.get("n", 0))
        if self.new_update:
            return (1 - z) * h + z * new, memory
        return z * h + (1 - z) * new, memory

    def _gates(self) -> tuple[tuple[str, float], ...]:
        return ("i", 0.0), ("f", self.forget), ("o", 0.0)


def formula_of(cell: Cell, buffer: Buffer | None = None, place: int = 0) -> Formula:
    """The formula of a cell in the layout of its file.

    `buffer`: what a buffer of cuDNN holds; `place`: the number of the cell in it.
    """
    if cell.declared is not None:
        layout = cell.declared.layout
        values = {
            name: array.values.astype("float64") for name, array in cell.declared.parts.items()
        }
        gates = declared.gates_of(layout, values)
        return Formula(
            *gates,
            forget=layout.forget,
            reset_after=layout.reset == AFTER,
            new_update=layout.new_update,
        )

    parts = {array.part: array.values.astype("float64") for array in cell.sources}
    if cell.layout == "keras":
        return _of_keras(cell, parts)
    if cell.layout == "cudnn":
        return _of_cudnn(cell, parts)
    if cell.layout == "torch":
        arrays = [array.values.astype("float64") for array in cell.sources]
        return _of_rows(cell, arrays[0], arrays[1], np.array(arrays[2:]))
    assert buffer is not None
    flat = cell.sources[0].values.astype("float64").ravel()
    return _of_rows(cell, *_in_buffer(flat, cell, buffer, place))


def _of_keras(cell: Cell, parts: Mapping[str, np.ndarray]) -> Formula:
    letters = LETTERS[cell.kind]
    W = dict(zip(letters, np.split(parts["kernel"], len(letters), axis=1), strict=True))
    R = dict(zip(letters, np.split(parts["recurrent_kernel"], len(letters), axis=1), strict=True))
    b: dict[str, np.ndarray] = {}
    c: dict[str, np.ndarray] = {}
    if "bias" in parts:
        rows = np.atleast_2d(parts["bias"])
        b = dict(zip(letters, np.split(rows[0], len(letters)), strict=True))
        if len(rows) == 2:
            c = dict(zip(letters, np.split(rows[1], len(letters)), strict=True))
    return Formula(W, R, b, c, reset_after=resets_after(cell))


def _of_cudnn(cell: Cell, parts: Mapping[str, np.ndarray]) -> Formula:
    """Of each gate, the rows of its part of the kernel, read in order, are cuDNN's."""
    letters = LETTERS[cell.kind]
    units = cell.units
    W = {}
    R = {}
    kernels = np.split(parts["kernel"], len(letters), axis=1)
    states = np.split(parts["recurrent_kernel"], len(letters), axis=1)
    biases = parts["bias"].reshape(2, len(letters), units)
    for gate, kernel, state in zip(letters, kernels, states, strict=True):
        W[gate] = kernel.reshape(units, -1).T
        R[gate] = state.T
    b = dict(zip(letters, biases[0], strict=True))
    c = dict(zip(letters, biases[1], strict=True))
    return Formula(W, R, b, c, reset_after=True)


def _of_rows(cell: Cell, kernel: np.ndarray, state: np.ndarray, biases: np.ndarray) -> Formula:
    """Matrices of gates·units × inputs, in torch's and cuDNN's order of the gates.

    `biases`: (2, gates·units), or none.
    """
    letters = OF_TORCH[cell.kind]
    count = len(letters)
    W = dict(zip(letters, kernel.reshape(count, cell.units, -1), strict=True))
    R = dict(zip(letters, state.reshape(count, cell.units, cell.units), strict=True))
    b: dict[str, np.ndarray] = {}
    c: dict[str, np.ndarray] = {}
    if biases.size:
        rows = biases.reshape(2, count, cell.units)
        b = dict(zip(letters, rows[0], strict=True))
        c = dict(zip(letters, rows[1], strict=True))
    W = {gate: matrix.T for gate, matrix in W.items()}
    R = {gate: matrix.T for gate, matrix in R.items()}
    return Formula(W, R, b, c, reset_after=True)


def _in_buffer(
    flat: np.ndarray, cell: Cell, buffer: Buffer, place: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The kernel, the state's matrix and the biases of pseudo-layer `place` of a buffer, which has
    the matrices of all pseudo-layers before their biases."""
    units = buffer.units
    count = buffer.layers * buffer.directions
    columns = len(OF_TORCH[cell.kind]) * units
    size = flat.size - 2 * columns * count  # of all matrices
    biases = flat[size:].reshape(count, 2, columns)
    of_upper = (count - buffer.directions) * buffer.directions * units
    features = (size // columns - count * units - of_upper) // buffer.directions

    start = 0
    for number in range(place + 1):
        inputs = features
        if number >= buffer.directions:
            inputs = buffer.directions * units
        end = start + columns * inputs
        kernel = flat[start:end]
        start = end + columns * units
        state = flat[end:start]
    return kernel, state, biases[place]
