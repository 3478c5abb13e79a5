"""Decides from certificates whether two configurations compute the same function; the certificates
as tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

import pandas as pd
from msgspec.structs import asdict, replace

from rnnbench.axes import CERTIFIED_AXES, GROUP, NAMES
from rnnbench.records.keys import certificate_key
from rnnbench.records.overrides import Overrides, label, labelled, option_of, section_of
from rnnbench.records.record import Reason, Record, Verdict
from rnnbench.sources.certificates import (
    ERRORS,
    NOT_TRIED,
    PARTS,
    Certificate,
    Implementation,
    Layers,
    Pair,
    Steps,
)
from rnnworker.options import OF_THE_FUNCTION
from rnnworker.precision import batch_sizes

Configuration = Mapping[str, Any]  # axes, `variant`, `options` and, if it is known, `machine`
Sizes = set[tuple[int, bool]]  # (rows, whether they were trained)
CERTIFIED, UNEQUAL, UNKNOWN = "certified", "not equal", "not certified"
DEFAULT_FUNCTION = {"recurrent_activation": "sigmoid", "use_bias": "True"}
AS_PUBLISHED = "build.as_published"
SAME_PLACE = ("build", "device", "machine", "variant")
COMPARED_ONLY = "compared with each other only, no reference"
DOES_NOT_LEARN = "not_learning"  # code of the reason that marked records get
NOT_LEARNING_REMEDY = (
    "do not trust the accuracy of this configuration; on tf_1_2 run it without build.as_published, "
    "otherwise report an issue."
)
CERTIFICATE_COLUMNS = [*CERTIFIED_AXES, "variant"]


class Judgement(NamedTuple):
    """Whether two configurations compute the same function: ``certified``, ``not equal``, ``not
    certified`` or ``""`` (not asked); why; and how they differ by design, if they do."""

    equal: str = ""
    why: str = ""
    differences: str = ""


@dataclass(frozen=True)
class Certificates:
    """The certificates of an experiment (``docs/formats.md``, "Certificate"), and the records whose
    configurations are judged by them. Imported certificates only judge configurations on the
    `elsewhere` machines, those of imported records."""

    every: tuple[Certificate, ...] = ()
    records: tuple[Record, ...] = ()
    elsewhere: frozenset[str] = frozenset()

    @cached_property
    def _functions(self) -> dict[Any, dict[str | None, Sizes]]:
        """Task and build → the key of each function that their runs computed → the sizes of the
        batches. There are several functions only if a choice was edited between the runs."""
        found: dict[Any, dict[str | None, Sizes]] = {}
        for record in self.records:
            functions = found.setdefault(_task(dict(_configuration_of(record))), {})
            key = certificate_key(record.run.choices, record.run.config)
            functions.setdefault(key, set()).update(_sizes(record))
        return found

    def _required(self, configuration: Configuration) -> list[tuple[list[Certificate], Sizes]]:
        """For each function of a configuration: its certificates, those of the configuration's
        machine first, and the sizes of the batches."""
        functions = self._functions.get(_task(configuration)) or {None: set()}
        is_elsewhere = configuration.get("machine") in self.elsewhere
        judges = [each for each in self.every if is_elsewhere or not each.imported]
        judges.sort(key=lambda each: not _same_machine(each, configuration))
        return [
            ([each for each in judges if each.key == key], sizes)
            for key, sizes in functions.items()
        ]

    def _entries(self, configuration: Configuration) -> list[tuple[Certificate, Implementation]]:
        """The certificates of a configuration with the entry of its implementation, including
        overrides of ``rnn``."""
        name = _label(configuration)
        return [
            (each, each.implementations[name])
            for certificates, _ in self._required(configuration)
            for each in certificates
            if name in each.implementations
        ]

    def why_not_learning(self, configuration: Configuration) -> str | None:
        """``applies wrong gradients: …`` if the training steps of a configuration (axes, `variant`,
        `options`, `machine`) apply a gradient other than the computed one, else None."""
        for certificate, entry in self._entries(configuration):
            steps = entry.applied.get(_device(configuration))
            if steps and (fault := steps.fault):
                published = certificate.overrides.get(AS_PUBLISHED)
                return f"{fault}, as published" if published else fault
        return None

    def mark_wrong_gradients(self, records: Iterable[Record]) -> list[Record]:
        """`records`; those that apply wrong gradients get that as a reason and are at most suspect.
        Only the certificate can show this, not the run itself."""
        # Thousands of runs share a few configurations.
        why = cache(lambda items: self.why_not_learning(dict(items)))
        return [_marked(record, why(_configuration_of(record))) for record in records]

    def judge(self, a: Configuration, b: Configuration) -> Judgement:
        """Whether two configurations compute the same function. Within a build, the certified pair
        decides; across builds, both must agree with the float64 reference. A failure counts on
        every machine, a success only on the machine of the certificate, and for the device and the
        sizes of batches that it tested."""
        if _precision(a) != _precision(b):
            why = f"one computes in {_precision(a)}, the other in {_precision(b)}"
            return Judgement(UNKNOWN, why)
        for side in (a, b):
            if failure := self._failure(side):
                return Judgement(UNEQUAL, failure)
            if refusal := self._refusal(side):
                return Judgement(UNKNOWN, refusal)
        if differences := self._differences(a, b):
            return Judgement(UNEQUAL, f"not the same function: {differences}", differences)
        if _label(a) == _label(b) and all(a.get(name) == b.get(name) for name in SAME_PLACE):
            same = "the same implementation in the same build on the same device"
            return Judgement(CERTIFIED, same)
        pairs = self._pairs(a, b)
        for pair, tolerance in pairs:
            if not pair.equal and (_excesses(pair, tolerance) or not pair.not_compared):
                return Judgement(UNEQUAL, _excess(pair, tolerance))
        for side in (a, b):
            if gap := self._gap(side):
                return Judgement(UNKNOWN, gap)
        if missing := self._not_compared(a, b, pairs):
            return Judgement(UNKNOWN, missing)
        for side in (a, b):
            if reason := self._no_reference(side):
                equal = CERTIFIED if pairs else UNKNOWN
                return Judgement(equal, f"{COMPARED_ONLY}: {reason}")
        if pairs:
            return Judgement(CERTIFIED, "the same function within tolerance")
        for side in (a, b):
            if differs := self._differs_in_its_build(side):
                return Judgement(UNKNOWN, differs)
        return Judgement(CERTIFIED, "both agree with the float64 reference")

    def _refusal(self, configuration: Configuration) -> str | None:
        """Why an implementation refused the model, or None."""
        for _, entry in self._entries(configuration):
            if entry.status == "refused":
                return f"{_label(configuration)} was refused: {entry.why}"
        return None

    def _not_compared(self, a: Configuration, b: Configuration, pairs: Sequence[Any]) -> str | None:
        """Why two implementations in one certificate were not compared in everything, or None."""
        for pair, _ in pairs:
            if pair.not_compared:
                return pair.not_compared
        together = {id(each) for each, _ in self._entries(a)}
        shared = any(id(each) in together for each, _ in self._entries(b))
        if shared and not pairs and _label(a) != _label(b):
            return f"{_label(a)} and {_label(b)} were not compared with each other"
        return None

    def _no_reference(self, configuration: Configuration) -> str | None:
        """Why a configuration was not compared with the float64 reference, or None."""
        for _, entry in self._entries(configuration):
            if entry.no_reference:
                return entry.no_reference
        return None

    def _differs_in_its_build(self, configuration: Configuration) -> str | None:
        """How a configuration differs from an implementation of its own build that computes the
        same function, if it agrees with none of them; else None."""
        name, differences = _label(configuration), []
        for certificate, entry in self._entries(configuration):
            for pair in certificate.pairs:
                theirs = certificate.implementations.get(pair.b if pair.a == name else pair.a)
                if name not in (pair.a, pair.b) or theirs is None:
                    continue
                if theirs.status != "certified" or theirs.function != entry.function:
                    continue
                if pair.equal:
                    return None
                why = pair.not_compared or _excess(pair, certificate.tolerance)
                differences.append(f"in their build, {why}")
        return differences[0] if differences else None

    def _failure(self, configuration: Configuration) -> str | None:
        """How a configuration fails, or None."""
        name = _label(configuration)
        if why := self.why_not_learning(configuration):
            return f"{name} {why}"
        for _, entry in self._entries(configuration):
            layers = entry.probed.get(_device(configuration), Layers())
            if entry.status == "refused":
                continue
            if failure := entry.function_why or layers.wrong:
                return f"{name} failed: {failure}"
        return None

    def _pairs(self, a: Configuration, b: Configuration) -> list[tuple[Pair, Mapping[str, float]]]:
        """The comparisons of two configurations with their tolerances."""
        labels = {_label(a), _label(b)}
        of_b = [id(certificate) for certificate, _ in self._entries(b)]
        return [
            (pair, certificate.tolerance)
            for certificate, _ in self._entries(a)
            for pair in certificate.pairs
            if id(certificate) in of_b and {pair.a, pair.b} == labels
        ]

    def _gap(self, configuration: Configuration) -> str | None:
        """What the certificates of a configuration do not cover, or None."""
        for certificates, sizes in self._required(configuration):
            gaps = [_gap(each, configuration, sizes) for each in certificates]
            if None not in gaps:
                return gaps[0] if gaps else "there is no certificate for them"
        return None

    def _differences(self, a: Configuration, b: Configuration) -> str:
        """How the options differ that define the functions: as requested, updated by what the
        worker read if it read them for both."""
        read = [
            next((entry.function for _, entry in self._entries(side) if entry.function), {})
            for side in (a, b)
        ]
        own, other = (
            _requested_function(side)
            | {name: str(value) for name, value in found.items() if all(read)}
            for side, found in zip((a, b), read, strict=True)
        )
        return ", ".join(
            f"{name.replace('_', ' ')} {own.get(name, 'none')} instead of {other.get(name, 'none')}"
            for name in dict.fromkeys([*own, *other])
            if own.get(name) != other.get(name)
        )


def _gap(certificate: Certificate, configuration: Configuration, sizes: Sizes) -> str | None:
    """What a certificate does not cover: the implementation, its device, a batch, or the machine;
    None if it covers all of them."""
    name, device = _label(configuration), _device(configuration)
    entry = certificate.implementations.get(name)
    if entry is None or entry.status == "not_run":
        return f"{name} was not certified: {(entry and entry.why) or NOT_TRIED}"
    layers, steps = entry.probed.get(device, Layers()), entry.applied.get(device, Steps())
    if not layers.batches:
        return f"{name} is not certified for {device}: {layers.why or NOT_TRIED}"
    if steps.off is None:
        why = steps.why or NOT_TRIED
        return f"the training steps of {name} on {device} were not checked: {why}"
    tested = {(batch.rows, batch.training) for batch in layers.batches}
    for rows, training in sorted(sizes - tested, reverse=True):
        return f"{name} is not certified for batch {rows} with training={training} on {device}"
    if not _same_machine(certificate, configuration):
        return f"they were certified on another machine, {certificate.machine}"
    return None


def _task(configuration: Configuration) -> Any:
    """What the function and the sizes of batches of a configuration follow from."""
    overrides: Overrides = configuration["variant"]
    others = overrides.those(lambda key: section_of(key) != "rnn")
    return (*(configuration.get(name, "") for name in GROUP if name != "variant"), others)


def _sizes(record: Record) -> Sizes:
    """The sizes of the batches of a run."""
    batch = (record.run.config.get("model") or {}).get("batch")
    trained = {(epoch.samples, True) for epoch in record.epochs}
    called = {(phase.details.get("samples"), False) for phase in record.phases}
    return {
        (rows, training)
        for samples, training in trained | called
        if samples and batch
        for rows in batch_sizes(samples, batch)
    }


def _device(configuration: Configuration) -> str:
    overrides: Overrides = configuration["variant"]
    return label(configuration["device"], dict(overrides.items), "device")


def _configuration_of(record: Record) -> tuple[tuple[str, Any], ...]:
    """The items of a record's configuration that a certificate depends on."""
    overrides = Overrides.of(record.run.overrides)
    return (
        *((axis, record.run.choices.get(axis, "")) for axis in NAMES),
        ("variant", overrides),
        ("options", overrides.those(lambda key: section_of(key) == "rnn")),
        ("machine", record.machine),
    )


