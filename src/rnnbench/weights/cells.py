"""The recurrent cells among the arrays of a checkpoint, in Keras's layout: gates i, f, c, o of LSTM
and z, r, h of GRU. `rnnworker.recurrent.checkpoint_layouts` has the other layouts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from rnnworker.recurrent import checkpoint_layouts as layouts

PARTS = ("kernel", "recurrent_kernel", "bias")  # in Keras's order
# Keras's name of a part → its name among canonical arrays.
CANONICAL = {
    "kernel": "kernel",
    "recurrent_kernel": "recurrent",
    "bias": "bias",
}
KINDS = {
    "lstm": "LSTM",
    "gru": "GRU",
    "rnn_tanh": "SimpleRNN",
}
DIRECTIONS = ("forward", "backward")
TORCH = re.compile(
    r"(?:(.*)[./])?(weight_ih|weight_hh|bias_ih|bias_hh|weight_hr)_l(\d+)(_reverse)?"
)
TORCH_PARTS = (*layouts.TORCH, "weight_hr")
OPAQUE = "opaque_kernel"


class Refusal(ValueError):
    """`what` is wrong with a layer or a file, and the `remedy`."""

    def __init__(self, what: str, remedy: str = "use a checkpoint whose arrays agree."):
        super().__init__(what)
        self.what = what
        self.remedy = remedy


class Array(NamedTuple):
    """One array of a checkpoint.

    `name`: unique, such as ``both/forward/kernel``;
    `place`: its name in the file;
    `layer`: the Keras layer that has it.
    """

    name: str
    place: str
    values: np.ndarray
    layer: str

    @property
    def scope(self) -> str:
        """The name without its last part, such as ``both/forward``."""
        return self.name.rpartition("/")[0]

    @property
    def part(self) -> str:
        """The last part of the name, such as ``kernel``."""
        return self.name.rpartition("/")[2]


@dataclass(frozen=True)
class Cell:
    """One direction of a recurrent layer.

    `name`: ``lstm``, ``gru`` or ``rnn_tanh``;
    `layout`: of the file: ``keras``, ``cudnn``, ``torch`` or ``buffer``;
    `arrays`: those of `PARTS` that the cell has, in Keras's layout: a kernel of inputs ×
    gates·units, a recurrent kernel of units × gates·units, a bias of gates·units or, of a GRU that
    resets after the product, 2 × gates·units;
    `sources`: the arrays in the file, in its layout;
    `exact`: whether two biases can be had back from their sum;
    `settings` and `layer_class`: from the model's configuration, if the file has one.
    """

    scope: str
    layer: str
    name: str
    layout: str
    arrays: Mapping[str, np.ndarray]
    sources: tuple[Array, ...]
    exact: bool = True
    settings: dict[str, Any] | None = field(default=None, compare=False)
    layer_class: str | None = field(default=None, compare=False)

    @property
    def kind(self) -> str:
        """The class of Keras's layer: ``LSTM``, ``GRU`` or ``SimpleRNN``."""
        return KINDS[self.name]

    @property
    def units(self) -> int:
        return len(self.arrays["recurrent_kernel"])

    @property
    def group(self) -> str:
        """The group of its layer in a file of Keras 3."""
        return self.sources[0].place.rpartition("/vars/")[0]

    @property
    def direction(self) -> str | None:
        """``forward`` or ``backward``, None in a layer of one direction."""
        last = self.scope.rpartition("/")[2]
        if last in DIRECTIONS:
            return last
        return None

    def in_layout(self, layout: str | None) -> dict[str, np.ndarray]:
        """The arrays by part in ``keras`` or ``cudnn``, or (None) as they are in the file."""
        if layout in (None, self.layout):
            return {array.part: array.values for array in self.sources}
        if layout == "keras":
            return dict(self.arrays)

        canonical = {}
        for part, values in self.arrays.items():
            canonical[CANONICAL[part]] = values
        kernel, recurrent, bias = layouts.to_cudnn_layer(self.name, canonical)
        return {
            "kernel": kernel,
            "recurrent_kernel": recurrent,
            "bias": bias,
        }


Item = Cell | Array


class Buffer(NamedTuple):
    """What cuDNN's opaque buffers hold. `cell`: ``lstm`` or ``gru``."""

    cell: str
    layers: int
    directions: int
    units: int


