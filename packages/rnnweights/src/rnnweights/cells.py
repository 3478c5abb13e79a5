"""The recurrent cells among the arrays of a checkpoint, in Keras's layout: gates i, f, c, o of LSTM
and z, r, h of GRU.

A file has the arrays of a cell in one of four layouts::

    keras       kernel (inputs, gates·units), recurrent_kernel (units, gates·units),
                bias (gates·units,), or (2, gates·units) of a GRU that resets after the product
    cudnn       the same names and shapes of kernels, but each gate transposed,
                bias (2·gates·units,)
    torch       weight_ih_l0 (gates·units, inputs), weight_hh_l0 (gates·units, units),
                bias_ih_l0 and bias_hh_l0 (gates·units,)
    buffer      opaque_kernel: one array for a stack of layers in one or both directions

`cudnn_and_torch` converts the other layouts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, NoReturn

import numpy as np

from rnnweights import cudnn_and_torch as layouts
from rnnweights.checkpoint import PARTS, Array, Data, Refusal, Watched, is_finite

KINDS = {
    "lstm": "LSTM",
    "gru": "GRU",
    "rnn_tanh": "SimpleRNN",
}
DIRECTIONS = ("forward", "backward")
# Module, array, number of the layer, direction.
TORCH = re.compile(
    r"(?:(.*)[./])?(weight_ih|weight_hh|bias_ih|bias_hh|weight_hr)_l(\d+)(_reverse)?"
)
PARAMETRIZED = re.compile(
    r"\bparametrizations[./](weight|bias)_[ih]h_l\d|[./](weight|bias)_[ih]h_l\d+(_reverse)?_(g|v|orig|raw)$"
)
OPAQUE = "opaque_kernel"


@dataclass(frozen=True)
class Cell:
    """One direction of a recurrent layer.

    `name`: ``lstm``, ``gru`` or ``rnn_tanh``;
    `layout`: of the file: ``keras``, ``cudnn``, ``torch``, ``buffer`` or the name of one that is
    declared, such as ``haiku.LSTM``;
    `arrays`: those of `PARTS` that the cell has, in Keras's layout: a kernel of inputs ×
    gates·units, a recurrent kernel of units × gates·units, a bias of gates·units or, of a GRU that
    resets after the product, 2 × gates·units;
    `sources`: the arrays in the file, in its layout;
    `exact`: whether two biases can be had back from their sum;
    `settings` and `layer_class`: from the model's configuration, if the file has one;
    `reset_after`: whether a GRU applies the reset gate after the product, None if that depends on
    its bias;
    `notes`: what was changed on the way to Keras's layout, in words;
    `declared`: the `declared.Found` that it was read from, None of the layouts above;
    `assumed`: whether nothing but the names of the arrays says that they are in Keras's layout;
    `is_stated`: whether the user has stated the layout;
    `has_class`: whether the file names the class of its layer.
    """

    scope: str
    layer: str
    name: str
    layout: str
    arrays: Mapping[str, Data]
    sources: Sequence[Array]
    exact: bool = True
    settings: dict[str, Any] | None = field(default=None, compare=False)
    layer_class: str | None = field(default=None, compare=False)
    reset_after: bool | None = None
    notes: tuple[str, ...] = ()
    declared: Any = field(default=None, compare=False)
    assumed: bool = False
    is_stated: bool = False
    has_class: bool = True

    @property
    def kind(self) -> str:
        """The class of Keras's layer: ``LSTM``, ``GRU`` or ``SimpleRNN``."""
        return KINDS[self.name]

    @property
    def units(self) -> int:
        """The number of outputs of the layer, per direction."""
        return len(self.arrays["recurrent_kernel"])

    @property
    def group(self) -> str:
        """The group of its layer in a file of Keras 3."""
        return self.sources[0].place.rpartition("/vars/")[0]

    @property
    def direction(self) -> str | None:
        """``forward`` or ``backward``, None in a layer of one direction, which may be called so."""
        above, _, last = self.scope.rpartition("/")
        if above and last in DIRECTIONS:
            return last
        return None

    def in_layout(self, layout: str | None) -> dict[str, Data]:
        """The arrays by the last part of their names.

        `layout`: ``keras``, ``cudnn``, or None for that of the file.
        """
        if layout in (None, self.layout):
            return {array.part: array.data for array in self.sources}
        if layout == "keras":
            return dict(self.arrays)

        return layouts.to_cudnn_layer(self.name, self.arrays)


