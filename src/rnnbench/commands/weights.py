"""The command that converts checkpoints."""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from rnnbench.checkpoints.reading import Checkpoint, Worker, read
from rnnbench.checkpoints.writing import arrays_of, hdf5, in_place, npz, safetensors_file
from rnnbench.commands.arguments import CONF, Arguments, command_parser, project_conf
from rnnbench.errors import BuildError, RecordError
from rnnbench.plain_text import plain
from rnnbench.records.store import write_bytes
from rnnbench.running import in_build
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
LAYOUTS = ("cudnn", "keras", "canonical")
TARGETS = (".weights.h5", ".h5", ".keras", ".npz", ".safetensors")
OF_KERAS = (".h5", ".keras", ".weights.h5")


def weights(arguments: Sequence[str]) -> int:
    """Convert the LSTM and GRU layers of a checkpoint to another layout.

    There are three layouts: cudnn (the CuDNN layers of Keras 2), keras (Keras's own layers) and
    canonical (Keras's layers as named arrays in .npz or .safetensors). The name of TARGET decides
    the format: .h5, .keras, .weights.h5, .npz or .safetensors.
    """
    options = command_parser(weights, ARGUMENTS).parse_args(arguments)
    source = options.source
    target = options.output
    target_format = _format_of_target(target, source, options.force)
    build = _build(options.build, options.conf)
    worker = partial(in_build.ask, root=Path.cwd(), build=build)
    stated = Stated(options.recurrent_activation, options.buffer)

    file = source
    fault = "cannot be read or converted"
    try:
        conversion = convert(source, options.to, target_format, stated, worker)
        _format_of_target(target, source, options.force)  # it may have been made meanwhile
        write_bytes(target, conversion.content)
        lines = conversion.lines()
        if options.check:
            file = target
            fault = "is written, but not checked"
            lines += _check(target, conversion, stated, worker)
    except (Refusal, BuildError) as error:
        what = error.what
        if isinstance(error, BuildError):
            what = f"{error.where} {what}"
        raise RecordError(f"{fault}: {what}", where=str(file), remedy=error.remedy) from error

    for line in lines:
        print(plain(line))
    return 0


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
        cells = [item for item in self.items if isinstance(item, Cell)]
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
            facts = [_size(cell)]
            if cell.kind == "GRU" and resets_after(cell):
                facts.append("reset_after")
            if "bias" not in cell.arrays:
                facts.append("no bias")
            if cell.layout == self.layout:
                facts.append(f"already {cell.layout}")
            else:
                facts.append(f"{cell.layout} → {self.layout}")
                if self.layout == "keras" and not cell.exact:
                    facts.append("its two biases are added")
            lines.append(f"{cell.scope}: {', '.join(facts)}")

        for item in self.items:
            if isinstance(item, Array) and not np.isfinite(item.values).all():
                lines.append(f"{item.name}: copied, but has NaN or infinite values")

        version = 3 if _is_of_keras_3(self.checkpoint) else 2
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


def _size(cell: Cell) -> str:
    return f"{cell.kind} of {cell.units} units"


def _has_hard_sigmoid(cell: Cell) -> bool:
    return "hard_sigmoid" in [(cell.settings or {}).get(name) for name in ACTIVATIONS]


def _is_of_keras_3(checkpoint: Checkpoint) -> bool:
    return checkpoint.attributes.get("keras_version", "").startswith("3")


def convert(
    source: Path,
    to: str,
    target: str,
    stated: Stated,
    worker: Worker,
) -> Conversion:
    """The conversion of a checkpoint to the layout `to` in the format `target`. A model whose
    format changes is loaded and saved by Keras 3. Raises `Refusal`."""
    layout = "keras" if to == "canonical" else to
    checkpoint = read(source, worker)
    items = items_of(checkpoint.arrays, stated.buffer)
    if checkpoint.config is not None:
        by_place = checkpoint.kind != ".h5"
        items = described(checkpoint.config, checkpoint.container, items, by_place)

    cells = [item for item in items if isinstance(item, Cell)]
    check_directions([cell for cell in cells if cell.settings is None])
    for cell in cells:
        stated.check_agrees(cell)
        if layout == "cudnn":
            check_fits_cudnn(cell, stated.recurrent_activation)

    if to == "canonical" and target in OF_KERAS:
        raise Refusal(f"{target} files have Keras's names.", "write .npz, or --to keras.")
    if layout == "cudnn" and target in (".keras", ".weights.h5"):
        raise Refusal(f"Keras 3, which writes {target}, has no CuDNN layers.", "write .h5 or .npz.")
    hard = [cell.scope for cell in cells if _has_hard_sigmoid(cell)]
    if hard and target in (".keras", ".weights.h5") and not _is_of_keras_3(checkpoint):
        what = f"layer {hard[0]} has the hard_sigmoid of Keras 2 (0.2 x + 0.5); "
        raise Refusal(f"{what}Keras 3 computes x / 6 + 0.5.", "write .h5, for Keras 2.")

    # Keras 3 has no CuDNN layers: their two biases would not survive.
    stays = layout == "cudnn" and "cudnn" in [cell.layout for cell in cells]
    of_keras = checkpoint.kind in OF_KERAS and target in OF_KERAS
    if of_keras and checkpoint.kind != target and not stays:
        return _by_keras(to, target, stated, worker, checkpoint, items)
    if not cells and checkpoint.kind not in OF_KERAS:
        raise Refusal(
            "none of its arrays is named like an array of an LSTM or GRU layer.",
            "name its arrays LAYER/kernel, LAYER/recurrent_kernel and LAYER/bias.",
        )
    content = _content(checkpoint, items, layout, target)
    return Conversion(checkpoint, items, layout, target, content)


