"""Assigns runs to rounds, whose runs train in turns. No side effects."""

from __future__ import annotations

from collections.abc import Mapping

from rnnbench.grid.point import GridPoint, name_of
from rnnworker.cohorts import takes_turns

ALWAYS_COMPARED = {"rnn"}
FIXED_PER_JOB = {"device"}  # on a cluster, a job has one device


def round_of(point: GridPoint, reference: Mapping[str, str], on_cluster: bool) -> str:
    """The name of the round of `point`, made of what its runs have in common. The runs of a round
    differ only in the implementation with its options, in the axes that `reference` names, and in
    their alias. A run on a GPU or with ``measure.turns: false`` is a separate round."""
    if not takes_turns(point.config):
        return point.name
    compared = ALWAYS_COMPARED | set(reference)
    if on_cluster:
        compared -= FIXED_PER_JOB
    choices = {axis: choice for axis, choice in point.choices.items() if axis not in compared}
    sections = tuple(f"{axis}." for axis in compared)
    overrides = {
        key: value
        for key, value in point.overrides.items()
        if not key.removeprefix("~").startswith(sections)
    }
    return name_of(choices, overrides, point.seed, point.repeat, None)