def resets_after(cell: Cell) -> bool:
    """Whether a GRU applies the reset gate after the product, as those of cuDNN and torch do.

    Of a cell in Keras's layout, the configuration says it, or else the shape of the bias.
    """
    if cell.reset_after is not None:
        return cell.reset_after
    if cell.layout != "keras":
        return True
    if cell.settings is not None and "reset_after" in cell.settings:
        return bool(cell.settings["reset_after"])
    return "bias" in cell.arrays and cell.arrays["bias"].ndim == 2


def says_reset(cell: Cell) -> bool:
    """Whether it is known where a GRU applies the reset gate, and not assumed."""
    is_known = cell.reset_after is not None or cell.layout != "keras" or "bias" in cell.arrays
    return is_known or "reset_after" in (cell.settings or {})


Item = Cell | Array


def cells_of(items: Sequence[Item]) -> list[Cell]:
    """The cells among the items."""
    return [item for item in items if isinstance(item, Cell)]


def arrays_of(items: Sequence[Item], layout: str | None) -> list[Array]:
    """All arrays, with the cells in a layout.

    `layout`: ``cudnn``, ``keras``, or None for the one that a cell has. Raises `Refusal` if two
    arrays have the same name.
    """
    arrays: list[Array] = []
    for item in items:
        if isinstance(item, Array):
            arrays.append(item)
            continue
        like = item.sources[0].place
        for part, values in item.in_layout(layout).items():
            place = re.sub(r"(bias|(recurrent_)?kernel)(?=:\d+$|$)", part, like)
            array = Array(
                f"{item.scope}/{part}",
                place,
                values,
                item.layer,
            )
            arrays.append(array)

    counts = Counter(array.name for array in arrays)
    for name, count in counts.items():
        if count > 1:
            raise Refusal(f"two arrays are called {name}.", "rename one.")
    return arrays


class Buffer(NamedTuple):
    """What each of cuDNN's opaque buffers in a file holds.

    `cell`: ``lstm`` or ``gru``;
    `layers`: the number of layers of the stack;
    `directions`: 1 or 2;
    `units`: of each layer, per direction;
    `inputs`: of the first layer, None if the size of the buffer alone decides.
    """

    cell: str
    layers: int
    directions: int
    units: int
    inputs: int | None = None


def items_of(arrays: Sequence[Array], buffer: Buffer | None = None) -> list[Item]:
    """The cells and the other arrays, in the order of the file; torch's cells come last.

    `buffer`: what the user says about cuDNN's opaque buffers. Raises `Refusal` if the arrays of a
    layer contradict each other, or if `buffer` is missing or needless.
    """
    scopes: dict[str, dict[str, Array]] = {}
    parts = set()
    for array in arrays:
        scopes.setdefault(array.scope, {})[array.part] = array
        parts.add(array.part)
    if buffer and OPAQUE not in parts:
        raise Refusal(f"there is no array called {OPAQUE}.", "leave --buffer out.")

    # An array of units × gates·units says that a scope has a cell.
    of_keras = set()
    for scope, own in scopes.items():
        recurrent = own.get("recurrent_kernel")
        if recurrent is not None and recurrent.data.ndim == 2:
            of_keras.add(scope)

    items: list[Item] = []
    of_torch = []
    others = []
    for array in arrays:
        if TORCH.fullmatch(array.name):
            of_torch.append(array)
        elif array.part == OPAQUE:
            items += _of_buffer(array, buffer)
        elif PARAMETRIZED.search(array.name):
            raise Refusal(
                f"{array.name} is a part from which torch computes a matrix of a recurrent layer "
                "(weight_norm or another parametrization).",
                "torch.nn.utils.parametrize.remove_parametrizations (remove_weight_norm of the old "
                "weight_norm), and save again.",
            )
        elif array.part not in PARTS or array.scope not in of_keras:
            items.append(array)
            others.append(array)
        elif array.scope in scopes:
            own = scopes.pop(array.scope)
            items.append(_of_keras(array.scope, own))

    items += _of_torch(of_torch)
    _check_rest(others)
    return items