def items_of(arrays: Sequence[Array], buffer: Buffer | None = None) -> list[Item]:
    """The cells and the other arrays, in the order of the file; torch's cells come last.

    `buffer`: what the user says about cuDNN's opaque buffers. Raises `Refusal` if the arrays of a
    layer contradict each other, or if `buffer` is missing or needless.
    """
    scopes: dict[str, dict[str, Array]] = {}
    for array in arrays:
        scopes.setdefault(array.scope, {})[array.part] = array

    items: list[Item] = []
    of_keras = set()
    of_torch = []
    others = []
    for array in arrays:
        parts = scopes[array.scope]
        recurrent = parts.get("recurrent_kernel")
        if TORCH.fullmatch(array.name):
            of_torch.append(array)
        elif array.part == OPAQUE:
            items += _of_buffer(array, buffer)
        elif array.part in PARTS and recurrent is not None and recurrent.values.ndim == 2:
            if array.scope not in of_keras:
                of_keras.add(array.scope)
                items.append(_of_keras(array.scope, parts))
        else:
            items.append(array)
            others.append(array)

    if buffer and not any(array.part == OPAQUE for array in arrays):
        raise Refusal(f"there is no array called {OPAQUE}.", "leave --buffer out.")
    items += _of_torch(of_torch)
    _check_rest(others)
    return items


def _of_keras(scope: str, parts: Mapping[str, Array]) -> Cell:
    """The cell of a layer of Keras, also of a CuDNN layer, whose arrays are in `scope`."""
    further = set(parts) - set(PARTS)
    if further:
        names = ", ".join(sorted(further))
        raise Refusal(
            f"layer {scope} has {names} besides its kernels: it is not an LSTM, GRU or SimpleRNN."
        )
    parts = {part: parts[part] for part in PARTS if part in parts}
    shapes = ", ".join(f"{part} {array.values.shape}" for part, array in parts.items())
    if "kernel" not in parts:
        raise Refusal(f"layer {scope} has only {shapes}.")

    kernel = parts["kernel"]
    recurrent = parts["recurrent_kernel"].values
    name = layouts.cell_of(recurrent)
    columns = recurrent.shape[1]
    if name is None or kernel.values.ndim != 2 or kernel.values.shape[1] != columns:
        raise Refusal(f"layer {scope}: {shapes} are not the arrays of an LSTM, GRU or SimpleRNN.")

    layout = "keras"
    if "bias" in parts:
        bias = parts["bias"].values.shape
        if name != "rnn_tanh" and bias == (2 * columns,):
            layout = "cudnn"
        elif bias != (columns,) and (name != "gru" or bias != (2, columns)):
            raise Refusal(f"layer {scope}: {shapes}: {KINDS[name]} has no bias of {bias}.")
    elif re.search("cu_?dnn", kernel.place):
        raise Refusal(f"layer {scope}: {shapes}: the bias of a CuDNN layer is missing.")

    canonical = {CANONICAL[part]: array.values for part, array in parts.items()}
    exact = True
    if layout == "cudnn":
        canonical, exact = layouts.from_cudnn_layer(name, list(canonical.values()))
    sources = tuple(parts.values())
    return _checked(scope, kernel.layer, layout, canonical, sources, exact)


def _of_buffer(array: Array, buffer: Buffer | None) -> list[Cell]:
    """The cells of one of cuDNN's opaque buffers."""
    if buffer is None:
        raise Refusal(
            f"{array.name} is an opaque buffer of cuDNN.",
            "state what it holds: --buffer lstm,LAYERS,DIRECTIONS,UNITS.",
        )
    try:
        found, exact = layouts.from_buffer(array.values.ravel(), *buffer)
    except ValueError as error:
        raise Refusal(f"{array.name} {error}.", "correct --buffer.") from error

    cells = []
    for number, canonical in enumerate(found):
        level, backward = divmod(number, buffer.directions)
        layer = f"{array.scope or 'rnn'}_l{level}"
        scope = layer
        if buffer.directions == 2:
            scope = f"{layer}/{DIRECTIONS[backward]}"
        cells.append(_checked(scope, layer, "buffer", canonical, (array,), exact))
    return cells


