"""Do the implementations compute the same function? Certificates → tables and a judgement."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from rnnbench.records.labels import in_words, labelled, of_section
from rnnbench.records.record import Reason, Record, Verdict
from rnnbench.tables.frame import DOES_NOT_LEARN
from rnnworker.options import OF_THE_FUNCTION

if TYPE_CHECKING:
    import pandas as pd

CERTIFIED, UNEQUAL, UNKNOWN = "certified", "not equal", "not certified"
WHERE = ["model", "cell", "build", "variant"]
PLAIN = {"activation": "tanh", "recurrent_activation": "sigmoid", "use_bias": "True"}
AS_PUBLISHED = "build.as_published"
ANOTHER_FUNCTION = "not the same function: "
NOT_LEARNING = "does not learn what it computes"
NOT_LEARNING_REMEDY = (
    "trust no accuracy of this cell; on tf_1_2 run it without build.as_published, else tell us."
)


@dataclass(frozen=True)
class Certificates:
    """The certificates of an experiment (``ARCHITECTURE.md``, "Certificate")."""

    every: tuple[Mapping[str, Any], ...] = ()

    def of(self, cell: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The one for the model, cell type and build; of several, the one that shares most of
        the cell's overrides and demands no other, rather one of the cell's own machine."""
        overrides, best, most = _words(cell.get("variant", "")), None, -1
        for one in self.every:
            if _precision(one) != _precision(cell):
                continue
            if any(str(one.get(axis, "")) != str(cell[axis]) for axis in WHERE[:3]):
                continue
            needed = _words(in_words(one.get("overrides") or {}))
            worth = 2 * len(needed) + _is_of(one, cell)
            if needed <= overrides and worth > most:
                best, most = one, worth
        return best

    def entry(self, cell: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """What the cell's certificate says of its implementation, overrides of ``rnn`` included."""
        one = self.of(cell)
        return one["implementations"].get(_label(cell)) if one else None

    def applied(self, cell: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """What the certificate says of the steps that the cell applies on its device; of devices
        with overrides, the one that has most of the cell's."""
        entry = self.entry(cell) or {}
        overrides, best, most = _words(cell.get("variant", "")), None, -1
        for name, applied in (entry.get("applied") or {}).items():
            choice, _, changed = str(name).partition(" ")
            needed = _words(changed)
            if choice == cell.get("device") and needed <= overrides and len(needed) > most:
                best, most = applied, len(needed)
        return best

    def why_not_learning(self, cell: Mapping[str, Any]) -> str | None:
        """``does not learn what it computes: …`` of a cell (axes, `variant`, `options`, `machine`)
        whose steps apply another gradient than the one that they compute; None of any other."""
        applied = self.applied(cell)
        words = not_learning(applied) if applied else None
        as_published = words and (self.of(cell) or {}).get("overrides", {}).get(AS_PUBLISHED)
        return f"{words}, as published" if as_published else words

    def marked(self, records: Iterable[Record]) -> list[Record]:
        """`records`, those that do not learn what they compute with that as a reason, and none of
        these clean: a run cannot see it, its certificate does."""
        # Thousands of runs are of some cells.
        why = cache(lambda cell: self.why_not_learning(dict(cell)))
        return [_marked(record, why(_cell_of(record))) for record in records]

    def judge(self, a: Mapping[str, Any], b: Mapping[str, Any]) -> tuple[str, str]:
        """As `_judge`, but what is certified on one machine is not on another: a failure
        counts everywhere, a certificate only where it was made."""
        verdict, why = self._judge(a, b)
        for cell in (a, b):
            one = self.of(cell)
            if verdict == CERTIFIED and one is not None and not _is_of(one, cell):
                return UNKNOWN, f"they were certified on another machine, {one['machine']}"
        return verdict, why

    def _judge(self, a: Mapping[str, Any], b: Mapping[str, Any]) -> tuple[str, str]:
        """(``certified`` | ``not equal`` | ``not certified``, why) of two cells. Inside one
        build the certified pair decides; across builds, that both agree with the reference."""
        if _precision(a) != _precision(b):
            return UNKNOWN, f"one computes in {_precision(a)}, the other in {_precision(b)}"
        for cell in (a, b):
            if why := self.why_not_learning(cell):
                return UNEQUAL, f"{_label(cell)} {why}"
        one, other = self.of(a), self.of(b)
        mine, theirs = self.entry(a), self.entry(b)
        if differing := _differing(*_functions(a, b, mine, theirs)):
            return UNEQUAL, f"{ANOTHER_FUNCTION}{differing}"
        if _label(a) == _label(b) and a["build"] == b["build"]:
            return CERTIFIED, "the same implementation in the same build"
        if one is None or other is None:
            return UNKNOWN, "there is no certificate for them"
        for found, cell in ((mine, a), (theirs, b)):
            name = _label(cell)
            if found is None or found["status"] == "not_run":
                why = found.get("why") if found else None
                return UNKNOWN, f"{name} was not certified: {why or 'it was not tried'}"
            if failed := _failed(found):
                return UNEQUAL, f"{name} failed: {failed}"
        pair = _pair(one, a, b) if one is other else None
        if pair and not pair["equal"]:
            return UNEQUAL, _gap(pair, one.get("tolerance") or {})
        for cell in (a, b):
            applied = self.applied(cell)
            if applied is None or applied["off"] is None:
                where = cell.get("device") or "its device"
                why = (applied or {}).get("why") or "it was not tried"
                return UNKNOWN, (
                    f"the steps that {_label(cell)} applies on {where} were not looked at: {why}"
                )
        if pair:
            return CERTIFIED, "the same function within tolerance"
        return CERTIFIED, "both agree with the float64 reference"


def _cell_of(record: Record) -> tuple[tuple[str, str], ...]:
    """What tells a run's cell from others to a certificate: (name, value) of each."""
    return (
        *((axis, record.choices.get(axis, "")) for axis in (*WHERE[:3], "rnn", "device")),
        ("variant", in_words(record.overrides)),
        ("options", in_words(of_section(record.overrides, "rnn"))),
        ("machine", record.machine),
    )


def _marked(record: Record, why: str | None) -> Record:
    if why is None:
        return record
    status = "suspect" if record.verdict.status == "clean" else record.verdict.status
    reason = Reason(DOES_NOT_LEARN, why, NOT_LEARNING_REMEDY)
    verdict = Verdict(status, (*record.verdict.reasons, reason))
    return dataclasses.replace(record, verdict=verdict)


def _pair(one: Mapping[str, Any], a: Mapping[str, Any], b: Mapping[str, Any]) -> Any:
    """What the certificate `one` says of the pair of two cells, or None."""
    pairs = (pair for pair in one["pairs"] if {pair["a"], pair["b"]} == {_label(a), _label(b)})
    return next(pairs, None)


def not_learning(applied: Mapping[str, Any]) -> str | None:
    """What is wrong with the steps of an entry's `applied` on one device, in words, or None."""
    if not applied["off"]:
        return None
    worst = "not finite"
    if applied["worst"] is not None:
        percent = 100 * applied["worst"]
        worst = f"worst {percent:.0f} %" if percent >= 10 else f"worst {percent:.2g} %"
    return (
        f"{NOT_LEARNING}: {applied['off']} of {applied['steps']} training steps "
        f"applied another gradient ({worst})"
    )


def _failed(entry: Mapping[str, Any]) -> str | None:
    """Why an entry's implementation is not the function, whatever its steps apply."""
    if entry["status"] == "failed" and "function_why" not in entry:
        return str(entry.get("why") or "no reason is given")
    return entry.get("function_why")


def _label(cell: Mapping[str, Any]) -> str:
    return labelled(str(cell["rnn"]), str(cell.get("options") or ""))


def _words(text: Any) -> set[str]:
    return set(filter(None, str(text).split(", ")))


def _functions(
    a: Mapping[str, Any], b: Mapping[str, Any], mine: Any, theirs: Any
) -> list[dict[str, str]]:
    """The options that make the functions of two cells: as the cells have them, and where the
    worker read some for both entries `mine` and `theirs`, these as it read them."""
    asked = [_asked(cell) for cell in (a, b)]
    read = [entry.get("function") for entry in (mine, theirs) if entry]
    if len(read) == 2 and all(read):
        for one, function in zip(asked, read, strict=True):
            one.update({name: str(value) for name, value in function.items()})
    return asked


def _asked(cell: Mapping[str, Any]) -> dict[str, str]:
    words = _words(cell.get("options") or "") | _words(cell.get("variant") or "")
    pairs = sorted(word.split("=", 1) for word in words if "=" in word)
    asked = {name: value for name, value in pairs if name in OF_THE_FUNCTION}
    return {**PLAIN, "activation": "relu" if cell["cell"] == "rnn_relu" else "tanh", **asked}


def _differing(ours: Mapping[str, str], theirs: Mapping[str, str]) -> str:
    return ", ".join(
        f"{name.replace('_', ' ')} {ours.get(name, 'none')} instead of {theirs.get(name, 'none')}"
        for name in dict.fromkeys([*ours, *theirs])
        if ours.get(name) != theirs.get(name)
    )


def _precision(one: Mapping[str, Any]) -> str:
    """Of a certificate or of a cell, whose variant names it where it is not float32."""
    overrides = _words(one.get("variant", ""))
    named = dict(part.split("=", 1) for part in overrides if "=" in part)
    return str(one.get("precision") or named.get("precision") or "float32")


def _is_of(one: Mapping[str, Any], cell: Mapping[str, Any]) -> bool:
    """Whether a certificate is of the cell's machine, as far as either says."""
    return not one.get("machine") or one["machine"] == cell.get("machine", one["machine"])


def _gap(pair: Mapping[str, Any], tolerance: Mapping[str, Any]) -> str:
    """Which differences are above their tolerance, in words."""
    over = [
        f"{name.replace('_', ' ')} differ by {pair[name]:.1g} (allowed {tolerance[name]:.1g})"
        for name in ("outputs", "gradients", "loss_curve")
        if pair.get(name) is not None and name in tolerance and pair[name] > tolerance[name]
    ]
    return f"{pair['a']} and {pair['b']}: " + (", ".join(over) or "they were found not equal")


def _where(one: Mapping[str, Any]) -> dict[str, str]:
    return {
        **{axis: str(one.get(axis, "")) for axis in WHERE[:3]},
        "variant": in_words(one.get("overrides") or {}),
    }


def certified(certificates: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """One row per implementation of each certificate: `model`, `cell`, `build`, `variant`, `rnn`,
    `status`, `why`, `outputs` and `gradients` (largest relative error against the float64
    reference), `round_trip` (its weights survive the canonical file), `steps` (on each device, how
    many of the training steps that were tried applied another gradient than the one computed, and
    by how much the worst: ``cpu_1: 0 of 30 (2e-7)``), `tolerance_outputs`, `tolerance_gradients`.
    Source: the certificates."""
    import pandas as pd

    rows = [
        {
            **_where(one),
            "rnn": name,
            "status": found["status"],
            "why": found.get("why") or "",
            "outputs": found.get("outputs"),
            "gradients": found.get("gradients"),
            "round_trip": found.get("round_trip"),
            "steps": _steps(found.get("applied") or {}),
            "tolerance_outputs": (one.get("tolerance") or {}).get("outputs"),
            "tolerance_gradients": (one.get("tolerance") or {}).get("gradients"),
        }
        for one in certificates
        for name, found in one["implementations"].items()
    ]
    columns = [
        *WHERE, "rnn", "status", "why", "outputs", "gradients", "round_trip",
        "steps", "tolerance_outputs", "tolerance_gradients",
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=columns)


def _steps(applied: Mapping[str, Any]) -> str:
    return "; ".join(
        f"{device}: {one.get('why')}"
        if one["off"] is None
        else f"{device}: {one['off']} of {one['steps']}"
        + ("" if one["worst"] is None else f" ({one['worst']:.1g})")
        for device, one in applied.items()
    )


def pairs(certificates: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """One row per pair of each certificate: `model`, `cell`, `build`, `variant`, `a`, `b`,
    `outputs`, `gradients`, `loss_curve` (differences of the two), `equal`."""
    return _listed(certificates, "pairs", ["a", "b", "outputs", "gradients", "loss_curve", "equal"])


def portability(certificates: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """One row per (trained, served): `model`, `cell`, `build`, `variant`, `trained`, `served`,
    `accuracy` (share), `difference` (largest, of outputs)."""
    return _listed(certificates, "portability", ["trained", "served", "accuracy", "difference"])


def _listed(
    certificates: Iterable[Mapping[str, Any]], part: str, names: Sequence[str]
) -> pd.DataFrame:
    import pandas as pd

    rows = [
        {**_where(one), **{name: entry.get(name) for name in names}}
        for one in certificates
        for entry in one.get(part) or ()
    ]
    return pd.DataFrame(rows, columns=[*WHERE, *names])