def _of_keras(scope: str, parts: Mapping[str, Array]) -> Cell:
    """The cell of a layer of Keras, also of a CuDNN layer, whose arrays are in `scope`."""
    further = set(parts) - set(PARTS)
    if further:
        names = ", ".join(sorted(further))
        raise Refusal(
            f"layer {scope} has {names} besides its kernels: it is not an LSTM, GRU or SimpleRNN.",
            "no layout describes this cell; train with one of Keras's.",
        )

    sources = []
    shown = []
    arrays = {}
    for part in PARTS:
        if part in parts:
            array = parts[part]
            sources.append(array)
            shown.append(f"{part} {array.data.shape}")
            arrays[part] = array.data
    shapes = ", ".join(shown)
    if "kernel" not in parts:
        raise Refusal(f"layer {scope} has only {shapes}.")

    kernel = arrays["kernel"]
    name = layouts.cell_of(arrays["recurrent_kernel"])
    columns = arrays["recurrent_kernel"].shape[1]
    if name is None or kernel.ndim != 2 or kernel.shape[1] != columns:
        raise Refusal(f"layer {scope}: {shapes} are not the arrays of an LSTM, GRU or SimpleRNN.")

    layout = "keras"
    if "bias" in arrays:
        bias = arrays["bias"].shape
        allowed: list[tuple[int, ...]] = [(columns,)]
        if name == "gru":
            allowed.append((2, columns))
        if name != "rnn_tanh" and bias == (2 * columns,):
            layout = "cudnn"
        elif bias not in allowed:
            raise Refusal(f"layer {scope}: {shapes}: {KINDS[name]} has no bias of {bias}.")
    elif re.search("cu_?dnn", sources[0].place):
        raise Refusal(f"layer {scope}: {shapes}: the bias of a CuDNN layer is missing.")

    exact = True
    if layout == "cudnn":
        arrays, exact = layouts.from_cudnn_layer(name, list(arrays.values()))
    return checked(
        scope,
        sources[0].layer,
        layout,
        arrays,
        sources,
        exact,
    )


def _of_buffer(array: Array, buffer: Buffer | None) -> list[Cell]:
    """The cells of one of cuDNN's opaque buffers, in its order: each layer forward, then backward.

    Raises `Refusal` if the user states nothing about the `buffer`, or something that its size
    contradicts.
    """
    if buffer is None:
        raise Refusal(
            f"{array.name} is an opaque buffer of cuDNN.",
            "state what it holds: --buffer lstm,LAYERS,DIRECTIONS,UNITS.",
        )
    values = array.values.ravel()
    try:
        found = layouts.from_buffer(values, *buffer[:4])
    except ValueError as error:
        raise Refusal(f"{array.name} {error}.", "correct --buffer.") from error
    inputs = len(found[0][0]["kernel"])
    if buffer.inputs not in (None, inputs):
        raise Refusal(
            f"{array.name} has {values.size} numbers: with this --buffer, the first layer has "
            f"{inputs} inputs, not {buffer.inputs}.",
            "correct --buffer or --inputs.",
        )

    cells = []
    for number, (arrays, exact) in enumerate(found):
        level, backward = divmod(number, buffer.directions)
        layer = f"{array.scope or 'rnn'}_l{level}"
        scope = layer
        if buffer.directions == 2:
            scope = f"{layer}/{DIRECTIONS[backward]}"
        cell = checked(
            scope,
            layer,
            "buffer",
            arrays,
            [array],
            exact,
        )
        cells.append(cell)
    return cells


