"""What is known of an experiment when the next of its repeats is due."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rnnbench.errors import RecordError
from rnnbench.grid.point import cell_of
from rnnbench.grid.repeats import Repeats
from rnnbench.planning.stopping_rule import stop_reason
from rnnbench.records.store import read_json
from rnnbench.running.finished_runs import measured

if TYPE_CHECKING:
    from rnnbench.running.train import Place


def why_not_needed(
    planned: Sequence[Mapping[str, Any]], place: Place, rule: Repeats, reference: str | None = None
) -> dict[str, str]:
    """Run → why it need not be measured, of those of a round that need not, by the experiment's
    `rule` and the records that this site has of it. Runs are compared within a round, so that
    either all of it is needed or nothing. `reference`: the run that the others are compared with:
    what has to be known of them is how they compare with it."""
    runs = measured(place)
    spent = sum(run.wall_seconds for run in runs.values())
    base = cell_of(reference) if reference else None
    against = {run.round: run.value for name, run in runs.items() if cell_of(name) == base}
    devices = {run["choices"].get("device") for run in planned}
    values: dict[str, list[float]] = {cell_of(run["name"]): [] for run in planned}
    for name, run in runs.items():
        if run.device in devices and run.value is not None:
            own, other = values.setdefault(cell_of(name), []), against.get(run.round)
            if run.round is None or base is None:
                own.append(run.value)
            elif other is not None:
                own.append(run.value / other)
    if base is not None and any(run.round for run in runs.values()):
        values.pop(base, None)  # it is compared with nothing
    whys = {}
    for cell in {cell_of(run["name"]) for run in planned} & set(values):
        beside = [known for other, known in values.items() if other != cell]
        why = stop_reason(rule, planned[0]["repeat"], values[cell], beside, spent)
        if why is None:
            return {}
        whys[cell] = why
    common = min(whys.values(), default="")  # the reference's, which is compared with nothing
    return {run["name"]: whys.get(cell_of(run["name"]), common) for run in planned if whys}


def rule_of(place: Place) -> Repeats | None:
    """The experiment's ``repeats``, as planned."""
    stated = read_facts(place).get("repeats")
    return Repeats(**stated) if stated else None


def read_facts(place: Place) -> Mapping[str, Any]:
    """What was planned of the experiment beside its runs; nothing where nobody says."""
    try:
        facts = read_json(place.folder / "experiment.json")
    except RecordError:
        return {}
    return facts if isinstance(facts, Mapping) else {}


def pointer_without_record(digest: str, why: str, rule: Repeats) -> dict[str, Any]:
    """What the run's pointer holds in place of a record, and the rule it was decided by."""
    return {"record": None, "digest": digest, "not_needed": why, "repeats": rule.as_dict()}
