"""The certificates as tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pandas as pd
from msgspec.structs import asdict

from rnnbench.axes import CERTIFIED_AXES, Row
from rnnbench.records.overrides import Overrides
from rnnbench.sources.certificates import PARTS, Certificate, Implementation, Layers, Steps
from rnnbench.tables.certificates import other_of

CERTIFICATE_COLUMNS = [*CERTIFIED_AXES, "variant"]


def certified(certificates: Iterable[Certificate]) -> pd.DataFrame:
    """One row per implementation of each certificate.

    Columns:

    - `model`, `cell`, `build`, `variant`, `rnn`; `status`, `why`.
    - `outputs` and `gradients`: largest relative errors against the float64 reference.
    - `round_trip` (bool: the weights survive the canonical file).
    - `batches`: rows of the tested batches, in training and in evaluation, as
      ``cpu_1: 16, 13; 16, 8``.
    - `steps`: for each device, how many of the tested training steps applied a gradient other than
      the computed one, and the largest relative error: ``cpu_1: 0 of 30 (2e-7)``.
    - `tolerance_outputs`, `tolerance_gradients`.

    Source: the certificates.
    """
    rows = []
    for certificate in certificates:
        for name, entry in certificate.implementations.items():
            rows.append(
                {
                    **_certificate_columns(certificate),
                    "rnn": name,
                    "status": entry.status,
                    "why": entry.why or _not_compared(certificate, name),
                    **{part: _largest(entry, part) for part in PARTS},
                    "round_trip": entry.round_trip,
                    "batches": _batches(entry.probed),
                    "steps": _steps(entry.applied),
                    **{f"tolerance_{part}": certificate.tolerance[part] for part in PARTS},
                }
            )
    return pd.DataFrame(rows)


def pairs(certificates: Iterable[Certificate]) -> pd.DataFrame:
    """One row per pair of each certificate.

    Columns:

    - `model`, `cell`, `build`, `variant`, `a`, `b`.
    - `outputs`, `gradients`, `loss_curve`, `first_loss`, `weights`: differences between a and b.
    - `allowed_loss_curve`: the largest difference of loss curves that is allowed.
    - `worst_array`: the array of the largest difference of weights.
    - `equal` (bool).
    - `why`: why they were not compared, or empty.

    Source: the certificates.
    """
    rows = []
    for certificate in certificates:
        for pair in certificate.pairs:
            row = _certificate_columns(certificate) | asdict(pair)
            row["allowed_loss_curve"] = pair.allowed("loss_curve", certificate.tolerance)
            del row["parts"], row["noise"]
            row["why"] = pair.not_compared or ""
            rows.append(row)
    return pd.DataFrame(rows)


def _certificate_columns(certificate: Certificate) -> Row:
    """The columns `CERTIFICATE_COLUMNS` of a certificate."""
    return {
        **{axis: getattr(certificate, axis) for axis in CERTIFIED_AXES},
        "variant": Overrides.of(certificate.overrides),
    }


def _not_compared(certificate: Certificate, name: str) -> str:
    """With what an implementation was not compared; empty if it was with everything."""
    entry = certificate.implementations[name]
    texts = []
    if entry.no_reference:
        pairs = [pair for pair in certificate.pairs if pair.equal and name in (pair.a, pair.b)]
        agreeing = ", ".join(other_of(pair, name) for pair in pairs) or "nothing"
        texts.append(f"compared with {agreeing}, no reference: {entry.no_reference}")
    if entry.draws:
        texts.append("the model draws random numbers in its outputs, which were not compared")
    return "; ".join(texts)


def _largest(entry: Implementation, part: str) -> float | None:
    """The largest error on all devices; that of an older certificate, which has no batches."""
    errors: list[float] = []
    for layers in entry.probed.values():
        for batch in layers.batches:
            error = getattr(batch, part)
            if error is not None:
                errors.append(error)
    of_all: float | None = getattr(entry, part)
    return max(errors, default=of_all)


def _batches(probed: Mapping[str, Layers]) -> str:
    """The rows of the tested batches of each device, in training and in evaluation."""
    texts = []
    for device, layers in probed.items():
        trained = [str(batch.rows) for batch in layers.batches if batch.training is True]
        evaluated = [str(batch.rows) for batch in layers.batches if batch.training is False]
        if trained or evaluated:
            texts.append(f"{device}: {', '.join(trained)}; {', '.join(evaluated)}")
        else:
            texts.append(f"{device}: {layers.why}")
    return " | ".join(texts)


def _steps(applied: Mapping[str, Steps]) -> str:
    """How many training steps applied a wrong gradient, for each device."""
    texts = []
    for device, steps in applied.items():
        if steps.off is None:
            texts.append(f"{device}: {steps.why}")
            continue
        text = f"{device}: {steps.off} of {steps.steps}"
        if steps.worst is not None:
            text += f" ({steps.worst:.1g})"
        texts.append(text)
    return "; ".join(texts)
