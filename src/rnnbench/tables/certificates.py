"""Decides from certificates whether two configurations compute the same function."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from msgspec.structs import replace

from rnnbench.axes import CERTIFIED_AXES, NAMES
from rnnbench.records.labels import label, labelled
from rnnbench.records.overrides import NONE, Overrides, is_of_section, option_of
from rnnbench.records.record import Reason, Record, Verdict
from rnnworker.options import OF_THE_FUNCTION

CERTIFIED, UNEQUAL, UNKNOWN = "certified", "not equal", "not certified"
DEFAULT_FUNCTION = {"recurrent_activation": "sigmoid", "use_bias": "True"}
AS_PUBLISHED = "build.as_published"
ANOTHER_FUNCTION = "not the same function: "
DOES_NOT_LEARN = "not_learning"  # code of the reason that marked records get
NOT_LEARNING = "applies wrong gradients"
NOT_LEARNING_REMEDY = (
    "do not trust the accuracy of this configuration; on tf_1_2 run it without build.as_published, "
    "otherwise report an issue."
)


@dataclass(frozen=True)
class Certificates:
    """The certificates of an experiment (``docs/formats.md``, "Certificate")."""

    every: tuple[Mapping[str, Any], ...] = ()

    def for_configuration(self, configuration: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The certificate with the same precision, model, RNN cell and build, and no overrides that
        the configuration lacks, or None. Of several, the one with the most overrides, preferably
        made on the configuration's machine."""
        overrides: Overrides = configuration.get("variant", NONE)

        def required(certificate: Mapping[str, Any]) -> Overrides:
            return Overrides.of(certificate.get("overrides") or {})

        candidates = (
            certificate
            for certificate in self.every
            if _precision(certificate) == _precision(configuration)
            and all(str(certificate.get(a, "")) == str(configuration[a]) for a in CERTIFIED_AXES)
            and overrides.contains(required(certificate))
        )
        return max(
            candidates,
            key=lambda found: (len(required(found).items), _same_machine(found, configuration)),
            default=None,
        )

    def entry(self, configuration: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The entry of the configuration's implementation, including overrides of ``rnn``, in its
        certificate; None if there is none."""
        certificate = self.for_configuration(configuration)
        return certificate["implementations"].get(_label(configuration)) if certificate else None

    def applied(self, configuration: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The result of testing the configuration's training steps on its device, or None."""
        overrides: Overrides = configuration.get("variant", NONE)
        device = label(configuration.get("device", ""), dict(overrides.items), "device")
        return ((self.entry(configuration) or {}).get("applied") or {}).get(device)

    def why_not_learning(self, configuration: Mapping[str, Any]) -> str | None:
        """``applies wrong gradients: …`` if the training steps of a configuration (axes, `variant`,
        `options`, `machine`) apply a gradient other than the computed one, else None."""
        applied = self.applied(configuration)
        text = not_learning(applied) if applied else None
        if text and (self.for_configuration(configuration) or {}).get("overrides", {}).get(
            AS_PUBLISHED
        ):
            return f"{text}, as published"
        return text

    def mark_wrong_gradients(self, records: Iterable[Record]) -> list[Record]:
        """`records`; those that apply wrong gradients get that as a reason and are at most suspect.
        Only the certificate can show this, not the run itself."""
        # Thousands of runs share a few configurations.
        why = cache(lambda items: self.why_not_learning(dict(items)))
        return [_marked(record, why(_configuration_of(record))) for record in records]

    def judge(self, a: Mapping[str, Any], b: Mapping[str, Any]) -> tuple[str, str]:
        """(``certified`` | ``not equal`` | ``not certified``, reason): whether two configurations
        compute the same function. Within a build, the certified pair decides; across builds, both
        must agree with the float64 reference. A failure counts on every machine, a success only on
        the machine of the certificate."""
        verdict, why = self._judge(a, b)
        for side in (a, b):
            certificate = self.for_configuration(side)
            if verdict == CERTIFIED and certificate and not _same_machine(certificate, side):
                return UNKNOWN, f"they were certified on another machine, {certificate['machine']}"
        return verdict, why

    def _judge(self, a: Mapping[str, Any], b: Mapping[str, Any]) -> tuple[str, str]:
        """As `judge`, regardless of the machine."""
        if _precision(a) != _precision(b):
            return UNKNOWN, f"one computes in {_precision(a)}, the other in {_precision(b)}"
        for side in (a, b):
            if why := self.why_not_learning(side):
                return UNEQUAL, f"{_label(side)} {why}"
        certificate, other = self.for_configuration(a), self.for_configuration(b)
        entry_a, entry_b = self.entry(a), self.entry(b)
        if differences := _differences(*_functions(a, b, entry_a, entry_b)):
            return UNEQUAL, f"{ANOTHER_FUNCTION}{differences}"
        if _label(a) == _label(b) and a["build"] == b["build"]:
            return CERTIFIED, "the same implementation in the same build"
        if certificate is None or other is None:
            return UNKNOWN, "there is no certificate for them"
        for entry, side in ((entry_a, a), (entry_b, b)):
            name = _label(side)
            if entry is None or entry["status"] == "not_run":
                why = entry.get("why") if entry else None
                return UNKNOWN, f"{name} was not certified: {why or 'it was not tried'}"
            if failure := _failure(entry):
                return UNEQUAL, f"{name} failed: {failure}"
        pair = _pair(certificate, a, b) if certificate is other else None
        if pair and not pair["equal"]:
            return UNEQUAL, _excess(pair, certificate.get("tolerance") or {})
        for side in (a, b):
            applied = self.applied(side)
            if applied is None or applied["off"] is None:
                device = side.get("device") or "its device"
                why = (applied or {}).get("why") or "it was not tried"
                steps = f"the training steps of {_label(side)} on {device}"
                return UNKNOWN, f"{steps} were not checked: {why}"
        if pair:
            return CERTIFIED, "the same function within tolerance"
        return CERTIFIED, "both agree with the float64 reference"


def _configuration_of(record: Record) -> tuple[tuple[str, Any], ...]:
    """The items of a record's configuration that a certificate depends on."""
    overrides = Overrides.of(record.run.overrides)
    return (
        *((axis, record.run.choices.get(axis, "")) for axis in NAMES),
        ("variant", overrides),
        ("options", overrides.those(lambda key: is_of_section(key, "rnn"))),
        ("machine", record.machine),
    )


def _marked(record: Record, why: str | None) -> Record:
    if why is None:
        return record
    status = "suspect" if record.verdict.status == "clean" else record.verdict.status
    reason = Reason(DOES_NOT_LEARN, why, NOT_LEARNING_REMEDY)
    verdict = Verdict(status, (*record.verdict.reasons, reason))
    return replace(record, verdict=verdict)


def _pair(certificate: Mapping[str, Any], a: Mapping[str, Any], b: Mapping[str, Any]) -> Any:
    """The certificate's comparison of two configurations, or None."""
    labels = {_label(a), _label(b)}
    return next((pair for pair in certificate["pairs"] if {pair["a"], pair["b"]} == labels), None)


def not_learning(applied: Mapping[str, Any]) -> str | None:
    """``applies wrong gradients: …`` if steps of an entry's `applied` on one device are wrong, else
    None."""
    if not applied["off"]:
        return None
    worst = "not finite"
    if applied["worst"] is not None:
        percent = 100 * applied["worst"]
        worst = f"worst {percent:.0f} %" if percent >= 10 else f"worst {percent:.2g} %"
    return (
        f"{NOT_LEARNING}: {applied['off']} of {applied['steps']} training steps "
        f"applied a gradient other than the computed one ({worst})"
    )


def _failure(entry: Mapping[str, Any]) -> str | None:
    """Why an entry's implementation does not compute the function, apart from its steps."""
    if entry["status"] == "failed" and "function_why" not in entry:
        return str(entry.get("why") or "no reason is given")
    return entry.get("function_why")


def _label(configuration: Mapping[str, Any]) -> str:
    return labelled(str(configuration["rnn"]), configuration.get("options", NONE))


def _functions(
    a: Mapping[str, Any], b: Mapping[str, Any], entry_a: Any, entry_b: Any
) -> list[dict[str, str]]:
    """The options that define the functions of two configurations: as requested, updated by what
    the worker read if it read them for both entries."""
    functions = [_requested_function(side) for side in (a, b)]
    read = [entry.get("function") for entry in (entry_a, entry_b) if entry]
    if len(read) == 2 and all(read):
        for function, options in zip(functions, read, strict=True):
            function.update({name: str(value) for name, value in options.items()})
    return functions


def _requested_function(configuration: Mapping[str, Any]) -> dict[str, str]:
    items = [
        item for name in ("options", "variant") for item in configuration.get(name, NONE).items
    ]
    requested = {option_of(key): value for key, value in items if option_of(key) in OF_THE_FUNCTION}
    activation = "relu" if configuration["cell"] == "rnn_relu" else "tanh"
    return {"activation": activation, **DEFAULT_FUNCTION, **requested}


def _differences(a: Mapping[str, str], b: Mapping[str, str]) -> str:
    return ", ".join(
        f"{name.replace('_', ' ')} {a.get(name, 'none')} instead of {b.get(name, 'none')}"
        for name in dict.fromkeys([*a, *b])
        if a.get(name) != b.get(name)
    )


def _precision(item: Mapping[str, Any]) -> str:
    """The precision of a certificate or configuration; float32 unless it or its variant names
    another one."""
    named = item.get("variant", NONE).get("precision")
    return str(item.get("precision") or named or "float32")


def _same_machine(certificate: Mapping[str, Any], configuration: Mapping[str, Any]) -> bool:
    """Whether the machines are equal or one of them is unknown."""
    machine = certificate.get("machine")
    return not machine or machine == configuration.get("machine", machine)


def _excess(pair: Mapping[str, Any], tolerance: Mapping[str, Any]) -> str:
    """The differences of a pair that exceed the tolerance, as text."""
    excess = [
        f"{name.replace('_', ' ')} differ by {pair[name]:.1g} (allowed {tolerance[name]:.1g})"
        for name in ("outputs", "gradients", "loss_curve")
        if pair.get(name) is not None and name in tolerance and pair[name] > tolerance[name]
    ]
    return f"{pair['a']} and {pair['b']}: " + (", ".join(excess) or "they were found not equal")