def _of_torch(arrays: Sequence[Array]) -> list[Cell]:
    """The cells of torch's modules, sorted by module, level and direction."""
    directions: dict[tuple[str, int, bool], dict[str, Array]] = {}
    for array in arrays:
        match = TORCH.fullmatch(array.name)
        assert match
        module, part, level, reverse = match.groups()
        module = (module or "rnn").replace(".", "/")
        direction = module, int(level), reverse is not None
        directions.setdefault(direction, {})[part] = array

    cells = []
    stacks: dict[str, dict[int, list[Cell]]] = {}
    for module, level, backward in sorted(directions):
        parts = directions[module, level, backward]
        layer = f"{module}_l{level}"
        scope = layer
        if (module, level, True) in directions:
            scope = f"{layer}/{DIRECTIONS[backward]}"

        if "weight_hr" in parts:
            raise Refusal(
                f"layer {scope} of torch projects its state (proj_size), which no layer of Keras "
                "does.",
                "train without proj_size.",
            )
        values = {part: array.data for part, array in parts.items()}
        try:
            converted, exact = layouts.from_torch(values)
        except ValueError as error:
            raise Refusal(f"layer {scope} of torch {error}.") from error
        cell = checked(
            scope,
            layer,
            "torch",
            converted,
            [parts[part] for part in layouts.TORCH if part in parts],
            exact,
        )
        cells.append(cell)
        levels = stacks.setdefault(module, {})
        levels.setdefault(level, []).append(cell)

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
        count = len(cells)
        for cell in cells:
            bias = "bias" in cell.arrays
            facts.add(f"{count} × {cell.kind} of {cell.units} units, bias={bias}")
            given = len(cell.arrays["kernel"])
            if inputs is not None and given != inputs:
                raise Refusal(
                    f"layer {cell.scope} of torch has {given} inputs; "
                    f"the layer below gives {inputs}."
                )
        inputs = count * cells[0].units

    if len(facts) > 1:
        found = ", ".join(sorted(facts))
        raise Refusal(f"the layers of module {module} of torch differ: {found}.")


def _check_rest(arrays: Sequence[Array]) -> None:
    """Raises `Refusal` if some of the arrays that belong to no cell are those of a CuDNN layer."""
    scopes: dict[str, list[Data]] = {}
    for array in arrays:
        scopes.setdefault(array.scope, []).append(array.data)
        if re.search("cu_?dnn", array.name):
            raise Refusal(f"{array.name} belongs to a CuDNN layer whose other arrays are missing.")

    for scope, values in scopes.items():
        # A kernel of 3 or 4 gates, and a bias of twice as many columns.
        columns = {each.shape[1] for each in values if each.ndim == 2}
        for each in values:
            size = each.size // 2
            if each.shape != (2 * size,) or size not in columns:
                continue
            if size and 0 in (size % 3, size % 4):
                raise Refusal(
                    f"the arrays of {scope or 'the file'} have the shapes of a CuDNN layer, "
                    "but not its names.",
                    "name them LAYER/kernel, LAYER/recurrent_kernel and LAYER/bias in an .npz.",
                )


