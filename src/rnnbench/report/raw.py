"""Each run down to its raw epochs, or, of very many runs, each cell down to its runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rnnbench.records.record import Epoch, Reason, Record
from rnnbench.report import numbers as n
from rnnbench.tables.stats import run_value

EPOCH_HEADS = ("epoch", "s", "loss", "acc", "val loss", "val acc")
MANY = 300  # runs: beyond, raw epochs are in tables/epochs.csv and the page has a line per run


@dataclass(frozen=True)
class RawRun:
    """One run as text: `place` is its record's path below the results folder; `facts` say
    which bytes, build and code it used; `rerun` is the command that measures it again."""

    name: str
    verdict: str
    reasons: tuple[Reason, ...]
    place: str
    started: str
    machine: str
    facts: tuple[tuple[str, str], ...]
    rerun: str
    epochs: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class RawCell:
    """The runs of one cell on one machine, one line of text each."""

    name: str
    machine: str
    runs: tuple[str, ...]


def in_order(records: Iterable[Record]) -> list[Record]:
    """As they were started."""
    return sorted(records, key=lambda record: (record.started, record.key))


def raw_runs(records: Sequence[Record]) -> list[RawRun]:
    """All runs as they were started."""
    return [
        RawRun(
            record.name,
            record.verdict.status,
            record.verdict.reasons,
            f"records/{record.key}.json",
            n.moment(record.started),
            record.machine,
            _facts(record),
            f"rnnbench retry {record.experiment} {record.name}",
            tuple(map(_epoch, record.epochs)),
        )
        for record in in_order(records)
    ]


def raw_cells(records: Sequence[Record]) -> list[RawCell]:
    """All runs by cell: seed and repeat, verdict, median epoch, when, and the record's file."""
    cells: dict[tuple[str, str], list[str]] = {}
    for record in in_order(records):
        end = f"-s{record.seed}-r{record.repeat}"
        times = [epoch.seconds for epoch in record.epochs]
        seconds = n.seconds(run_value(times)) if times else n.NOTHING
        line = f"{end[1:]:8} {record.verdict.status:8} {seconds:>8} s  {record.started}"
        cells.setdefault((record.name.removesuffix(end), record.machine), []).append(line)
    return [RawCell(name, machine, tuple(lines)) for (name, machine), lines in cells.items()]


def doubted(runs: Sequence[RawRun]) -> list[RawRun]:
    """The runs that are not clean, void ones first."""
    return sorted(
        (run for run in runs if run.verdict != "clean"), key=lambda r: r.verdict != "void"
    )


def _facts(record: Record) -> tuple[tuple[str, str], ...]:
    identity = record.identity
    facts = {
        "build": record.choices.get("build"),
        "build lock": identity.get("build_lock"),
        "dataset md5": identity.get("dataset_md5"),
        "worker code": identity.get("worker"),
        "code revision": record.environment.get("revision") or record.measured.get("revision"),
        "digest": record.digest,
        "MLflow filter": f'tags.`rnnbench.record` = "{record.key}"',
    }
    return tuple((name, str(value)) for name, value in facts.items() if value)


def _epoch(epoch: Epoch) -> tuple[str, ...]:
    values = (epoch.loss, epoch.acc, epoch.val_loss, epoch.val_acc)
    return (str(epoch.epoch), f"{epoch.seconds:.4f}", *(n.plain(value, 5) for value in values))
