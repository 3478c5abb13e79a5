"""The tidy frame: all records as one table, from which every other table is made. Its order, the
value of each run, and the groups of rows."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd

from rnnbench.axes import CONFIGURATION, DEVICE_COLUMNS, GROUP, KEY, NAMES, Row
from rnnbench.records.measured import Kernel, Quantities
from rnnbench.records.overrides import NONE, Overrides, labelled, option_of, section_of
from rnnbench.records.record import Record
from rnnbench.tables.certificates import DOES_NOT_LEARN
from rnnbench.tables.effects import Effect, RunValue, effects_of, run_value
from rnnworker.options import OF_THE_FUNCTION

MEASURED = Quantities.__struct_fields__
# The columns with text, and those with float64.
RUN_TEXT = [
    "record",
    "name",
    "experiment",
    "site",
    *CONFIGURATION,
    "verdict",
    "reasons",
    "started",
    "kernel",
    "why_not_cudnn",
    "precision",
    "round",
    "value",
]
RUN_NUMBERS = [
    "seed",
    "repeat",
    "block",
    "order",
    *MEASURED,
    "not_learning",
    "companion",
    "batch",
]
LEARNT = ["loss", "acc", "val_loss", "val_acc"]
EPOCH = [
    "epoch",
    "start",
    "seconds",
    "samples",
    "steps",
    *LEARNT,
    "val_seconds",
]
ROW_NUMBERS = [*EPOCH, "timed", "first_call", "call_seconds"]
CALLS = ("evaluate", "predict")
NOT_ATTESTED = "not attested: no kernel found"
CELLS = ("lstm", "gru", "gru_reset_before", "rnn_tanh", "rnn_relu")
COUNTED = [*CONFIGURATION, "runs", "suspect"]  # the configuration; numbers of runs
OWN_DEVICE = ["model", *DEVICE_COLUMNS]  # what the spread is pooled over
Key = tuple[Any, ...]  # the values of `KEY` or of other columns
Rows = Mapping[str, np.ndarray]  # column → its values
Groups = dict[Key, Rows]


def tidy(records: Iterable[Record]) -> pd.DataFrame:
    """One row per timed epoch, one per phase, and one for the run as a whole.

    Columns of the run (the same in all its rows):

    - `record`: ``MACHINE/NAME/STARTED``, unique; `name`, `experiment`, `site`, `machine`, `seed`,
      `repeat`, `block`, `order` (position in the planned order), `started` (UTC).
    - the axes (`axes.AXES`): the choices, ``""`` if the run has no such axis; `alias` (``""`` for
      none).
    - `options`: the overrides of the section ``rnn`` (`Overrides`). `rnn` and `options` together
      identify the implementation.
    - `implementation`: the displayed name: `rnn`, those `options` that select how the function is
      computed, and the alias.
    - `variant`: all other overrides, which change the function or its training (`Overrides`, shown
      as ``batch=64, units=512``), and those of ``rnn.options`` that change the function.
    - `verdict`: clean, suspect or void; `reasons`: texts, joined by ``; ``.
    - `peak_memory_bytes`, `parameters` (their number), `joules_per_sample` (per training sample,
      validation included) and `card_watts` of the GPU, `flops_per_sample` (of the matrix products
      with which a step trains one sample) and `timesteps` (of the longest sequence); missing if not
      measured.
    - `kernel` (kernels found in a training step, ``""`` if none is attested), `why_not_cudnn`
      (a tuple of reasons).
    - `precision`: the requested precision of the computation (``float32``, ``tf32``, …).
    - `not_learning`: 1 if the certificate shows that the training steps apply a gradient other than
      the computed one (``Certificates.mark_wrong_gradients``), else 0.
    - `round`: the round in which the run trained in turns with others (``""`` if it trained on its
      own); `value`: its `RunValue`, or None; `companion`: 1 if the run only serves ratios with the
      others of its round, else 0. A companion has epoch rows only.
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
    runs = []
    rows = []
    counts = []
    for record in records:
        effect = effects.get(record.key, Effect())
        rows_of_run = _rows_of(record)
        runs.append(run_facts(record) | {"value": run_value(record, effect)})
        rows += rows_of_run
        counts.append(len(rows_of_run))
    # Building one row per run and repeating it is faster than building all rows.
    run_frame = _columns(runs, RUN_TEXT, RUN_NUMBERS)
    repeated = run_frame.loc[run_frame.index.repeat(counts)].reset_index(drop=True)
    return pd.concat([repeated, _columns(rows, ["phase"], ROW_NUMBERS)], axis=1)


def _columns(rows: Sequence[Row], text: list[str], numbers: list[str]) -> pd.DataFrame:
    """`rows` as a frame, in which absent keys are missing.

    - `text`: the columns whose values are kept.
    - `numbers`: the columns that become float64.
    """
    frame = pd.DataFrame(rows, columns=text + numbers)
    for name in numbers:
        frame[name] = pd.to_numeric(frame[name]).astype("float64")
    return frame


