"""An ``.npz`` with pickled lists in it → one without pickles.

The target's arrays are named and laid out as `rnnworker.readers.imdb` reads them: an object
array ``x`` of lists of whole numbers becomes ``x_values``, all of them end to end, and
``x_offsets``: list i is ``x_values[x_offsets[i]:x_offsets[i + 1]]``. Other arrays stay as they
are.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from rnnbench.datasets.generate import write_npz
from rnnbench.errors import DatasetError


def convert(source: Path, target: Path) -> list[str]:
    """Writes `target` from `source` and returns the names of the arrays that were pickled.

    Unpickling runs whatever code `source` holds: whoever calls this has asked the person.
    Raises `DatasetError`; `target` is written whole or not at all.
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
    """The values end to end, in the smallest signed whole-number type from 32 bits on, and the
    offsets (lists + 1,) int64."""
    rows = [np.asarray(list(row) if hasattr(row, "__len__") else row) for row in lists]
    if any(row.ndim != 1 or (len(row) and row.dtype.kind not in "iu") for row in rows):
        raise DatasetError(
            "holds something else than lists of whole numbers.",
            where=where,
            remedy="save it as plain arrays yourself.",
        )
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    values = np.concatenate([np.empty(0, np.int64), *rows]).astype(np.int64)
    small = not len(values) or np.abs(values).max() <= np.iinfo(np.int32).max
    return values.astype(np.int32 if small else np.int64), offsets


def _read(source: Path) -> dict[str, np.ndarray]:
    try:
        with np.load(source, allow_pickle=True) as file:
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise ValueError("it is no .npz")
            return {name: file[name] for name in file.files}
    except Exception as error:  # a pickle may raise anything
        raise DatasetError(
            f"cannot be read ({error}).", where=str(source), remedy="name an .npz file."
        ) from error
