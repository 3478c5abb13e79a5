"""Each cell down to its runs and their raw epochs: where the links of the tables lead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from rnnbench.grid.point import cell_of
from rnnbench.records.record import Epoch, Reason, Record, run_value
from rnnbench.report import numbers as n
from rnnbench.report.anchors import cell_anchor, run_anchor
from rnnbench.tables.frame import run_facts
from rnnbench.tables.reference_options import move

EPOCH_HEADS = ("epoch", "s", "loss", "acc", "val loss", "val acc")
MANY = 300  # runs: beyond, raw epochs are in tables/epochs.csv and the page has a line per run
UNTOLD = "not recorded"
Facts = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class RawRun:
    """One run as text: `anchor`, its id on the page; `short`, seed and repeat; `seconds` of its
    median epoch; `facts` of this run alone; `rerun`, the command that measures it again; `epochs`
    as `EPOCH_HEADS`; `line`, all of it in one."""

    anchor: str
    name: str
    short: str
    verdict: str
    reasons: tuple[Reason, ...]
    started: str
    seconds: str
    facts: Facts
    rerun: str
    epochs: tuple[tuple[str, ...], ...]
    line: str


@dataclass(frozen=True)
class RawCell:
    """The runs of one cell on one machine, as they were started. `facts`: what they share, the
    bytes, the build and the code they used."""

    anchor: str
    name: str
    machine: str
    facts: Facts
    runs: tuple[RawRun, ...]

    @property
    def seconds(self) -> str:
        """The median epoch of each run that counts."""
        return ", ".join(run.seconds for run in self.runs if run.verdict != "void")


def in_order(records: Iterable[Record]) -> list[Record]:
    """As they were started."""
    return sorted(records, key=lambda record: (record.started, record.key))


def raw_runs(records: Sequence[Record], mlflow: Mapping[str, str]) -> list[RawRun]:
    """All runs as they were started, without epochs. `mlflow`: record key → run id."""
    return [_run(record, mlflow.get(record.key, ""), (), False) for record in in_order(records)]


def raw_cells(
    records: Sequence[Record],
    mlflow: Mapping[str, str],
    whole: bool = True,
    reference: Mapping[str, str] = MappingProxyType({}),
) -> list[RawCell]:
    """All runs by cell, cells as they were first started. `mlflow`: record key → run id. Without
    `whole` runs come without their epochs: very many would be text that nobody sees. `reference`:
    the experiment's, which decides what a cell is called."""
    cells: dict[tuple[str, str], list[Record]] = {}
    for record in in_order(records):
        cells.setdefault((cell_of(record.name), record.machine), []).append(record)
    return [
        _cell(name, machine, runs, mlflow, whole, reference)
        for (name, machine), runs in cells.items()
    ]


def doubted(runs: Sequence[RawRun]) -> list[RawRun]:
    """The runs that are not clean, void ones first."""
    return sorted(
        (run for run in runs if run.verdict != "clean"), key=lambda r: r.verdict != "void"
    )


def _cell(
    name: str,
    machine: str,
    records: Sequence[Record],
    mlflow: Mapping[str, str],
    whole: bool,
    reference: Mapping[str, str],
) -> RawCell:
    every = [_facts(record) for record in records]
    shared = {
        fact: value
        for fact, value in every[0].items()
        if all(other.get(fact) == value for other in every)
    }
    runs = tuple(
        _run(record, mlflow.get(record.key, ""), tuple(facts.items() - shared.items()), whole)
        for record, facts in zip(records, every, strict=True)
    )
    anchor = cell_anchor(move(run_facts(records[0]), reference))
    return RawCell(anchor, name, machine, tuple(shared.items()), runs)


def _run(record: Record, run_id: str, own: Facts, whole: bool) -> RawRun:
    times = [epoch.seconds for epoch in record.epochs]
    seconds = n.seconds(run_value(times)) if times else n.NOTHING
    tracked = run_id or f'not tracked yet; filter: tags.`rnnbench.record` = "{record.key}"'
    facts = {
        **dict(own),
        "record": f"records/{record.key}.json",
        "MLflow run": tracked,
        "digest": record.digest,
    }
    end = f"s{record.seed}-r{record.repeat}"
    words = (f"{end:8}", f"{record.verdict.status:8}", f"{seconds:>8} s ", record.started, run_id)
    return RawRun(
        run_anchor(record.name, record.machine),
        record.name,
        end,
        record.verdict.status,
        record.verdict.reasons,
        n.moment(record.started),
        seconds,
        tuple(facts.items()),
        f"rnnbench retry {record.experiment} {record.name}",
        tuple(map(_epoch, record.epochs)) if whole else (),
        " ".join(words).rstrip(),
    )


def _facts(record: Record) -> dict[str, str]:
    """Which machine, build, bytes and code a run used."""
    identity = record.identity
    facts = {
        "machine": record.machine,
        "build": record.choices.get("build"),
        "build lock": identity.get("build_lock"),
        "dataset md5": identity.get("dataset_md5"),
        "worker code": identity.get("worker"),
        "code revision": record.measured.get("revision") or UNTOLD,
        "card": (record.measured.get("card") or {}).get("name"),
        "energy": _energy(record),
    }
    return {name: str(value) for name, value in facts.items() if value}


def _energy(record: Record) -> str:
    joules, watts = (record.measured.get(name) for name in ("joules_per_sample", "card_watts"))
    if joules is None or watts is None:
        return ""
    return f"{joules:.3g} J per sample, at {watts:.0f} W"


def _epoch(epoch: Epoch) -> tuple[str, ...]:
    values = (epoch.loss, epoch.acc, epoch.val_loss, epoch.val_acc)
    return (str(epoch.epoch), f"{epoch.seconds:.4f}", *(n.plain(value, 5) for value in values))