def _content(checkpoint: Checkpoint, items: Sequence[Item], layout: str, target: str) -> bytes:
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
    if stacks and others:
        raise Refusal(
            "it has arrays of torch's other layers, in torch's layout.",
            "write .npz or .safetensors.",
        )
    order = checkpoint.order
    if stacks:
        order = "arrays" if len(stacks) == 1 else "none"
    return hdf5(arrays, order, checkpoint.attributes)


def _by_keras(
    to: str,
    target: str,
    stated: Stated,
    worker: Worker,
    checkpoint: Checkpoint,
    items: Sequence[Item],
) -> Conversion:
    """The conversion of a whole model to another format of Keras."""
    if checkpoint.config is None:
        raise Refusal(
            f"a {checkpoint.kind} file has no configuration of a model, which {target} needs.",
            f"write {checkpoint.kind}, .npz or .safetensors.",
        )
    with tempfile.TemporaryDirectory(prefix="rnnbench-") as folder:
        before = Path(folder, f"source{checkpoint.kind}")
        after = Path(folder, f"target{target}")
        before.write_bytes(in_place(checkpoint, items, "keras"))
        worker("resave", source=str(before), target=str(after))
        saved = convert(after, "keras", target, stated, worker)
        had = Counter(array.values.tobytes() for array in arrays_of(items, "keras"))
        has = Counter(array.values.tobytes() for array in arrays_of(saved.items, "keras"))
        if had - has:
            raise Refusal(
                f"{(had - has).total()} of {had.total()} arrays are not in what Keras 3 saved.",
                f"write {checkpoint.kind}, .npz or .safetensors.",
            )
        content = convert(after, to, target, stated, worker).content
    layout = "cudnn" if to == "cudnn" else saved.layout
    return Conversion(checkpoint, items, layout, target, content)


def _check(target: Path, conversion: Conversion, stated: Stated, worker: Worker) -> list[str]:
    """The lines of ``--check``."""
    written = read(target, worker)
    pairs = _pairs(conversion.items, items_of(written.arrays))
    if pairs is None:
        raise RecordError(
            "is written, but not checked: its recurrent layers differ from the source's.",
            where=str(target),
            remedy="report this as an error of rnnbench.",
        )

    questions = []
    arrays = {}
    buffer = stated.buffer or Buffer("", 1, 1, 1)
    taken: Counter[str] = Counter()  # cells of each buffer
    for number, (cell, converted) in enumerate(pairs):
        first = cell.sources[0].name
        settings = cell.settings or {}
        known = {name: settings[name] for name in ACTIVATIONS if settings.get(name) is not None}
        question = {
            "number": number,
            "kind": cell.kind,
            "units": cell.units,
            "settings": known,
            "inputs": len(cell.arrays["kernel"]),
            "reset_after": resets_after(cell),
            "layers": buffer.layers,
            "directions": buffer.directions,
            "place": taken[first],
        }
        taken[first] += 1
        for side, each in (("source", cell), ("target", converted)):
            question[side] = {
                "layout": each.layout,
                "parts": [array.part for array in each.sources],
            }
            for array in each.sources:
                arrays[f"{number}/{side}/{array.part}"] = array.values
        questions.append(question)

    whole: dict[str, str | None] = {"source": None, "target": None}
    with tempfile.TemporaryDirectory(prefix="rnnbench-") as folder:
        for side, file in (("source", conversion.checkpoint), ("target", written)):
            if file.config is not None:
                path = Path(folder, f"{side}{file.kind}")
                path.write_bytes(in_place(file, items_of(file.arrays), None))
                whole[side] = str(path)
        if not pairs and None in whole.values():
            return ["check: nothing to run: it has no LSTM, GRU or SimpleRNN"]
        activation = stated.recurrent_activation or "sigmoid"
        answer, _ = worker("check", cells=questions, arrays=arrays, activation=activation, **whole)

    lines = []
    if answer["ran"] == "models":
        return [f"check: both models, random inputs: largest difference {answer['largest']:.2g}"]
    if pairs:
        largest = f"largest difference {answer['largest']:.2g}"
        lines.append(f"check: each of {len(pairs)} recurrent cells, random inputs: {largest}")
    if answer["why"]:
        lines.append(f"check: the models cannot be run: {answer['why']}")
    if any(cell.settings is None for cell, _ in pairs):
        lines.append(f"check: assumed activation=tanh, recurrent_activation={activation}")
    return lines


