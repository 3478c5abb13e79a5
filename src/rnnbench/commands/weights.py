"""The command that converts checkpoints."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rnnbench.commands.arguments import CONF, Arguments, command_parser, project_conf
from rnnbench.commands.conversion import Stated, convert
from rnnbench.commands.conversion_check import check
from rnnbench.errors import BuildError, RecordError
from rnnbench.plain_text import plain
from rnnbench.records.store import write_bytes
from rnnbench.running import in_build
from rnnbench.weights.cells import Buffer, Refusal

LAYOUTS = ("cudnn", "keras", "canonical", "onnx")
TARGETS = (".weights.h5", ".h5", ".keras", ".npz", ".safetensors", ".onnx")


def weights(arguments: Sequence[str]) -> int:
    """Convert the LSTM and GRU layers of a checkpoint to another layout.

    There are four layouts: cudnn (the CuDNN layers of Keras 2), keras (Keras's own layers),
    canonical (Keras's layers as named arrays in .npz or .safetensors) and onnx (a node for each
    layer in .onnx). The name of TARGET decides the format: .h5, .keras, .weights.h5, .npz,
    .safetensors or .onnx.
    """
    options = command_parser(weights, ARGUMENTS).parse_args(arguments)
    source = options.source
    target = options.output
    target_format = _format_of_target(target, source, options.force)

    build = _build(options.build, options.conf)
    worker = partial(in_build.ask, root=Path.cwd(), build=build)
    buffer = options.buffer
    if buffer is not None:
        buffer = buffer._replace(inputs=options.inputs)
    stated = Stated(
        options.recurrent_activation,
        options.activation,
        buffer,
        options.layout,
    )

    file = source
    fault = "cannot be read or converted"
    try:
        conversion = convert(
            source,
            options.to,
            target_format,
            stated,
            worker,
        )
        _format_of_target(target, source, options.force)  # it may have been made meanwhile
        write_bytes(target, conversion.content)
        lines = conversion.lines()
        if options.check:
            file = target
            fault = "is written, but not checked"
            lines += check(
                target,
                conversion,
                stated,
                worker,
            )
    except (Refusal, BuildError) as error:
        what = error.what
        if isinstance(error, BuildError):
            what = f"{error.where} {what}"
        raise RecordError(f"{fault}: {what}", where=str(file), remedy=error.remedy) from error

    for line in lines:
        print(plain(line))
    return 0


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

    fault = ""
    remedy = ""
    if not formats:
        fault = "the name does not say its format."
        remedy = f"end its name in {', '.join(TARGETS)}."
    elif not target.parent.is_dir():
        fault = "its folder does not exist."
        remedy = "make the folder."
    elif target.is_symlink():
        fault = "is a link."
        remedy = "name a file."
    elif is_own:
        fault = "is part of the source."
        remedy = "name another file."
    elif target.exists() and not target.is_file():
        fault = "is not a file."
        remedy = "name a file."
    elif target.exists() and not force:
        fault = "exists."
        remedy = "add --force to replace it."
    if fault:
        raise RecordError(fault, where=str(target), remedy=remedy)
    return formats[0]


def _build(name: str | None, further: Sequence[Path]) -> Mapping[str, Any]:
    """The build called `name` in the project's configuration; rnnbench's own interpreter if that is
    None. `further`: the folders of ``--conf``. Raises `ConfigError`."""
    if name is None:
        return in_build.HERE
    from rnnbench.grid.compose import compose_choices
    from rnnbench.grid.files import file_of, files_of

    root = Path.cwd()
    conf = project_conf(root, further)
    files = files_of(conf, "build")
    file = file_of(files, "build", name, "--build", root)
    library = compose_choices(conf, {"build": {file.stem: file}}, default_model=True)
    return library.sections["build", file.stem]


def _buffer(text: str) -> Buffer:
    """The value of ``--buffer``: ``lstm`` or ``gru``, and three numbers > 0."""
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
        "help": "a file of Keras, torch, ONNX or safetensors, an .npz file, or a checkpoint of "
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
    "--activation": {
        "metavar": "NAME",
        "help": "the activation, if the file does not state it: tanh, relu, …",
    },
    "--layout": {
        "metavar": "NAME",
        "help": "the layer whose arrays the file has, in the order of its framework: haiku.LSTM, "
        "flax.linen.GRUCell, torch.LSTMCell, keras.LSTM, …",
    },
    "--buffer": {
        "type": _buffer,
        "metavar": "CELL,LAYERS,DIRECTIONS,UNITS",
        "help": "what opaque buffers of cuDNN hold: lstm or gru, then three numbers",
    },
    "--inputs": {
        "type": int,
        "metavar": "NUMBER",
        "help": "the inputs of the first layer of an opaque buffer",
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
