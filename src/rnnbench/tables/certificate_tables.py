"""The certificates of an experiment as tables: implementations and pairs of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from rnnbench.axes import CERTIFIED_AXES
from rnnbench.records.overrides import Overrides
from rnnbench.sources.certificates import ERRORS, Certificate, Implementation, Layers, Steps

CERTIFICATE_COLUMNS = [*CERTIFIED_AXES, "variant"]


def certified(certificates: Iterable[Certificate]) -> pd.DataFrame:
    """One row per implementation of each certificate: `model`, `cell`, `build`, `variant`, `rnn`,
    `status`, `why`, `outputs` and `gradients` (largest relative errors against the float64
    reference), `round_trip` (bool: the weights survive the canonical file), `batches` (rows of the
    tested batches: ``cpu_1: 16, 13; 16, 8``, in training and in evaluation), `steps` (for each
    device, how many of the tested training steps applied a gradient other than the computed one,
    and the largest relative error: ``cpu_1: 0 of 30 (2e-7)``), `tolerance_outputs`,
    `tolerance_gradients`. Source: the certificates."""
    rows = [
        {
            **_certificate_columns(certificate),
            "rnn": name,
            "status": entry.status,
            "why": entry.why or "",
            **{part: _largest(entry, part) for part in ("outputs", "gradients")},
            "round_trip": entry.round_trip,
            "batches": _batches(entry.probed),
            "steps": _steps(entry.applied),
            "tolerance_outputs": certificate.tolerance["outputs"],
            "tolerance_gradients": certificate.tolerance["gradients"],
        }
        for certificate in certificates
        for name, entry in certificate.implementations.items()
    ]
    columns = [
        *CERTIFICATE_COLUMNS, "rnn", "status", "why", "outputs", "gradients", "round_trip",
        "batches", "steps", "tolerance_outputs", "tolerance_gradients",
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=columns)


def pairs(certificates: Iterable[Certificate]) -> pd.DataFrame:
    """One row per pair of each certificate: `model`, `cell`, `build`, `variant`, `a`, `b`,
    `outputs`, `gradients`, `loss_curve` (differences between a and b), `equal` (bool).
    Source: the certificates."""
    columns = ["a", "b", *ERRORS, "equal"]
    rows = [
        {**_certificate_columns(certificate), **{name: getattr(pair, name) for name in columns}}
        for certificate in certificates
        for pair in certificate.pairs
    ]
    return pd.DataFrame(rows, columns=[*CERTIFICATE_COLUMNS, *columns])


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
