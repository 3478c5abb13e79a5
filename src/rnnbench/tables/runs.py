"""All runs and their timed epochs, including void ones: the kernels that ran, the order of
measuring, which shows drift, and the facts of machines, builds and data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from rnnbench.axes import CONFIGURATION
from rnnbench.records.record import Record
from rnnbench.tables.effects import examined
from rnnbench.tables.frame import (
    EPOCH,
    MEASURED,
    counted,
    flat_text,
    phase_of,
    run_values,
)
from rnnbench.tables.metrics import beside, metrics_of_epochs

WHICH = ["name", *CONFIGURATION, "seed", "repeat"]  # the columns that say which run it is
COPIED = [
    *WHICH,
    "verdict",
    "reasons",
    "started",
    "block",
    "order",
]
# Integers, also where one is missing; the tidy frame has float64.
WHOLE_OF_RUNS = ("seed", "repeat", "block", "order", "peak_memory_bytes", "parameters")
WHOLE_OF_EPOCHS = ("seed", "repeat", "epoch", "samples", "steps")
MAX_POINTS = 600  # of the order of measuring, drawn per machine
PHASES = (
    "import",
    "data",
    "build",
    "first_step",
    "warmup",
    "evaluate",
    "predict",
)
ORDER_COLUMNS = [
    "place",
    "implementation",
    "device",
    "machine",
    "block",
    "planned",
    "relative",
    "suspect",
    "name",
    "together",
]
TURNS = ("cycle", "seconds", "steps", "full")
TURN_COLUMNS = [
    "record",
    "round",
    *CONFIGURATION,
    "cycle",
    "seconds",
    "steps",
    "counts",
    "state",
]
PROVENANCE_COLUMNS = ["what", "which", "fact", "value"]
PROVENANCE_ORDER = {"machine": 0, "build": 1, "dataset": 2}
# Longer values (package lists, flags) are only in the record.
MAX_LENGTH = 400


def runs(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per record, in the order of their start.

    Columns:

    - `record`, `name`, the configuration, `seed`, `repeat`.
    - `verdict`, `reasons`, `started`, `block`, `order`.
    - `epochs` (their number), `median_epoch_seconds` (of the counted epochs).
    - `import_seconds`, `data_seconds`, `build_seconds`, `first_step_seconds`, `warmup_seconds`: of
      the phases. (`build` is the axis.)
    - `evaluate_seconds`, `predict_seconds`: of the median later call, or of the whole phase if
      calls were not timed.
    - `wall_seconds`.
    - `peak_memory_bytes`, `parameters`, `joules_per_sample`, `card_watts` as in `tidy`.
    - `loss`, `acc`, `val_acc` of the last epoch.

    Source: the records.
    """
    run_rows = frame[frame["phase"] == "run"].set_index("record")
    table = run_rows[COPIED].copy()
    epochs = frame.loc[frame["phase"] == "epoch", ["record", "epoch", "seconds"]]
    table["epochs"] = epochs.groupby("record")["epoch"].count()
    table["epochs"] = table["epochs"].fillna(0).astype(int)
    table["median_epoch_seconds"] = counted(epochs).groupby("record")["seconds"].median()
    for phase in PHASES:
        rows = phase_of(frame, phase, ["call_seconds", "seconds"])
        table[f"{phase}_seconds"] = rows["call_seconds"].fillna(rows["seconds"])
    table["wall_seconds"] = run_rows["seconds"]
    table[list(MEASURED)] = run_rows[list(MEASURED)]
    learnt = ["loss", "acc", "val_acc"]
    table[learnt] = phase_of(frame, "epoch", learnt)
    table = table.reset_index().sort_values(["started", "record"], ignore_index=True)
    return table.astype(dict.fromkeys(WHOLE_OF_RUNS, "Int64"))


def epochs(frame: pd.DataFrame, records: Sequence[Record]) -> pd.DataFrame:
    """One row per timed epoch of every run, including void runs.

    Columns:

    - `record`, `name`, the configuration, `seed`, `repeat`, `verdict`.
    - `epoch` (from 1); `start`: seconds of the host's monotonic clock.
    - `epoch_seconds`, `samples`, `steps`.
    - `loss`, `acc`, `val_loss`, `val_acc`, `val_seconds`; the further metrics of the models.

    Source: the records.
    """
    table = frame.loc[frame["phase"] == "epoch", ["record"] + WHICH + ["verdict"] + EPOCH]
    table = table.rename(columns={"seconds": "epoch_seconds"})
    if table.empty:
        return table
    metrics = beside(table, metrics_of_epochs(records))
    table = table.join(metrics, on=["record", "epoch"]).reset_index(drop=True)
    return table.astype(dict.fromkeys(WHOLE_OF_EPOCHS, "Int64"))


