"""Reads the probes of an experiment (``docs/formats.md``, "Probe")."""

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
    """All probes in `folder`, sorted by file name; an empty list if it does not exist. A failed
    probe is included, with a message in ``error`` and None for values that were not measured.
    Raises a `RecordError` if a probe cannot be read."""
    return [checked(read_json(path), str(path)) for path in sorted(folder.glob("[!.]*.json"))]


def checked(data: Any, where: str) -> dict[str, Any]:
    """`data` with every key of the schema filled in. Raises a `RecordError` naming the fault."""
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise _error("is not a probe of schema 1", where)
    for name in TEXTS:
        if not isinstance(data.get(name), str):
            raise _error(f"{name} must be a string", where)
    for name in PEAKS:
        if not _is_rate(data.setdefault(name, None), optional=True):
            raise _error(f"{name} must be a number > 0", where)
    data.setdefault("error", None)
    if not _is_rate(data.setdefault("foreign_load", None), optional=True, zero=True):
        raise _error("foreign_load must be a number ≥ 0", where)
    large, models = data.setdefault("large", []), data.setdefault("models", [])
    if not (isinstance(large, list) and all(_has_samples(product, "gflops") for product in large)):
        raise _error("the samples of large products must be numbers > 0", where)
    bandwidth = data.setdefault("bandwidth", None)
    if bandwidth is not None and not _has_samples(bandwidth, "gb_per_s"):
        raise _error("the samples of the bandwidth must be numbers > 0", where)
    if not (isinstance(models, list) and all(map(_is_model, models))):
        raise _error("one of its models is incomplete", where)
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
    numbers = [model.setdefault(key, None) for key in ("batch", "timesteps", "bytes_per_step")]
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


def _has_samples(data: Any, name: str) -> bool:
    samples = data.get(name) if isinstance(data, dict) else None
    return isinstance(samples, list) and all(map(_is_rate, samples))


def _is_rate(value: Any, optional: bool = False, zero: bool = False) -> bool:
    if value is None:
        return optional
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value) and (value > 0 or (zero and value == 0))


def _error(message: str, where: str) -> RecordError:
    return RecordError(
        f"{message}.", where=where, remedy="delete it and run snakemake again, which probes again."
    )
