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
CANONICAL = dict(zip(PARTS, ("kernel", "recurrent", "bias"), strict=True))
KINDS = {"lstm": "LSTM", "gru": "GRU", "rnn_tanh": "SimpleRNN"}
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
        self.what, self.remedy = what, remedy


class Array(NamedTuple):
    """`name`: unique, such as ``both/forward/kernel``; `place`: its name in the file; `layer`: the
    Keras layer that has it."""

    name: str
    place: str
    values: np.ndarray
    layer: str

    @property
    def scope(self) -> str:
        return self.name.rpartition("/")[0]

    @property
    def part(self) -> str:
        return self.name.rpartition("/")[2]


@dataclass(frozen=True)
class Cell:
    """One direction of a recurrent layer. `arrays` has those of `PARTS` that the cell has, in
    Keras's layout; `sources` are those in the file, in its `layout` (``keras``, ``cudnn``,
    ``torch``, ``buffer``). `exact`: whether two biases can be had back from their sum. `settings`
    and `layer_class` are in the model's configuration, if the file has one."""

    scope: str
    layer: str
    name: str  # lstm, gru or rnn_tanh
    layout: str
    arrays: Mapping[str, np.ndarray]
    sources: tuple[Array, ...]
    exact: bool = True
    settings: dict[str, Any] | None = field(default=None, compare=False)
    layer_class: str | None = field(default=None, compare=False)

    @property
    def kind(self) -> str:
        return KINDS[self.name]

    @property
    def units(self) -> int:
        return len(self.arrays["recurrent_kernel"])

    @property
    def direction(self) -> str | None:
        last = self.scope.rpartition("/")[2]
        return last if last in DIRECTIONS else None

    def in_layout(self, layout: str | None) -> dict[str, np.ndarray]:
        """The arrays in ``keras`` or ``cudnn``, or (None) as they are."""
        if layout in (None, self.layout):
            return {array.part: array.values for array in self.sources}
        if layout == "keras":
            return dict(self.arrays)
        canonical = {CANONICAL[part]: values for part, values in self.arrays.items()}
        return dict(zip(PARTS, layouts.to_cudnn_layer(self.name, canonical), strict=True))


Item = Cell | Array


class Buffer(NamedTuple):
    """What cuDNN's opaque buffers hold: ``lstm`` or ``gru``, layers, directions, units."""

    cell: str
    layers: int
    directions: int
    units: int


def items_of(arrays: Sequence[Array], buffer: Buffer | None = None) -> list[Item]:
    """The cells and the other arrays, in the order of the file. Raises `Refusal` if the arrays of a
    layer contradict each other."""
    scopes: dict[str, dict[str, Array]] = {}
    torch: dict[tuple[str, int, bool], dict[str, Array]] = {}
    for array in arrays:
        scopes.setdefault(array.scope, {})[array.part] = array
        if match := TORCH.fullmatch(array.name):
            key = ((match[1] or "rnn").replace(".", "/"), int(match[3]), match[4] is not None)
            torch.setdefault(key, {})[match[2]] = array
    items: list[Item] = []
    for array in arrays:
        parts = scopes[array.scope]
        recurrent = parts.get("recurrent_kernel")
        is_cell = recurrent is not None and recurrent.values.ndim == 2 and array.part in PARTS
        if is_cell and array is next(each for name, each in parts.items() if name in PARTS):
            if further := set(parts) - set(PARTS):
                what = f"layer {array.scope} has {', '.join(sorted(further))} besides its kernels: "
                raise Refusal(f"{what}it is not an LSTM, GRU or SimpleRNN.")
            items.append(_cell(array.scope, {part: parts[part] for part in PARTS if part in parts}))
        elif array.part == OPAQUE:
            items += _of_buffer(array, buffer)
        elif not is_cell and not TORCH.fullmatch(array.name):
            items.append(array)
    if buffer and not any(array.part == OPAQUE for array in arrays):
        raise Refusal(f"there is no array called {OPAQUE}.", "leave --buffer out.")
    stacks: dict[str, dict[int, list[Cell]]] = {}
    for (name, number, backward), parts in sorted(torch.items()):
        layer, both = f"{name}_l{number}", (name, number, not backward) in torch
        scope = f"{layer}/{DIRECTIONS[backward]}" if both or backward else layer
        try:
            parts = {part: parts[part] for part in sorted(parts, key=TORCH_PARTS.index)}
            found, exact = layouts.from_torch({part: each.values for part, each in parts.items()})
        except ValueError as error:
            raise Refusal(f"layer {scope} of torch {error}.") from error
        cell = _checked(scope, layer, "torch", found, tuple(parts.values()), exact)
        stacks.setdefault(name, {}).setdefault(number, []).append(cell)
        items.append(cell)
    for name, levels in stacks.items():
        _check_stack(name, levels)
    _check_rest([item for item in items if isinstance(item, Array)])
    return items


def _check_stack(name: str, levels: Mapping[int, Sequence[Cell]]) -> None:
    """Raises `Refusal` unless the cells by level are those of one LSTM, GRU or RNN of torch."""
    facts = set()
    inputs = None
    for expected, (level, cells) in enumerate(sorted(levels.items())):
        if level != expected:
            raise Refusal(f"module {name} of torch has layer {level}, but not layer {expected}.")
        for cell in cells:
            bias = "bias" in cell.arrays
            facts.add(f"{len(cells)} × {cell.kind} of {cell.units} units, bias={bias}")
            given = len(cell.arrays["kernel"])
            if inputs is not None and given != inputs:
                what = f"layer {cell.scope} of torch has {given} inputs; the layer below gives "
                raise Refusal(f"{what}{inputs}.")
        inputs = len(cells) * cells[0].units
    if len(facts) > 1:
        raise Refusal(f"the layers of module {name} of torch differ: {', '.join(sorted(facts))}.")


