"""Decides from certificates whether two configurations compute the same function."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

from msgspec.structs import replace

from rnnbench.axes import GROUP, NAMES
from rnnbench.records.keys import certificate_key, function_overrides
from rnnbench.records.overrides import (
    Overrides,
    is_model_key,
    label,
    labelled,
    option_of,
    section_of,
)
from rnnbench.records.record import Reason, Record, Verdict
from rnnbench.sources.certificates import (
    ERRORS,
    NOT_TRIED,
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
Functions = dict[str | None, Sizes]  # key of a function → the sizes of its batches
Tolerance = Mapping[str, float]  # name of an error → the largest that is allowed
CERTIFIED = "certified"
UNEQUAL = "not equal"
UNKNOWN = "not certified"
DEFAULT_FUNCTION = {"recurrent_activation": "sigmoid", "use_bias": "True"}
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

    - `equal`: ``certified``, ``not equal``, ``not certified`` or ``""`` (not asked).
    - `why`: the reason.
    - `differences`: how they differ by design, ``""`` if they do not.
    """

    equal: str = ""
    why: str = ""
    differences: str = ""


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
        """Task and build → the key of each function that their runs computed → the sizes of the
        batches. There are several functions only if a choice was edited between the runs."""
        found: dict[Any, Functions] = {}
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
        required = []
        for key, sizes in functions.items():
            certificates = [each for each in judges if each.key == key]
            required.append((certificates, sizes))
        return required

    def _entries(self, configuration: Configuration) -> list[tuple[Certificate, Implementation]]:
        """The certificates of a configuration with the entry of its implementation, including
        overrides of ``rnn``."""
        name = _label(configuration)
        entries = []
        for certificates, _ in self._required(configuration):
            for certificate in certificates:
                if name in certificate.implementations:
                    entries.append((certificate, certificate.implementations[name]))
        return entries

    def why_not_learning(self, configuration: Configuration) -> str | None:
        """``applies wrong gradients: …`` if the training steps of a configuration (axes, `variant`,
        `options`, `machine`) apply a gradient other than the computed one, else None."""
        for certificate, entry in self._entries(configuration):
            steps = entry.applied.get(_device(configuration))
            if steps and steps.fault:
                if certificate.overrides.get(AS_PUBLISHED):
                    return f"{steps.fault}, as published"
                return steps.fault
        return None

    def mark_wrong_gradients(self, records: Iterable[Record]) -> list[Record]:
        """`records`; those that apply wrong gradients get that as a reason and are at most suspect.
        Only the certificate can show this, not the run itself."""
        # Thousands of runs share a few configurations.
        why_not = cache(lambda items: self.why_not_learning(dict(items)))
        marked = []
        for record in records:
            why = why_not(_configuration_of(record))
            if why is not None:
                verdict = record.verdict
                status = "suspect" if verdict.status == "clean" else verdict.status
                reason = Reason(DOES_NOT_LEARN, why, NOT_LEARNING_REMEDY)
                verdict = Verdict(status, (*verdict.reasons, reason))
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
        """
        if _precision(a) != _precision(b):
            why = f"one computes in {_precision(a)}, the other in {_precision(b)}"
            return Judgement(UNKNOWN, why)
        for side in (a, b):
            failure = self._failure(side)
            if failure:
                return Judgement(UNEQUAL, failure)
            for _, entry in self._entries(side):
                if entry.status == "refused":
                    return Judgement(UNKNOWN, f"{_label(side)} was refused: {entry.why}")
        differences = self._differences(a, b)
        if differences:
            return Judgement(UNEQUAL, f"not the same function: {differences}", differences)
        if _label(a) == _label(b) and all(a.get(name) == b.get(name) for name in SAME_PLACE):
            same = "the same implementation in the same build on the same device"
            return Judgement(CERTIFIED, same)

        pairs = self._pairs(a, b)
        for pair, tolerance in pairs:
            if not pair.equal and (_excesses(pair, tolerance) or not pair.not_compared):
                return Judgement(UNEQUAL, _excess(pair, tolerance))
        for side in (a, b):
            gap = self._gap(side)
            if gap:
                return Judgement(UNKNOWN, gap)
        for pair, _ in pairs:
            if pair.not_compared:
                return Judgement(UNKNOWN, pair.not_compared)
        if not pairs and self._shared(a, b) and _label(a) != _label(b):
            why = f"{_label(a)} and {_label(b)} were not compared with each other"
            return Judgement(UNKNOWN, why)
        for side in (a, b):
            for _, entry in self._entries(side):
                if entry.no_reference:
                    equal = CERTIFIED if pairs else UNKNOWN
                    return Judgement(equal, f"{COMPARED_ONLY}: {entry.no_reference}")
        if pairs:
            return Judgement(CERTIFIED, "the same function within tolerance")
        for side in (a, b):
            differs = self._differs_in_its_build(side)
            if differs:
                return Judgement(UNKNOWN, differs)
        return Judgement(CERTIFIED, "both agree with the float64 reference")

    def _differs_in_its_build(self, configuration: Configuration) -> str | None:
        """How a configuration differs from an implementation of its own build that computes the
        same function, if it agrees with none of them; else None."""
        name = _label(configuration)
        difference = None
        for certificate, entry in self._entries(configuration):
            for pair in certificate.pairs:
                if name not in (pair.a, pair.b):
                    continue
                theirs = certificate.implementations.get(other_of(pair, name))
                if theirs is None or theirs.status != "certified":
                    continue
                if theirs.function != entry.function:
                    continue
                if pair.equal:
                    return None
                why = pair.not_compared or _excess(pair, certificate.tolerance)
                difference = difference or f"in their build, {why}"
        return difference

    def _failure(self, configuration: Configuration) -> str | None:
        """How a configuration fails, or None."""
        name = _label(configuration)
        why = self.why_not_learning(configuration)
        if why:
            return f"{name} {why}"
        for _, entry in self._entries(configuration):
            layers = entry.probed.get(_device(configuration), Layers())
            failure = entry.function_why or layers.wrong
            if failure and entry.status != "refused":
                return f"{name} failed: {failure}"
        return None

    def _shared(self, a: Configuration, b: Configuration) -> list[Certificate]:
        """The certificates of both configurations."""
        of_b = [id(certificate) for certificate, _ in self._entries(b)]
        return [certificate for certificate, _ in self._entries(a) if id(certificate) in of_b]

    def _pairs(self, a: Configuration, b: Configuration) -> list[tuple[Pair, Tolerance]]:
        """The comparisons of two configurations with their tolerances."""
        labels = {_label(a), _label(b)}
        found = []
        for certificate in self._shared(a, b):
            for pair in certificate.pairs:
                if {pair.a, pair.b} == labels:
                    found.append((pair, certificate.tolerance))
        return found

    def _gap(self, configuration: Configuration) -> str | None:
        """What the certificates of a configuration do not cover, or None."""
        for certificates, sizes in self._required(configuration):
            if not certificates:
                return "there is no certificate for them"
            gaps = [_not_covered(each, configuration, sizes) for each in certificates]
            if None not in gaps:
                return gaps[0]
        return None

    def _differences(self, a: Configuration, b: Configuration) -> str:
        """How the networks differ, and the options that define the functions: as requested, updated
        by what the worker read if it read them for both."""
        functions = []
        read = []
        for side in (a, b):
            functions.append(_requested_function(side))
            known = [entry.function for _, entry in self._entries(side) if entry.function]
            read.append(known[0] if known else {})
        if all(read):
            for function, found in zip(functions, read, strict=True):
                for name, value in found.items():
                    function[name] = str(value)

        own, other = functions
        own |= _network(a)
        other |= _network(b)
        texts = []
        for name in own | other:
            if own.get(name) != other.get(name):
                what = name.replace("_", " ")
                values = (
                    f"{own.get(name, 'the default')} instead of {other.get(name, 'the default')}"
                )
                texts.append(f"{what} {values}")
        return ", ".join(texts)


def _not_covered(
    certificate: Certificate,
    configuration: Configuration,
    sizes: Sizes,
) -> str | None:
    """What a certificate does not cover: the implementation, its device, a batch, or the machine;
    None if it covers all of them."""
    name = _label(configuration)
    device = _device(configuration)
    entry = certificate.implementations.get(name)
    if entry is None:
        return f"{name} was not certified: {NOT_TRIED}"
    if entry.status == "not_run":
        return f"{name} was not certified: {entry.why or NOT_TRIED}"
    layers = entry.probed.get(device, Layers())
    if not layers.batches:
        return f"{name} is not certified for {device}: {layers.why or NOT_TRIED}"
    steps = entry.applied.get(device, Steps())
    if steps.off is None:
        why = steps.why or NOT_TRIED
        return f"the training steps of {name} on {device} were not checked: {why}"
    tested = {(batch.rows, batch.training) for batch in layers.batches}
    untested = sizes - tested
    if untested:
        rows, training = max(untested)
        return f"{name} is not certified for batch {rows} with training={training} on {device}"
    if not _same_machine(certificate, configuration):
        return f"they were certified on another machine, {certificate.machine}"
    return None


def _task(configuration: Configuration) -> Any:
    """What the function and the sizes of batches of a configuration follow from."""
    variant: Overrides = configuration["variant"]
    others = variant.those(lambda key: section_of(key) != "rnn")
    choices = [configuration.get(name, "") for name in GROUP if name != "variant"]
    return (*choices, others)


def _sizes(record: Record) -> Sizes:
    """The sizes of the batches of a run."""
    batch = (record.run.config.get("model") or {}).get("batch")
    trained = {(epoch.samples, True) for epoch in record.epochs}
    called = {(phase.details.get("samples"), False) for phase in record.phases}
    sizes: Sizes = set()
    for samples, training in trained | called:
        if samples and batch:
            sizes.update((rows, training) for rows in batch_sizes(samples, batch))
    return sizes


def _device(configuration: Configuration) -> str:
    """The device with its overrides, as certificates name it."""
    overrides: Overrides = configuration["variant"]
    return label(configuration["device"], dict(overrides.items), "device")


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


def _label(configuration: Configuration) -> str:
    """The implementation with its options, as certificates name it."""
    return labelled(configuration["rnn"], configuration["options"])


def _requested_function(configuration: Configuration) -> dict[str, str]:
    """Name → value of the options that define the function, as requested or by default."""
    activation = "relu" if configuration["cell"] == "rnn_relu" else "tanh"
    function = {"activation": activation, **DEFAULT_FUNCTION}
    for key, value in configuration["options"].items + configuration["variant"].items:
        if option_of(key) in OF_THE_FUNCTION:
            function[option_of(key)] = value
    return function


def _network(configuration: Configuration) -> dict[str, str]:
    """The model, the cell and the model's keys that change the function. They differ only between
    configurations that a reference, or ``rnnbench compare``, sets side by side by one of them."""
    overrides = function_overrides(dict(configuration["variant"].items))
    keys = {key: value for key, value in overrides.items() if is_model_key(key)}
    return {"model": configuration["model"], "cell": configuration["cell"], **keys}


def _precision(configuration: Configuration) -> str:
    """The requested precision of the computation."""
    return configuration["variant"].get("precision") or "float32"


def _same_machine(certificate: Certificate, configuration: Configuration) -> bool:
    """Whether the machines are equal or one of them is unknown."""
    machine = certificate.machine
    return not machine or machine == configuration.get("machine", machine)


def _excesses(pair: Pair, tolerance: Tolerance) -> list[str]:
    """The differences of a pair that exceed the tolerance, as texts."""
    texts = []
    for name in ERRORS:
        error = getattr(pair, name)
        if error is not None and error > tolerance[name]:
            what = name.replace("_", " ")
            texts.append(f"{what} differ by {error:.1g} (allowed {tolerance[name]:.1g})")
    return texts


def _excess(pair: Pair, tolerance: Tolerance) -> str:
    """By how much two implementations differ, as text."""
    excesses = _excesses(pair, tolerance) or ["they were found not equal"]
    return f"{pair.a} and {pair.b}: {', '.join(excesses)}"


def other_of(pair: Pair, name: str) -> str:
    """The implementation that the one called `name` is compared with."""
    return pair.b if pair.a == name else pair.a
