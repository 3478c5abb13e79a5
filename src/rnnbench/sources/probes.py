"""Probes of an experiment from their files (``ARCHITECTURE.md``, "Probe")."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rnnbench.errors import RecordError
from rnnbench.records.store import read_json

SCHEMA = 1
TEXTS = ("key", "device", "build", "machine")
PEAKS = ("peak_gflops", "peak_gb_per_s")


def read_probes(folder: Path) -> list[dict[str, Any]]:
    """All probes in `folder`, by file name; none where it does not exist. A probe that failed is
    among them, with its ``error`` in words and nulls for what was not measured. One that cannot be
    read is a `RecordError`."""
    return [checked(read_json(path), str(path)) for path in sorted(folder.glob("[!.]*.json"))]


def checked(data: Any, where: str) -> dict[str, Any]:
    """`data` with every key of the schema, or a `RecordError` that names what is wrong."""
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise _wrong("is no probe of schema 1", where)
    for name in TEXTS:
        if not isinstance(data.get(name), str):
            raise _wrong(f"has no text {name}", where)
    for name in PEAKS:
        if not _is_rate(data.setdefault(name, None), optional=True):
            raise _wrong(f"has a {name} that is no number above 0", where)
    data.setdefault("error", None)
    if not _is_rate(data.setdefault("foreign_load", None), optional=True, zero=True):
        raise _wrong("has a foreign_load that is no number", where)
    large, models = data.setdefault("large", []), data.setdefault("models", [])
    if not (isinstance(large, list) and all(_is_samples(one, "gflops") for one in large)):
        raise _wrong("has samples of large products that are no numbers above 0", where)
    bandwidth = data.setdefault("bandwidth", None)
    if bandwidth is not None and not _is_samples(bandwidth, "gb_per_s"):
        raise _wrong("has samples of the bandwidth that are no numbers above 0", where)
    if not (isinstance(models, list) and all(map(_is_model, models))):
        raise _wrong("has a model that is not whole", where)
    return data


def _is_model(model: Any) -> bool:
    if not isinstance(model, dict):
        return False
    for name in ("model", "cell", "config"):
        if not isinstance(model.get(name), str):
            return False
    model.setdefault("error", None)
    model.setdefault("complete", False)
    flops = model.setdefault("flops_per_step", None)
    numbers = [model.setdefault(n, None) for n in ("batch", "timesteps", "bytes_per_step")]
    if flops is not None:
        if not isinstance(flops, Mapping):
            return False
        numbers += [flops.get("forward"), flops.get("training")]
    products = model.setdefault("products", [])
    return (
        all(_is_rate(number, optional=True, zero=True) for number in numbers)
        and _is_rate(model.setdefault("products_s", None), optional=True, zero=True)
        and isinstance(products, list)
        and all(map(_is_product, products))
    )


def _is_product(product: Any) -> bool:
    return isinstance(product, dict) and all(
        _is_rate(product.get(name)) for name in ("m", "k", "n", "times", "gflops")
    )


def _is_samples(data: Any, name: str) -> bool:
    found = data.get(name) if isinstance(data, dict) else None
    return isinstance(found, list) and all(map(_is_rate, found))


def _is_rate(value: Any, optional: bool = False, zero: bool = False) -> bool:
    if value is None:
        return optional
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value) and (value > 0 or (zero and value == 0))


def _wrong(what: str, where: str) -> RecordError:
    return RecordError(
        f"{what}.", where=where, remedy="delete it and run snakemake again, which probes anew."
    )