def _of_torch(arrays: Sequence[Array]) -> list[Cell]:
    """The cells of torch's modules, sorted by module, level and direction."""
    directions: dict[tuple[str, int, bool], dict[str, Array]] = {}
    for array in arrays:
        match = TORCH.fullmatch(array.name)
        assert match
        module, part, level, reverse = match.groups()
        module = (module or "rnn").replace(".", "/")
        parts = directions.setdefault((module, int(level), reverse is not None), {})
        parts[part] = array

    cells = []
    stacks: dict[str, dict[int, list[Cell]]] = {}
    for module, level, backward in sorted(directions):
        parts = directions[module, level, backward]
        layer = f"{module}_l{level}"
        scope = layer
        if (module, level, True) in directions:
            scope = f"{layer}/{DIRECTIONS[backward]}"
        try:
            values = {part: array.values for part, array in parts.items()}
            canonical, exact = layouts.from_torch(values)
        except ValueError as error:
            raise Refusal(f"layer {scope} of torch {error}.") from error
        sources = tuple(parts[part] for part in TORCH_PARTS if part in parts)
        cell = _checked(scope, layer, "torch", canonical, sources, exact)
        cells.append(cell)
        stacks.setdefault(module, {}).setdefault(level, []).append(cell)

    for module, levels in stacks.items():
        _check_stack(module, levels)
    return cells


def _check_stack(module: str, levels: Mapping[int, Sequence[Cell]]) -> None:
    """Raises `Refusal` unless the cells by level are those of one LSTM, GRU or RNN of torch."""
    facts = set()
    inputs = None
    for expected, level in enumerate(sorted(levels)):
        if level != expected:
            raise Refusal(f"module {module} of torch has layer {level}, but not layer {expected}.")
        cells = levels[level]
        for cell in cells:
            bias = "bias" in cell.arrays
            facts.add(f"{len(cells)} × {cell.kind} of {cell.units} units, bias={bias}")
            given = len(cell.arrays["kernel"])
            if inputs is not None and given != inputs:
                raise Refusal(
                    f"layer {cell.scope} of torch has {given} inputs; "
                    f"the layer below gives {inputs}."
                )
        inputs = len(cells) * cells[0].units

    if len(facts) > 1:
        found = ", ".join(sorted(facts))
        raise Refusal(f"the layers of module {module} of torch differ: {found}.")


def _check_rest(arrays: Sequence[Array]) -> None:
    """Raises `Refusal` if some of the arrays that belong to no cell are those of a CuDNN layer."""
    scopes: dict[str, list[np.ndarray]] = {}
    for array in arrays:
        scopes.setdefault(array.scope, []).append(array.values)
        if re.search("cu_?dnn", array.name):
            raise Refusal(f"{array.name} belongs to a CuDNN layer whose other arrays are missing.")

    for scope, values in scopes.items():
        # The columns of a kernel of 3 or 4 gates, whose CuDNN layer has a bias of twice as many.
        columns = set()
        for each in values:
            if each.ndim == 2 and each.shape[1] and 0 in (each.shape[1] % 3, each.shape[1] % 4):
                columns.add(each.shape[1])
        if any(each.ndim == 1 and each.size / 2 in columns for each in values):
            raise Refusal(
                f"the arrays of {scope or 'the file'} have the shapes of a CuDNN layer, "
                "but not its names.",
                "name them LAYER/kernel, LAYER/recurrent_kernel and LAYER/bias in an .npz.",
            )


def _checked(
    scope: str,
    layer: str,
    layout: str,
    canonical: Mapping[str, np.ndarray],
    sources: tuple[Array, ...],
    exact: bool,
) -> Cell:
    """The cell of these arrays. Raises `Refusal` unless they are finite real numbers."""
    arrays = {}
    for part, canonical_name in CANONICAL.items():
        if canonical_name not in canonical:
            continue
        values = canonical[canonical_name]
        if not np.issubdtype(values.dtype, np.floating):
            raise Refusal(f"layer {scope}: {part} has the type {values.dtype}, not real numbers.")
        if not np.isfinite(values).all():
            raise Refusal(
                f"layer {scope}: {part} has NaN or infinite values.",
                "use a checkpoint from before the training diverged.",
            )
        arrays[part] = values

    name = layouts.cell_of(arrays["recurrent_kernel"])
    assert name is not None
    return Cell(scope, layer, name, layout, arrays, sources, exact)


def check_directions(cells: Sequence[Cell]) -> None:
    """Raises `Refusal` if a direction is missing or differs from the other."""
    pairs: dict[str, dict[str, Cell]] = {}
    for cell in cells:
        if cell.direction:
            scope = cell.scope.rpartition("/")[0]
            pairs.setdefault(scope, {})[cell.direction] = cell

    for scope, pair in pairs.items():
        facts = {}
        for direction, cell in pair.items():
            shapes = {part: values.shape for part, values in cell.arrays.items()}
            facts[direction] = f"{cell.kind}, {shapes}, layout {cell.layout}"
        if len(pair) != 2 or len(set(facts.values())) != 1:
            found = "; ".join(f"{direction}: {fact}" for direction, fact in facts.items())
            raise Refusal(f"the directions of layer {scope} differ: {found} only.")
