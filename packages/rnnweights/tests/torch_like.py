"""Writes files as ``torch.save`` does, without torch."""

from __future__ import annotations

import collections
import pickle
import sys
import types
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

KINDS = {"f4": "FloatStorage", "f8": "DoubleStorage", "i8": "LongStorage", "f2": "HalfStorage"}


class Tensor:
    """An array, in the file with torch's name of its storage."""

    def __init__(self, values: Any, kind: str = "", strides: tuple[int, ...] | None = None):
        self.values = np.asarray(values)
        self.kind = kind or KINDS[self.values.dtype.str[1:]]
        items = self.values.itemsize
        self.strides = strides or tuple(step // items for step in self.values.strides)


def tensors(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    return {name: Tensor(values) for name, values in arrays.items()}


def save(path: Path, tree: Any, compression: int = zipfile.ZIP_STORED, protocol: int = 2) -> Path:
    """Writes a tree of dicts, lists, tensors and other objects."""
    functions = types.ModuleType("torch._utils")
    modules = {"torch": types.ModuleType("torch"), "torch._utils": functions}

    def rebuild(*arguments: Any) -> None:
        raise AssertionError("is not called when it is written")

    rebuild.__module__, rebuild.__qualname__ = "torch._utils", "_rebuild_tensor_v2"
    functions._rebuild_tensor_v2 = rebuild  # type: ignore[attr-defined]
    members: list[bytes] = []

    class Storage:
        def __init__(self, tensor: Tensor):
            kind = type(tensor.kind, (), {"__module__": "torch"})
            kind = modules["torch"].__dict__.setdefault(tensor.kind, kind)
            base = tensor.values if tensor.values.base is None else tensor.values.base
            members.append(np.asarray(base).tobytes())
            self.identity = ("storage", kind, str(len(members) - 1), "cpu", base.size)

    class Pickler(pickle.Pickler):
        def persistent_id(self, value: Any) -> Any:
            return value.identity if isinstance(value, Storage) else None

        def reducer_override(self, value: Any) -> Any:
            if not isinstance(value, Tensor):
                return NotImplemented
            hooks: Any = collections.OrderedDict()
            shape = value.values.shape
            return rebuild, (Storage(value), 0, shape, value.strides, False, hooks)

    with (
        mock.patch.dict(sys.modules, modules),
        zipfile.ZipFile(path, "w", compression) as archive,
    ):
        with archive.open("x/data.pkl", "w") as file:
            Pickler(file, protocol=protocol).dump(tree)
        archive.writestr("x/byteorder", "little")
        for number, content in enumerate(members):
            archive.writestr(f"x/data/{number}", content)
    return path
