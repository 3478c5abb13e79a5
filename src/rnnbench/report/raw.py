"""Each run down to its raw epochs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rnnbench.records.record import Epoch, Reason, Record
from rnnbench.report import numbers as n

EPOCH_HEADS = ("epoch", "s", "loss", "acc", "val loss", "val acc")


@dataclass(frozen=True)
class RawRun:
    """One run as text: `place` is its record's path below the results folder."""

    name: str
    verdict: str
    reasons: tuple[Reason, ...]
    place: str
    started: str
    machine: str
    epochs: tuple[tuple[str, ...], ...]


def raw_runs(records: Iterable[Record]) -> list[RawRun]:
    """All runs in the order they were started."""
    ordered = sorted(records, key=lambda record: (record.started, record.key))
    return [
        RawRun(
            record.name,
            record.verdict.status,
            record.verdict.reasons,
            f"records/{record.key}.json",
            n.moment(record.started),
            record.machine,
            tuple(map(_epoch, record.epochs)),
        )
        for record in ordered
    ]


def doubted(runs: Sequence[RawRun]) -> list[RawRun]:
    """The runs that are not clean, void ones first."""
    return sorted(
        (run for run in runs if run.verdict != "clean"), key=lambda r: r.verdict != "void"
    )


def _epoch(epoch: Epoch) -> tuple[str, ...]:
    values = (epoch.loss, epoch.acc, epoch.val_loss, epoch.val_acc)
    return (str(epoch.epoch), f"{epoch.seconds:.4f}", *(n.plain(value, 5) for value in values))
