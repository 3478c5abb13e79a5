"""Decides from certificates whether two configurations compute the same function."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from rnnbench.axes import GROUP, NAMES
from rnnbench.errors import RecordError
from rnnbench.records.keys import SCHEMAS, certificate_key, function_overrides
from rnnbench.records.overrides import (
    Overrides,
    is_model_key,
    label,
    labelled,
    option_of,
    section_of,
)
from rnnbench.records.record import Reason, Record, Verdict
from rnnbench.records.store import imported_machines
from rnnbench.sources.certificates import (
    NOT_TRIED,
    Certificate,
    Implementation,
    Layers,
    Pair,
    Steps,
    read_certificates,
)
from rnnbench.tables.outcome import CurvesBy, Equality
from rnnworker.options import OF_THE_FUNCTION
from rnnworker.precision import batch_sizes

Configuration = Mapping[str, Any]  # axes, `variant`, `options` and, if it is known, `machine`
Sizes = set[tuple[int, bool]]  # (rows, whether they were trained)
# (schema, key) of the certificates of a function → the sizes of its batches
Functions = dict[frozenset[tuple[int, str]], Sizes]
Tolerance = Mapping[str, float]  # name of an error → the largest that is allowed
DEFAULT_FUNCTION = {"activation": "tanh", "recurrent_activation": "sigmoid", "use_bias": "True"}
AS_PUBLISHED = "build.as_published"
SAME_PLACE = ("build", "device", "machine", "variant")
COMPARED_ONLY = "compared with each other only, no reference"
DOES_NOT_LEARN = "not_learning"  # code of the reason that marked records get
NOT_LEARNING_REMEDY = (
    "do not trust the accuracy of this configuration; on tf_1_2 run it without build.as_published, "
    "otherwise report an issue."
)


class Judgement(NamedTuple):
    """Whether two configurations compute the same function.

    - `equal`: an `Equality`.
    - `why`: the reason.
    - `differences`: how they differ by design, ``""`` if they do not.
    """

    equal: Equality = Equality.NOT_ASKED
    why: str = ""
    differences: str = ""


class Curves(NamedTuple):
    """How far the loss curves of two configurations are apart in their certificate.

    - `steps`: training steps that were compared.
    - `difference`: the largest one, relative to the largest loss.
    - `allowed`: the largest that two equal trainings may have.
    - `judged_by`: what `allowed` is.
    """

    steps: int
    difference: float
    allowed: float
    judged_by: CurvesBy

    @property
    def excess(self) -> float:
        """`difference` / `allowed`."""
        return self.difference / self.allowed


@dataclass(frozen=True)
class Side:
    """A configuration and what certificates say about it.

    - `name` of the implementation with its options, and `device` with its overrides, as
      certificates name them.
    - `required`: for each function that its runs computed, the certificates of that function, those
      of the configuration's machine first, and the sizes of its batches.
    - `entries`: those certificates that have its implementation, with the entry of it.
    """

    configuration: Configuration
    name: str
    device: str
    required: list[tuple[list[Certificate], Sizes]]
    entries: list[tuple[Certificate, Implementation]]

    @property
    def precision(self) -> str:
        """The requested precision of the computation."""
        return self.configuration["variant"].get("precision") or "float32"

    @property
    def read(self) -> Mapping[str, object]:
        """The options that define the function, as the worker read them; empty if it did not."""
        for _, entry in self.entries:
            if entry.function:
                return entry.function
        return {}

    def why_not_learning(self) -> str | None:
        """``applies wrong gradients: …`` if its training steps do, else None."""
        for certificate, entry in self.entries:
            steps = entry.applied.get(self.device)
            if steps and steps.fault:
                if certificate.overrides.get(AS_PUBLISHED):
                    return f"{steps.fault}, as published"
                return steps.fault
        return None

    def failure(self) -> str | None:
        """How it fails, or None."""
        why = self.why_not_learning()
        if why:
            return f"{self.name} {why}"
        for _, entry in self.entries:
            layers = entry.probed.get(self.device, Layers())
            failure = entry.function_why or layers.wrong
            if failure and entry.status != "refused":
                return f"{self.name} failed: {failure}"
        return None

    def function(self, as_read: bool) -> dict[str, str]:
        """What defines the function of its network: the options, as requested or by default,
        updated by what the worker read if `as_read`; the model, the cell, and the model's keys.

        These differ only between configurations that a reference, or ``rnnbench compare``, sets
        side by side by one of them.
        """
        model = self.configuration["model"]
        cell = self.configuration["cell"]
        variant = self.configuration["variant"]
        function = dict(DEFAULT_FUNCTION)
        if cell == "rnn_relu":
            function["activation"] = "relu"
        for key, value in self.configuration["options"].items + variant.items:
            if option_of(key) in OF_THE_FUNCTION:
                function[option_of(key)] = value
        if as_read:
            for name, value in self.read.items():
                function[name] = str(value)
        function["model"] = model
        function["cell"] = cell
        for key, value in function_overrides(dict(variant.items)).items():
            if is_model_key(key):
                function[key] = str(value)
        return function

    def differs_in_its_build(self) -> str | None:
        """How it differs from an implementation of its own build that computes the same function,
        if it agrees with none of them; else None."""
        difference = None
        for certificate, entry in self.entries:
            for pair in certificate.pairs:
                if self.name not in (pair.a, pair.b):
                    continue
                theirs = certificate.implementations.get(other_of(pair, self.name))
                if theirs is None or theirs.status != "certified":
                    continue
                if theirs.function != entry.function:
                    continue
                if pair.equal:
                    return None
                why = pair.not_compared or _excess(pair, certificate.tolerance)
                difference = difference or f"in their build, {why}"
        return difference

    def gap(self) -> str | None:
        """What the certificates do not cover, or None."""
        for certificates, sizes in self.required:
            if not certificates:
                return "there is no certificate for them"
            gaps = [self._not_covered(certificate, sizes) for certificate in certificates]
            if None not in gaps:
                return gaps[0]
        return None

    def _not_covered(self, certificate: Certificate, sizes: Sizes) -> str | None:
        """What a certificate does not cover: the implementation, its device, a batch, or the
        machine.

        - `certificate`: one of those in `required`.
        - `sizes`: those of the batches of its runs.

        Returns None if it covers all of them.
        """
        entry = certificate.implementations.get(self.name)
        if entry is None:
            return f"{self.name} was not certified: {NOT_TRIED}"
        if entry.status == "not_run":
            return f"{self.name} was not certified: {entry.why or NOT_TRIED}"
        layers = entry.probed.get(self.device, Layers())
        if not layers.batches:
            return f"{self.name} is not certified for {self.device}: {layers.why or NOT_TRIED}"
        steps = entry.applied.get(self.device, Steps())
        if steps.off is None:
            what = f"the training steps of {self.name} on {self.device}"
            return f"{what} were not checked: {steps.why or NOT_TRIED}"
        tested = {(batch.rows, batch.training) for batch in layers.batches}
        untested = sizes - tested
        if untested:
            rows, training = max(untested)
            batch = f"batch {rows} with training={training}"
            return f"{self.name} is not certified for {batch} on {self.device}"
        if not _same_machine(certificate, self.configuration):
            return f"they were certified on another machine, {certificate.machine}"
        return None


@dataclass(frozen=True)
class Certificates:
    """The certificates of an experiment (``docs/formats.md``, "Certificate").

    - `every`: the certificates.
    - `records`: those whose configurations are judged by them.
    - `elsewhere`: the machines of imported records. Imported certificates only judge
      configurations on these.
    """

    every: tuple[Certificate, ...] = ()
    records: tuple[Record, ...] = ()
    elsewhere: frozenset[str] = frozenset()

    @cached_property
    def _functions(self) -> dict[Any, Functions]:
        """Task and build → the keys of each function that their runs computed → the sizes of the
        batches. There are several functions only if a choice was edited between the runs."""
        found: dict[Any, Functions] = {}
        for record in self.records:
            functions = found.setdefault(_task(dict(_configuration_of(record))), {})
            run = record.run
            keys = frozenset(
                (schema, certificate_key(run.choices, run.config, schema)) for schema in SCHEMAS
            )
            sizes = functions.setdefault(keys, set())
            # Epochs train with theirs. Phases with `samples`, such as ``evaluate``, only compute
            # outputs.
            trained = {(epoch.samples, True) for epoch in record.epochs}
            called = {(phase.details.samples, False) for phase in record.phases}
            batch = run.sections.model.batch
            for samples, training in trained | called:
                if samples and batch:
                    sizes |= {(rows, training) for rows in batch_sizes(samples, batch)}
        return found

    def _side(self, configuration: Configuration) -> Side:
        """A configuration (axes, `variant`, `options`, `machine`) with its certificates."""
        is_elsewhere = configuration.get("machine") in self.elsewhere
        judges = list(self.every)
        if not is_elsewhere:
            judges = [each for each in self.every if not each.imported]
        judges.sort(key=lambda each: not _same_machine(each, configuration))
        name = labelled(configuration["rnn"], configuration["options"])
        required = []
        entries = []
        functions = self._functions.get(_task(configuration)) or {frozenset(): set()}
        for keys, sizes in functions.items():
            certificates = [each for each in judges if (each.schema, each.key) in keys]
            required.append((certificates, sizes))
            for certificate in certificates:
                if name in certificate.implementations:
                    entries.append((certificate, certificate.implementations[name]))
        overrides = dict(configuration["variant"].items)
        device = label(configuration["device"], overrides, "device")
        return Side(
            configuration,
            name,
            device,
            required,
            entries,
        )

    def why_not_learning(self, configuration: Configuration) -> str | None:
        """``applies wrong gradients: …`` if the training steps of a configuration apply a gradient
        other than the computed one, else None.

        `configuration`: its axes, `variant`, `options` and `machine`.
        """
        return self._side(configuration).why_not_learning()

    def mark_wrong_gradients(self, records: Iterable[Record]) -> list[Record]:
        """`records`; those that apply wrong gradients get that as a reason and are at most suspect.
        Only the certificate can show this, not the run itself."""
        # Thousands of runs share a few configurations.
        why_not = cache(lambda items: self.why_not_learning(dict(items)))
        marked = []
        for record in records:
            why = why_not(_configuration_of(record))
            if why is not None:
                status = record.verdict.status
                if status == "clean":
                    status = "suspect"
                reason = Reason(DOES_NOT_LEARN, why, NOT_LEARNING_REMEDY)
                verdict = Verdict(status, record.verdict.reasons + (reason,))
                record = replace(record, verdict=verdict)
            marked.append(record)
        return marked

    def judge(self, a: Configuration, b: Configuration) -> Judgement:
        """Whether two configurations compute the same function.

        - Within a build, the certified pair decides; across builds, both must agree with the
          float64 reference.
        - A failure counts on every machine.
        - A success counts only on the machine of the certificate, and for the device and the sizes
          of batches that it tested.

        `a`, `b`: axes, `variant`, `options` and `machine` of each.
        """
        own = self._side(a)
        other = self._side(b)
        if own.precision != other.precision:
            why = f"one computes in {own.precision}, the other in {other.precision}"
            return Judgement(Equality.UNKNOWN, why)
        for side in (own, other):
            failure = side.failure()
            if failure:
                return Judgement(Equality.UNEQUAL, failure)
            for _, entry in side.entries:
                if entry.status == "refused":
                    return Judgement(Equality.UNKNOWN, f"{side.name} was refused: {entry.why}")
        differences = _differences(own, other)
        if differences:
            return Judgement(Equality.UNEQUAL, f"not the same function: {differences}", differences)
        differing = [name for name in SAME_PLACE if a.get(name) != b.get(name)]
        if own.name == other.name and not differing:
            same = "the same implementation in the same build on the same device"
            return Judgement(Equality.CERTIFIED, same)
        return _compared(own, other)

    def curves(self, a: Configuration, b: Configuration) -> Curves | None:
        """The loss curves of two configurations that are farthest apart in a certificate; None if
        no certificate compared them.

        `a`, `b`: as in `judge`.
        """
        found = []
        for certificate, pair in _pairs(self._side(a), self._side(b)):
            entry = certificate.implementations[pair.a]
            if pair.loss_curve is not None:
                allowed = pair.allowed("loss_curve", certificate.tolerance)
                by = CurvesBy.TWIN if "loss_curve" in pair.noise else CurvesBy.TOLERANCE
                steps = len(entry.loss_curve or ())
                found.append(Curves(steps, pair.loss_curve, allowed, by))
        return max(found, key=lambda each: each.excess, default=None)


def certificates_of(
    folders: Iterable[Path], records: Sequence[Record], results: Path
) -> tuple[Certificates, list[RecordError]]:
    """The certificates in the `folders` of experiments, which judge the configurations of the
    `records`, and the errors of those that cannot be read. `results`: the results folder."""
    every, faults = read_certificates(folder / "certificates" for folder in folders)
    return Certificates(every, tuple(records), imported_machines(results)), faults


def _shared(own: Side, other: Side) -> list[Certificate]:
    """The certificates that have the implementations of both."""
    of_other = [id(certificate) for certificate, _ in other.entries]
    return [certificate for certificate, _ in own.entries if id(certificate) in of_other]


def _pairs(own: Side, other: Side) -> list[tuple[Certificate, Pair]]:
    """The comparisons of two sides, with their certificates."""
    pairs = []
    for certificate in _shared(own, other):
        for pair in certificate.pairs:
            if {pair.a, pair.b} == {own.name, other.name}:
                pairs.append((certificate, pair))
    return pairs


def _compared(own: Side, other: Side) -> Judgement:
    """The judgement from the numbers of the certificates of two sides.

    A pair that was compared decides. Without one, both must be covered by their certificates, agree
    with the float64 reference, and not differ from the others of their build.
    """
    pairs = _pairs(own, other)
    for certificate, pair in pairs:
        excesses = _excesses(pair, certificate.tolerance)
        if not pair.equal and (excesses or not pair.not_compared):
            return Judgement(Equality.UNEQUAL, _excess(pair, certificate.tolerance))
    for side in (own, other):
        gap = side.gap()
        if gap:
            return Judgement(Equality.UNKNOWN, gap)
    for _, pair in pairs:
        if pair.not_compared:
            return Judgement(Equality.UNKNOWN, pair.not_compared)
    if _shared(own, other) and not pairs and own.name != other.name:
        why = f"{own.name} and {other.name} were not compared with each other"
        return Judgement(Equality.UNKNOWN, why)
    for _, entry in own.entries + other.entries:
        if entry.no_reference:
            equal = Equality.CERTIFIED if pairs else Equality.UNKNOWN
            return Judgement(equal, f"{COMPARED_ONLY}: {entry.no_reference}")
    if pairs:
        return Judgement(Equality.CERTIFIED, "the same function within tolerance")
    for side in (own, other):
        differs = side.differs_in_its_build()
        if differs:
            return Judgement(Equality.UNKNOWN, differs)
    return Judgement(Equality.CERTIFIED, "both agree with the float64 reference")


def _differences(a: Side, b: Side) -> str:
    """How the function of `a` differs from that of `b`, as text; empty if it does not.

    Options are compared as the worker read them, if it read them for both sides. A key that one
    side does not override has the value of its choice there, ``the default``.
    """
    as_read = bool(a.read and b.read)
    own = a.function(as_read)
    other = b.function(as_read)
    texts = []
    for name in own | other:
        what = name
        if not is_model_key(name):
            what = name.replace("_", " ")
        value = own.get(name, "the default")
        instead_of = other.get(name, "the default")
        if value != instead_of:
            texts.append(f"{what} {value} instead of {instead_of}")
    return ", ".join(texts)


def _task(configuration: Configuration) -> Any:
    """What the function and the sizes of batches of a configuration follow from: its group, without
    the overrides of the implementation."""
    task = {name: configuration.get(name, "") for name in GROUP}
    task["variant"] = configuration["variant"].those(lambda key: section_of(key) != "rnn")
    return tuple(task.values())


def _configuration_of(record: Record) -> tuple[tuple[str, Any], ...]:
    """The items of a record's configuration that a certificate depends on."""
    overrides = Overrides.of(record.run.overrides)
    configuration = {
        **{axis: record.run.choices.get(axis, "") for axis in NAMES},
        "variant": overrides,
        "options": overrides.those(lambda key: section_of(key) == "rnn"),
        "machine": record.machine,
    }
    return tuple(configuration.items())


