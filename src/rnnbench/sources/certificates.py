"""Reads the certificates of an experiment (``docs/formats.md``, "Certificate"), and judges them.

What follows from the numbers of a certificate is derived here whenever it is read: whether an
implementation or a pair is within the tolerance of its precision. What a file says about that is
not used, because it may be from another machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from rnnbench.errors import RecordError
from rnnbench.records.bounds import Count
from rnnbench.records.store import IMPORTED, as_kind, read_json, readable
from rnnworker.precision import DEFAULT, NOT_FINITE, TOLERANCE

NOT_TRIED = "it was not tried"
NOT_LEARNING = "applies wrong gradients"
PARTS = ("outputs", "gradients")  # of which errors against the float64 reference are measured
ERRORS = (*PARTS, "loss_curve")
Error = Annotated[float, Meta(ge=0)]


class Batch(msgspec.Struct):
    rows: Count
    training: bool
    outputs: Error | None = None
    gradients: Error | None = None
    compared: Count | None = None  # rows that the reference computed; None in older files: all


class Layers(msgspec.Struct):
    batches: list[Batch] = []
    wrong: str | None = None
    why: str | None = None


class Steps(msgspec.Struct):
    threads: Count | None = None
    steps: Count = 0
    off: Count | None = None
    worst: Error | None = None
    why: str | None = None

    @property
    def fault(self) -> str | None:
        """``applies wrong gradients: …`` if steps are off, else None."""
        if not self.off:
            return None
        worst = "not finite"
        if self.worst is not None:
            percent = 100 * self.worst
            worst = f"worst {percent:.0f} %" if percent >= 10 else f"worst {percent:.2g} %"
        return (
            f"{NOT_LEARNING}: {self.off} of {self.steps} training steps "
            f"applied a gradient other than the computed one ({worst})"
        )


class Implementation(msgspec.Struct):
    """`no_reference`: why its layers were not compared with the float64 reference. `weights`: which
    arrays the seed draws and which stay as the model set them."""

    status: Literal["certified", "failed", "refused", "not_run"]
    why: str | None = None
    kernel: list[str] | None = None
    loss_curve: list[float | None] | None = None
    round_trip: bool | None = None
    outputs: Error | None = None
    gradients: Error | None = None
    function: Mapping[str, Any] | None = None
    probed: dict[str, Layers] = {}
    applied: dict[str, Steps] = {}
    function_why: str | None = None
    no_reference: str | None = None
    weights: dict[str, list[str]] = {}

    def wrong_on(self, device: str) -> str | None:
        """What is wrong with its function, or with its layers or steps on the `device`, or None."""
        layers, steps = self.probed.get(device, Layers()), self.applied.get(device, Steps())
        return self.function_why or layers.wrong or steps.fault


class Pair(msgspec.Struct):
    a: str
    b: str
    equal: bool = False
    outputs: Error | None = None
    gradients: Error | None = None
    loss_curve: Error | None = None
    why: str | None = None

    @property
    def not_compared(self) -> str | None:
        """Why the two were not compared in everything, or None."""
        missing = [name for name in ERRORS if getattr(self, name) is None]
        if not missing:
            return None
        reason = self.why or f"their {' and '.join(missing).replace('_', ' ')} were not measured"
        return f"{self.a} and {self.b} were not compared: {reason}"


class Certificate(msgspec.Struct):
    """What the tables rely on. `imported`: from another machine's archive."""

    schema: Literal[3]
    implementations: dict[str, Implementation]
    key: str = ""
    model: str = ""
    cell: str = ""
    build: str = ""
    overrides: Mapping[str, Any] = {}
    digest: str | None = None
    machine: str | None = None
    precision: str | None = None
    pairs: list[Pair] = []
    imported: bool = False

    @property
    def tolerance(self) -> Mapping[str, float]:
        return TOLERANCE.get(self.precision or DEFAULT, TOLERANCE[DEFAULT])

    def fault_of_all(self, rnns: Mapping[str, Mapping[str, Any]]) -> str | None:
        """What failed alike, apart from the numbers in the names of layers, in all implementations
        that ran, if their code differs: a fault of the model or of its data. Else None. `rnns`:
        implementation → its ``rnn`` config section."""
        ran = {name: e for name, e in self.implementations.items() if e.status != "not_run"}
        faults = {re.sub(r"_\d+\b", "", each.function_why or "") for each in ran.values()}
        codes = {rnns[name].get("implementation") for name in ran if name in rnns}
        if len(codes) < 2 or len(faults) > 1:
            return None
        return next(iter(ran.values())).function_why