def _check_rest(arrays: Sequence[Array]) -> None:
    """Raises `Refusal` if some of the arrays that belong to no cell are those of a CuDNN layer."""
    scopes: dict[str, list[np.ndarray]] = {}
    for array in arrays:
        scopes.setdefault(array.scope, []).append(array.values)
        if re.search("cu_?dnn", array.name):
            raise Refusal(f"{array.name} belongs to a CuDNN layer whose other arrays are missing.")
    for scope, values in scopes.items():
        columns = {each.shape[1] for each in values if each.ndim == 2}
        columns = {count for count in columns if count and (count % 3 == 0 or count % 4 == 0)}
        if any(each.ndim == 1 and each.size / 2 in columns for each in values):
            what = f"the arrays of {scope or 'the file'} have the shapes of a CuDNN layer, but not "
            remedy = "name them LAYER/kernel, LAYER/recurrent_kernel and LAYER/bias in an .npz."
            raise Refusal(f"{what}its names.", remedy)


def _cell(scope: str, parts: Mapping[str, Array]) -> Cell:
    shapes = ", ".join(f"{part} {array.values.shape}" for part, array in parts.items())
    if "kernel" not in parts:
        raise Refusal(f"layer {scope} has only {shapes}.")
    values = {part: array.values for part, array in parts.items()}
    name, columns = layouts.cell_of(values["recurrent_kernel"]), values["recurrent_kernel"].shape[1]
    bias = None if "bias" not in values else values["bias"].shape
    forms: dict[tuple[int, ...] | None, str] = {None: "keras", (columns,): "keras"}
    if name == "gru":
        forms[2, columns] = "keras"
    if name in ("lstm", "gru"):
        forms[2 * columns,] = "cudnn"
    if name is None or values["kernel"].ndim != 2 or values["kernel"].shape[1] != columns:
        raise Refusal(f"layer {scope}: {shapes} are not the arrays of an LSTM, GRU or SimpleRNN.")
    if bias is None and re.search("cu_?dnn", parts["kernel"].place):
        raise Refusal(f"layer {scope}: {shapes}: the bias of a CuDNN layer is missing.")
    if bias not in forms:
        raise Refusal(f"layer {scope}: {shapes}: {KINDS[name]} has no bias of {bias}.")
    sources, exact = tuple(parts.values()), True
    arrays = {CANONICAL[part]: each for part, each in values.items()}
    if forms[bias] == "cudnn":
        arrays, exact = layouts.from_cudnn_layer(name, [values[part] for part in PARTS])
    return _checked(scope, sources[0].layer, forms[bias], arrays, sources, exact)


def _of_buffer(array: Array, buffer: Buffer | None) -> list[Cell]:
    if buffer is None:
        remedy = "state what it holds: --buffer lstm,LAYERS,DIRECTIONS,UNITS."
        raise Refusal(f"{array.name} is an opaque buffer of cuDNN.", remedy)
    try:
        found, exact = layouts.from_buffer(array.values.ravel(), *buffer)
    except ValueError as error:
        raise Refusal(f"{array.name} {error}.", "correct --buffer.") from error
    cells = []
    for number, arrays in enumerate(found):
        level, backward = divmod(number, buffer.directions)
        layer = f"{array.scope or 'rnn'}_l{level}"
        scope = f"{layer}/{DIRECTIONS[backward]}" if buffer.directions == 2 else layer
        cells.append(_checked(scope, layer, "buffer", arrays, (array,), exact))
    return cells


def _checked(
    scope: str,
    layer: str,
    layout: str,
    canonical: Mapping[str, np.ndarray],
    sources: tuple[Array, ...],
    exact: bool,
) -> Cell:
    """The cell of these arrays. Raises `Refusal` unless they are finite real numbers."""
    arrays = {part: canonical[name] for part, name in CANONICAL.items() if name in canonical}
    for part, values in arrays.items():
        if not np.issubdtype(values.dtype, np.floating):
            raise Refusal(f"layer {scope}: {part} has the type {values.dtype}, not real numbers.")
        if not np.isfinite(values).all():
            remedy = "use a checkpoint from before the training diverged."
            raise Refusal(f"layer {scope}: {part} has NaN or infinite values.", remedy)
    name = layouts.cell_of(arrays["recurrent_kernel"])
    assert name is not None
    return Cell(scope, layer, name, layout, arrays, sources, exact)


def check_directions(cells: Sequence[Cell]) -> None:
    """Raises `Refusal` if a direction is missing or differs from the other."""
    pairs: dict[str, dict[str, Cell]] = {}
    for cell in cells:
        if cell.direction:
            pairs.setdefault(cell.scope.rpartition("/")[0], {})[cell.direction] = cell
    for scope, pair in pairs.items():
        facts = []
        for cell in pair.values():
            shapes = {part: values.shape for part, values in cell.arrays.items()}
            facts.append(f"{cell.direction}: {cell.kind}, {shapes}, layout {cell.layout}")
        if len({fact.partition(": ")[2] for fact in facts}) != 1 or len(pair) != 2:
            raise Refusal(f"the directions of layer {scope} differ: {'; '.join(facts)} only.")
