"""Records → one tidy frame: the only thing that the other tables are made from."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rnnbench.records.labels import in_words, labelled, of_section
from rnnbench.records.probe_match import model_digest, probe_key
from rnnbench.records.record import Epoch, Phase, Record
from rnnworker.options import OF_THE_FUNCTION

if TYPE_CHECKING:
    import pandas as pd

DOES_NOT_LEARN = "not_learning"  # code of a reason that no run can know, but its certificate
# A comparison is made inside one group only; a device on one machine is a column of it.
GROUP = ["model", "cell", "build", "dataset", "variant"]
COLUMN = ["device", "machine"]
CELL = [*GROUP, "rnn", "options", "alias", "implementation", *COLUMN]

RUN_COLUMNS = [
    "record", "name", "experiment", "site", *CELL, "seed", "repeat", "block", "order",
    "verdict", "reasons", "started", "peak_memory_bytes", "parameters", "kernel",
    "why_not_cudnn", "probe", "config", "precision", "not_learning", "round", "effect",
    "companion", "batch", "joules_per_sample", "card_watts",
]  # fmt: skip
ROW_COLUMNS = [
    "phase", "epoch", "start", "seconds", "timed", "samples", "steps", "loss", "acc",
    "val_loss", "val_acc", "val_seconds", "first_call", "call_seconds",
]  # fmt: skip


def tidy(records: Iterable[Record]) -> pd.DataFrame:
    """One row per timed epoch, one per phase, and one for the run as a whole.

    Of the run (the same in all its rows):

    - `record`: ``MACHINE/NAME/STARTED``, unique; `name`, `experiment`, `site`.
    - `model`, `cell`, `rnn`, `device`, `build`, `dataset`: the choices, ``""`` where the run
      has no such axis; `alias` (``""`` for none).
    - `options`: the overrides of the section ``rnn`` in words: with `rnn`, the implementation.
    - `implementation`: what it is called: `rnn`, those of the `options` that choose how the
      function is computed, and the alias.
    - `variant`: what else makes another function or training of it (``batch=64, units=512``, and
      ``activation=relu`` of ``rnn.options``), ``""`` for the defaults.
    - `machine`, `seed`, `repeat`, `block`, `order` (place in the planned order), `started` (UTC).
    - `verdict`: clean, suspect, void; `reasons`: texts, joined by ``; ``.
    - `peak_memory_bytes`, `parameters`, `kernel` (what was found in a training step, ``""`` where
      nothing is attested), `why_not_cudnn` (reasons, ``""`` for none).
    - `joules_per_sample`, `card_watts`: energy and power of the GPU over the training with its
      validations (missing where nobody looked).
    - `probe`, `config`: which probe, and which model of it, is about this run; `precision`: what it
      was asked to compute in (``float32``, ``tf32``, …).
    - `not_learning`: 1 where its certificate says that its steps apply another gradient than the
      one that they compute (``Certificates.marked``), else 0.
    - `round`: in which it was measured in turns with others (``""``: alone); `effect`: log seconds
      of its steps against the others' (missing where nobody can say); `companion`: 1 where it was
      measured only for the others to be compared with, else 0. Of such a run there are no rows but
      those of its epochs.
    - `batch`: samples of a batch (missing where the model says none).

    Of the row:

    - `phase`: ``epoch`` for a timed epoch, ``run`` for the whole run, else the phase's name.
    - `epoch`: from 1; missing for phases. `start`: seconds of the host's monotonic clock.
    - `seconds`; `timed`; `samples` and `steps` (of an epoch; `samples` per call of
      ``evaluate`` and ``predict``); `loss`, `acc`, `val_loss`, `val_acc`; `val_seconds`.
    - `first_call`, `call_seconds`: seconds of the first and the median later call.
    """
    import pandas as pd

    runs, rows, counts = [], [], []
    for record in records:
        own = [*map(_of_epoch, record.epochs)]
        if not record.is_companion:
            own = [_of_run(record), *map(_of_phase, record.phases), *own]
        runs.append(run_facts(record))
        rows += own
        counts.append(len(own))
    # Facts of a run are made columns once per run, then repeated.
    of_run = _columns(runs, RUN_COLUMNS)
    repeated = of_run.loc[of_run.index.repeat(counts)].reset_index(drop=True)
    return pd.concat([repeated, _columns(rows, ROW_COLUMNS)], axis=1)


TEXT = {"record", "name", "experiment", "site", *CELL, "verdict", "reasons", "started", "kernel",
        "why_not_cudnn", "probe", "config", "precision", "phase", "round"}  # fmt: skip


def _columns(rows: list[dict[str, Any]], names: list[str]) -> pd.DataFrame:
    """`rows` as a frame: text, and float64 for all else, missing where a row has no such key."""
    import pandas as pd

    frame = pd.DataFrame({name: [row.get(name) for row in rows] for name in names})
    for name in names:
        if name not in TEXT:
            frame[name] = pd.to_numeric(frame[name]).astype("float64")
    return frame


def facts_in_words(facts: Any) -> str:
    """A nested fact of a record as one line of text."""
    if isinstance(facts, Mapping):
        return "; ".join(f"{key}: {facts_in_words(value)}" for key, value in facts.items())
    if isinstance(facts, (list, tuple)):
        return ", ".join(facts_in_words(value) for value in facts)
    return "" if facts is None else str(facts)


def run_facts(record: Record) -> dict[str, Any]:
    """The columns of the tidy frame that are the same in all rows of a run."""
    choices, alias = record.choices, record.alias or ""
    rnn = choices.get("rnn", "")
    options, function = of_section(record.overrides, "rnn"), _function_options(record)
    others = {key: value for key, value in record.overrides.items() if key not in options}
    ways = {key: value for key, value in options.items() if key not in function}
    return {
        "record": record.key,
        "name": record.name,
        "experiment": record.experiment,
        "site": record.site,
        "model": choices.get("model", ""),
        "cell": choices.get("cell", ""),
        "build": choices.get("build", ""),
        "dataset": choices.get("dataset", ""),
        "variant": in_words({**others, **function}),
        "rnn": rnn,
        "options": in_words(options),
        "alias": alias,
        "implementation": implementation_of(rnn, alias, in_words(ways)),
        "device": choices.get("device", ""),
        "machine": record.machine,
        "seed": record.seed,
        "repeat": record.repeat,
        "block": record.block,
        "order": record.order,
        "verdict": record.verdict.status,
        "reasons": "; ".join(reason.text for reason in record.verdict.reasons),
        "started": record.started,
        "peak_memory_bytes": record.measured.get("peak_memory_bytes"),
        "parameters": record.measured.get("parameters"),
        "joules_per_sample": record.measured.get("joules_per_sample"),
        "card_watts": record.measured.get("card_watts"),
        **_kernel(record.measured.get("kernel")),
        "probe": probe_key(choices, record.overrides),
        "config": model_digest(record.config),
        "precision": record.config.get("precision") or "float32",
        "not_learning": any(reason.code == DOES_NOT_LEARN for reason in record.verdict.reasons),
        **_round(record),
        "batch": _batch(record),
    }


def _batch(record: Record) -> Any:
    model = record.config.get("model")
    return model.get("batch") if isinstance(model, Mapping) else None


def _round(record: Record) -> dict[str, Any]:
    found = record.round or {}
    in_turns = len(found.get("members") or []) > 1
    return {
        "round": str(found.get("id", "")) if in_turns else "",
        "effect": found.get("effect"),
        "companion": record.is_companion,
    }


def implementation_of(rnn: str, alias: str, options: str = "") -> str:
    """What an implementation is called on a page: its `rnn` with its `options` in words, and its
    `alias` (``""``: none)."""
    name = labelled(rnn, options)
    return f"{name} as {alias}" if alias else name


def function_words(cell: Mapping[Any, Any]) -> list[str]:
    """The words of a cell's `variant` that ``rnn.options`` may say: another function of the layer,
    with the same certificate."""
    words = str(cell["variant"]).split(", ")
    return [word for word in words if word.partition("=")[0] in OF_THE_FUNCTION]


def _function_options(record: Record) -> dict[str, Any]:
    """``rnn.options`` that make another function, by their keys: those of the overrides, and those
    in the choice's own file."""
    rnn = record.config.get("rnn")
    own = (rnn.get("options") if isinstance(rnn, Mapping) else None) or {}
    given = {**{f"rnn.options.{name}": value for name, value in own.items()}, **record.overrides}
    return {
        key: value
        for key, value in given.items()
        if key.rpartition(".")[0] == "rnn.options" and key.rpartition(".")[2] in OF_THE_FUNCTION
    }