def _same_machine(certificate: Certificate, configuration: Configuration) -> bool:
    """Whether the machines are equal or one of them is unknown."""
    machine = certificate.machine
    return not machine or machine == configuration.get("machine", machine)


# Of a pair's differences, where the name does not say it.
WHAT_DIFFERS = {"weights": "what the first steps change", "first_loss": "the first losses"}


def _excesses(pair: Pair, tolerance: Tolerance) -> list[str]:
    """The differences of a pair that exceed the tolerance, as texts.

    - `pair`: one whose errors may be missing.
    - `tolerance`: that of its certificate.
    """
    texts = []
    for name in pair.parts:
        error = getattr(pair, name)
        allowed = pair.allowed(name, tolerance)
        if error is not None and error > allowed:
            what = WHAT_DIFFERS.get(name, name.replace("_", " "))
            if name == "weights" and pair.worst_array:
                what += f" in {pair.worst_array}"
            texts.append(f"{what} differ by {error:.1g} (allowed {allowed:.1g})")
    return texts


def _excess(pair: Pair, tolerance: Tolerance) -> str:
    """By how much two implementations differ, as text."""
    excesses = _excesses(pair, tolerance) or ["they were found not equal"]
    return f"{pair.a} and {pair.b}: {', '.join(excesses)}"


def other_of(pair: Pair, name: str) -> str:
    """The implementation that the one called `name` is compared with."""
    return pair.b if pair.a == name else pair.a
