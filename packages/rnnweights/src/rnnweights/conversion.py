"""Conversion of a checkpoint to another layout or format."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from rnnweights.array_files import write_npz, write_safetensors
from rnnweights.cells import (
    Buffer,
    Cell,
    Item,
    arrays_of,
    cells_of,
    check_alone,
    check_directions,
    items_of,
    resets_after,
    says_reset,
    watched,
    with_directions,
)
from rnnweights.checkpoint import Array, Checkpoint, Refusal, Watched
from rnnweights.configuration import (
    DEFAULTS,
    activations,
    check_fits_cudnn,
    check_named_class,
    described,
    is_class_named,
)
from rnnweights.declared import declared_cells, in_declared, suggestion, without_copies
from rnnweights.frameworks import Worker
from rnnweights.keras_files import write_like, write_weights
from rnnweights.layer_tree import nodes
from rnnweights.layouts import Layout, layouts_named
from rnnweights.onnx_files import onnx_model
from rnnweights.reading import read

OWN = ("cudnn", "keras", "canonical", "onnx")  # layouts with formats of their own
OF_KERAS = (".h5", ".keras", ".weights.h5")
OF_KERAS_3 = (".keras", ".weights.h5")
ADVICE = (
    "state its layout (--layout haiku.LSTM, torch.GRUCell, …), or name its arrays LAYER/kernel "
    "(inputs, gates x units), LAYER/recurrent_kernel (units, gates x units) and LAYER/bias, with "
    "Keras's gates i, f, c, o (LSTM) or z, r, h (GRU, h = z h + (1 - z) n), and with a forget bias "
    "that is added at run time in the bias."
)

# What is assumed of arrays that have Keras's names and nothing else.
KERASS_ORDER = {
    "lstm": "gates in Keras's order i, f, c, o",
    "gru": "gates in Keras's order z, r, h, and h = z h + (1 - z) n",
    "rnn_tanh": "the layout of Keras's SimpleRNN",
}


@dataclass(frozen=True)
class Stated:
    """What the user states about the source: its activations, what its buffers of cuDNN hold, and
    the name of a layout, as for `layouts_named`."""

    recurrent_activation: str | None = None
    activation: str | None = None
    buffer: Buffer | None = None
    layout: str | None = None

    @property
    def activations(self) -> dict[str, str | None]:
        return {
            "activation": self.activation,
            "recurrent_activation": self.recurrent_activation,
        }


@dataclass(frozen=True)
class Conversion:
    """A checkpoint with its `items`, as they were read, and what was written.

    - `stated`: what the user states about it.
    - `layout`, `target`: the layout and format of the target.
    - `broken`: the names of the copied arrays with NaN or infinite values.
    - `keeps_config`: whether the target has the configuration of the model.
    """

    checkpoint: Checkpoint
    items: Sequence[Item]
    stated: Stated
    layout: str
    target: str
    broken: Sequence[str]
    keeps_config: bool

    def lines(self) -> list[str]:
        """What became of each array, for people."""
        cells = cells_of(self.items)
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
        if self.target == ".onnx":
            lines = [line]

        for cell in cells:
            lines.append(f"{cell.scope}: {', '.join(self._facts(cell))}")
            for note in cell.notes:
                lines.append(f"{cell.scope}: {note}")
            assumed = self._assumed(cell)
            if assumed:
                why = "assumed, because the file does not say it"
                lines.append(f"{cell.scope}: {why}: {'; '.join(assumed)}")
        if self.checkpoint.kind == ".weights.h5" and not self.checkpoint.labels:
            lines.append(
                "the file has no names of layers: they are called after their classes, in order"
            )

        for name in self.broken:
            lines.append(f"{name}: copied, but has NaN or infinite values")

        version = 2
        if is_of_keras_3(self.checkpoint):
            version = 3
        hard = "hard_sigmoid is 0.2 x + 0.5 in Keras 2 and x / 6 + 0.5 in Keras 3: use it in Keras "
        for cell in cells:
            if _has_hard_sigmoid(cell):
                lines.append(f"{cell.scope}: {hard}{version}, as the source")

        if self.checkpoint.config is not None and not self.keeps_config:
            lines += self._unsaid(self.checkpoint.config)
            lines.append("not in the target: the model's configuration; load it with load_weights")
        others = len(self.items) - len(cells)
        if self.target == ".onnx" and others:
            lines.append(f"not in the target: {others} arrays of other layers")
        if self.checkpoint.optimizer and (changed or self.checkpoint.kind != self.target):
            state = f"{self.checkpoint.optimizer} arrays of the optimizer and the metrics"
            lines.append(f"not in the target: {state}")
        return lines

    def _unsaid(self, config: dict[str, Any]) -> list[str]:
        """What the source computes with the arrays of its cells, and the target does not say."""
        lines = []
        for cell in cells_of(self.items):
            is_backward = bool((cell.settings or {}).get("go_backwards"))
            if is_backward and cell.direction is None:
                said = "it runs backward in time (go_backwards=True)"
                if self.layout == "onnx":
                    said += ": here in the node, but Keras also reverses its outputs"
                lines.append(f"{cell.scope}: {said}")
        for node in nodes(config, self.checkpoint.container):
            merge = "concat"
            if node.kind == "Bidirectional":
                merge = node.layer["config"].get("merge_mode", "concat")
            if merge != "concat":
                lines.append(f"{'/'.join(node.names)}: its directions are merged by {merge}")
        return lines

    def _facts(self, cell: Cell) -> list[str]:
        """What became of a cell."""
        facts = [_size(cell)]
        if cell.kind == "GRU" and resets_after(cell):
            facts.append("reset_after")
        if "bias" not in cell.arrays:
            facts.append("no bias")
            if cell.kind == "GRU" and says_reset(cell) and not resets_after(cell):
                facts.append("reset_after=False")
        if cell.layout == "buffer":
            directions = "2 directions" if cell.direction else "1 direction"
            facts.append(f"{len(cell.arrays['kernel'])} inputs, {directions}")
        for name, activation in activations(cell, self.stated.activations).items():
            if activation.origin == "stated":
                facts.append(f"{name}={activation.name} as stated")
            elif activation.name != DEFAULTS[name] and activation.origin == "file":
                facts.append(f"{name}={activation.name}")
        if cell.layout == self.layout:
            facts.append(f"already {cell.layout}")
            return facts
        facts.append(f"{cell.layout} → {self.layout}")
        if self.layout == "keras" and not cell.exact:
            facts.append("its two biases are added")
        return facts

    def _assumed(self, cell: Cell) -> list[str]:
        """What neither the file nor the user says about a cell, and a value is assumed for."""
        assumed = []
        if not cell.has_class and not cell.assumed and not self.checkpoint.is_own:
            kind = cell.kind if cell.layout == "keras" else f"CuDNN{cell.kind}"
            assumed.append(f"the class {kind}")
        if cell.assumed:
            assumed.append(KERASS_ORDER[cell.name])
        if cell.kind == "GRU" and not says_reset(cell):
            assumed.append("reset_after=False")
        for name, activation in activations(cell, self.stated.activations).items():
            if activation.origin == "assumed":
                assumed.append(f"{name}={activation.name}")
        return assumed


def _size(cell: Cell) -> str:
    return f"{cell.kind} of {cell.units} units"


def _has_hard_sigmoid(cell: Cell) -> bool:
    settings = cell.settings or {}
    return "hard_sigmoid" in map(settings.get, DEFAULTS)


def functions_of(cell: Cell, checkpoint: Checkpoint, stated: Stated) -> list[str]:
    """The names of the activation and the recurrent activation of a cell, in which the two
    functions that Keras calls hard_sigmoid are told apart."""
    found = activations(cell, stated.activations)
    names = []
    for name, default in DEFAULTS.items():
        function = default
        if name in found:
            function = found[name].name
        if function == "hard_sigmoid":
            version = 3 if is_of_keras_3(checkpoint) else 2
            function = f"hard_sigmoid of Keras {version}"
        names.append(function)
    return names


def is_of_keras_3(checkpoint: Checkpoint) -> bool:
    """Whether Keras 3 wrote the file, as far as it says."""
    return checkpoint.attributes.get("keras_version", "").startswith("3")


def convert(
    source: Path,
    to: str,
    target: str,
    stated: Stated,
    worker: Worker,
    path: Path,
) -> Conversion:
    """Converts a checkpoint.

    - `source`: its file, or the prefix of its files.
    - `to`: the layout ``cudnn`` or ``keras``; ``canonical`` for Keras's in an archive of arrays;
      that of another framework, as for `layouts_named`.
    - `target`: the format, a suffix. A model whose format changes is loaded and saved by Keras 3.
    - `worker`: answers what only a framework can, as `frameworks.ask`.
    - `path`: the file to write.

    Raises `Refusal`.
    """
    layout = to
    if to == "canonical":
        layout = "keras"
    if target == ".onnx" and to != "cudnn":
        layout = "onnx"

    others = []  # layouts of other frameworks to write
    if to not in OWN:
        others = layouts_named(to)
        if target not in (".npz", ".safetensors"):
            raise Refusal(f"{target} files have Keras's layout or ONNX's.", "write .npz.")
    layouts = []
    if stated.layout is not None:
        layouts = layouts_named(stated.layout)
    checkpoint = read(source, worker, layouts)
    items = _items(checkpoint, stated, layouts)
    cells = cells_of(items)
    check_directions([cell for cell in cells if cell.settings is None])
    for cell in cells:
        activations(cell, stated.activations)
        if layout == "cudnn":
            check_fits_cudnn(cell, stated.activations)

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
            path,
        )

    if not cells and checkpoint.kind not in OF_KERAS:
        what = "none of its arrays is named like an array of Keras's or torch's LSTM, GRU or RNN"
        similar = suggestion(checkpoint.arrays)
        if similar:
            raise Refusal(
                f"{what}, but some are named like those of {' or '.join(similar)}.",
                f"if they are, state it: --layout {similar[0]}.",
            )
        raise Refusal(f"{what}.", ADVICE)
    broken: list[str] = []
    copied: list[Item] = []
    for item in items:
        if isinstance(item, Array):
            data = Watched(item.data, partial(broken.append, item.name))
            copied.append(item._replace(data=data))
        elif others:
            _check_functions(item, stated, to)
            copied += in_declared(watched(item), others)
        else:
            copied.append(watched(item))
    keeps_config = _write(path, checkpoint, copied, layout, target, stated)
    return Conversion(
        checkpoint,
        items,
        stated,
        layout,
        target,
        list(dict.fromkeys(broken)),
        keeps_config,
    )


def _check_functions(cell: Cell, stated: Stated, to: str) -> None:
    """Raises `Refusal` unless a cell has the activations that other frameworks' cells have."""
    for name, activation in activations(cell, stated.activations).items():
        if activation.name != DEFAULTS[name]:
            raise Refusal(
                f"layer {cell.scope} has {name}={activation.name}, which a file of {to} does not "
                "say.",
                "write .onnx, which does.",
            )


