"""The certificates of an experiment as tables: implementations, pairs, portability of weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from rnnbench.axes import CERTIFIED_AXES
from rnnbench.records.overrides import Overrides

CERTIFICATE_COLUMNS = [*CERTIFIED_AXES, "variant"]


def _certificate_columns(certificate: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **{axis: str(certificate.get(axis, "")) for axis in CERTIFIED_AXES},
        "variant": Overrides.of(certificate.get("overrides") or {}),
    }


def certified(certificates: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """One row per implementation of each certificate: `model`, `cell`, `build`, `variant`, `rnn`,
    `status`, `why`, `outputs` and `gradients` (largest relative errors against the float64
    reference), `batches` (rows of the tested batches: ``cpu_1: 16, 13; 16, 8``, in training and in
    evaluation), `round_trip` (bool: the weights survive the canonical file), `steps` (for each
    device, how many of the tested training steps applied a gradient other than the computed one,
    and the largest relative error: ``cpu_1: 0 of 30 (2e-7)``), `tolerance_outputs`,
    `tolerance_gradients`. Source: the certificates."""
    rows = [
        {
            **_certificate_columns(certificate),
            "rnn": name,
            **{name: entry.get(name) for name in ("status", "round_trip")},
            "why": entry.get("why") or "",
            **{part: _largest(entry, part) for part in ("outputs", "gradients")},
            "batches": _batches(entry.get("probed") or {}),
            "steps": _steps(entry.get("applied") or {}),
            "tolerance_outputs": (certificate.get("tolerance") or {}).get("outputs"),
            "tolerance_gradients": (certificate.get("tolerance") or {}).get("gradients"),
        }
        for certificate in certificates
        for name, entry in certificate["implementations"].items()
    ]
    columns = [
        *CERTIFICATE_COLUMNS, "rnn", "status", "why", "outputs", "gradients", "round_trip",
        "batches", "steps", "tolerance_outputs", "tolerance_gradients",
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=columns)


def _largest(entry: Mapping[str, Any], part: str) -> float | None:
    """The largest error on all devices; that of an older certificate, which has no batches."""
    every = [
        batch for layers in (entry.get("probed") or {}).values() for batch in layers["batches"]
    ]
    errors = [batch[part] for batch in every if batch[part] is not None]
    return max(errors, default=entry.get(part))


def _batches(probed: Mapping[str, Any]) -> str:
    texts = []
    for device, layers in probed.items():
        rows = [
            ", ".join(
                str(each["rows"]) for each in layers["batches"] if each["training"] is training
            )
            for training in (True, False)
        ]
        texts.append(f"{device}: {'; '.join(rows) if any(rows) else layers['why']}")
    return " | ".join(texts)


def _steps(applied: Mapping[str, Any]) -> str:
    return "; ".join(
        f"{device}: {steps.get('why')}"
        if steps["off"] is None
        else f"{device}: {steps['off']} of {steps['steps']}"
        + ("" if steps["worst"] is None else f" ({steps['worst']:.1g})")
        for device, steps in applied.items()
    )


def pairs(certificates: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """One row per pair of each certificate: `model`, `cell`, `build`, `variant`, `a`, `b`,
    `outputs`, `gradients`, `loss_curve` (differences between a and b), `equal` (bool).
    Source: the certificates."""
    return _listed(certificates, "pairs", ["a", "b", "outputs", "gradients", "loss_curve", "equal"])


def portability(certificates: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """One row per pair of the implementation that trained the weights and the implementation that
    serves them: `model`, `cell`, `build`, `variant`, `trained`, `served`, `accuracy` (share, 0 to
    1), `difference` (largest relative difference of the
    outputs). Source: the certificates."""
    return _listed(certificates, "portability", ["trained", "served", "accuracy", "difference"])


def _listed(
    certificates: Iterable[Mapping[str, Any]], part: str, names: Sequence[str]
) -> pd.DataFrame:
    rows = [
        {**_certificate_columns(certificate), **{name: entry.get(name) for name in names}}
        for certificate in certificates
        for entry in certificate.get(part) or ()
    ]
    return pd.DataFrame(rows, columns=[*CERTIFICATE_COLUMNS, *names])
