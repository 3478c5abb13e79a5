"""Checks the file of a user's data set before anything runs: its format, and the names, types and
lengths of its arrays. Only the headers of the arrays are read."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rnnbench.errors import ConfigError
from rnnworker.array_names import ARRAYS, WEIGHTS

if TYPE_CHECKING:
    import numpy as np

NUMBERS = "biuf"  # kinds of dtypes
TABLES = {".csv": "read_csv", ".tsv": "read_table", ".parquet": "read_parquet"}
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
    the model reads the file itself. `counts`: the numbers of samples for training and validation
    that the model takes from the file (None: all); None if it may change the arrays' shapes."""
    if path.suffix != ".npz":
        if needed is None:
            return
        what = f"{path} is not an .npz file, and {model} reads the arrays {', '.join(needed)}."
        remedy = _conversion(path)
        remedy += (
            " Or write `arrays: null` in the model's YAML file if `prepare` reads the file itself."
        )
        raise _error(what, remedy)
    arrays = _headers(path)
    needed = needed and [each for name in needed for each in _parts(name, arrays)]
    has = ", ".join(f"{name} {shape} {kind}" for name, (shape, kind) in [*arrays.items()][:8])
    for name, (_, kind) in arrays.items():
        if kind.hasobject:
            what = (
                f"{name} in {path} holds pickled objects, which are not loaded: they can run code."
            )
            raise _error(what, AS_NUMBERS)
    if missing := [name for name in needed or () if name not in arrays]:
        what = f"{path} has {has or 'no arrays'}, but not {', '.join(missing)}; {model} reads "
        remedy = "rename the arrays; or write a `prepare` that reads others, and list these as "
        remedy += f"`arrays` in the model's YAML file ({DOCS})."
        raise _error(f"{what}{', '.join(needed or ())}.", remedy)
    for name in needed or ():
        (shape, kind), of_x = arrays[name], f"x{name.partition('.')[0][1:]}"
        if kind.kind not in NUMBERS:
            raise _error(f"{name} in {path} is of type {kind}, not of numbers.", AS_NUMBERS)
        if not shape or not shape[0]:
            raise _error(f"{name} in {path} has no samples.", "save at least one sample.")
        if of_x in arrays and arrays[of_x][0][:1] != shape[:1]:
            what = f"{path} has {of_x} {arrays[of_x][0]} and {name} {shape}."
            raise _error(what, "give both the same number of samples, along the first axis.")
    train, val = counts or (None, None)
    shapes = {name: arrays[name][0] for name in needed or () if counts}
    for name, count in (("x_train", train), ("x_val", val), ("x_test", val)):
        if name not in shapes:
            continue
        samples, *of_one = shapes[name]
        if count and count > samples:
            key = f"model.{'train' if name == 'x_train' else 'val'}_samples"
            what = f"{key} is {count}, but {name} in {path} has {samples} samples."
            raise _error(what, f"write {key}={samples} or fewer.")
        if of_one != [*shapes.get("x_train", shapes[name])[1:]]:
            what = f"{path} has x_train {shapes['x_train']} and {name} {shapes[name]}."
            raise _error(what, "give both the same shape beyond the first axis.")


def check_nothing_further(path: Path) -> None:
    """Raises a `ConfigError` if the ``.npz`` file at `path`, whose arrays are used by name, has one
    that would not be used."""
    names = {name.partition(".")[0] for name in _headers(path)}
    if further := sorted(names - {*ARRAYS, *WEIGHTS}):
        what = f"nothing reads {', '.join(further)} in {path}."
        known = ", ".join((*ARRAYS, *WEIGHTS))
        raise _error(what, f"leave it out, or rename it to one of {known}.")


def _parts(name: str, arrays: Iterable[str]) -> list[str]:
    """The arrays that `name` consists of: itself, or several inputs or outputs as ``x_train.a``."""
    parts = [each for each in arrays if each.startswith(f"{name}.")]
    return [name] if name in arrays or not parts else parts


def _headers(path: Path) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
    """The shape and type of each array."""
    from numpy.lib import format  # late: plans without such a file need no NumPy

    found = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for member in filter(lambda name: name.endswith(".npy"), archive.namelist()):
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
    if (read := TABLES.get(path.suffix.lower())) is None:
        return f"write these arrays with numpy.savez into an .npz file ({DOCS})."
    return (
        f'convert it: t = pandas.{read}("{path.name}"); x, y = t.drop(columns="LABEL").to_numpy('
        '"float32").reshape(len(t), STEPS, -1), t["LABEL"].to_numpy(); numpy.savez('
        f'"{path.stem}.npz", x_train=x[N:], y_train=y[N:], x_val=x[:N], y_val=y[:N]) ({DOCS}).'
    )


def _error(what: str, remedy: str) -> ConfigError:
    return ConfigError(what, where="dataset.path", remedy=remedy)