def _items(checkpoint: Checkpoint, stated: Stated, layouts: Sequence[Layout]) -> list[Item]:
    """The cells and the other arrays of a checkpoint. `layouts`: those that the user states.

    Raises `Refusal` if a cell is of a class that the file names and Keras does not have, or if the
    file has no cell of the layout that is stated.
    """
    arrays = list(checkpoint.arrays)
    own: list[Cell] = []
    if layouts:
        arrays = without_copies(arrays, layouts)
        own, arrays = declared_cells(arrays, layouts)

    if checkpoint.items:
        if layouts:
            raise Refusal(f"a file of {checkpoint.kind} says its layout.", "leave --layout out.")
        return list(checkpoint.items)
    items = items_of(arrays, stated.buffer)
    if checkpoint.config is not None:
        by_place = checkpoint.kind in OF_KERAS_3
        items = described(
            checkpoint.config,
            checkpoint.container,
            items,
            by_place,
            is_stated=any(layout.is_kerass for layout in layouts),
        )

    renamed = {}
    if checkpoint.kind == ".h5" and checkpoint.config is None:
        renamed = with_directions(cells_of(items))
    # An archive says its layout only if rnnweights wrote it.
    check_alone([cell for cell in cells_of(items) if cell.settings is None], items)
    says_layout = checkpoint.kind not in (".npz", "safetensors") or checkpoint.is_own
    settled: list[Item] = []
    for item in items:
        if isinstance(item, Cell):
            item = replace(item, scope=renamed.get(item.scope, item.scope))
            item = _of_stated_layout(item, layouts)
            if item.scope in checkpoint.settings:
                item = replace(item, settings=dict(checkpoint.settings[item.scope]))
            if item.settings is None and not layouts and item.layout in ("keras", "cudnn"):
                if not checkpoint.is_own:
                    check_named_class(item, checkpoint.container, checkpoint.labels)
                has_class = is_class_named(item, checkpoint.labels)
                item = replace(item, assumed=not says_layout, has_class=has_class)
        settled.append(item)

    if layouts and not own and not any(cell.is_stated for cell in cells_of(settled)):
        names = " or ".join(layout.name for layout in layouts)
        parts = ", ".join(layouts[0].parts)
        raise Refusal(
            f"it has no arrays of {names} ({parts}).",
            "state the layout that it has, or name its arrays so.",
        )
    return [*own, *settled]


