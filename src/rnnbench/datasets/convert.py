"""Converts an ``.npz`` file with pickled lists to one without pickles.

The target has the layout that `rnnworker.readers.imdb` reads: an object array ``x`` of lists of
integers becomes ``x_values``, their concatenation, and ``x_offsets``, such that list i is
``x_values[x_offsets[i]:x_offsets[i + 1]]``. Other arrays are copied unchanged.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from rnnbench.datasets.generate import write_npz
from rnnbench.errors import DatasetError


def convert(source: Path, target: Path) -> list[str]:
    """Converts `source` to `target` and returns the names of the arrays that were pickled.

    Unpickling executes any code in `source`: the caller must have the user's consent. Raises
    `DatasetError`; `target` is then not written.
    """
    arrays: dict[str, np.ndarray] = {}
    pickled = []
    for name, array in _read(source).items():
        if array.dtype == object:
            pickled.append(name)
            values, offsets = flat(array, f"{source}: {name}")
            arrays |= {f"{name}_values": values, f"{name}_offsets": offsets}
        else:
            arrays[name] = array
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        write_npz(temporary, arrays)
        temporary.replace(target)
    except OSError as error:
        raise DatasetError(f"cannot be written ({error}).", where=str(target)) from error
    finally:
        temporary.unlink(missing_ok=True)
    return pickled


def flat(lists: np.ndarray, where: str) -> tuple[np.ndarray, np.ndarray]:
    """The concatenated values, int32 if all of them fit and int64 otherwise, and the offsets, of
    shape (lists + 1,) and type int64."""
    rows = [np.asarray(list(row) if hasattr(row, "__len__") else row) for row in lists]
    if any(row.ndim != 1 or (len(row) and row.dtype.kind not in "iu") for row in rows):
        raise DatasetError(
            "contains something other than lists of integers.",
            where=where,
            remedy="save it as arrays of numbers.",
        )
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    values = np.concatenate([np.empty(0, np.int64), *rows]).astype(np.int64)
    small = not len(values) or np.abs(values).max() <= np.iinfo(np.int32).max
    return values.astype(np.int32 if small else np.int64), offsets


def _read(source: Path) -> dict[str, np.ndarray]:
    try:
        with np.load(source, allow_pickle=True) as file:
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise ValueError("it is not an .npz file")
            return {name: file[name] for name in file.files}
    except Exception as error:  # a pickle may raise anything
        raise DatasetError(
            f"cannot be read ({error}).", where=str(source), remedy="name an .npz file."
        ) from error
