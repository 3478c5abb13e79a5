"""The command ``rnnweights``, whose arguments ``rnnbench weights`` has too."""

from __future__ import annotations

import argparse
import inspect
import os
import sys
import tempfile
from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rnnweights.cells import Buffer
from rnnweights.check import check
from rnnweights.checkpoint import Refusal
from rnnweights.conversion import Stated, convert
from rnnweights.frameworks import Python, Worker, ask

TARGETS = (".weights.h5", ".h5", ".keras", ".npz", ".safetensors", ".onnx")
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Convert the LSTM and GRU layers of a checkpoint to another layout.

    The layouts are cudnn (the CuDNN layers of Keras 2), keras (Keras's own layers), canonical
    (Keras's layers as named arrays in .npz or .safetensors), onnx (a node for each layer in .onnx)
    and those of other frameworks, such as torch.LSTM or haiku (arrays with their names in .npz or
    .safetensors). The name of TARGET decides the format: .h5, .keras, .weights.h5, .npz,
    .safetensors or .onnx.
    """
    parser = argparse.ArgumentParser(
        prog="rnnweights",
        description=inspect.getdoc(main),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for flags, argument in {**ARGUMENTS, "--python": PYTHON}.items():
        parser.add_argument(*flags.split(), **argument)
    options = parser.parse_args(arguments)
    python = Python([options.python], name=f"the Python {options.python}")
    try:
        lines = run(options, partial(ask, python))
    except Refusal as error:
        return _failed(error.line())
    except OSError as error:
        remedy = "free some disk space, or name a folder that you may write into."
        return _failed(f"{error.filename}: {error.strerror}. Fix: {remedy}")
    except KeyboardInterrupt:
        _failed("interrupted.")
        return INTERRUPTED
    for line in lines:
        print(_printable(line))
    return 0


def _failed(line: str) -> int:
    print(_printable(f"rnnweights: {line}"), file=sys.stderr)
    return 1


def _printable(line: str) -> str:
    """The line without characters that control a terminal, which names in a file may have."""
    return "".join(character for character in line if character.isprintable())


def run(options: Namespace, worker: Worker) -> list[str]:
    """Converts a file and returns the lines that say what became of it.

    `options`: those that `ARGUMENTS` describe; `worker`: answers what only a framework can. Raises
    `Refusal`, whose `where` is the file.
    """
    source = options.source
    target = options.output
    target_format = _format_of_target(target, source, options.force)
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
    # The file has its name only once it is complete. It is new: ext4 waits for the disk when a file
    # is closed that was opened to be replaced, even if that was empty (mount option auto_da_alloc).
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as folder:
        new = Path(folder) / target.name
        try:
            conversion = convert(
                source,
                options.to,
                target_format,
                stated,
                worker,
                new,
            )
            _format_of_target(target, source, options.force)  # it may have been made meanwhile
            new.chmod(0o644)
            new.replace(target)
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
        except Refusal as error:
            if error.where:
                raise
            raise Refusal(f"{fault}: {error.what}", error.remedy, where=str(file)) from error
        except OSError as error:  # the error of a write does not name the file
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise OSError(error.errno, reason, str(target)) from error
    return lines


def _format_of_target(target: Path, source: Path, force: bool) -> str:
    """The format that the name of `target` says. Raises `Refusal` unless it may be written:
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
        raise Refusal(fault, remedy, where=str(target))
    return formats[0]


def _buffer(text: str) -> Buffer:
    """The value of ``--buffer``: ``lstm`` or ``gru``, and three numbers > 0."""
    cell, *numbers = text.split(",")
    if cell not in ("lstm", "gru") or len(numbers) != 3 or not all(map(str.isdigit, numbers)):
        raise argparse.ArgumentTypeError(f"{text} is not CELL,LAYERS,DIRECTIONS,UNITS")
    layers, directions, units = map(int, numbers)
    if not layers or not units or directions not in (1, 2):
        raise argparse.ArgumentTypeError(f"{text} has no layers or units, or not 1 or 2 directions")
    return Buffer(cell, layers, directions, units)


# The keywords of `add_argument` by the argument's name or its flags.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "source": {
        "type": Path,
        "help": "a file of Keras, torch, ONNX, LiteRT or safetensors, an .npz file, or a "
        "checkpoint of TensorFlow or orbax",
    },
    "--to": {
        "required": True,
        "metavar": "LAYOUT",
        "help": "the layout to write: cudnn, keras, canonical, onnx, or that of another framework, "
        "such as torch.LSTM",
    },
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
}
PYTHON = {
    "default": sys.executable,
    "metavar": "PATH",
    "help": "the Python whose TensorFlow, torch or Keras reads and checks, where one is needed "
    "(default: this one)",
}
