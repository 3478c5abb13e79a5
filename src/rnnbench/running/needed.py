"""What is known of an experiment when the next of its repeats is due."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rnnbench.cells.cell import cell_of
from rnnbench.cells.repeats import Repeats
from rnnbench.enough import why_enough
from rnnbench.errors import RecordError
from rnnbench.records.store import read_json
from rnnbench.running.measured import measured

if TYPE_CHECKING:
    from rnnbench.running.train import Place


def why_not_needed(planned: Mapping[str, Any], place: Place, rule: Repeats) -> str | None:
    """Why this run need not be measured, by the experiment's `rule` and the records that this site
    has of it; None where it must be."""
    runs = measured(place)
    device = planned["choices"].get("device")
    cells: dict[str, list[float]] = {}
    for name, run in runs.items():
        if run.device == device and run.value is not None:
            cells.setdefault(cell_of(name), []).append(run.value)
    own = cells.pop(cell_of(planned["name"]), [])
    spent = sum(run.wall_seconds for run in runs.values())
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