def checked(
    scope: str,
    layer: str,
    layout: str,
    arrays: Mapping[str, Data],
    sources: Sequence[Array],
    exact: bool,
) -> Cell:
    """The cell of these arrays. Raises `Refusal` unless they are real numbers.

    The arguments are those of the `Cell`.
    """
    for part, values in arrays.items():
        if not np.issubdtype(values.dtype, np.floating):
            what = f"layer {scope}: {part} has the type {values.dtype}, not real numbers."
            raise Refusal(what, "save it as float32.")
        # Others are looked at when they are written: see `watched`.
        if isinstance(values, np.ndarray) and not is_finite(values):
            _refuse_values(scope, part)

    name = layouts.cell_of(arrays["recurrent_kernel"])
    assert name is not None
    return Cell(
        scope,
        layer,
        name,
        layout,
        arrays,
        sources,
        exact,
    )


def watched(cell: Cell) -> Cell:
    """The cell, with arrays that raise `Refusal` when values are read that are not finite."""

    def watch(part: str, data: Data) -> Watched:
        return Watched(data, partial(_refuse_values, cell.scope, part))

    arrays = {part: watch(part, data) for part, data in cell.arrays.items()}
    sources = [each._replace(data=watch(each.part, each.data)) for each in cell.sources]
    return replace(cell, arrays=arrays, sources=sources)


def _refuse_values(scope: str, part: str) -> NoReturn:
    raise Refusal(
        f"layer {scope}: {part} has NaN or infinite values.",
        "use a checkpoint from before the training diverged.",
    )


def with_directions(cells: Sequence[Cell]) -> dict[str, str]:
    """New scopes of cells by their scopes: in an ``.h5`` file without a configuration, the backward
    layer of a Bidirectional may have any name, and the other one begins with ``forward``."""
    layers: dict[str, list[Cell]] = {}
    for cell in cells:
        layers.setdefault(cell.scope.rpartition("/")[0], []).append(cell)

    renamed = {}
    for above, own in layers.items():
        if not above or len(own) != 2:
            continue
        directions = [cell.direction for cell in own]
        if directions == ["forward", None]:
            renamed[own[1].scope] = f"{above}/{DIRECTIONS[1]}"
    return renamed


def check_directions(cells: Sequence[Cell]) -> None:
    """Raises `Refusal` if a direction of a bidirectional layer is missing, or has another layout,
    other inputs or, of the same cell, other shapes than the other one. Keras allows an LSTM in one
    direction and a GRU in the other."""
    pairs: dict[str, dict[str, Cell]] = {}
    for cell in cells:
        if cell.direction:
            scope = cell.scope.rpartition("/")[0]
            pairs.setdefault(scope, {})[cell.direction] = cell

    for scope, pair in pairs.items():
        if len(pair) != 2:
            found = ", ".join(pair)
            raise Refusal(f"the directions of layer {scope} differ: it has only {found}.")
        first, second = pair[DIRECTIONS[0]], pair[DIRECTIONS[1]]
        agree = len(first.arrays["kernel"]) == len(second.arrays["kernel"])
        if first.kind == second.kind:
            agree = agree and first.layout == second.layout and _shapes(first) == _shapes(second)
        if not agree:
            shown = []
            for direction, cell in pair.items():
                shapes = ", ".join(_shapes(cell))
                shown.append(f"{direction} is {cell.kind} ({shapes}, layout {cell.layout})")
            raise Refusal(f"the directions of layer {scope} differ: {'; '.join(shown)}.")


def _shapes(cell: Cell) -> list[str]:
    return [f"{part} {values.shape}" for part, values in cell.arrays.items()]


def check_alone(cells: Sequence[Cell], items: Sequence[Item]) -> None:
    """Raises `Refusal` if the scope of a cell has arrays below it, such as those of a layer norm:
    it is another cell than it seems. The state of a dropout's generator is none of them."""
    for cell in cells:
        for item in items:
            if not isinstance(item, Array) or not item.name.startswith(f"{cell.scope}/"):
                continue
            if "seed_generator" in item.name:
                continue
            raise Refusal(
                f"layer {cell.scope} has {item.name} below its kernels: it is not an LSTM, GRU or "
                "SimpleRNN of Keras.",
                "no layout describes this cell; train with one of Keras's.",
            )
