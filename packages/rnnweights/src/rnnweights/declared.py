"""The cells in a file whose layout the user has declared (`layouts`): their arrays are found by
name, taken apart into gates and joined as Keras's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from rnnweights.cells import Cell, checked, resets_after, says_reset
from rnnweights.checkpoint import PARTS, Array, Computed, Data, Refusal, Watched
from rnnweights.layouts import (
    AFTER,
    GATES,
    LAYOUTS,
    MATRICES,
    PADDLE_CELL,
    Layout,
    Part,
)

BIASES = ("input_bias", "hidden_bias")


class Found(NamedTuple):
    """A cell in a file: its `layout`, its `scope`, its arrays by the names in `Layout.parts`, and
    its states at the `starts`, which are zero."""

    layout: Layout
    scope: str
    parts: dict[str, Array]
    starts: Sequence[Array] = ()


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
    values = {name: array.data for name, array in parts.items()}
    try:
        gates_of(layout, _loaded(layout, values, ()))
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


def _loaded(
    layout: Layout, values: Mapping[str, Data], sides: Sequence[str]
) -> dict[str, np.ndarray]:
    """The arrays of these sides, and empty ones of the same shapes, which take no memory."""
    loaded = {}
    for name, data in values.items():
        if layout.parts[name].side in sides:
            loaded[name] = np.asarray(data)
        else:
            loaded[name] = np.broadcast_to(np.zeros((), data.dtype), data.shape)
    return loaded


def _units(layout: Layout, values: Mapping[str, np.ndarray]) -> int:
    """The units of a cell, from a matrix for its state. Raises ValueError if there is none."""
    rows = -1 if layout.transposed else 0  # the axis over what is multiplied
    for name, part in layout.parts.items():
        if name not in values or part.side not in ("hidden", "both") or values[name].ndim < 2:
            continue
        shape = values[name].shape
        if len(shape) > 2:  # gates and units are axes of their own
            return int(shape[-2] if layout.transposed else shape[-1])
        units = int(shape[rows])
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

    `arrays`: ``kernel``, ``recurrent_kernel`` and ``bias``; `exact`: whether two biases can be had
    back from their sum; `reset_after`: of a GRU; `notes`: what was changed, in words.
    """

    arrays: dict[str, Data]
    exact: bool
    reset_after: bool | None
    notes: tuple[str, ...]


def in_keras(layout: Layout, values: Mapping[str, Data]) -> InKeras:
    """The arrays of a cell that computes the same in Keras. `values`: those of the file, by the
    names in `Layout.parts`. Raises ValueError if their shapes contradict each other."""
    gates = gates_of(layout, _loaded(layout, values, BIASES))
    letters = GATES[layout.cell]
    notes = []
    negated: set[str] = set()
    if layout.new_update:
        negated = {"z"}
        notes.append("z is negated, because there h = (1 - z) h + z n")

    def kernel() -> list[np.ndarray]:
        loaded = _loaded(layout, values, ("input", "both"))
        return _in_order(gates_of(layout, loaded).W, letters, negated)

    def recurrent() -> list[np.ndarray]:
        loaded = _loaded(layout, values, ("hidden", "both"))
        return _in_order(gates_of(layout, loaded).R, letters, negated)

    (inputs, units), dtype = gates.W[letters[0]].shape, gates.W[letters[0]].dtype
    columns = len(letters) * units
    arrays: dict[str, Data] = {
        "kernel": Computed((inputs, columns), dtype, kernel),
        "recurrent_kernel": Computed((units, columns), dtype, recurrent),
    }
    has_bias = bool(gates.b or gates.c)
    exact = True
    if has_bias or layout.forget:
        zeros = np.zeros(units, dtype)
        of_inputs = {gate: gates.b.get(gate, zeros) for gate in letters}
        of_state = {gate: gates.c.get(gate, zeros) for gate in letters}
        if layout.forget:
            of_inputs["f"] = of_inputs["f"] + of_inputs["f"].dtype.type(layout.forget)
            notes.append(f"{layout.forget:g} is added to the bias of f, as there at run time")
        first = np.concatenate(_in_order(of_inputs, letters, negated))
        second = np.concatenate(_in_order(of_state, letters, negated))
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