def _marked(record: Record, why: str | None) -> Record:
    if why is None:
        return record
    status = "suspect" if record.verdict.status == "clean" else record.verdict.status
    reason = Reason(DOES_NOT_LEARN, why, NOT_LEARNING_REMEDY)
    return replace(record, verdict=Verdict(status, (*record.verdict.reasons, reason)))


def _label(configuration: Configuration) -> str:
    return labelled(configuration["rnn"], configuration["options"])


def _requested_function(configuration: Configuration) -> dict[str, str]:
    items = [*configuration["options"].items, *configuration["variant"].items]
    requested = {option_of(key): value for key, value in items if option_of(key) in OF_THE_FUNCTION}
    activation = "relu" if configuration["cell"] == "rnn_relu" else "tanh"
    return {"activation": activation, **DEFAULT_FUNCTION, **requested}


def _precision(configuration: Configuration) -> str:
    return configuration["variant"].get("precision") or "float32"


def _same_machine(certificate: Certificate, configuration: Configuration) -> bool:
    """Whether the machines are equal or one of them is unknown."""
    machine = certificate.machine
    return not machine or machine == configuration.get("machine", machine)


def _excesses(pair: Pair, tolerance: Mapping[str, float]) -> list[str]:
    """The differences of a pair that exceed the tolerance, as texts."""
    texts = []
    for name in ERRORS:
        error = getattr(pair, name)
        if error is not None and error > tolerance[name]:
            what = name.replace("_", " ")
            texts.append(f"{what} differ by {error:.1g} (allowed {tolerance[name]:.1g})")
    return texts


