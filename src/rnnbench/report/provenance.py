"""The section on provenance: machines, builds and datasets, and the runs of each configuration with
their raw epochs, to which the numbers in the tables link."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import yaml

from rnnbench.axes import DOCUMENTATION
from rnnbench.grid.point import configuration_of
from rnnbench.records.overrides import flat
from rnnbench.records.record import Record, run_seconds
from rnnbench.report import numbers as n
from rnnbench.report.labels import configuration_anchor
from rnnbench.report.section import WORDS, RawConfiguration, RawRun, Section
from rnnbench.report.tables import Tables
from rnnbench.report.views import Column, view_of
from rnnbench.tables.estimates import columns_of_record
from rnnbench.tables.runs import provenance

MANY = 300  # runs; if there are more, the page has a line per run and no raw epochs
VALUES = 12  # of a key, shown in the configuration
NOT_SHOWN = {*DOCUMENTATION, "seed", "repeat"}  # keys, at any depth
PROVENANCE_COLUMNS = (Column("value", "value", number=False),)


def provenance_section(m: Tables, rerun: str) -> Section:
    """Machines, builds, datasets, and the runs of each configuration.

    `rerun`: the command that measures the experiment again.
    """
    words = WORDS["origin"]
    paragraphs = [words["text"]]
    if len(m.records) > MANY:
        paragraphs.append(words["lines"].format(m.experiment.name))
    table = provenance(m.records)
    table = table.assign(group=table["what"] + " " + table["which"])
    view = view_of(
        table,
        "provenance",
        "Machines, builds, datasets",
        "fact",
        "fact",
        PROVENANCE_COLUMNS,
        ["group"],
    )
    return Section(
        "origin",
        paragraphs,
        command=rerun,
        views=(view,),
        configurations=raw_configurations(m),
        configuration=configuration_text(m.by_start),
        kind="words",
    )


def configuration_text(records: Sequence[Record]) -> str:
    """The configuration of the runs as YAML, without seeds and repeats: what all of them have in
    common and, as comments, the values of each key in which they differ."""
    of_each = {}
    for record in records:
        name = configuration_of(record.name)
        if name not in of_each:
            of_each[name] = dict(flat(record.run.config))
    keys: dict[str, None] = {}
    for own in of_each.values():
        keys |= dict.fromkeys(own)

    common: dict[str, Any] = {}
    differing = []
    for key in keys:
        *above, last = key.split(".")
        if not NOT_SHOWN.isdisjoint((*above, last)):
            continue
        texts = {}
        for own in of_each.values():
            value = own.get(key)
            texts[json.dumps(value, ensure_ascii=False)] = value
        if len(texts) > 1:
            differing.append(f"# {key}: {n.few(texts, VALUES, ', ')}\n")
            continue
        section = common
        for name in above:
            section = section.setdefault(name, {})
        section[last] = value
    text: str = yaml.safe_dump(common, sort_keys=False, allow_unicode=True, width=100)
    if differing:
        text += "\n# The runs differ in:\n" + "".join(differing)
    return text


def raw_configurations(m: Tables) -> list[RawConfiguration]:
    """All runs by configuration, in the order of their first starts."""
    groups = defaultdict(list)
    for record in m.by_start:
        place = configuration_of(record.name), record.machine
        groups[place].append(record)

    result = []
    for (name, machine), records in groups.items():
        facts_of_each = [_facts(record) for record in records]
        common = {}
        for fact, value in facts_of_each[0].items():
            if all(facts.get(fact) == value for facts in facts_of_each):
                common[fact] = value

        runs = []
        for record, facts in zip(records, facts_of_each, strict=True):
            own = {fact: facts[fact] for fact in facts if fact not in common}
            runs.append(RawRun(record, own, m.inputs.mlflow.get(record.key, "")))

        row = columns_of_record(records[0], m.reference)
        result.append(
            RawConfiguration(
                anchor=configuration_anchor(row),
                name=name,
                machine=machine,
                facts=common,
                runs=runs,
                whole=len(m.records) <= MANY,
            )
        )
    return result


def median_epoch(record: Record) -> str:
    """The seconds of a run per epoch as text: the median without the first epoch, and a dash if it
    finished none."""
    times = [epoch.seconds for epoch in record.epochs]
    if not times:
        return n.NOTHING
    return n.plain(run_seconds(times))


def _facts(record: Record) -> dict[str, str]:
    """The machine, build, dataset and code of a run, and its use of the GPU, as far as known."""
    identity = record.run.identity
    measured = record.measured
    facts = {
        "machine": record.machine,
        "build": record.run.choices.get("build"),
        "build lock": identity.get("build_lock"),
        "dataset md5": identity.get("dataset_md5"),
        "worker code": identity.get("worker"),
        "code revision": measured.revision or "not recorded",
    }
    cards = measured.card_names
    if cards:
        facts["GPU"] = cards[0] if len(cards) == 1 else f"{len(cards)} × {cards[0]}"
    joules = measured.joules_per_sample
    watts = measured.card_watts
    if joules is not None and watts is not None:
        facts["energy"] = f"{joules:.3g} J per sample, at {watts:.0f} W"
    return {name: str(value) for name, value in facts.items() if value}
