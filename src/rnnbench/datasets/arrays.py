"""Checks the file of a user's data set before anything runs: its format, and the names, types and
lengths of its arrays. Only the headers of the arrays are read."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rnnbench.errors import ConfigError
from rnnworker.array_names import ARRAYS, WEIGHTS

if TYPE_CHECKING:
    import numpy as np

NUMBERS = "biuf"  # kinds of dtypes
# Suffix → pandas's function that reads the file.
TABLES = {
    ".csv": "read_csv",
    ".tsv": "read_table",
    ".parquet": "read_parquet",
}
DOCS = "docs/data.md, Your own data"
# What the modules raise for a damaged file.
FAULTS = (OSError, ValueError, EOFError, RuntimeError, zlib.error, zipfile.BadZipFile)
AS_NUMBERS = f"save numbers; lists of different lengths as their values and offsets ({DOCS})."


def check_arrays(
    path: Path,
    needed: Sequence[str] | None,
    model: str,
    counts: tuple[int | None, int | None] | None = None,
) -> None:
    """Raises a `ConfigError` that says what the file at `path` has and what is needed, unless it is
    an ``.npz`` file of the arrays `needed` by the `model`, or one without pickles if that is None:
    the model reads the file itself.

    `counts`: the numbers of samples for training and validation that the model takes from the file
    (None: all); None if it may change the arrays' shapes.
    """
    if path.suffix != ".npz":
        if needed is None:
            return
        raise _error(
            f"{path} is not an .npz file, and {model} reads the arrays {', '.join(needed)}.",
            f"{_conversion(path)} "
            "Or write `arrays: null` in the model's YAML file if `prepare` reads the file itself.",
        )

    arrays = _headers(path)
    for name, (_, kind) in arrays.items():
        if kind.hasobject:
            raise _error(
                f"{name} in {path} holds pickled objects, which are not loaded: they can run code.",
                AS_NUMBERS,
            )

    read: list[str] = []
    for name in needed or ():
        # Several inputs or outputs are arrays such as ``x_train.a``.
        parts = [each for each in arrays if each.startswith(f"{name}.")]
        read += [name] if name in arrays or not parts else parts
    missing = [name for name in read if name not in arrays]
    if missing:
        found = [f"{name} {shape} {kind}" for name, (shape, kind) in arrays.items()]
        has = ", ".join(found[:8]) or "no arrays"
        raise _error(
            f"{path} has {has}, but not {', '.join(missing)}; {model} reads {', '.join(read)}.",
            "rename the arrays; or write a `prepare` that reads others, and list these as "
            f"`arrays` in the model's YAML file ({DOCS}).",
        )

    for name in read:
        shape, kind = arrays[name]
        if kind.kind not in NUMBERS:
            raise _error(f"{name} in {path} is of type {kind}, not of numbers.", AS_NUMBERS)
        if not shape or not shape[0]:
            raise _error(f"{name} in {path} has no samples.", "save at least one sample.")
        of_x = f"x{name.partition('.')[0][1:]}"
        if of_x in arrays and arrays[of_x][0][:1] != shape[:1]:
            raise _error(
                f"{path} has {of_x} {arrays[of_x][0]} and {name} {shape}.",
                "give both the same number of samples, along the first axis.",
            )
    if counts is not None:
        shapes = {name: arrays[name][0] for name in read}
        _check_samples(path, shapes, *counts)


def _check_samples(
    path: Path, shapes: Mapping[str, tuple[int, ...]], train: int | None, val: int | None
) -> None:
    """Raises a `ConfigError` unless the arrays have as many samples as the model takes, and samples
    of one shape."""
    for name, count in (("x_train", train), ("x_val", val), ("x_test", val)):
        if name not in shapes:
            continue
        shape = shapes[name]
        if count and count > shape[0]:
            key = "model.train_samples" if name == "x_train" else "model.val_samples"
            raise _error(
                f"{key} is {count}, but {name} in {path} has {shape[0]} samples.",
                f"write {key}={shape[0]} or fewer.",
            )
        of_training = shapes.get("x_train", shape)
        if shape[1:] != of_training[1:]:
            raise _error(
                f"{path} has x_train {of_training} and {name} {shape}.",
                "give both the same shape beyond the first axis.",
            )


def check_nothing_further(path: Path) -> None:
    """Raises a `ConfigError` if the ``.npz`` file at `path`, whose arrays are used by name, has one
    that would not be used."""
    known = (*ARRAYS, *WEIGHTS)
    names = {name.partition(".")[0] for name in _headers(path)}
    further = names.difference(known)
    if further:
        raise _error(
            f"nothing reads {', '.join(sorted(further))} in {path}.",
            f"leave it out, or rename it to one of {', '.join(known)}.",
        )


def _headers(path: Path) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
    """The shape and type of each array."""
    from numpy.lib import format  # late: plans without such a file need no NumPy

    found = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.namelist():
                if not member.endswith(".npy"):
                    continue
                with archive.open(member) as file:
                    version = format.read_magic(file)
                    read = format.read_array_header_2_0
                    if version == (1, 0):
                        read = format.read_array_header_1_0
                    shape, _, kind = read(file)
                    found[member.removesuffix(".npy")] = shape, kind
    except FAULTS as error:
        what = f"{path} cannot be read as an .npz file ({error})."
        raise _error(what, f"write it with numpy.savez ({DOCS}).") from error
    return found


def _conversion(path: Path) -> str:
    """How the user makes an ``.npz`` file of the file at `path`."""
    read = TABLES.get(path.suffix.lower())
    if read is None:
        return f"write these arrays with numpy.savez into an .npz file ({DOCS})."
    return (
        f'convert it: t = pandas.{read}("{path.name}"); x, y = t.drop(columns="LABEL").to_numpy('
        '"float32").reshape(len(t), STEPS, -1), t["LABEL"].to_numpy(); numpy.savez('
        f'"{path.stem}.npz", x_train=x[N:], y_train=y[N:], x_val=x[:N], y_val=y[:N]) ({DOCS}).'
    )


def _error(what: str, remedy: str) -> ConfigError:
    return ConfigError(what, where="dataset.path", remedy=remedy)
