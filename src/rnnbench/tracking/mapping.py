"""Record → MLflow params, tags and dataset. No side effects; MLflow is not imported."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from rnnbench.records.record import Record, Verdict, run_value
from rnnbench.tracking.metrics import is_number, mlflow_key

PARAM_LENGTH, TAG_LENGTH, DIGEST_LENGTH = 6000, 5000, 36
TRUNCATED = " …[truncated]"
RECORD, COMPLETE = "rnnbench.record", "rnnbench.complete"
# The facts that are tags because users filter by them. All facts are in ``facts.json``.
FACTS_AS_TAGS = (
    *("hardware.cpu", "hardware.available_cores", "hardware.gpu_models"),
    *("environment.tensorflow", "environment.torch", "environment.jax", "environment.keras"),
    *("measured.kernel.found", "measured.kernel.why_not_cudnn", "measured.precision.policy"),
    "measured.revision",
)
# Keys that describe a choice and are not hyperparameters.
NOT_A_PARAM = ("about", "requires", "source")


class DatasetInput(NamedTuple):
    """A dataset as MLflow records it; `source` is JSON in the form of `source_type`."""

    name: str
    digest: str
    source_type: str
    source: str


def params(choices: Mapping[str, str], config: Mapping[str, Any]) -> dict[str, str]:
    """The choice of every axis, then every hyperparameter of the config by its dotted key."""
    settings = {key: value for key, value in config.items() if key not in ("limits", "alias")}
    texts = {key: _text(value) for key, value in choices.items()}
    for key, value in _flat(settings):
        *parents, last = key.split(".")
        repeats_axis = last == "name" and len(parents) == 1 and parents[0] in choices
        if last not in NOT_A_PARAM and not repeats_axis:
            texts.setdefault(key, _text(value))
    return {mlflow_key(key): shortened(text, PARAM_LENGTH) for key, text in texts.items()}


def tags(record: Record) -> dict[str, str]:
    """The tags of a finished run: its identity, verdict, note, and the facts to filter by."""
    verdict = record.verdict
    values: dict[str, Any] = {
        RECORD: record.key,
        "rnnbench.machine": record.machine,
        "rnnbench.started": record.started,
        "rnnbench.experiment": record.experiment,
        "rnnbench.digest": record.run.digest,
        "mlflow.runName": record.name,
        "mlflow.source.name": "rnnbench",
        "rnnbench.verdict": verdict.status,
        "rnnbench.reasons": ", ".join(reason.code for reason in verdict.reasons),
        "rnnbench.site": record.site,
        "rnnbench.block": record.run.block,
        "rnnbench.order": record.run.order,
        "rnnbench.alias": record.run.alias,
        "rnnbench.round": record.round_id,
        "rnnbench.companion": True if record.is_companion else None,
        "dataset.md5": record.run.identity.get("dataset_md5"),
        "mlflow.note.content": note(record),
    }
    values.update((key, value) for key, value in _flat(facts(record)) if key in FACTS_AS_TAGS)
    return {
        mlflow_key(key): shortened(_text(value), TAG_LENGTH)
        for key, value in values.items()
        if value not in (None, "")
    }


def facts(record: Record) -> dict[str, Any]:
    """Hardware, environment (without its packages) and the measured values that are not numbers."""
    return {
        "hardware": record.hardware,
        "environment": {k: v for k, v in record.environment.items() if k != "packages"},
        "measured": {k: v for k, v in record.measured.items() if not is_number(v)},
    }


def note(record: Record) -> str:
    """A summary of the run in one sentence."""
    seconds = [epoch.seconds for epoch in record.epochs if is_number(epoch.seconds)]
    parts = [f"{' '.join(map(str, record.run.choices.values()))} on {record.machine}"]
    if seconds:
        parts.append(f"{run_value(seconds):.4g} s per epoch (median of {max(1, len(seconds) - 1)})")
    if record.epochs and (acc := record.epochs[-1].val_acc) is not None:
        parts.append(f"validation accuracy {acc:.4g}")
    return f"{', '.join(parts)}; {_verdict(record.verdict)}"


def dataset(record: Record) -> DatasetInput | None:
    """The run's dataset, with the md5 that DVC pins as its digest; None if it has none."""
    config = record.run.config.get("dataset") or {}
    md5 = record.run.identity.get("dataset_md5")
    if not md5 or not isinstance(config, Mapping):
        return None
    url, path = config.get("url"), config.get("path")
    source_type, source = ("http", {"url": url}) if url else ("local", {"uri": path or ""})
    name = str(config.get("name", "dataset"))
    return DatasetInput(name[:500], str(md5)[:DIGEST_LENGTH], source_type, json.dumps(source))


def shortened(text: str, length: int) -> str:
    """`text`, cut to `length` characters with a mark at the end if it is longer."""
    return text if len(text) <= length else text[: length - len(TRUNCATED)] + TRUNCATED


def _verdict(verdict: Verdict) -> str:
    reasons = "; ".join(f"{reason.text} {reason.remedy}".strip() for reason in verdict.reasons)
    return f"{verdict.status}: {reasons}" if reasons else f"{verdict.status}."


def _flat(data: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in data.items():
        dotted = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{dotted}.")
        else:
            yield dotted, value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