def _in_order(
    pieces: Mapping[str, np.ndarray], letters: str, negated: set[str]
) -> list[np.ndarray]:
    """The pieces of all gates."""
    columns = []
    for gate in letters:
        columns.append(-pieces[gate] if gate in negated else pieces[gate])
    return columns


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
    cells = []
    for each in found:
        starts = _zero_starts(each, rest)
        names = {array.name for array in starts}
        rest = [array for array in rest if array.name not in names]
        _check_alone(each, rest)
        cells.append(declared_cell(each._replace(starts=starts)))
    return cells, rest


def _zero_starts(found: Found, rest: Iterable[Array]) -> list[Array]:
    """The states with which a cell starts, among the arrays of the file. Raises `Refusal` if they
    are not zero, as Keras's are."""
    starts = []
    names = [f"{found.scope}/{name}".lstrip("/") for name in found.layout.starts]
    for array in rest:
        if array.name.replace(".", "/") not in names:
            continue
        if np.any(array.values):
            raise Refusal(
                f"layer {found.scope or 'of the file'} starts with the state {array.name}, which "
                "is not zero; Keras's layers start with zeros.",
                "give the state to Keras's layer as initial_state, and leave the array out here.",
            )
        starts.append(array)
    return starts


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
        values = {name: array.data for name, array in parts.items()}
        fitting = []
        for layout in layouts:
            renamed = _with_kerass_names(layout, parts)
            if renamed is None:
                continue
            try:
                gates_of(renamed, _loaded(renamed, values, ()))
            except ValueError:
                continue
            fitting.append(renamed)
        distinct = {(layout.cell, layout.order, layout.reset) for layout in fitting}
        if len(distinct) != 1:
            names = ", ".join(layout.name for layout in fitting or layouts)
            shapes = ", ".join(f"{name} {array.data.shape}" for name, array in parts.items())
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
        if not one or parts["bias"].data.ndim != 1:
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
        if is_own and re.search(r"W_cell_to_|(^|[/_])peep", path):
            raise Refusal(
                f"layer {scope or 'of the file'} has peepholes ({array.name}), which no layer of "
                "Keras has.",
                "train without peepholes.",
            )
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
    values = {name: array.data for name, array in found.parts.items()}
    converted = in_keras(layout, values)
    scope = found.scope or layout.name.rpartition(".")[2].lower()
    cell = checked(
        scope,
        scope,
        layout.name,
        converted.arrays,
        [*found.parts.values(), *found.starts],
        converted.exact,
    )
    notes = converted.notes
    if found.starts:
        notes = (*notes, "its states at the start are zero, as Keras's, and are left out")
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


STACK_OF_TORCH = re.compile(r"(.*)_l(\d+)")


def in_declared(cell: Cell, layouts: Sequence[Layout]) -> list[Array]:
    """The arrays of a cell in the first of the layouts that is for its kind, as its framework names
    them. Raises `Refusal` if no cell of this layout computes the same."""
    fitting = [layout for layout in layouts if layout.cell == cell.name and layout.parts]
    if not fitting:
        names = ", ".join(layout.name for layout in layouts)
        raise Refusal(
            f"layer {cell.scope} is a {cell.kind}, and {names} is none.",
            "name the framework alone, or another layout.",
        )
    layout = max(fitting, key=lambda layout: layout.is_stack)
    if cell.name == "gru" and not says_reset(cell):
        raise Refusal(
            f"layer {cell.scope} has no bias, and the file does not say whether the GRU has "
            "reset_after=True.",
            "convert the .keras or .h5 file of the whole model, which says it.",
        )
    if cell.name == "gru" and resets_after(cell) != (layout.reset == AFTER):
        order = {True: "after", False: "before"}
        raise Refusal(
            f"layer {cell.scope} applies the reset gate {order[resets_after(cell)]} the product, "
            f"and {layout.name} {layout.reset} it.",
            "name another layout.",
        )
    b, c = _biases_for(cell, layout)
    arrays = []
    for name, part in layout.parts.items():
        data: Data
        if part.side in MATRICES:
            data = _matrix_for(cell, layout, part)
        else:
            columns = []
            for gate in part.gates:
                is_of_state = part.side == "hidden_bias" or gate == "m"
                columns.append(c[gate.replace("m", "n")] if is_of_state else b[gate])
            data = np.concatenate(_interleaved(columns) if layout.interleaved else columns)
        full = _name_in(layout, cell, name)
        arrays.append(Array(full, full, data, cell.layer))
    return arrays


def _interleaved(columns: Sequence[np.ndarray]) -> list[np.ndarray]:
    """One array, in which the gates of a unit are beside each other."""
    return [np.stack(columns, axis=-1).reshape(*columns[0].shape[:-1], -1)]


