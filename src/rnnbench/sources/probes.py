"""Reads the probes of an experiment (``docs/formats.md``, "Probe")."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from rnnbench.errors import RecordError
from rnnbench.records.store import as_kind, read_json, readable

SCHEMA = 1
Rate = Annotated[float, Meta(gt=0, le=1e12)]
Amount = Annotated[float, Meta(ge=0, le=1e18)]


class Large(msgspec.Struct):
    """A large matrix product: its `size` and the rates of its repeats."""

    gflops: list[Rate]
    size: int | None = None


class Flops(msgspec.Struct):
    forward: Amount | None = None
    training: Amount | None = None


class ProbedModel(msgspec.Struct):
    model: str
    cell: str
    config: str
    error: str | None = None
    complete: bool = False
    batch: Amount | None = None
    timesteps: Amount | None = None
    flops_per_step: Flops | None = None


class Probe(msgspec.Struct):
    schema: Literal[1]
    key: str
    device: str
    build: str
    machine: str
    overrides: Mapping[str, Any] = {}
    digest: str | None = None
    threads: int | None = None
    error: str | None = None
    foreign_load: Amount | None = None
    large: list[Large] = []
    peak_gflops: Rate | None = None
    models: list[ProbedModel] = []


def read_probes(folders: Iterable[Path]) -> tuple[list[Probe], list[RecordError]]:
    """All probes in `folders`, of which some may not exist, sorted by file name within each, and
    the faults of those that cannot be read. A failed probe is included, with a message in `error`
    and None for values that were not measured."""
    paths = (path for folder in folders for path in sorted(folder.glob("[!.]*.json")))
    return readable(paths, lambda path: probe_of(read_json(path), str(path)))


def probe_of(data: Any, where: str) -> Probe:
    """The probe in `data`. Raises a `RecordError` naming the fault."""
    remedy = "delete it and run snakemake again, which probes again."
    return as_kind(data, Probe, f"is not a probe of schema {SCHEMA}", where, remedy)
