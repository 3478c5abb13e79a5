"""All runs: in a table, and by configuration with their raw epochs, to which the numbers in the
tables link."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from rnnbench.grid.point import configuration_of
from rnnbench.records.record import Epoch, Record, run_value
from rnnbench.report import numbers as n
from rnnbench.report.labels import configuration_anchor, run_anchor
from rnnbench.report.measurements import Measurements
from rnnbench.report.parts import Column, TableView, view_of
from rnnbench.tables.frame import run_facts
from rnnbench.tables.reference import move_named_options
from rnnworker.cards import all_cards

MANY = 300  # runs; if there are more, the page has a line per run and no raw epochs
NOT_RECORDED = "not recorded"
Facts = Mapping[str, str]

RUN_COLUMNS = (
    Column("verdict", "verdict", number=False),
    Column("epochs", "epochs"),
    Column("s per epoch", lambda run: n.seconds(run["epoch_seconds"])),
    Column("first step, s", lambda run: n.seconds(run["first_step"])),
    Column("import, s", lambda run: n.seconds(run["import"])),
    Column("build, s", lambda run: n.seconds(run["build"])),
    Column("evaluate, s", lambda run: n.seconds(run["evaluate"])),
    Column("predict, s", lambda run: n.seconds(run["predict"])),
    Column("peak, MiB", lambda run: n.mebibytes(run["peak_memory_bytes"])),
    Column("loss", lambda run: n.plain(run["loss"])),
    Column("train acc", lambda run: n.share(run["acc"])),
    Column("val acc", lambda run: n.share(run["val_acc"])),
    Column("started, UTC", lambda run: n.moment(run["started"]), number=False, quiet=True),
)


def runs_view(table: pd.DataFrame) -> TableView:
    """All runs; if there are more than `MANY`, the first `MANY` of those that are not clean."""
    title = "All runs, in order of measurement"
    if len(table) > MANY:
        title = f"Suspect and void runs (all {len(table):,} runs are in tables/runs.csv)"
        table = table[table["verdict"] != "clean"].head(MANY)
    anchors = [run_anchor(*run) for run in zip(table["name"], table["machine"], strict=True)]
    return view_of(table.assign(head_anchor=anchors), "runs", title, "run",
                   lambda run: n.marked(run["name"], run["verdict"] == "suspect"),
                   RUN_COLUMNS)  # fmt: skip


def skipped_view(skipped: Iterable[Mapping[str, str]]) -> TableView:
    """`skipped`: ``{"name", "why"}`` of configurations that cannot exist."""
    columns = [Column("why it cannot exist", "why", number=False)]
    return view_of(pd.DataFrame(list(skipped)), "skipped", "Skipped configurations",
                   "configuration", "name", columns)  # fmt: skip


def provenance_view(table: pd.DataFrame) -> TableView:
    columns = [Column("value", "value", number=False)]
    return view_of(table, "provenance", "Machines, builds, datasets", "fact", "fact", columns,
                   lambda row: f"{row['what']} {row['which']}")  # fmt: skip


@dataclass(frozen=True)
class RawRun:
    """A run as text: `facts` that differ from those of its configuration; `run_id`, of MLflow;
    `anchor`, its id on the page; `short`, its seed and repeat; `seconds` of its median epoch;
    `line`, a summary; `epochs`: number, seconds, loss, acc, val_loss, val_acc."""

    record: Record
    facts: Facts
    run_id: str = ""

    @property
    def anchor(self) -> str:
        return run_anchor(self.record.name, self.record.machine)

    @property
    def short(self) -> str:
        return f"s{self.record.run.seed}-r{self.record.run.repeat}"

    @property
    def seconds(self) -> str:
        times = [epoch.seconds for epoch in self.record.epochs]
        return n.seconds(run_value(times)) if times else n.NOTHING

    @property
    def line(self) -> str:
        status, started = self.record.verdict.status, self.record.started
        line = f"{self.short:8} {status:8} {self.seconds:>8} s  {started} {self.run_id}"
        return line.rstrip()

    @property
    def all_facts(self) -> Facts:
        key = self.record.key
        untracked = f'not tracked yet; filter: tags.`rnnbench.record` = "{key}"'
        return {
            **self.facts,
            "record": f"records/{key}.json",
            "MLflow run": self.run_id or untracked,
            "digest": self.record.run.digest,
            "measure again": f"rnnbench retry {self.record.experiment} {self.record.name}",
        }

    @property
    def epochs(self) -> list[tuple[str, ...]]:
        return list(map(_epoch, self.record.epochs))


@dataclass(frozen=True)
class RawConfiguration:
    """The runs of one configuration on one machine, by start time. `facts`: what they have in
    common, such as the dataset, the build and the code."""

    anchor: str
    name: str
    machine: str
    facts: Facts
    runs: Sequence[RawRun]

    @property
    def seconds(self) -> str:
        """The median epoch of each run that is not void."""
        return ", ".join(run.seconds for run in self.runs if run.record.verdict.status != "void")


def _by_start(records: Iterable[Record]) -> list[Record]:
    return sorted(records, key=lambda record: (record.started, record.key))


def raw_configurations(m: Measurements) -> list[RawConfiguration]:
    """All runs by configuration, in the order of their first starts."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in _by_start(m.records):
        groups.setdefault((configuration_of(record.name), record.machine), []).append(record)
    return [_configuration(*key, records, m) for key, records in groups.items()]


def not_clean(m: Measurements) -> list[RawRun]:
    """The runs that are not clean; void runs first, then by start time."""
    runs = [RawRun(r, {}) for r in _by_start(m.records) if r.verdict.status != "clean"]
    return sorted(runs, key=lambda run: run.record.verdict.status != "void")


def _configuration(
    name: str, machine: str, records: Sequence[Record], m: Measurements
) -> RawConfiguration:
    all_facts = [_facts(record) for record in records]
    shared = {
        name: value
        for name, value in all_facts[0].items()
        if all(facts.get(name) == value for facts in all_facts)
    }
    runs = [
        RawRun(
            record,
            {name: value for name, value in facts.items() if name not in shared},
            m.inputs.mlflow.get(record.key, ""),
        )
        for record, facts in zip(records, all_facts, strict=True)
    ]
    anchor = configuration_anchor(move_named_options(run_facts(records[0]), m.reference))
    return RawConfiguration(anchor, name, machine, shared, runs)


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
