"""The tidy frame: all records as one table, from which every other table is made. Its order, the
value of each run, and the groups of rows."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from rnnbench.axes import CONFIGURATION, GROUP, NAMES
from rnnbench.records.keys import model_digest, probe_key
from rnnbench.records.overrides import NONE, Overrides, labelled, option_of, section_of
from rnnbench.records.record import Epoch, Phase, Record
from rnnbench.tables.certificates import DOES_NOT_LEARN
from rnnbench.tables.effects import effects_of, scales_of
from rnnworker.options import OF_THE_FUNCTION

MEASURED = ("peak_memory_bytes", "parameters", "joules_per_sample", "card_watts")
EPOCH = ("epoch", "start", "seconds", "samples", "steps", "loss", "acc", "val_loss", "val_acc",
         "val_seconds")  # fmt: skip
RUN_COLUMNS = [
    "record", "name", "experiment", "site", *CONFIGURATION, "seed", "repeat", "block", "order",
    "verdict", "reasons", "started", *MEASURED, "kernel", "why_not_cudnn", "probe", "config",
    "precision", "not_learning", "round", "effect", "widening", "slowed", "slow_effect",
    "slow_cycles", "cycles", "scale", "companion", "batch",
]  # fmt: skip
ROW_COLUMNS = [
    "phase", "epoch", "start", "seconds", "timed", "samples", "steps", "loss", "acc",
    "val_loss", "val_acc", "val_seconds", "first_call", "call_seconds",
]  # fmt: skip
TEXT_COLUMNS = {"record", "name", "experiment", "site", *CONFIGURATION, "verdict", "reasons",
                "started", "kernel", "why_not_cudnn", "probe", "config", "precision", "phase",
                "round"}  # fmt: skip
NOT_ATTESTED = "not attested: no kernel found"
VALUE_COLUMNS = [
    *CONFIGURATION, "name", "seed", "repeat", "order", "started", "verdict", "not_learning",
    "round", "effect", "widening", "slowed", "slow_effect", "slow_cycles", "cycles", "scale",
    "companion",
]  # fmt: skip
BLOCK_COLUMNS = ["machine", "site", "experiment", "block"]
Groups = dict[tuple[Any, ...], "Rows"]
Rows = Mapping[str, "np.ndarray"]  # column → its values
CELLS = ("lstm", "gru", "gru_reset_before", "rnn_tanh", "rnn_relu")


def tidy(records: Iterable[Record]) -> pd.DataFrame:
    """One row per timed epoch, one per phase, and one for the run as a whole.

    Columns of the run (the same in all its rows):

    - `record`: ``MACHINE/NAME/STARTED``, unique; `name`, `experiment`, `site`.
    - the axes (`axes.AXES`): the choices, ``""`` if the run has no such axis; `alias` (``""`` for
      none).
    - `options`: the overrides of the section ``rnn`` (`Overrides`). `rnn` and `options` together
      identify the implementation.
    - `implementation`: the displayed name: `rnn`, those `options` that select how the function is
      computed, and the alias.
    - `variant`: all other overrides, which change the function or its training (`Overrides`, shown
      as ``batch=64, units=512``), and those of ``rnn.options`` that change the function.
    - `machine`, `seed`, `repeat`, `block`, `order` (position in the planned order), `started`
      (UTC).
    - `verdict`: clean, suspect or void; `reasons`: texts, joined by ``; ``.
    - `peak_memory_bytes`, `parameters`; `kernel` (kernels found in a training step, ``""`` if none
      is attested), `why_not_cudnn` (reasons, joined by ``; ``; ``""`` for none).
    - `joules_per_sample`, `card_watts`: energy and power of the GPU during training including
      validation (missing if not measured).
    - `probe`, `config`: the key of the matching probe, and the digest of the model in it;
      `precision`: the requested precision of the computation (``float32``, ``tf32``, …).
    - `not_learning`: 1 if the certificate shows that the training steps apply a gradient other than
      the computed one (``Certificates.mark_wrong_gradients``), else 0.
    - `round`: the round in which the run trained in turns with others (``""`` if it trained on its
      own); `effect`: log seconds of its steps on the undisturbed machine, relative to the others of
      the round, from the turns of all of its records (missing if unknown), and the factor
      `widening` of its intervals (`effects.Effect`); `slowed`: 1 if the machine was slowed down in
      most of the round's cycles, else 0; `slow_effect`: the effect in the cycles in which it was;
      `slow_cycles`, `cycles`: the number of these, and of all cycles of the round; `scale`: what
      its seconds are multiplied by, so that the runs of a round have the ratios of their turns
      (`scales_of`); `companion`: 1 if the run only serves ratios with the others of its round, else
      0. A companion has epoch rows only.
    - `batch`: samples per batch (missing if the model does not define it).

    Columns of the row:

    - `phase`: ``epoch`` for a timed epoch, ``run`` for the whole run, else the name of the phase.
    - `epoch`: from 1; missing for phases. `start`: seconds of the host's monotonic clock.
    - `seconds`; `timed`; `samples` and `steps` (per epoch; for ``evaluate`` and ``predict``,
      `samples` per call); `loss`, `acc`, `val_loss`, `val_acc`; `val_seconds`.
    - `first_call`, `call_seconds`: seconds of the first call and median seconds of later calls.
    """
    records = list(records)
    effects = effects_of(records)
    scales = scales_of(records, effects)
    runs, rows, counts = [], [], []
    for record in records:
        record_rows = [*map(_epoch_row, record.epochs)]
        if not record.is_companion:
            record_rows = [_run_row(record), *map(_phase_row, record.phases), *record_rows]
        effect = effects.get(record.key)
        derived = {
            "effect": effect.log if effect else None,
            "widening": effect.widening if effect else 1.0,
            "slowed": effect is not None and effect.slowed,
            "slow_effect": effect.slow_log if effect else None,
            "slow_cycles": effect.slow_cycles if effect else 0,
            "cycles": effect.cycles if effect else 0,
            "scale": scales.get(record.key, 1.0),
        }
        runs.append({**run_facts(record), **derived})
        rows += record_rows
        counts.append(len(record_rows))
    # Building one row per run and repeating it is faster than building all rows.
    run_frame = _columns(runs, RUN_COLUMNS)
    repeated = run_frame.loc[run_frame.index.repeat(counts)].reset_index(drop=True)
    return pd.concat([repeated, _columns(rows, ROW_COLUMNS)], axis=1)


def _columns(rows: list[dict[str, Any]], names: list[str]) -> pd.DataFrame:
    """`rows` as a frame: `TEXT_COLUMNS`, and float64 for the others; absent keys are missing."""
    frame = pd.DataFrame({name: [row.get(name) for row in rows] for name in names})
    for name in names:
        if name not in TEXT_COLUMNS:
            frame[name] = pd.to_numeric(frame[name]).astype("float64")
    return frame


def flat_text(facts: Any) -> str:
    """A nested value of a record as one line of text."""
    if isinstance(facts, Mapping):
        return "; ".join(f"{key}: {flat_text(value)}" for key, value in facts.items())
    if isinstance(facts, (list, tuple)):
        return ", ".join(flat_text(value) for value in facts)
    return "" if facts is None else str(facts)


def run_facts(record: Record) -> dict[str, Any]:
    """The run columns of the tidy frame (`RUN_COLUMNS`), except those that follow from
    other records of its round."""
    choices, alias = record.run.choices, record.run.alias or ""
    overrides, function = Overrides.of(record.run.overrides), _function_options(record)
    options = overrides.those(lambda key: section_of(key) == "rnn")
    others = overrides.those(lambda key: section_of(key) != "rnn")
    methods = options.those(lambda key: key not in function)
    return {
        "record": record.key,
        "name": record.name,
        "experiment": record.experiment,
        "site": record.site,
        **{axis: choices.get(axis, "") for axis in NAMES},
        "variant": Overrides.of({**dict(others.items), **function}),
        "options": options,
        "alias": alias,
        "implementation": implementation_of(choices.get("rnn", ""), alias, methods),
        "machine": record.machine,
        "seed": record.run.seed,
        "repeat": record.run.repeat,
        "block": record.run.block,
        "order": record.run.order,
        "verdict": record.verdict.status,
        "reasons": "; ".join(reason.text for reason in record.verdict.reasons),
        "started": record.started,
        **{name: record.measured.get(name) for name in MEASURED},
        **_kernel(record.measured.get("kernel")),
        "probe": probe_key(choices, record.run.overrides),
        "config": model_digest(record.run.config),
        "precision": record.run.config.get("precision") or "float32",
        "not_learning": any(reason.code == DOES_NOT_LEARN for reason in record.verdict.reasons),
        **_round(record),
        "batch": _batch(record),
    }


def _batch(record: Record) -> Any:
    model = record.run.config.get("model")
    return model.get("batch") if isinstance(model, Mapping) else None


def _round(record: Record) -> dict[str, Any]:
    return {
        "round": record.round.id if record.round and record.round.in_turns else "",
        "companion": record.is_companion,
    }


def implementation_of(rnn: str, alias: str, options: Overrides = NONE) -> str:
    """The displayed name of an implementation: its `rnn`, its `options`, and its `alias` (``""``
    for none)."""
    name = labelled(rnn, options)
    return f"{name} as {alias}" if alias else name


def _function_options(record: Record) -> dict[str, Any]:
    """Dotted key → value of the ``rnn.options`` that change the function, from the overrides and
    from the file of the choice."""
    rnn = record.run.config.get("rnn")
    defaults = (rnn.get("options") if isinstance(rnn, Mapping) else None) or {}
    options = {f"rnn.options.{name}": value for name, value in defaults.items()}
    return {
        key: value
        for key, value in {**options, **record.run.overrides}.items()
        if option_of(key) in OF_THE_FUNCTION
    }


def _kernel(kernel: Any) -> dict[str, str]:
    """The kernel columns, from ``measured.kernel`` (``docs/formats.md``, "Record")."""
    if not (isinstance(kernel, Mapping) and "found" in kernel):
        return {"kernel": flat_text(kernel), "why_not_cudnn": ""}
    fallback = NOT_ATTESTED if kernel.get("expected") else ""
    return {
        "kernel": flat_text(kernel["found"]) or fallback,
        "why_not_cudnn": "; ".join(map(str, kernel.get("why_not_cudnn") or ())),
    }


def _run_row(record: Record) -> dict[str, Any]:
    return {"phase": "run", "seconds": record.measured.get("wall_seconds")}


def _phase_row(phase: Phase) -> dict[str, Any]:
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


def _epoch_row(epoch: Epoch) -> dict[str, Any]:
    return {"phase": "epoch", "timed": True, **{name: getattr(epoch, name) for name in EPOCH}}


def usable_epochs(frame: pd.DataFrame, companions: bool = False) -> pd.DataFrame:
    """The rows of timed epochs of runs that are not void, with or without `companions`."""
    usable = (frame["phase"] == "epoch") & (frame["verdict"] != "void")
    return frame[usable if companions else usable & (frame["companion"] != 1)]


def counted(epochs: pd.DataFrame) -> pd.DataFrame:
    """The rows of `epochs` whose seconds enter the value of a run (``records.record.run_value``):
    all but its first epoch, unless it is the only one."""
    is_only = epochs.groupby("record", sort=False)["epoch"].transform("count") == 1
    return epochs[is_only | (epochs["epoch"] > 1)]


def run_values(frame: pd.DataFrame, companions: bool = False) -> pd.DataFrame:
    """One row per run that is not void and has a timed epoch, in the order of `frame`, with or
    without `companions` (which only serve ratios).

    Columns: `record` and the run columns of the tidy frame; `seconds` (median of its `counted`
    epochs times its `scale`), `epochs` (their number), `steps` and `samples` (per epoch); `loss`,
    `acc`, `val_loss`, `val_acc` of the last epoch; `evaluate`, `predict` (seconds of the median
    later call, missing if
    not measured); `suspect` (bool); `not_learning` (bool: its certificate shows that its training
    steps apply a gradient other than the computed one); `effect` (log seconds relative to the
    others of its round, missing if unknown), `slowed` (bool: while the machine was slowed down),
    `widening`, `slow_effect`, `slow_cycles`, `cycles` (as in the tidy frame) and `companion`
    (bool); `block`
    (text): machine, site, experiment and number of the block, as blocks with the same number in
    different experiments were measured at different times; `pairing`: its round if it has an
    `effect`, else its block. Runs of two configurations are paired by `pairing`.
    """
    epochs = usable_epochs(frame, companions=True)
    by_run = epochs.groupby("record", sort=False)
    values = by_run[VALUE_COLUMNS].first()
    parts = by_run[BLOCK_COLUMNS].first().astype({"block": "Int64"}).astype(str)
    values["block"] = parts[BLOCK_COLUMNS[0]].str.cat(parts[BLOCK_COLUMNS[1:]], sep="/")
    values["pairing"] = values["round"].where(values["effect"].notna(), values["block"])
    values["companion"] = values["companion"] == 1
    values["slowed"] = values["slowed"] == 1
    median = counted(epochs).groupby("record", sort=False)["seconds"].median()
    values["seconds"] = median * values["scale"]
    values["epochs"] = by_run["epoch"].count()
    values[["steps", "samples"]] = by_run[["steps", "samples"]].median()
    # Not .last(), which would use an earlier epoch if the last loss is missing.
    last = epochs.loc[~epochs["record"].duplicated(keep="last")].set_index("record")
    for name in ("loss", "acc", "val_loss", "val_acc"):
        values[name] = last[name]
    for phase in ("evaluate", "predict"):
        rows = frame[frame["phase"] == phase].drop_duplicates("record").set_index("record")
        values[phase] = rows["call_seconds"].reindex(values.index)
    values["suspect"] = values["verdict"] == "suspect"
    values["not_learning"] = values["not_learning"] == 1
    if not companions:
        return values[~values["companion"]].reset_index()
    # Without companions that serve no ratio, and without configurations that have no other runs.
    values = values[~values["companion"] | values["effect"].notna()]
    alone = values.groupby(CONFIGURATION, sort=False)["companion"].transform("all").astype(bool)
    return values[~alone].reset_index()


def counts(runs: Rows) -> dict[str, Any]:
    """The columns `implementation`, `runs` and `suspect` (numbers of runs) of a configuration."""
    suspect = runs["suspect"]
    return {
        "implementation": runs["implementation"][0],
        "runs": len(suspect),
        "suspect": int(suspect.sum()),
    }


def split(table: pd.DataFrame, by: Sequence[str], columns: Sequence[str]) -> Groups:
    """Values of `by` → the rows of that group as arrays of `columns`. Groups and rows keep the
    order of `table`.

    Intended for many small groups, for each of which pandas would build a frame of all columns.
    """
    if table.empty:
        return {}
    numbers = table.groupby(list(by), sort=False, dropna=False).ngroup().to_numpy()
    order = np.argsort(numbers, kind="stable")
    ends = np.flatnonzero(np.diff(numbers[order])) + 1
    firsts = order[np.concatenate([[0], ends])]
    keys = zip(*(table[name].to_numpy()[firsts].tolist() for name in by), strict=True)
    parts = {name: np.split(table[name].to_numpy()[order], ends) for name in columns}
    return {key: {name: parts[name][index] for name in columns} for index, key in enumerate(keys)}


def ranked(frame: pd.DataFrame) -> pd.DataFrame:
    """The tidy frame sorted by device, machine, group and implementation; tables made from it keep
    this order, and the rows of a run keep theirs.

    Text is in natural order (``cpu_2`` before ``cpu_16``), except for RNN cells, which begin with
    the LSTM. Implementations are ordered by their median epoch time relative to the others on the
    same device; those without a time come last.
    """
    values = run_values(frame)
    typical = values.groupby(["model", "variant", "device", "machine"])["seconds"].transform(
        "median"
    )
    relative = (values["seconds"] / typical).groupby(values["implementation"]).median().to_dict()

    def key(column: pd.Series) -> pd.Series:
        if column.name == "implementation":
            return column.map(lambda name: relative.get(name, float("inf")))
        if column.name == "cell":
            return column.map(lambda name: CELLS.index(name) if name in CELLS else len(CELLS))
        return column.map({name: _natural(str(name)) for name in column.unique()})

    by = ["device", "machine", *GROUP, "implementation"]
    return frame.sort_values(by, key=key, kind="stable", ignore_index=True)


def _natural(text: str) -> tuple[Any, ...]:
    return tuple((int(part), "") if part.isdigit() else (-1, part)
                 for part in re.split(r"(\d+)", text))  # fmt: skip
