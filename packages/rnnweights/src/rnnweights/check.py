"""The check of a converted checkpoint: what source and target compute from random inputs."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rnnweights.cells import Cell, Item, cells_of, items_of, resets_after
from rnnweights.checkpoint import PARTS, Checkpoint, Refusal
from rnnweights.configuration import activations
from rnnweights.conversion import OF_KERAS, OWN, Conversion, Stated, functions_of
from rnnweights.declared import declared_cells
from rnnweights.formulas import FUNCTIONS, HARD_SIGMOID_2, formula_of
from rnnweights.frameworks import Worker
from rnnweights.keras_files import write_like
from rnnweights.layouts import layouts_named
from rnnweights.reading import read

SAMPLES, STEPS = 3, 7


def check(
    target: Path,
    conversion: Conversion,
    stated: Stated,
    worker: Worker,
) -> list[str]:
    """The lines of ``--check``: the largest difference between what source and `target` compute
    from random inputs, or why they were not compared.

    Two models of Keras run as a whole, in Keras. Otherwise, the target is computed by our formula
    in float64, and the source by the formula of its layout. A cell whose arrays are copied is run
    by Keras itself if the file is Keras's, and is not checked otherwise: a file would be compared
    with itself. Raises `Refusal` if a cell of the source is not in the target.
    """
    written = read(target, worker)
    found: Sequence[Item] = written.items
    if not found:
        cells: list[Cell] = []
        rest = list(written.arrays)
        if conversion.layout not in OWN:
            cells, rest = declared_cells(rest, layouts_named(conversion.layout))
        found = [*cells, *items_of(rest)]
    pairs = _pairs(conversion.items, found)
    if pairs is None:
        raise Refusal(
            "its recurrent layers differ from the source's.",
            "report this as an error of rnnweights.",
        )
    if conversion.checkpoint.config is not None and written.config is not None:
        lines, ran = _check_models(conversion.checkpoint, written, worker)
        if ran or not pairs:
            return lines
    elif not pairs:
        return ["check: nothing to run: it has no LSTM, GRU or SimpleRNN"]
    else:
        lines = []
    return lines + _check_cells(pairs, conversion, stated, worker)


def _check_models(source: Checkpoint, target: Checkpoint, worker: Worker) -> tuple[list[str], bool]:
    """The lines about two models of Keras, and whether they ran."""
    with tempfile.TemporaryDirectory(prefix="rnnweights-") as folder:
        paths = {}
        for side, file in (("source", source), ("target", target)):
            path = Path(folder, f"{side}{file.kind}")
            write_like(path, file, file.arrays, None)
            paths[side] = str(path)
        answer, _ = worker("check", **paths)
    if answer["why"] is None:
        largest = f"largest difference {answer['largest']:.2g}"
        return [f"check: both models, random inputs: {largest}"], True
    return [f"check: the models cannot be run: {answer['why']}"], False


def _check_cells(
    pairs: Sequence[tuple[Cell, Cell]],
    conversion: Conversion,
    stated: Stated,
    worker: Worker,
) -> list[str]:
    """The lines about each cell on its own."""
    stream = np.random.default_rng(0)
    taken: Counter[str] = Counter()  # cells of each buffer
    by_formula = []
    copied = []
    unchecked: dict[str, list[str]] = {}
    for cell, converted in pairs:
        inputs = stream.normal(size=(SAMPLES, STEPS, len(cell.arrays["kernel"])))
        place = taken[cell.sources[0].name]
        taken[cell.sources[0].name] += 1
        names = functions_of(cell, conversion.checkpoint, conversion.stated)
        unknown = [name for name in names if name not in FUNCTIONS]
        if cell.assumed:
            why = "the file does not say its layout, which is assumed; state it with --layout"
            unchecked.setdefault(why, []).append(cell.scope)
            continue
        if unknown:
            why = f"there is no formula for the activation {unknown[0]}"
            unchecked.setdefault(why, []).append(cell.scope)
            continue

        if "bias" not in converted.arrays:
            converted = replace(converted, reset_after=resets_after(cell))
        functions = [FUNCTIONS[name] for name in names]
        target = formula_of(converted).outputs(inputs, *functions)
        if cell.layout == converted.layout and HARD_SIGMOID_2 in names:
            why = "its arrays are copied as they are, and Keras 3 has another hard_sigmoid"
            unchecked.setdefault(why, []).append(cell.scope)
            continue
        if cell.layout == converted.layout:
            copied.append((cell, inputs, target))
            continue
        source = formula_of(cell, stated.buffer, place).outputs(inputs, *functions)
        by_formula.append(float(np.abs(source - target).max()))

    lines = []
    if by_formula:
        # Python's max may leave out NaN.
        largest = f"largest difference {np.max(by_formula):.2g}"
        what = f"each of {len(by_formula)} recurrent cells, formulas in float64, random inputs"
        lines.append(f"check: {what}: {largest}")
    if copied:
        lines += _check_copied(copied, conversion.checkpoint.kind, worker)
    for why, scopes in unchecked.items():
        lines.append(f"check: not checked: {', '.join(scopes)}: {why}")
    return lines


def _check_copied(
    copied: Sequence[tuple[Cell, np.ndarray, np.ndarray]], kind: str, worker: Worker
) -> list[str]:
    """The lines about cells whose arrays are copied: of a file of Keras, Keras computes them.

    `copied`: each with inputs and the outputs of the formula for the target.
    """
    scopes = ", ".join(cell.scope for cell, _, _ in copied)
    if kind not in (*OF_KERAS, "TensorFlow") or copied[0][0].layout != "keras":
        why = "its arrays are copied as they are, and nothing but the file itself has them"
        return [f"check: not checked: {scopes}: {why}"]

    questions = []
    arrays = {}
    for number, (cell, inputs, _) in enumerate(copied):
        settings: dict[str, Any] = {}
        for name, activation in activations(cell, {}).items():
            settings[name] = activation.name
        if cell.kind == "GRU":
            settings["reset_after"] = resets_after(cell)
        question = {
            "number": number,
            "kind": cell.kind,
            "units": cell.units,
            "settings": settings,
            "parts": [array.part for array in cell.sources],
        }
        questions.append(question)
        arrays[f"{number}/inputs"] = inputs.astype("float32")
        for array in cell.sources:
            arrays[f"{number}/{array.part}"] = array.values

    answer, outputs = worker("outputs", cells=questions, arrays=arrays)
    differences = []
    for number, (_, _, target) in enumerate(copied):
        differences.append(np.abs(outputs[str(number)] - target).max())
    what = f"each of {len(copied)} recurrent cells, random inputs, Keras {answer['version']}"
    return [f"check: {what} and a formula in float64: largest difference {np.max(differences):.2g}"]


def _pairs(before: Sequence[Item], after: Sequence[Item]) -> list[tuple[Cell, Cell]] | None:
    """Each cell with what became of it; None if one of either side has no counterpart. Files of
    Keras 3 have another order and other names than those of Keras 2, so the matrices decide."""
    left = cells_of(after)
    pairs = []
    for cell in cells_of(before):
        same = [number for number, each in enumerate(left) if _have_equal_matrices(cell, each)]
        if not same:
            return None
        pairs.append((cell, left.pop(same[0])))
    if left:
        return None
    return pairs


def _have_equal_matrices(first: Cell, second: Cell) -> bool:
    """Whether their kernels and recurrent kernels are equal."""
    parts = PARTS[:2]
    return all(np.array_equal(first.arrays[part], second.arrays[part]) for part in parts)
