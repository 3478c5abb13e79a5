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

Shape = tuple[int, ...]
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
    """Raises a `ConfigError`, which says what the file has and what is needed, unless the model can
    read the file.

    - `path`: an ``.npz`` file without pickles; or any file, if the model reads it itself.
    - `needed`: the names of the arrays that the model reads, None if it reads the file itself.
    - `model`: its name.
    - `counts`: the numbers of samples for training and validation that the model takes from the
      file (None: all); None if it may change the arrays' shapes.
    """
    if path.suffix != ".npz":
        if needed is None:
            return
        raise _error(
            f"{path} is not an .npz file, and {model} reads the arrays {', '.join(needed)}.",
            f"{_conversion(path)} "
            "Or write `arrays: null` in the model's YAML file if `prepare` reads the file itself.",
        )

    shapes, types = _headers(path)
    read: list[str] = []
    for name in needed or ():
        # Several inputs or outputs are arrays such as ``x_train.a``.
        parts = [each for each in shapes if each.startswith(f"{name}.")]
        if name in shapes or not parts:
            parts = [name]
        read += parts

    missing = [name for name in read if name not in shapes]
    if missing:
        found = [f"{name} {shapes[name]} {types[name]}" for name in shapes]
        has = ", ".join(found[:8]) or "no arrays"
        raise _error(
            f"{path} has {has}, but not {', '.join(missing)}; {model} reads {', '.join(read)}.",
            "rename the arrays; or write a `prepare` that reads others, and list these as "
            f"`arrays` in the model's YAML file ({DOCS}).",
        )

    for name in read:
        shape = shapes[name]
        if types[name].kind not in NUMBERS:
            raise _error(f"{name} in {path} is of type {types[name]}, not of numbers.", AS_NUMBERS)
        if not shape or not shape[0]:
            raise _error(f"{name} in {path} has no samples.", "save at least one sample.")
        inputs = f"x{name.partition('.')[0][1:]}"
        of_inputs = shapes.get(inputs, shape)
        if of_inputs[:1] != shape[:1]:
            raise _error(
                f"{path} has {inputs} {of_inputs} and {name} {shape}.",
                "give both the same number of samples, along the first axis.",
            )

    if counts is not None:
        of_model = {name: shapes[name] for name in read}
        _check_samples(path, of_model, *counts)


def _check_samples(
    path: Path,
    shapes: Mapping[str, Shape],
    train: int | None,
    val: int | None,
) -> None:
    """Raises a `ConfigError` unless the arrays have as many samples as the model takes, and samples
    of one shape.

    `train`, `val`: the numbers of samples for training and validation, None for all.
    """
    for name, key, count in (
        ("x_train", "model.train_samples", train),
        ("x_val", "model.val_samples", val),
        ("x_test", "model.val_samples", val),
    ):
        if name not in shapes:
            continue
        shape = shapes[name]
        if count and count > shape[0]:
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
    shapes, _ = _headers(path)
    names = {name.partition(".")[0] for name in shapes}
    further = names.difference(known)
    if further:
        raise _error(
            f"nothing reads {', '.join(sorted(further))} in {path}.",
            f"leave it out, or rename it to one of {', '.join(known)}.",
        )


def _headers(path: Path) -> tuple[dict[str, Shape], dict[str, np.dtype]]:
    """The shapes and the types of all arrays, by their names. Raises a `ConfigError` if the file
    cannot be read, or has pickles."""
    from numpy.lib import format  # late: plans without such a file need no NumPy

    shapes = {}
    types = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.namelist():
                if not member.endswith(".npy"):
                    continue
                name = member.removesuffix(".npy")
                with archive.open(member) as file:
                    read = format.read_array_header_2_0
                    if format.read_magic(file) == (1, 0):
                        read = format.read_array_header_1_0
                    shapes[name], _, types[name] = read(file)
    except FAULTS as error:
        what = f"{path} cannot be read as an .npz file ({error})."
        raise _error(what, f"write it with numpy.savez ({DOCS}).") from error

    for name, kind in types.items():
        if kind.hasobject:
            raise _error(
                f"{name} in {path} holds pickled objects, which are not loaded: they can run code.",
                AS_NUMBERS,
            )
    return shapes, types


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
    """A fault of the file of the user's data."""
    return ConfigError(what, where="dataset.path", remedy=remedy)