def _pairs(before: Sequence[Item], after: Sequence[Item]) -> list[tuple[Cell, Cell]] | None:
    """Each cell with what became of it, or None. Files of Keras 3 have another order and other
    names than those of Keras 2, so the matrices decide."""
    left = [item for item in after if isinstance(item, Cell)]
    pairs = []
    for cell in before:
        if not isinstance(cell, Cell):
            continue
        same = [number for number, each in enumerate(left) if _have_equal_matrices(cell, each)]
        if not same:
            return None
        pairs.append((cell, left.pop(same[0])))
    return None if left else pairs


def _have_equal_matrices(first: Cell, second: Cell) -> bool:
    """Whether their kernels and recurrent kernels are equal."""
    parts = PARTS[:2]
    return all(np.array_equal(first.arrays[part], second.arrays[part]) for part in parts)


def _format_of_target(target: Path, source: Path, force: bool) -> str:
    """The format that the name of `target` says. Raises a `RecordError` unless it may be written:
    nothing but a file is replaced, and only with `force`; the source is never."""
    formats = [suffix for suffix in TARGETS if target.name.endswith(suffix)]
    own = [source]
    if not source.is_file():  # several files with one prefix
        prefix = source
        if source.suffix in (".index", ".meta"):
            prefix = source.with_suffix("")
        own += prefix.parent.glob(f"{prefix.name}.*")
    is_own = source.is_dir() and target.resolve().is_relative_to(source.resolve())
    for each in own:
        if each.exists() and target.exists() and target.samefile(each):
            is_own = True

    fault = None
    if not formats:
        fault = "the name does not say its format.", f"end its name in {', '.join(TARGETS)}."
    elif not target.parent.is_dir():
        fault = "its folder does not exist.", "make the folder."
    elif target.is_symlink():
        fault = "is a link.", "name a file."
    elif is_own:
        fault = "is part of the source.", "name another file."
    elif target.exists() and not target.is_file():
        fault = "is not a file.", "name a file."
    elif target.exists() and not force:
        fault = "exists.", "add --force to replace it."
    if fault is not None:
        what, remedy = fault
        raise RecordError(what, where=str(target), remedy=remedy)
    return formats[0]


def _build(name: str | None, further: Sequence[Path]) -> Mapping[str, Any]:
    """The build called `name` in the project's configuration."""
    if name is None:
        return in_build.HERE
    from rnnbench.grid.compose import compose_choices
    from rnnbench.grid.files import file_of, files_of

    root = Path.cwd()
    conf = project_conf(root, further)
    file = file_of(files_of(conf, "build"), "build", name, "--build", root)
    library = compose_choices(conf, {"build": {file.stem: file}}, default_model=True)
    return library.sections["build", file.stem]


def _buffer(text: str) -> Buffer:
    cell, *numbers = text.split(",")
    if cell not in ("lstm", "gru") or len(numbers) != 3 or not all(map(str.isdigit, numbers)):
        raise argparse.ArgumentTypeError(f"{text} is not CELL,LAYERS,DIRECTIONS,UNITS")
    layers, directions, units = map(int, numbers)
    if not layers or not units or directions not in (1, 2):
        raise argparse.ArgumentTypeError(f"{text} has no layers or units, or not 1 or 2 directions")
    return Buffer(cell, layers, directions, units)


ARGUMENTS: Arguments = {
    "source": {
        "type": Path,
        "help": "a file of Keras, torch or safetensors, an .npz file, or a checkpoint of "
        "TensorFlow",
    },
    "--to": {"required": True, "choices": LAYOUTS, "help": "the layout to write"},
    "-o --output": {
        "type": Path,
        "required": True,
        "metavar": "TARGET",
        "help": "the file to write",
    },
    "--force": {"action": "store_true", "help": "replace TARGET if it exists"},
    "--recurrent-activation": {
        "metavar": "NAME",
        "help": "the recurrent activation, if the file does not state it: sigmoid, hard_sigmoid, …",
    },
    "--buffer": {
        "type": _buffer,
        "metavar": "CELL,LAYERS,DIRECTIONS,UNITS",
        "help": "what opaque buffers of cuDNN hold: lstm or gru, then three numbers",
    },
    "--check": {
        "action": "store_true",
        "help": "run both networks on random inputs and print the largest difference",
    },
    "--build": {
        "metavar": "NAME",
        "help": "the build whose framework reads and checks (default: rnnbench's own interpreter)",
    },
    "--conf": CONF,
}