def read_certificates(
    folders: Iterable[Path],
) -> tuple[tuple[Certificate, ...], list[RecordError]]:
    """All certificates in `folders`, of which some may not exist, sorted by file name within each,
    and the faults of those that cannot be read."""

    def read(path: Path) -> Certificate:
        # results/imported/SITE/EXPERIMENT/certificates/KEY.json
        imported = IMPORTED in (folder.name for folder in path.parents[3:4])
        return replace(certificate_of(read_json(path), str(path)), imported=imported)

    paths = (path for folder in folders for path in sorted(folder.glob("[!.]*.json")))
    certificates, faults = readable(paths, read)
    return tuple(certificates), faults


def certificate_of(data: Any, where: str) -> Certificate:
    """`data`, judged. Raises a `RecordError` that names the fault."""
    fault = "is not a complete certificate of schema 3"
    remedy = "delete it and run snakemake again, which makes a new certificate."
    found = as_kind(data, Certificate, fault, where, remedy)
    entries = {name: judged(each, found.tolerance) for name, each in found.implementations.items()}
    for pair in found.pairs:
        pair.equal = _are_equal(pair, entries, found.tolerance)
    return replace(found, implementations=entries)


def judged(entry: Implementation, tolerance: Mapping[str, float]) -> Implementation:
    """The result of an implementation with its status and `why`, which follow from its layers and
    steps on each device and from `function_why`, what is wrong apart from them."""
    probed = {
        device: replace(layers, wrong=wrong(layers.batches, tolerance, device))
        for device, layers in sorted(entry.probed.items())
    }
    applied = {
        device: replace(steps, off=_off(steps, tolerance["gradients"]))
        for device, steps in sorted(entry.applied.items())
    }
    reasons = [layers.wrong for layers in probed.values() if layers.wrong]
    reasons += [f"on {device} it {steps.fault}" for device, steps in applied.items() if steps.fault]
    ran, own = entry.status not in ("not_run", "refused"), entry.function_why
    status = entry.status
    if ran:
        status = "failed" if reasons or own else "certified"
    why = "; ".join(filter(None, [own if ran else entry.why, *reasons])) or None
    return replace(entry, status=status, why=why, probed=probed, applied=applied)


def wrong(batches: Sequence[Batch], tolerance: Mapping[str, float], device: str) -> str | None:
    """Which errors of the layers on a device exceed the `tolerance`, and the batch for which they
    are largest, as text; None if none does."""
    texts = []
    for part in PARTS:
        errors = {getattr(each, part): each for each in reversed(batches)}
        largest = max((error for error in errors if error is not None), default=0.0)
        if largest > tolerance[part]:
            batch = errors[largest]
            how = (
                "are not finite"
                if largest >= NOT_FINITE
                else f"differ from the float64 reference by {largest:.0e} (tolerance "
                f"{tolerance[part]:.0e})"
            )
            texts.append(
                f"{part} {how} at batch {batch.rows} with training={batch.training} on {device}"
            )
    return "; ".join(texts) or None


def _off(steps: Steps, tolerance: float) -> int | None:
    """How many steps are off. None are if the worst one is within the tolerance; a count that the
    worst one contradicts is unknown."""
    off, worst = steps.off, steps.worst
    if off is None or (off == 0) == (worst is not None and worst <= tolerance):
        return off
    return 0 if off else None


def _are_equal(
    pair: Pair, entries: Mapping[str, Implementation], tolerance: Mapping[str, float]
) -> bool:
    """Whether both implementations of a pair compute the same function by themselves, and all
    their differences were measured and are within tolerance."""
    a, b = entries.get(pair.a), entries.get(pair.b)
    if a is None or b is None or pair.not_compared or a.function != b.function:
        return False
    if any(each.function_why or each.status in ("not_run", "refused") for each in (a, b)):
        return False
    return all(getattr(pair, name) <= tolerance[name] for name in ERRORS)