def _excess(pair: Pair, tolerance: Mapping[str, float]) -> str:
    excesses = _excesses(pair, tolerance) or ["they were found not equal"]
    return f"{pair.a} and {pair.b}: {', '.join(excesses)}"


def certified(certificates: Iterable[Certificate]) -> pd.DataFrame:
    """One row per implementation of each certificate: `model`, `cell`, `build`, `variant`, `rnn`,
    `status`, `why`, `kept` (the weights that the model set, which stay), `outputs` and `gradients`
    (largest relative errors against the float64 reference), `round_trip` (bool: the weights survive
    the canonical file), `batches` (rows of the tested batches: ``cpu_1: 16, 13; 16, 8``, in
    training and in evaluation), `steps` (for each device, how many of the tested training steps
    applied a gradient other than the computed one, and the largest relative error:
    ``cpu_1: 0 of 30 (2e-7)``), `tolerance_outputs`, `tolerance_gradients`.
    Source: the certificates."""
    rows = [
        {
            **_certificate_columns(certificate),
            "rnn": name,
            "status": entry.status,
            "why": entry.why or _compared_with(certificate, name),
            "kept": ", ".join(entry.weights.get("kept", [])),
            **{part: _largest(entry, part) for part in PARTS},
            "round_trip": entry.round_trip,
            "batches": _batches(entry.probed),
            "steps": _steps(entry.applied),
            **{f"tolerance_{part}": certificate.tolerance[part] for part in PARTS},
        }
        for certificate in certificates
        for name, entry in certificate.implementations.items()
    ]
    return pd.DataFrame(rows)


