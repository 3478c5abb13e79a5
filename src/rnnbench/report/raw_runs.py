"""Each configuration with its runs and their raw epochs: the targets of the links in tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from rnnbench.grid.point import configuration_of
from rnnbench.records.record import Epoch, Reason, Record, run_value
from rnnbench.report import numbers as n
from rnnbench.report.anchors import configuration_anchor, run_anchor
from rnnbench.tables.frame import run_facts
from rnnbench.tables.reference import move_named_options
from rnnworker.cards import all_cards

EPOCH_HEADS = ("epoch", "s", "loss", "acc", "val loss", "val acc")
MANY = 300  # runs; if there are more, the page has a line per run and no raw epochs
NOT_RECORDED = "not recorded"
Facts = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class RawRun:
    """One run as text: `anchor`, its id on the page; `short`, its seed and repeat; `seconds` of its
    median epoch; `facts` that differ from those of its configuration; `rerun`, the command that
    measures it again; `epochs`, with the columns `EPOCH_HEADS`; `line`, a summary."""

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
class RawConfiguration:
    """The runs of one configuration on one machine, by start time. `facts`: what they have in
    common, such as the dataset, the build and the code."""

    anchor: str
    name: str
    machine: str
    facts: Facts
    runs: tuple[RawRun, ...]

    @property
    def seconds(self) -> str:
        """The median epoch of each run that is not void."""
        return ", ".join(run.seconds for run in self.runs if run.verdict != "void")


def _by_start(records: Iterable[Record]) -> list[Record]:
    """The records by start time."""
    return sorted(records, key=lambda record: (record.started, record.key))


def raw_configurations(
    records: Sequence[Record],
    mlflow: Mapping[str, str],
    whole: bool = True,
    reference: Mapping[str, str] = MappingProxyType({}),
) -> list[RawConfiguration]:
    """All runs by configuration, in the order of their first starts. `mlflow`: record key → run id.
    `whole`: with epochs. `reference`: the experiment's, which determines the anchors."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in _by_start(records):
        groups.setdefault((configuration_of(record.name), record.machine), []).append(record)
    return [
        _configuration(name, machine, runs, mlflow, whole, reference)
        for (name, machine), runs in groups.items()
    ]


def not_clean(records: Iterable[Record], mlflow: Mapping[str, str]) -> list[RawRun]:
    """The runs that are not clean, without epochs; void runs first, then by start time."""
    runs = [
        _run(record, mlflow.get(record.key, ""), (), False)
        for record in _by_start(records)
        if record.verdict.status != "clean"
    ]
    return sorted(runs, key=lambda run: run.verdict != "void")


def _configuration(
    name: str,
    machine: str,
    records: Sequence[Record],
    mlflow: Mapping[str, str],
    whole: bool,
    reference: Mapping[str, str],
) -> RawConfiguration:
    all_facts = [_facts(record) for record in records]
    shared = {
        name: value
        for name, value in all_facts[0].items()
        if all(facts.get(name) == value for facts in all_facts)
    }
    runs = tuple(
        _run(record, mlflow.get(record.key, ""), tuple(facts.items() - shared.items()), whole)
        for record, facts in zip(records, all_facts, strict=True)
    )
    anchor = configuration_anchor(move_named_options(run_facts(records[0]), reference))
    return RawConfiguration(anchor, name, machine, tuple(shared.items()), runs)


def _run(record: Record, run_id: str, different: Facts, whole: bool) -> RawRun:
    times = [epoch.seconds for epoch in record.epochs]
    seconds = n.seconds(run_value(times)) if times else n.NOTHING
    tracked = run_id or f'not tracked yet; filter: tags.`rnnbench.record` = "{record.key}"'
    facts = {
        **dict(different),
        "record": f"records/{record.key}.json",
        "MLflow run": tracked,
        "digest": record.run.digest,
    }
    short = f"s{record.run.seed}-r{record.run.repeat}"
    line = (f"{short:8}", f"{record.verdict.status:8}", f"{seconds:>8} s ", record.started, run_id)
    return RawRun(
        run_anchor(record.name, record.machine),
        record.name,
        short,
        record.verdict.status,
        record.verdict.reasons,
        n.moment(record.started),
        seconds,
        tuple(facts.items()),
        f"rnnbench retry {record.experiment} {record.name}",
        tuple(map(_epoch, record.epochs)) if whole else (),
        " ".join(line).rstrip(),
    )


def _facts(record: Record) -> dict[str, str]:
    """The machine, build, dataset and code of a run, and its use of the GPU."""
    identity = record.run.identity
    facts = {
        "machine": record.machine,
        "build": record.run.choices.get("build"),
        "build lock": identity.get("build_lock"),
        "dataset md5": identity.get("dataset_md5"),
        "worker code": identity.get("worker"),
        "code revision": record.measured.get("revision") or NOT_RECORDED,
        "GPU": _gpu(record.measured.get("card")),
        "energy": _energy(record),
    }
    return {name: str(value) for name, value in facts.items() if value}


def _gpu(card: Any) -> str:
    cards = all_cards(card)
    count = f"{len(cards)} × " if len(cards) > 1 else ""
    return f"{count}{cards[0].get('name') or ''}" if cards else ""


def _energy(record: Record) -> str:
    joules, watts = (record.measured.get(name) for name in ("joules_per_sample", "card_watts"))
    if joules is None or watts is None:
        return ""
    return f"{joules:.3g} J per sample, at {watts:.0f} W"


def _epoch(epoch: Epoch) -> tuple[str, ...]:
    values = (epoch.loss, epoch.acc, epoch.val_loss, epoch.val_acc)
    return (str(epoch.epoch), f"{epoch.seconds:.4f}", *(n.plain(value, 5) for value in values))