def _rows_of(record: Record) -> list[Row]:
    """The rows of a record: of the run, its phases and its epochs; of a companion, its epochs."""
    rows: list[Row] = []
    if not record.is_companion:
        rows.append({"phase": "run", "seconds": record.measured.wall_seconds})
        for phase in record.phases:
            details = phase.details
            row = {
                "phase": phase.name,
                "start": phase.start,
                "seconds": phase.took,
                "timed": phase.timed,
                "samples": details.samples,
                "first_call": details.first_call,
            }
            if details.calls:
                row["call_seconds"] = statistics.median(details.calls)
            rows.append(row)
    for epoch in record.epochs:
        row = {name: getattr(epoch, name) for name in EPOCH}
        row["phase"] = "epoch"
        row["timed"] = True
        rows.append(row)
    return rows


def flat_text(facts: Any) -> str:
    """A nested value of a record as one line of text."""
    if facts is None:
        return ""
    if isinstance(facts, Mapping):
        texts = [f"{key}: {flat_text(value)}" for key, value in facts.items()]
        return "; ".join(texts)
    if isinstance(facts, (list, tuple)):
        return ", ".join(map(flat_text, facts))
    return str(facts)


def run_facts(record: Record) -> Row:
    """The run columns of the tidy frame, except `value`, which follows from other records of its
    round too."""
    run = record.run
    overrides = Overrides.of(run.overrides)
    options = overrides.those(lambda key: section_of(key) == "rnn")
    others = overrides.those(lambda key: section_of(key) != "rnn")
    function = _function_options(record)
    variant = Overrides.of(dict(others.items) | function)
    methods = options.those(lambda key: key not in function)
    alias = run.alias or ""
    reasons = record.verdict.reasons
    sections = run.sections
    return {
        "record": record.key,
        "name": record.name,
        "experiment": record.experiment,
        "site": record.site,
        "machine": record.machine,
        "started": record.started,
        "seed": run.seed,
        "repeat": run.repeat,
        "block": run.block,
        "order": run.order,
        **{axis: run.choices.get(axis, "") for axis in NAMES},
        "variant": variant,
        "options": options,
        "alias": alias,
        "implementation": implementation_of(run.choices.get("rnn", ""), alias, methods),
        "verdict": record.verdict.status,
        "reasons": "; ".join(reason.text for reason in reasons),
        **{name: getattr(record.measured, name) for name in MEASURED},
        **_kernel(record.measured.kernel),
        "precision": sections.precision,
        "not_learning": any(reason.code == DOES_NOT_LEARN for reason in reasons),
        "round": record.round.id if record.round.in_turns else "",
        "companion": record.is_companion,
        "batch": sections.model.batch,
    }


def implementation_of(rnn: str, alias: str, options: Overrides = NONE) -> str:
    """The displayed name of an implementation: its `rnn`, its `options`, and its `alias` (``""``
    for none)."""
    name = labelled(rnn, options)
    if alias:
        return f"{name} as {alias}"
    return name


def _function_options(record: Record) -> dict[str, Any]:
    """Dotted key → value of the ``rnn.options`` that change the function, from the overrides and
    from the file of the choice."""
    requested = {}
    for name, value in (record.run.sections.rnn.options or {}).items():
        requested[f"rnn.options.{name}"] = value
    requested.update(record.run.overrides)
    function = {}
    for key, value in requested.items():
        if option_of(key) in OF_THE_FUNCTION:
            function[key] = value
    return function


def _kernel(kernel: Kernel) -> Row:
    """The kernel columns."""
    found = ", ".join(kernel.found)
    if not found and kernel.expected:
        found = NOT_ATTESTED
    return {"kernel": found, "why_not_cudnn": kernel.why_not_cudnn}