def _of_stated_layout(cell: Cell, layouts: Sequence[Layout]) -> Cell:
    """The cell, with what the user states about its layout, if it has torch's or Keras's names.

    Raises `Refusal` if a layout is stated and the names of the cell are those of another one.
    """
    for layout in layouts:
        is_named_so = layout.is_kerass and cell.layout in ("keras", "cudnn")
        is_named_so = is_named_so or (layout.is_stack and cell.layout == "torch")
        if not is_named_so or layout.cell != cell.name:
            continue
        notes = cell.notes
        if layout.says:
            notes = (*notes, layout.says)
        return replace(cell, notes=notes, is_stated=True)
    if layouts and cell.settings is None and cell.layout not in ("torch", "buffer"):
        names = " or ".join(layout.name for layout in layouts)
        raise Refusal(
            f"layer {cell.scope} has the names and shapes of Keras's {cell.kind}, not of {names}.",
            "state the layout that it has.",
        )
    return cell


def _check_target(
    checkpoint: Checkpoint,
    cells: Sequence[Cell],
    to: str,
    target: str,
) -> None:
    """Raises `Refusal` if the format cannot hold the cells."""
    if (to == "onnx" and target != ".onnx") or (to == "cudnn" and target == ".onnx"):
        raise Refusal(f"{target} files do not have the layout {to}.", "write .onnx with --to onnx.")
    if target == ".onnx" and not cells:
        raise Refusal("it has no LSTM, GRU or SimpleRNN.", "write .npz or .safetensors.")
    if to == "canonical" and target in OF_KERAS:
        raise Refusal(f"{target} files have Keras's names.", "write .npz, or --to keras.")
    if to == "cudnn" and target in OF_KERAS_3:
        raise Refusal(f"Keras 3, which writes {target}, has no CuDNN layers.", "write .h5 or .npz.")
    if target in OF_KERAS_3 and not is_of_keras_3(checkpoint):
        for cell in filter(_has_hard_sigmoid, cells):
            what = f"layer {cell.scope} has the hard_sigmoid of Keras 2 (0.2 x + 0.5); "
            raise Refusal(f"{what}Keras 3 computes x / 6 + 0.5.", "write .h5, for Keras 2.")


