"""All runs: in a table, and by configuration with their raw epochs, to which the numbers in the
tables link."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from rnnbench.grid.point import configuration_of
from rnnbench.records.record import Record, Verdict, run_value
from rnnbench.report import numbers as n
from rnnbench.report.labels import configuration_anchor, run_anchor
from rnnbench.report.parts import Column, TableView, view_of
from rnnbench.report.tables import Tables
from rnnbench.tables.cost import threads_of
from rnnbench.tables.estimates import move_named_options
from rnnbench.tables.frame import flat_text, run_facts
from rnnworker.cards import all_cards

SOFTWARE = {"tensorflow": "TensorFlow", "torch": "PyTorch", "jax": "JAX", "keras": "Keras"}
VECTORS = {"avx512f": "AVX-512", "avx2": "AVX2", "avx": "AVX"}
UNNAMED = {  # keys of a model that are no hyperparameters
    *("about", "source", "function", "data", "name", "recurrent", "arrays", "requires"),
    *("train_samples", "val_samples", "metrics"),
}
NAMED = 4  # machines, builds and devices named next to the answer
MANY = 300  # runs; if there are more, the page has a line per run and no raw epochs
Facts = Mapping[str, str]

RUN_COLUMNS = (
    Column("verdict", "verdict", number=False),
    Column("epochs", "epochs"),
    Column("s per epoch", lambda run: n.plain(run["epoch_seconds"])),
    Column("first step, s", lambda run: n.plain(run["first_step"])),
    Column("import, s", lambda run: n.plain(run["import"])),
    Column("build, s", lambda run: n.plain(run["build"])),
    Column("evaluate, s", lambda run: n.plain(run["evaluate"])),
    Column("predict, s", lambda run: n.plain(run["predict"])),
    Column("peak, MiB", lambda run: n.mebibytes(run["peak_memory_bytes"])),
    Column("loss", lambda run: n.plain(run["loss"])),
    Column("train acc", lambda run: n.share(run["acc"])),
    Column("val acc", lambda run: n.share(run["val_acc"])),
    Column("started, UTC", lambda run: n.moment(run["started"]), number=False, quiet=True),
)


def conditions(records: Sequence[Record]) -> Facts:
    """Where, with what and what the runs trained, in words: machines, builds, devices, models."""
    choices = [record.run.choices for record in records]
    devices = [each["device"] for each in choices if each.get("device")]
    devices.sort(key=lambda each: (threads_of(each) or 0, each))
    found = {
        "Machine": [(r.machine, _machine_words(r.hardware)) for r in records],
        "Software": [
            (each.get("build", ""), _build_words(record.environment))
            for each, record in zip(choices, records, strict=True)
        ],
        "Devices": [(each, _device_words(each)) for each in devices],
        "Training": _training(records),
    }
    return {kind: words for kind, named in found.items() if (words := _listed(kind, named))}


def _listed(kind: str, named: Iterable[tuple[str, str]]) -> str:
    """Each name with its words; of the only machine or build, the words alone."""
    distinct: dict[str, str] = {}
    for name, words in named:
        if name and not distinct.get(name):
            distinct[name] = words
    if len(distinct) == 1 and kind != "Devices":
        return next(iter(distinct.values()))
    texts = [f"{name}: {words}" if words else name for name, words in distinct.items()]
    return n.few(texts, NAMED)


def _machine_words(hardware: Mapping[str, Any]) -> str:
    """Unlike other fields of a record, `hardware` has no checked types: others are left out."""
    cores, cards = hardware.get("cores"), hardware.get("gpu_models")
    threads = hardware.get("threads_per_core") or 1
    words = [_processor_words(hardware)]
    if isinstance(cores, int) and isinstance(threads, int):
        words.append(n.counted(cores // threads, "core"))
    for card, count in Counter(cards if isinstance(cards, list) else ()).items():
        words.append(f"{count} × {card}" if count > 1 else str(card))
    if hardware.get("virtual"):
        words.append("virtual machine on a host that may be shared")
    return ", ".join(filter(None, words))


def _processor_words(hardware: Mapping[str, Any]) -> str:
    """The processor with its widest vector instructions and, in a virtual machine, where several
    kinds have one name, family and model: ``AMD EPYC (family 25, model 17, AVX-512)``."""
    name, flags = hardware.get("cpu"), hardware.get("flags")
    kind = str(hardware.get("processor")).split() if hardware.get("virtual") else []
    facts = [f"family {kind[1]}", f"model {kind[2]}"] if len(kind) == 3 else []
    found = [VECTORS[flag] for flag in VECTORS if isinstance(flags, list) and flag in flags]
    if not isinstance(name, str):
        return ""
    return f"{name} ({', '.join(facts + found[:1])})" if facts + found else name


def _build_words(environment: Mapping[str, Any]) -> str:
    versions = [(name, environment.get(key)) for key, name in SOFTWARE.items()]
    return ", ".join(f"{name} {version}" for name, version in versions if version)


def _device_words(device: str) -> str:
    threads = threads_of(device)
    return n.counted(threads, "thread") if threads else ""


def _training(records: Iterable[Record]) -> list[tuple[str, str]]:
    """Each model with its hyperparameters, each of these with all of its values."""
    found: dict[str, dict[str, dict[str, None]]] = {}
    for record in records:
        model = {**(record.run.config.get("model") or {})}
        if isinstance(optimizer := model.pop("optimizer", None), Mapping):
            settings = dict(optimizer)
            model |= {"optimizer": settings.pop("name", None), **settings}
        if record.epochs and record.epochs[0].samples:
            model["training samples"] = record.epochs[0].samples
        of_model = found.setdefault(record.run.choices.get("model", ""), {})
        for key, value in model.items():
            if key not in UNNAMED and (text := flat_text(value)):
                of_model.setdefault(key, {})[text] = None
    return [
        (name, ", ".join(f"{key} {' or '.join(texts)}" for key, texts in facts.items()))
        for name, facts in found.items()
    ]


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


class RawRun(NamedTuple):
    """`facts`: those that differ from the facts of its configuration; `run_id`: of MLflow."""

    record: Record
    facts: Facts
    run_id: str


class RawConfiguration(NamedTuple):
    """The runs of one configuration on one machine, by start time. `anchor`: its id on the page;
    `facts`: what they have in common, such as the dataset, the build and the code."""

    anchor: str
    name: str
    machine: str
    facts: Facts
    runs: Sequence[RawRun]


def _by_start(records: Iterable[Record]) -> list[Record]:
    return sorted(records, key=lambda record: (record.started, record.key))


def raw_configurations(m: Tables) -> list[RawConfiguration]:
    """All runs by configuration, in the order of their first starts."""
    groups: dict[tuple[str, str], list[tuple[Record, Facts]]] = {}
    for record in _by_start(m.records):
        place = configuration_of(record.name), record.machine
        groups.setdefault(place, []).append((record, _facts(record)))
    result = []
    for (name, machine), runs in groups.items():
        common = set.intersection(*(set(facts.items()) for _, facts in runs))
        shared = {key: value for key, value in runs[0][1].items() if (key, value) in common}
        raw = [
            RawRun(
                record,
                {key: value for key, value in facts.items() if key not in shared},
                m.inputs.mlflow.get(record.key, ""),
            )
            for record, facts in runs
        ]
        anchor = configuration_anchor(move_named_options(run_facts(runs[0][0]), m.reference))
        result.append(RawConfiguration(anchor, name, machine, shared, raw))
    return result


def not_clean(m: Tables) -> list[list[Record]]:
    """The runs that are not clean, those with the same verdict and reasons together; void runs
    first, then by start time."""
    groups: dict[Verdict, list[Record]] = {}
    for record in _by_start(m.records):
        if record.verdict.status != "clean":
            groups.setdefault(record.verdict, []).append(record)
    return sorted(groups.values(), key=lambda group: group[0].verdict.status != "void")


def median_epoch(record: Record) -> str:
    """The seconds of a run per epoch."""
    times = [epoch.seconds for epoch in record.epochs]
    return n.plain(run_value(times)) if times else n.NOTHING


def _facts(record: Record) -> Facts:
    """The machine, build, dataset and code of a run, and its use of the GPU."""
    identity, measured = record.run.identity, record.measured
    cards = all_cards(measured.get("card"))
    count = f"{len(cards)} × " if len(cards) > 1 else ""
    joules, watts = measured.get("joules_per_sample"), measured.get("card_watts")
    has_energy = joules is not None and watts is not None
    facts = {
        "machine": record.machine,
        "build": record.run.choices.get("build"),
        "build lock": identity.get("build_lock"),
        "dataset md5": identity.get("dataset_md5"),
        "worker code": identity.get("worker"),
        "code revision": measured.get("revision") or "not recorded",
        "GPU": f"{count}{cards[0].get('name') or ''}" if cards else "",
        "energy": f"{joules:.3g} J per sample, at {watts:.0f} W" if has_energy else "",
    }
    return {name: str(value) for name, value in facts.items() if value}