def pairs(certificates: Iterable[Certificate]) -> pd.DataFrame:
    """One row per pair of each certificate: `model`, `cell`, `build`, `variant`, `a`, `b`,
    `outputs`, `gradients`, `loss_curve` (differences between a and b), `equal` (bool), `why` (why
    they were not compared, or empty).
    Source: the certificates."""
    rows = [
        {**_certificate_columns(certificate), **asdict(pair), "why": pair.not_compared or ""}
        for certificate in certificates
        for pair in certificate.pairs
    ]
    return pd.DataFrame(rows)


def _compared_with(certificate: Certificate, name: str) -> str:
    """With which implementations one without a reference agrees; empty if it has a reference."""
    entry = certificate.implementations[name]
    if not entry.no_reference:
        return ""
    others = []
    for pair in certificate.pairs:
        if pair.equal and name in (pair.a, pair.b):
            others.append(pair.b if pair.a == name else pair.a)
    compared = f"compared with {', '.join(others)}" if others else "compared with nothing"
    return f"{compared}, no reference: {entry.no_reference}"


def _certificate_columns(certificate: Certificate) -> dict[str, Any]:
    return {
        **{axis: getattr(certificate, axis) for axis in CERTIFIED_AXES},
        "variant": Overrides.of(certificate.overrides),
    }


def _largest(entry: Implementation, part: str) -> float | None:
    """The largest error on all devices; that of an older certificate, which has no batches."""
    every = (getattr(each, part) for layers in entry.probed.values() for each in layers.batches)
    return max((error for error in every if error is not None), default=getattr(entry, part))


def _batches(probed: Mapping[str, Layers]) -> str:
    texts = []
    for device, layers in probed.items():
        rows = [
            ", ".join(str(each.rows) for each in layers.batches if each.training is training)
            for training in (True, False)
        ]
        texts.append(f"{device}: {'; '.join(rows) if any(rows) else layers.why}")
    return " | ".join(texts)


def _steps(applied: Mapping[str, Steps]) -> str:
    return "; ".join(
        f"{device}: {steps.why}"
        if steps.off is None
        else f"{device}: {steps.off} of {steps.steps}"
        + ("" if steps.worst is None else f" ({steps.worst:.1g})")
        for device, steps in applied.items()
    )