def kernels(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per configuration and attested kernel. Empty if no record attests a kernel.

    Columns:

    - the configuration.
    - `kernel`; `why_not_cudnn` (a tuple of reasons).
    - `runs` (their number).

    Source: ``measured.kernel`` of runs that are not void.
    """
    runs = frame[frame["phase"] == "run"]
    attested = runs[(runs["verdict"] != "void") & (runs["kernel"] != "")]
    by = [*CONFIGURATION, "kernel", "why_not_cudnn"]
    return attested.groupby(by, sort=False)["record"].count().rename("runs").reset_index()


def order(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per run that is not void, in the order of the start on its machine.

    Columns:

    - `place`: 1, 2, … on its machine.
    - `implementation`, `device`, `machine`, `name`.
    - `block`: its number in the plan, as text; `planned`: position in the plan.
    - `relative`: epoch seconds / mean of the configuration; 1 = average.
    - `suspect` (bool).
    - `together`: equal for runs that trained in turns.

    Source: start times and epochs of the records.
    """
    values = run_values(frame).sort_values(["machine", "started"], ignore_index=True)
    average = values.groupby(CONFIGURATION)["seconds"].transform("mean")
    values = values.assign(
        place=values.groupby("machine").cumcount() + 1,
        relative=values["seconds"] / average,
        planned=values["order"],
        block=values["block"].str.replace(r"^.*/", "", regex=True),
        together=values["round"].where(values["round"] != "", values["record"]),
    )
    return values[ORDER_COLUMNS]


def thinned_order(table: pd.DataFrame) -> pd.DataFrame:
    """The table of `order`, thinned for plotting.

    A machine with more than `MAX_POINTS` runs is reduced to about that many rows: the medians of
    each implementation over sections of equal length.
    """
    parts = []
    for machine, runs in table.groupby("machine", sort=False):
        if len(runs) <= MAX_POINTS:
            parts.append(runs)
            continue
        sections = MAX_POINTS // runs["implementation"].nunique()
        section = (runs["place"] - 1) * sections // len(runs)
        groups = runs.groupby([section, "implementation"], sort=False)
        medians = groups.agg(
            place=("place", "median"),
            relative=("relative", "median"),
            suspect=("suspect", "any"),
        )
        medians["machine"] = machine
        parts.append(medians.reset_index(level="implementation"))
    if not parts:
        return table
    return pd.concat(parts, ignore_index=True)


def provenance(records: Iterable[Record]) -> pd.DataFrame:
    """One row per fact of a machine, a build or a dataset; one per value, if records differ.

    Columns:

    - `what` (machine, build, dataset), `which` (its name).
    - `fact`, `value` (text of at most `MAX_LENGTH` characters).

    Source: ``hardware``, ``environment`` and ``identity`` of the records.
    """
    rows: dict[tuple[str, ...], None] = {}
    for record in records:
        run = record.run
        build = run.choices.get("build", "")
        dataset = run.sections.dataset.name or run.choices.get("dataset", "")
        facts: list[tuple[str, str, str, Any]] = []
        for fact, value in record.hardware.items():
            if fact != "available_cores":  # those of its device, not of the machine
                facts.append(("machine", record.machine, fact, value))
        for fact, value in record.environment.items():
            facts.append(("build", build, fact, value))
        facts.append(("build", build, "lock", run.identity.get("build_lock")))
        facts.append(("dataset", dataset, "md5", run.identity.get("dataset_md5")))
        for what, which, fact, value in facts:
            text = flat_text(value)
            if text and len(text) <= MAX_LENGTH:
                rows[(what, which, fact, text)] = None
    ordered = sorted(rows, key=lambda row: (PROVENANCE_ORDER[row[0]], row[1]))
    return pd.DataFrame(ordered, columns=PROVENANCE_COLUMNS)


def turns(records: Sequence[Record], frame: pd.DataFrame) -> pd.DataFrame:
    """One row per turn of the rounds in turns: what every ratio is made from.

    Columns:

    - `record`, `round`, the configuration.
    - `cycle`; `seconds`, `steps`: the timed part of the turn.
    - `counts`: 1 if its cycle is compared, 0 if it was disturbed, slowed down or cut short.
    - `state` of the round: 0 quiet, 1 partly slowed, 2 slowed.

    `frame`: the tidy frame of the `records`.
    """
    configurations = frame.drop_duplicates("record").set_index("record")[CONFIGURATION]
    parts = []
    for own in examined(records):
        for key, record in own.members.items():
            part = pd.DataFrame({name: record.turns[name] for name in TURNS})
            part["counts"] = (own.counts[part["cycle"]] & part["full"]).astype(int)
            part = part.assign(**configurations.loc[key])
            part["record"] = key
            part["round"] = record.round_id
            part["state"] = int(own.state)
            parts.append(part)
    if not parts:
        return pd.DataFrame(columns=TURN_COLUMNS)
    return pd.concat(parts)[TURN_COLUMNS]
