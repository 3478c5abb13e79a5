"""Data of a program → the ``.npz`` file that the command takes."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rnnbench.errors import ConfigError
from rnnbench.records.store import write_bytes

FOR_VALIDATION = 5  # one of so many samples, the last ones
FORMS = (
    "give the path of an .npz file, a dict of x_train, y_train, x_val and y_val, (x, y), or "
    "((x_train, y_train), (x_val, y_val)). Several inputs are x_train.NAME in the dict; "
    'for predict, {"x": x} is enough.'
)


def file_of_data(data: Any, kept: Path) -> str:
    """The absolute path of a file with the `data`.

    - `data`: see `rnnbench.compare`.
    - `kept`: the folder in which arrays are written; equal ones are written once.

    Raises `ConfigError` for anything else.
    """
    if isinstance(data, (str, Path)):
        return str(Path(data).expanduser().absolute())
    import numpy

    arrays = _named(data)
    digest = hashlib.md5(usedforsecurity=False)
    for name, array in arrays.items():
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(numpy.ascontiguousarray(array).data)
    path = kept / "data" / f"{digest.hexdigest()[:12]}.npz"
    if not path.is_file():
        content = io.BytesIO()
        numpy.savez(content, **arrays)
        write_bytes(path, content.getvalue())
    return str(path)


def _named(data: Any) -> dict[str, Any]:
    """The arrays by the names that a model reads them by."""
    if isinstance(data, Mapping):
        return {str(name): _array(str(name), values) for name, values in data.items()}
    if not isinstance(data, (tuple, list)) or len(data) != 2:
        raise ConfigError(f"{type(data).__name__} is no data.", where="data", remedy=FORMS)
    first, second = data
    if isinstance(first, tuple) and isinstance(second, tuple):
        if len(first) != 2 or len(second) != 2:
            what = "the tuples of training and validation have not two arrays each."
            raise ConfigError(what, where="data", remedy=FORMS)
        (x_train, y_train), (x_val, y_val) = first, second
        return _named({"x_train": x_train, "y_train": y_train, "x_val": x_val, "y_val": y_val})

    first = _array("x", first)
    second = _array("y", second)
    if len(first) != len(second):
        what = f"x has {len(first)} samples, but y has {len(second)}."
        raise ConfigError(what, where="data", remedy="give as many labels as samples.")
    if len(first) < FOR_VALIDATION:
        what = f"x has {len(first)} samples, too few to keep some for validation."
        raise ConfigError(what, where="data", remedy=FORMS)
    kept = len(first) - len(first) // FOR_VALIDATION
    return {
        "x_train": first[:kept],
        "y_train": second[:kept],
        "x_val": first[kept:],
        "y_val": second[kept:],
    }


def _array(name: str, values: Any) -> Any:
    """`values` as an array of numbers. Raises `ConfigError`."""
    import numpy

    try:
        array = numpy.asarray(values)
    except ValueError:  # lists of different lengths
        array = None
    if array is None or array.dtype.hasobject or not array.ndim:
        raise ConfigError(
            f"{name} is not an array of numbers.",
            where="data",
            remedy=f"pad sequences to one length; {FORMS}",
        )
    return array