def _write(
    path: Path,
    checkpoint: Checkpoint,
    items: Sequence[Item],
    layout: str,
    target: str,
    stated: Stated,
) -> bool:
    """Writes the target and returns whether it has the configuration of the model. Raises
    `Refusal`."""
    if target == ".onnx":
        cells = cells_of(items)
        functions = {cell.scope: functions_of(cell, checkpoint, stated) for cell in cells}
        path.write_bytes(onnx_model(cells, functions))
        return False
    of_keras_3 = layout == "cudnn" and is_of_keras_3(checkpoint)
    if checkpoint.kind == target and target in OF_KERAS and not of_keras_3:
        write_like(path, checkpoint, items, layout)
        return checkpoint.config is not None

    about = {**checkpoint.attributes, "order": checkpoint.order}
    settings = {}
    for cell in cells_of(items):
        known: dict[str, Any] = {}
        for name, activation in activations(cell, stated.activations).items():
            if activation.origin != "assumed":
                known[name] = activation.name
        if cell.kind == "GRU" and "bias" not in cell.arrays and says_reset(cell):
            known["reset_after"] = resets_after(cell)
        if known:
            settings[cell.scope] = known
    if settings:
        about["settings"] = json.dumps(settings)
    arrays = arrays_of(items, layout)
    if target == ".npz":
        write_npz(path, arrays, about)
    elif target == ".safetensors":
        write_safetensors(path, arrays, about)
    elif target != ".h5":
        raise Refusal(
            f"it has no configuration of a model, which {target} needs.",
            "write .h5, .npz or .safetensors.",
        )
    else:
        order = _order_for_keras(items, checkpoint.order)
        write_weights(path, arrays, order, checkpoint.attributes)
    return False