NOT_ATTESTED = "not attested: none was seen"


def _kernel(kernel: Any) -> dict[str, str]:
    """What ran, from ``measured.kernel`` (see ``ARCHITECTURE.md``, "Kernel")."""
    if not (isinstance(kernel, Mapping) and "found" in kernel):
        return {"kernel": facts_in_words(kernel), "why_not_cudnn": ""}
    unseen = NOT_ATTESTED if kernel.get("expected") else ""
    return {
        "kernel": facts_in_words(kernel["found"]) or unseen,
        "why_not_cudnn": facts_in_words(kernel.get("why_not_cudnn")),
    }


def _of_run(record: Record) -> dict[str, Any]:
    return {"phase": "run", "seconds": record.measured.get("wall_seconds")}


def _of_phase(phase: Phase) -> dict[str, Any]:
    calls = phase.details.get("calls") or []
    return {
        "phase": phase.name,
        "start": phase.start,
        "seconds": phase.seconds,
        "timed": phase.timed,
        "samples": phase.details.get("samples"),
        "first_call": phase.details.get("first_call"),
        "call_seconds": statistics.median(calls) if calls else None,
    }


def _of_epoch(epoch: Epoch) -> dict[str, Any]:
    return {
        "phase": "epoch",
        "epoch": epoch.epoch,
        "start": epoch.start,
        "seconds": epoch.seconds,
        "timed": True,
        "samples": epoch.samples,
        "steps": epoch.steps,
        "loss": epoch.loss,
        "acc": epoch.acc,
        "val_loss": epoch.val_loss,
        "val_acc": epoch.val_acc,
        "val_seconds": epoch.val_seconds,
    }
