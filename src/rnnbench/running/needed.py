"""What is known of an experiment when the next of its repeats is due."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rnnbench.cells.cell import cell_of
from rnnbench.cells.repeats import Repeats
from rnnbench.enough import why_enough
from rnnbench.errors import RecordError
from rnnbench.records.store import read_json, record_behind
from rnnbench.tables.stats import run_value

if TYPE_CHECKING:
    from rnnbench.running.train import Place


def why_not_needed(planned: Mapping[str, Any], place: Place, rule: Repeats) -> str | None:
    """Why this run need not be measured, by the experiment's `rule` and the records that this site
    has of it; None where it must be."""
    spent = 0.0
    cells: dict[str, list[float]] = {}
    cell, device = cell_of(planned["name"]), planned["choices"].get("device")
    for line in (place.folder / "plan.jsonl").read_text(encoding="utf-8").splitlines():
        run = json.loads(line)
        try:
            file = place.pointer(run["name"])
            pointer = read_json(file)
            if pointer["digest"] != run["digest"] or pointer["record"] is None:
                continue
            spent += float(pointer.get("wall_seconds") or 0)
            if run["choices"].get("device") != device:
                continue
            record = record_behind(place.results, file, pointer)
        except (RecordError, KeyError, TypeError):
            continue  # not measured yet, or to be measured again
        if record.verdict.status != "void" and record.epochs:
            value = run_value([epoch.seconds for epoch in record.epochs])
            cells.setdefault(cell_of(run["name"]), []).append(value)
    own = cells.pop(cell, [])
    return why_enough(rule, planned["repeat"], own, list(cells.values()), spent)


def rule_of(place: Place) -> Repeats | None:
    """The experiment's ``repeats``, as planned."""
    try:
        stated = read_json(place.folder / "experiment.json").get("repeats")
    except (RecordError, AttributeError):
        return None
    return Repeats(**stated) if stated else None


def pointer_without_record(digest: str, why: str, rule: Repeats) -> dict[str, Any]:
    """What the run's pointer holds in place of a record, and the rule it was decided by."""
    return {"record": None, "digest": digest, "not_needed": why, "repeats": rule.as_dict()}
