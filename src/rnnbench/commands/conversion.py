"""Conversion of a checkpoint to another layout or format, and its check."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from rnnbench.checkpoints.reading import Checkpoint, Worker, read
from rnnbench.checkpoints.writing import arrays_of, hdf5, in_place, npz, safetensors_file
from rnnbench.errors import RecordError
from rnnbench.weights.cells import (
    PARTS,
    Array,
    Buffer,
    Cell,
    Item,
    Refusal,
    check_directions,
    items_of,
)
from rnnbench.weights.configuration import check_fits_cudnn, described, resets_after

ACTIVATIONS = ("activation", "recurrent_activation")
OF_KERAS = (".h5", ".keras", ".weights.h5")
OF_KERAS_3 = (".keras", ".weights.h5")


@dataclass(frozen=True)
class Stated:
    """What the user states about the source."""

    recurrent_activation: str | None = None
    buffer: Buffer | None = None

    def check_agrees(self, cell: Cell) -> None:
        """Raises `Refusal` if the source says that the cell has another recurrent activation."""
        found = (cell.settings or {}).get("recurrent_activation")
        if cell.layout != "keras" and cell.kind != "SimpleRNN":
            found = "sigmoid"
        if None not in (found, self.recurrent_activation) and found != self.recurrent_activation:
            raise Refusal(
                f"layer {cell.scope} has the recurrent activation {found}.",
                "leave --recurrent-activation out.",
            )


@dataclass(frozen=True)
class Conversion:
    """A checkpoint with its `items`, as they were read, and what is written.

    - `layout`, `target`: the layout and format of the target.
    - `content`: its bytes.
    """

    checkpoint: Checkpoint
    items: Sequence[Item]
    layout: str
    target: str
    content: bytes

    def lines(self) -> list[str]:
        """What became of each array, for people."""
        cells = _cells_of(self.items)
        changed = [cell for cell in cells if cell.layout != self.layout]
        names = set()
        for cell in changed:
            names |= {array.name for array in cell.sources}

        total = len(self.checkpoint.arrays)
        line = f"{total} arrays: {len(names)} converted"
        if changed:
            kinds = Counter(map(_size, changed))
            counts = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
            line += f" ({counts})"
        lines = [f"{line}, {total - len(names)} copied"]

        for cell in cells:
            lines.append(f"{cell.scope}: {', '.join(self._facts(cell))}")

        for item in self.items:
            if isinstance(item, Array) and not np.isfinite(item.values).all():
                lines.append(f"{item.name}: copied, but has NaN or infinite values")

        version = 2
        if _is_of_keras_3(self.checkpoint):
            version = 3
        hard = "hard_sigmoid is 0.2 x + 0.5 in Keras 2 and x / 6 + 0.5 in Keras 3: use it in Keras "
        for cell in cells:
            if _has_hard_sigmoid(cell):
                lines.append(f"{cell.scope}: {hard}{version}, as the source")

        kept = self.target == ".keras" or b"model_config" in self.content
        if self.checkpoint.config is not None and not kept:
            lines.append("not in the target: the model's configuration; load it with load_weights")
        if self.checkpoint.optimizer and (changed or self.checkpoint.kind != self.target):
            state = f"{self.checkpoint.optimizer} arrays of the optimizer and the metrics"
            lines.append(f"not in the target: {state}")
        return lines

    def _facts(self, cell: Cell) -> list[str]:
        """What became of a cell."""
        facts = [_size(cell)]
        if cell.kind == "GRU" and resets_after(cell):
            facts.append("reset_after")
        if "bias" not in cell.arrays:
            facts.append("no bias")
        if cell.layout == self.layout:
            facts.append(f"already {cell.layout}")
            return facts
        facts.append(f"{cell.layout} → {self.layout}")
        if self.layout == "keras" and not cell.exact:
            facts.append("its two biases are added")
        return facts


def _cells_of(items: Sequence[Item]) -> list[Cell]:
    return [item for item in items if isinstance(item, Cell)]


def _size(cell: Cell) -> str:
    return f"{cell.kind} of {cell.units} units"


def _has_hard_sigmoid(cell: Cell) -> bool:
    settings = cell.settings or {}
    return "hard_sigmoid" in map(settings.get, ACTIVATIONS)


def _is_of_keras_3(checkpoint: Checkpoint) -> bool:
    return checkpoint.attributes.get("keras_version", "").startswith("3")


def convert(
    source: Path,
    to: str,
    target: str,
    stated: Stated,
    worker: Worker,
) -> Conversion:
    """The conversion of a checkpoint.

    - `source`: its file, or the prefix of its files.
    - `to`: the layout ``cudnn`` or ``keras``; ``canonical`` for Keras's in an archive of arrays.
    - `target`: the format, a suffix. A model whose format changes is loaded and saved by Keras 3.
    - `worker`: answers what only a framework can, as `in_build.ask`.

    Raises `Refusal`, and `BuildError` if the build cannot answer.
    """
    layout = to
    if to == "canonical":
        layout = "keras"

    checkpoint = read(source, worker)
    items = items_of(checkpoint.arrays, stated.buffer)
    if checkpoint.config is not None:
        by_place = checkpoint.kind != ".h5"
        items = described(checkpoint.config, checkpoint.container, items, by_place)

    cells = _cells_of(items)
    check_directions([cell for cell in cells if cell.settings is None])
    for cell in cells:
        stated.check_agrees(cell)
        if layout == "cudnn":
            check_fits_cudnn(cell, stated.recurrent_activation)

    _check_target(checkpoint, cells, to, target)
    # Keras 3 has no CuDNN layers: their two biases would not survive.
    stays = layout == "cudnn" and "cudnn" in [cell.layout for cell in cells]
    of_keras = checkpoint.kind in OF_KERAS and target in OF_KERAS
    if of_keras and checkpoint.kind != target and not stays:
        return _by_keras(
            checkpoint,
            items,
            to,
            target,
            stated,
            worker,
        )

    if not cells and checkpoint.kind not in OF_KERAS:
        raise Refusal(
            "none of its arrays is named like an array of an LSTM or GRU layer.",
            "name its arrays LAYER/kernel, LAYER/recurrent_kernel and LAYER/bias.",
        )
    return Conversion(
        checkpoint,
        items,
        layout,
        target,
        content=_content(checkpoint, items, layout, target),
    )


def _check_target(
    checkpoint: Checkpoint,
    cells: Sequence[Cell],
    to: str,
    target: str,
) -> None:
    """Raises `Refusal` if the format cannot hold the cells."""
    if to == "canonical" and target in OF_KERAS:
        raise Refusal(f"{target} files have Keras's names.", "write .npz, or --to keras.")
    if to == "cudnn" and target in OF_KERAS_3:
        raise Refusal(f"Keras 3, which writes {target}, has no CuDNN layers.", "write .h5 or .npz.")
    if target in OF_KERAS_3 and not _is_of_keras_3(checkpoint):
        for cell in filter(_has_hard_sigmoid, cells):
            what = f"layer {cell.scope} has the hard_sigmoid of Keras 2 (0.2 x + 0.5); "
            raise Refusal(f"{what}Keras 3 computes x / 6 + 0.5.", "write .h5, for Keras 2.")


def _content(
    checkpoint: Checkpoint,
    items: Sequence[Item],
    layout: str,
    target: str,
) -> bytes:
    """The bytes of the target. Raises `Refusal`."""
    of_keras_3 = layout == "cudnn" and _is_of_keras_3(checkpoint)
    if checkpoint.kind == target and target in OF_KERAS and not of_keras_3:
        return in_place(checkpoint, items, layout)

    arrays = arrays_of(items, layout)
    about = {**checkpoint.attributes, "order": checkpoint.order}
    if target == ".npz":
        return npz(arrays, about)
    if target == ".safetensors":
        return safetensors_file(arrays, about)
    if target != ".h5":
        raise Refusal(
            f"it has no configuration of a model, which {target} needs.",
            "write .h5, .npz or .safetensors.",
        )

    stacks = set()  # of layers of torch or cuDNN
    others = False
    for item in items:
        if isinstance(item, Cell) and item.layout in ("torch", "buffer"):
            stacks.add(item.layer.rpartition("_l")[0])
        else:
            others = True

    if not stacks:
        return hdf5(arrays, checkpoint.order, checkpoint.attributes)
    if others:
        raise Refusal(
            "it has arrays of torch's other layers, in torch's layout.",
            "write .npz or .safetensors.",
        )

    order = "none"
    if len(stacks) == 1:
        order = "arrays"
    return hdf5(arrays, order, checkpoint.attributes)


def _by_keras(
    checkpoint: Checkpoint,
    items: Sequence[Item],
    to: str,
    target: str,
    stated: Stated,
    worker: Worker,
) -> Conversion:
    """The conversion of a whole model to another format of Keras."""
    remedy = f"write {checkpoint.kind}, .npz or .safetensors."
    if checkpoint.config is None:
        what = f"a {checkpoint.kind} file has no configuration of a model, which {target} needs."
        raise Refusal(what, remedy)

    with tempfile.TemporaryDirectory(prefix="rnnbench-") as folder:
        before = Path(folder, f"source{checkpoint.kind}")
        after = Path(folder, f"target{target}")
        before.write_bytes(in_place(checkpoint, items, "keras"))
        worker("resave", source=str(before), target=str(after))
        saved = convert(
            after,
            to,
            target,
            stated,
            worker,
        )

    had = Counter(array.values.tobytes() for array in arrays_of(items, "keras"))
    has = Counter(array.values.tobytes() for array in arrays_of(saved.items, "keras"))
    lost = had - has
    if lost:
        what = f"{lost.total()} of {had.total()} arrays are not in what Keras 3 saved."
        raise Refusal(what, remedy)
    return replace(saved, checkpoint=checkpoint, items=items)


def check(
    target: Path,
    conversion: Conversion,
    stated: Stated,
    worker: Worker,
) -> list[str]:
    """The lines of ``--check``: the largest difference between what source and `target` compute
    from random inputs. Raises `RecordError` if a cell of the source is not in the target."""
    written = read(target, worker)
    pairs = _pairs(conversion.items, items_of(written.arrays))
    if pairs is None:
        raise RecordError(
            "is written, but not checked: its recurrent layers differ from the source's.",
            where=str(target),
            remedy="report this as an error of rnnbench.",
        )

    questions, arrays = _questions(pairs, stated.buffer)
    whole: dict[str, str | None] = {"source": None, "target": None}
    with tempfile.TemporaryDirectory(prefix="rnnbench-") as folder:
        for side, file in (("source", conversion.checkpoint), ("target", written)):
            if file.config is not None:
                path = Path(folder, f"{side}{file.kind}")
                path.write_bytes(in_place(file, file.arrays, None))
                whole[side] = str(path)
        if not pairs and None in whole.values():
            return ["check: nothing to run: it has no LSTM, GRU or SimpleRNN"]
        activation = stated.recurrent_activation or "sigmoid"
        answer, _ = worker(
            "check",
            cells=questions,
            arrays=arrays,
            activation=activation,
            **whole,
        )

    if answer["ran"] == "models":
        return [f"check: both models, random inputs: largest difference {answer['largest']:.2g}"]

    lines = []
    if pairs:
        largest = f"largest difference {answer['largest']:.2g}"
        lines.append(f"check: each of {len(pairs)} recurrent cells, random inputs: {largest}")
    if answer["why"]:
        lines.append(f"check: the models cannot be run: {answer['why']}")
    if any(cell.settings is None for cell, _ in pairs):
        lines.append(f"check: assumed activation=tanh, recurrent_activation={activation}")
    return lines


def _questions(
    pairs: Sequence[tuple[Cell, Cell]],
    buffer: Buffer | None,
) -> tuple[list[dict[str, Any]], dict[str, np.ndarray]]:
    """What `rnnworker.checkpoint_checks.check` is told about each pair, and their arrays by
    ``NUMBER/SIDE/PART``."""
    questions = []
    arrays = {}
    taken: Counter[str] = Counter()  # cells of each buffer
    for number, (cell, converted) in enumerate(pairs):
        settings = {}
        for name in ACTIVATIONS:
            value = (cell.settings or {}).get(name)
            if value is not None:
                settings[name] = value

        first = cell.sources[0].name
        question = {
            "number": number,
            "kind": cell.kind,
            "units": cell.units,
            "settings": settings,
            "inputs": len(cell.arrays["kernel"]),
            "reset_after": resets_after(cell),
            "place": taken[first],
        }
        taken[first] += 1

        if buffer is not None:
            question["layers"] = buffer.layers
            question["directions"] = buffer.directions

        for side, each in (("source", cell), ("target", converted)):
            question[side] = {
                "layout": each.layout,
                "parts": [array.part for array in each.sources],
            }
            for array in each.sources:
                arrays[f"{number}/{side}/{array.part}"] = array.values
        questions.append(question)
    return questions, arrays


def _pairs(before: Sequence[Item], after: Sequence[Item]) -> list[tuple[Cell, Cell]] | None:
    """Each cell with what became of it; None if one of either side has no counterpart. Files of
    Keras 3 have another order and other names than those of Keras 2, so the matrices decide."""
    left = _cells_of(after)
    pairs = []
    for cell in _cells_of(before):
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