def usable_epochs(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of timed epochs of runs that are neither void nor companions; `frame` is tidy."""
    usable = (frame["phase"] == "epoch") & (frame["verdict"] != "void")
    return frame[usable & (frame["companion"] != 1)]


def counted(epochs: pd.DataFrame) -> pd.DataFrame:
    """The rows of `epochs` whose seconds enter the value of a run (``records.record.run_seconds``).

    These are all but its first epoch, unless it is the only one.
    """
    is_only = epochs.groupby("record", sort=False)["epoch"].transform("count") == 1
    return epochs[is_only | (epochs["epoch"] > 1)]


def phase_of(frame: pd.DataFrame, name: str, columns: list[str]) -> pd.DataFrame:
    """The `columns` of a phase of each run, by record.

    - `frame`: the tidy frame.
    - `name`: of the phase; ``epoch`` for the last epoch.
    """
    rows = frame.loc[frame["phase"] == name, ["record", *columns]].set_index("record")
    keep: Literal["first", "last"] = "last" if name == "epoch" else "first"
    return rows[~rows.index.duplicated(keep)]


def run_values(frame: pd.DataFrame, companions: bool = False) -> pd.DataFrame:
    """One row per run that is not void and has a timed epoch, in the order of `frame`, with or
    without `companions` (which only serve ratios).

    Columns:

    - those of the run, with `suspect`, `not_learning` and `companion` as bool.
    - `value`: its `RunValue`; of it `seconds`, `block` and `in_turns`.
    - `epochs` (their number), `steps` and `samples` (per epoch).
    - `loss`, `acc`, `val_loss`, `val_acc` of the last epoch.
    - `evaluate`, `predict`: seconds of the median later call, missing if not measured.
    """
    epochs = frame[(frame["phase"] == "epoch") & frame["value"].notna()]
    by_run = epochs.groupby("record", sort=False)
    # Not .last(), which would use an earlier epoch if the last loss is missing.
    values = phase_of(epochs, "epoch", RUN_TEXT[1:] + RUN_NUMBERS + LEARNT)
    for name in ("companion", "not_learning"):
        values[name] = values[name] == 1
    values["suspect"] = values["verdict"] == "suspect"
    for name, kind in (("seconds", float), ("block", object), ("in_turns", bool)):
        of_values = [getattr(value, name) for value in values["value"]]
        values[name] = pd.Series(of_values, values.index, kind)
    values["epochs"] = by_run["epoch"].count()
    values[["steps", "samples"]] = by_run[["steps", "samples"]].median()
    for call in CALLS:
        # Reindexed, because a table without rows would take over the rows that are assigned to it.
        of_call = phase_of(frame, call, ["call_seconds"])["call_seconds"]
        values[call] = of_call.reindex(values.index)
    if not companions:
        return values[~values["companion"]].reset_index()
    # Without configurations that have companions only.
    alone = values.groupby(CONFIGURATION, sort=False)["companion"].transform("all").astype(bool)
    return values[~alone].reset_index()


def runs_for_estimates(values: pd.DataFrame) -> list[RunValue]:
    """The `value` of each row of `run_values` with companions, as a run of the configurations of
    `values`: its key is the values of `KEY`."""
    keys = values[KEY].itertuples(index=False, name=None)
    devices = values[OWN_DEVICE].itertuples(index=False, name=None)
    runs = []
    for value, key, device in zip(values["value"], keys, devices, strict=True):
        runs.append(value._replace(key=key, device=device))
    return runs


def columns_of(key: Key) -> Row:
    """The columns `KEY` of a configuration."""
    return dict(zip(KEY, key, strict=True))


def varying(table: pd.DataFrame, columns: Iterable[str]) -> list[str]:
    """Those of the `columns` in which the rows of `table` differ."""
    return [name for name in columns if table[name].nunique() > 1]


def identified(key: Key, runs: Rows) -> Row:
    """The columns `COUNTED` of a configuration, and its implementation.

    - `key`: the values of `KEY`.
    - `runs`: its rows of `run_values`.
    """
    return {
        **columns_of(key),
        "implementation": runs["implementation"][0],
        "runs": len(runs["suspect"]),
        "suspect": int(runs["suspect"].sum()),
    }


def split(table: pd.DataFrame, by: Sequence[str], columns: Iterable[str] = ()) -> Groups:
    """Values of `by` → the rows of that group as arrays. Groups and rows keep the order of `table`.

    Intended for many small groups, for each of which pandas would build a frame of all columns.

    - `by`: the columns that define a group.
    - `columns`: those of the result; all if empty.
    """
    if table.empty:
        return {}
    numbers = table.groupby(list(by), sort=False, dropna=False).ngroup().to_numpy()
    order = np.argsort(numbers, kind="stable")
    stops = np.flatnonzero(np.diff(numbers[order])) + 1
    firsts = order[np.concatenate([[0], stops])]
    keys = table[list(by)].iloc[firsts].itertuples(index=False, name=None)
    parts = {}
    for name in columns or table.columns:
        values = table[name].to_numpy()[order]
        parts[name] = np.split(values, stops)
    groups: Groups = {}
    for index, key in enumerate(keys):
        groups[key] = {name: part[index] for name, part in parts.items()}
    return groups


def ranked(frame: pd.DataFrame) -> pd.DataFrame:
    """The tidy frame sorted by device, machine, group and implementation; tables made from it keep
    this order, and the rows of a run keep theirs.

    Text is in natural order (``cpu_2`` before ``cpu_16``), except for RNN cells, which begin with
    the LSTM. Implementations are ordered by their median epoch time relative to the others on the
    same device; those without a time come last.
    """
    values = run_values(frame)
    place = values.groupby(["model", "variant", "device", "machine"])
    relative = values["seconds"] / place["seconds"].transform("median")
    typical = relative.groupby(values["implementation"]).median()

    def key(column: pd.Series) -> pd.Series:
        if column.name == "implementation":
            return column.map(typical)  # those without a time come last
        if column.name == "cell":
            others = len(CELLS)  # come last
            return column.map({name: number for number, name in enumerate(CELLS)}).fillna(others)
        return column.map({name: _natural(str(name)) for name in column.unique()})

    by = DEVICE_COLUMNS + GROUP + ["implementation"]
    return frame.sort_values(
        by,
        key=key,
        kind="stable",
        ignore_index=True,
    )


def _natural(text: str) -> tuple[tuple[int, str], ...]:
    """What sorts `text` by its numbers, and by the text between them."""
    parts = []
    for part in re.split(r"(\d+)", text):
        if part.isdecimal():
            parts.append((int(part), ""))
        else:
            parts.append((-1, part))
    return tuple(parts)