def _by_letter(cell: Cell, array: np.ndarray) -> dict[str, np.ndarray]:
    """The gates of an array in Keras's layout."""
    letters = GATES[cell.name]
    return dict(zip(letters, np.split(array, len(letters), axis=-1), strict=True))


def _matrix_for(cell: Cell, layout: Layout, part: Part) -> Computed:
    """A matrix of a cell as the layout has it. That of a watched one is watched: then values are
    looked at piece by piece, while others are written."""
    kernel, recurrent = cell.arrays["kernel"], cell.arrays["recurrent_kernel"]
    sources = {"input": [kernel], "hidden": [recurrent], "both": [kernel, recurrent]}[part.side]
    if len(sources) == 1 and isinstance(sources[0], Watched):
        name = "kernel" if part.side == "input" else "recurrent_kernel"
        arrays = {**cell.arrays, name: sources[0].data}
        matrix = _matrix_for(replace(cell, arrays=arrays), layout, part)
        return Watched(matrix, sources[0].broken)

    def make() -> list[np.ndarray]:
        columns = []
        of_sources = [_by_letter(cell, np.asarray(source)) for source in sources]
        for gate in part.gates:
            blocks = [gates[gate] for gates in of_sources]
            column = blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
            columns.append(-column if layout.new_update and gate == "z" else column)
        if layout.interleaved:
            columns = _interleaved(columns)
        return [column.T for column in columns] if layout.transposed else columns

    shape = (sum(map(len, sources)), len(part.gates) * cell.units)
    if layout.transposed:
        return Computed(shape[::-1], kernel.dtype, make, axis=0)
    return Computed(shape, kernel.dtype, make)


def _biases_for(cell: Cell, layout: Layout) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The biases of a cell by gate, on the side of the inputs and of the state: those that the
    layout has an array for; the others are added to these."""
    letters = GATES[cell.name]
    rows = np.zeros((2, len(letters) * cell.units), cell.arrays["kernel"].dtype)
    if "bias" in cell.arrays:
        bias = np.atleast_2d(np.asarray(cell.arrays["bias"]))
        rows[: len(bias)] = bias
    b, c = _by_letter(cell, rows[0]), _by_letter(cell, rows[1])
    if layout.new_update:
        for arrays in (b, c):
            arrays["z"] = -arrays["z"]
    if layout.forget:
        b["f"] = b["f"] - b["f"].dtype.type(layout.forget)

    of_inputs = "".join(part.gates for part in layout.parts.values() if part.side == "input_bias")
    of_state = "".join(part.gates for part in layout.parts.values() if part.side == "hidden_bias")
    of_state += "n" if "m" in of_inputs else ""
    for gate in letters:
        is_within = gate == "n" and layout.reset == AFTER  # its second bias is multiplied with r
        missing = []
        if gate not in of_inputs and np.any(b[gate]):
            missing.append(b[gate])
            c[gate] = c[gate] + b[gate]
        if gate not in of_state and np.any(c[gate]) and not missing:
            missing.append(c[gate])
            b[gate] = b[gate] + c[gate]
        if missing and (is_within or gate not in of_inputs + of_state):
            raise Refusal(
                f"layer {cell.scope} has a bias of the gate {gate} that {layout.name} lacks.",
                "name another layout.",
            )
    return b, c


def _name_in(layout: Layout, cell: Cell, part: str) -> str:
    """The name of an array of a cell in a file of its framework."""
    if not layout.is_stack:
        name = f"{cell.scope}/{part}"
        is_dotted = layout.name.startswith(("torch.", "tinygrad.", "mindspore."))
        return name.replace("/", ".") if is_dotted else name
    scope = cell.scope.removesuffix(f"/{cell.direction}")
    stack = STACK_OF_TORCH.fullmatch(scope)
    module, level = stack.groups() if stack else (scope, "0")
    end = "_reverse" if cell.direction == "backward" else ""
    return f"{module.replace('/', '.')}.{part}{level}{end}"


def suggestion(arrays: Sequence[Array]) -> list[str]:
    """The names of layouts whose arrays are called as some in the file."""
    names = []
    for found in find(arrays, LAYOUTS):
        parts = set(found.parts)
        for layout in LAYOUTS:
            if set(layout.parts) == parts and _fits(layout, found.parts):
                names.append(layout.name)
    # Those that have torch's names are torch's in most files.
    return sorted(dict.fromkeys(names), key=lambda name: not name.startswith("torch."))