def _order_for_keras(items: Sequence[Item], order: str) -> str:
    """The order of the arrays as a `Checkpoint` has it: that of torch's layers is known if there is
    one stack of them. Raises `Refusal` if there are arrays of torch's other layers, too."""
    stacks = set()  # of layers of torch or cuDNN
    others = False
    for item in items:
        if isinstance(item, Cell) and item.layout in ("torch", "buffer"):
            stacks.add(item.layer.rpartition("_l")[0])
        else:
            others = True

    if not stacks:
        return order
    if others:
        raise Refusal(
            "it has arrays of torch's other layers, in torch's layout.",
            "write .npz or .safetensors.",
        )
    return "arrays" if len(stacks) == 1 else "none"


def _by_keras(
    checkpoint: Checkpoint,
    items: Sequence[Item],
    to: str,
    target: str,
    stated: Stated,
    worker: Worker,
    path: Path,
) -> Conversion:
    """The conversion of a whole model to another format of Keras."""
    remedy = f"write {checkpoint.kind}, .npz or .safetensors."
    if checkpoint.config is None:
        what = f"a {checkpoint.kind} file has no configuration of a model, which {target} needs."
        raise Refusal(what, remedy)

    with tempfile.TemporaryDirectory(prefix="rnnweights-") as folder:
        before = Path(folder, f"source{checkpoint.kind}")
        after = Path(folder, f"target{target}")
        seen = [watched(item) if isinstance(item, Cell) else item for item in items]
        write_like(before, checkpoint, seen, "keras")
        worker("resave", source=str(before), target=str(after))
        saved = convert(
            after,
            to,
            target,
            stated,
            worker,
            path,
        )
        had = _contents(items)
        lost = had - _contents(saved.items)
    if lost:
        what = f"{lost.total()} of {had.total()} arrays are not in what Keras 3 saved."
        raise Refusal(what, remedy)
    return replace(saved, checkpoint=checkpoint, items=items)


def _contents(items: Sequence[Item]) -> Counter[bytes]:
    """How often each array is there, by the digest of its bytes."""
    digests = Counter[bytes]()
    for array in arrays_of(items, "keras"):
        digests[hashlib.sha256(array.values.tobytes()).digest()] += 1
    return digests
