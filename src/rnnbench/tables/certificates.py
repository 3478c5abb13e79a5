"""Do the implementations compute the same function? Certificates → tables and a judgement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rnnbench.tables.frame import variant_of

if TYPE_CHECKING:
    import pandas as pd

CERTIFIED, UNEQUAL, UNKNOWN = "certified", "not equal", "not certified"
WHERE = ["model", "cell", "build", "variant"]


@dataclass(frozen=True)
class Certificates:
    """The certificates of an experiment (``ARCHITECTURE.md``, "Certificate")."""

    every: tuple[Mapping[str, Any], ...] = ()

    def of(self, cell: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The one for the model, cell type and build; of several, the one that shares most of
        the cell's overrides and demands no other, rather one of the cell's own machine."""
        overrides = set(filter(None, str(cell.get("variant", "")).split(", ")))
        best, most = None, -1
        for one in self.every:
            if _precision(one) != _precision(cell):
                continue
            if any(str(one.get(axis, "")) != str(cell[axis]) for axis in WHERE[:3]):
                continue
            needed = set(filter(None, variant_of(one.get("overrides") or {}).split(", ")))
            worth = 2 * len(needed) + _is_of(one, cell)
            if needed <= overrides and worth > most:
                best, most = one, worth
        return best

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
        if a["rnn"] == b["rnn"] and a["build"] == b["build"]:
            return CERTIFIED, "the same implementation in the same build"
        one, other = self.of(a), self.of(b)
        if one is None or other is None:
            return UNKNOWN, "there is no certificate for them"
        for certificate, cell in ((one, a), (other, b)):
            found = certificate["implementations"].get(cell["rnn"])
            if found is None or found["status"] == "not_run":
                why = found.get("why") if found else None
                return UNKNOWN, f"{cell['rnn']} was not certified: {why or 'it was not tried'}"
            if found["status"] != "certified":
                return UNEQUAL, f"{cell['rnn']} failed: {found.get('why') or 'no reason is given'}"
        if one is not other:
            return CERTIFIED, "both agree with the float64 reference"
        for pair in one["pairs"]:
            if {pair["a"], pair["b"]} == {a["rnn"], b["rnn"]}:
                if pair["equal"]:
                    return CERTIFIED, "the same function within tolerance"
                return UNEQUAL, _gap(pair, one.get("tolerance") or {})
        return CERTIFIED, "both agree with the float64 reference"


def _precision(one: Mapping[str, Any]) -> str:
    """Of a certificate or of a cell, whose variant names it where it is not float32."""
    overrides = filter(None, str(one.get("variant", "")).split(", "))
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
        "variant": variant_of(one.get("overrides") or {}),
    }


def certified(certificates: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """One row per implementation of each certificate: `model`, `cell`, `build`, `variant`, `rnn`,
    `status`, `why`, `outputs` and `gradients` (largest relative error against the float64
    reference), `round_trip` (its weights survive the canonical file), `tolerance_outputs`,
    `tolerance_gradients`. Source: the certificates."""
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
            "tolerance_outputs": (one.get("tolerance") or {}).get("outputs"),
            "tolerance_gradients": (one.get("tolerance") or {}).get("gradients"),
        }
        for one in certificates
        for name, found in one["implementations"].items()
    ]
    columns = [
        *WHERE, "rnn", "status", "why", "outputs", "gradients", "round_trip",
        "tolerance_outputs", "tolerance_gradients",
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=columns)


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
