"""Reads the certificates of an experiment (``docs/formats.md``, "Certificate"), and judges them.

What follows from the numbers of a certificate is derived here whenever it is read: whether an
implementation or a pair is within the tolerance of its precision. What a file says about that is
not used, because it may be from another machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from rnnbench.errors import RecordError
from rnnbench.records.bounds import Count
from rnnbench.records.overrides import Settings
from rnnbench.records.plan_file import PlannedCertificate
from rnnbench.records.store import IMPORTED, as_kind, read_json, readable
from rnnworker.precision import DEFAULT, NOISES, NOT_FINITE, TOLERANCE, allowed_apart

NOT_TRIED = "it was not tried"
NOT_LEARNING = "applies wrong gradients"
PARTS = ("outputs", "gradients")  # of which errors against the float64 reference are measured
# Of a pair; those of a training, by weight, since schema 4.
ERRORS = (*PARTS, "loss_curve")
OF_TRAINING = ("first_loss", "weights")
Error = Annotated[float, Meta(ge=0)]


class Batch(msgspec.Struct):
    """The errors of a batch of `rows` samples against the float64 reference.

    `compared`: rows that the reference computed; None in older files: all.
    """

    rows: Count
    training: bool
    outputs: Error | None = None
    gradients: Error | None = None
    compared: Count | None = None


class Layers(msgspec.Struct):
    """How the layers were checked on a device.

    - `wrong`: what is wrong with them, or None.
    - `why`: why they were not checked.
    """

    batches: list[Batch] = []
    wrong: str | None = None
    why: str | None = None


class Steps(msgspec.Struct):
    """How training steps were checked on a device.

    - `off`: how many of the `steps` applied another gradient than the computed one.
    - `worst`: the largest relative difference.
    - `why`: why they were not checked.
    """

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
            digits = f"{percent:.2g}"
            if percent >= 10:
                digits = f"{percent:.0f}"
            worst = f"worst {digits} %"
        return (
            f"{NOT_LEARNING}: {self.off} of {self.steps} training steps "
            f"applied a gradient other than the computed one ({worst})"
        )


class Implementation(msgspec.Struct):
    """The result of an implementation.

    - `code`: of the fault that ended it, as that of a run's `Reason`, or None.
    - `probed`, `applied`: device → the checks of its layers and steps there.
    - `function_why`: what is wrong apart from layers and steps, or None.
    - `no_reference`: why its layers were not compared with the float64 reference.
    - `draws`: whether the model draws random numbers in its outputs, which are then not compared.
    """

    status: Literal["certified", "failed", "refused", "not_run"]
    why: str | None = None
    code: str | None = None
    kernel: list[str] | None = None
    loss_curve: list[float | None] | None = None
    round_trip: bool | None = None
    draws: bool | None = None
    outputs: Error | None = None
    gradients: Error | None = None
    function: Mapping[str, object] | None = None
    probed: dict[str, Layers] = {}
    applied: dict[str, Steps] = {}
    function_why: str | None = None
    no_reference: str | None = None

    def wrong_on(self, device: str) -> str | None:
        """What is wrong with its function, or with its layers or steps on the `device`, or None."""
        layers = self.probed.get(device, Layers())
        steps = self.applied.get(device, Steps())
        return self.function_why or layers.wrong or steps.fault


class Pair(msgspec.Struct):
    """The differences of two implementations, `a` and `b`. `why`: why they were not compared.

    `weights` is the largest difference between what the first steps of a training change in an
    array, relative to its change, in `worst_array`; `first_loss` that of the loss before the first
    of them. `noise` is what these and the loss curve differ by in one implementation if the initial
    weights are changed in their last place; older files have none of the curve. `parts`: what has
    to be compared.
    """

    a: str
    b: str
    equal: bool = False
    outputs: Error | None = None
    gradients: Error | None = None
    loss_curve: Error | None = None
    first_loss: Error | None = None
    weights: Error | None = None
    worst_array: str | None = None
    noise: dict[str, Error] = {}
    why: str | None = None
    parts: tuple[str, ...] = ERRORS

    @property
    def not_compared(self) -> str | None:
        """Why the two were not compared in all parts, or None."""
        missing = [name for name in self.parts if getattr(self, name) is None]
        if not missing:
            return None
        names = " and ".join(missing).replace("_", " ")
        reason = self.why or f"their {names} were not measured"
        return f"{self.a} and {self.b} were not compared: {reason}"

    def allowed(self, part: str, tolerance: Mapping[str, float]) -> float:
        """The largest difference in a `part` of two equal implementations."""
        if part == "loss_curve" and part in self.noise:
            return allowed_apart(self.noise[part])
        return max(tolerance[part], NOISES * self.noise.get(part, 0.0))


class Certificate(msgspec.Struct):
    """What the tables rely on.

    - `implementations`: name → its result; `pairs`: of those that were compared.
    - `overrides`: dotted key → value.
    - `machine`: on which it was made.
    - `imported`: whether it is from another machine's archive.
    """

    schema: Literal[3, 4]
    implementations: dict[str, Implementation]
    key: str = ""
    model: str = ""
    cell: str = ""
    build: str = ""
    overrides: Settings = {}
    digest: str | None = None
    machine: str | None = None
    precision: str | None = None
    pairs: list[Pair] = []
    imported: bool = False

    @property
    def tolerance(self) -> Mapping[str, float]:
        return TOLERANCE.get(self.precision or DEFAULT, TOLERANCE[DEFAULT])

    def fault_of_all(self, computed_by: Mapping[str, str]) -> Implementation | None:
        """One of the implementations that ran, if all failed alike, apart from the numbers in the
        names of layers, and if their code differs: a fault of the model or of its data. Else None.

        `computed_by`: implementation → the value of ``rnn.implementation``.
        """
        ran = []
        codes = set()
        for name, entry in self.implementations.items():
            if entry.status == "not_run":
                continue
            ran.append(entry)
            if name in computed_by:
                codes.add(computed_by[name])
        alike = {re.sub(r"_\d+\b", "", entry.function_why or "") for entry in ran}
        if len(codes) < 2 or alike == {""} or len(alike) > 1:
            return None
        return ran[0]


def read_certificates(
    folders: Iterable[Path],
) -> tuple[tuple[Certificate, ...], list[RecordError]]:
    """All certificates, sorted by file name within each folder, and the faults of those that cannot
    be read. `folders`: some of them may not exist."""

    def read(path: Path) -> Certificate:
        # results/imported/SITE/EXPERIMENT/certificates/KEY.json
        imported = IMPORTED in (folder.name for folder in path.parents[3:4])
        return replace(certificate_of(read_json(path), str(path)), imported=imported)

    paths = []
    for folder in folders:
        paths += sorted(folder.glob("[!.]*.json"))
    certificates, faults = readable(paths, read)
    return tuple(certificates), faults


def lacking(planned: Iterable[PlannedCertificate], folder: Path) -> list[PlannedCertificate]:
    """Those that the `folder` of an experiment does not have as they are `planned`."""
    missing = []
    for each in planned:
        digest = None
        with suppress(RecordError, LookupError, TypeError):  # it is missing or damaged
            digest = read_json(folder / "certificates" / f"{each.key}.json")["digest"]
        if digest != each.digest:
            missing.append(each)
    return missing


def certificate_of(data: Any, where: str) -> Certificate:
    """The certificate in `data`, judged by its numbers.

    Raises a `RecordError` that names the fault, for the file `where`.
    """
    fault = "is not a complete certificate of schema 3 or 4"
    remedy = "delete it and run snakemake again, which makes a new certificate."
    found = as_kind(data, Certificate, fault, where, remedy)
    entries = {}
    for name, entry in found.implementations.items():
        entries[name] = judged(entry, found.tolerance)
    for pair in found.pairs:
        pair.parts = ERRORS if found.schema == 3 else ERRORS + OF_TRAINING
        pair.equal = _are_equal(pair, entries, found.tolerance)
    return replace(found, implementations=entries)


def judged(entry: Implementation, tolerance: Mapping[str, float]) -> Implementation:
    """The result of an implementation with its status and `why`.

    They follow from its layers and steps on each device, and from `function_why`.

    - `entry`: as it was read.
    - `tolerance`: part → the largest error.
    """
    probed = {}
    applied = {}
    reasons = []
    for device, layers in sorted(entry.probed.items()):
        fault = wrong(layers.batches, tolerance, device)
        probed[device] = replace(layers, wrong=fault)
        if fault:
            reasons.append(fault)
    for device, steps in sorted(entry.applied.items()):
        steps = replace(steps, off=_off(steps, tolerance["gradients"]))
        applied[device] = steps
        if steps.fault:
            reasons.append(f"on {device} it {steps.fault}")

    status = entry.status
    why = entry.why
    if status not in ("not_run", "refused"):
        why = entry.function_why
        status = "failed" if reasons or why else "certified"
    if why:
        reasons.insert(0, why)
    return replace(
        entry,
        status=status,
        why="; ".join(reasons) or None,
        probed=probed,
        applied=applied,
    )


def wrong(batches: Sequence[Batch], tolerance: Mapping[str, float], device: str) -> str | None:
    """What is wrong with the layers on a device, as text; None if nothing is.

    This is each error that exceeds its tolerance, and the batch for which it is largest.

    - `batches`: those that were tested.
    - `tolerance`: part → the largest error.
    - `device`: its name.
    """
    texts = []
    for part in PARTS:
        largest = 0.0
        worst = None
        for batch in batches:
            error = getattr(batch, part)
            if error is not None and error > largest:
                largest = error
                worst = batch
        if worst is None or largest <= tolerance[part]:
            continue
        how = "are not finite"
        if largest < NOT_FINITE:
            how = (
                f"differ from the float64 reference by {largest:.0e} "
                f"(tolerance {tolerance[part]:.0e})"
            )
        where = f"batch {worst.rows} with training={worst.training} on {device}"
        texts.append(f"{part} {how} at {where}")
    return "; ".join(texts) or None


def _off(steps: Steps, tolerance: float) -> int | None:
    """How many steps are off: 0 if the worst one is within the tolerance, None if that is unknown
    because the worst one contradicts the count."""
    is_within = steps.worst is not None and steps.worst <= tolerance
    if steps.off is None or (steps.off == 0) == is_within:
        return steps.off
    return 0 if is_within else None


def _are_equal(
    pair: Pair,
    entries: Mapping[str, Implementation],
    tolerance: Mapping[str, float],
) -> bool:
    """Whether two implementations compute the same function.

    Both must do so by themselves, and all their differences must be measured and within tolerance.
    `entries`: name of an implementation → its result.
    """
    a = entries.get(pair.a)
    b = entries.get(pair.b)
    if a is None or b is None or pair.not_compared or a.function != b.function:
        return False
    for each in (a, b):
        if each.function_why or each.status in ("not_run", "refused"):
            return False
    return all(getattr(pair, name) <= pair.allowed(name, tolerance) for name in pair.parts)
