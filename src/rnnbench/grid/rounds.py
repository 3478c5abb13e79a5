"""Which runs are measured together, in turns. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from rnnbench.grid.point import GridPoint, name_of
from rnnworker.rounds import takes_turns

ALWAYS = {"rnn"}  # implementations are compared in every experiment
OF_A_JOB = {"device"}  # on a cluster a job has one


def round_of(cell: GridPoint, reference: Mapping[str, str], on_cluster: bool) -> str:
    """The name of the round of `cell`: what its runs have in common. They differ in nothing but the
    implementation with its options, the axes that `reference` names, and their alias. A run on a
    GPU, and one with ``measure.turns: false``, is a round of its own."""
    if not takes_turns(cell.config):
        return cell.name
    apart = ALWAYS | set(reference)
    if on_cluster:
        apart -= OF_A_JOB
    choices = {axis: choice for axis, choice in cell.choices.items() if axis not in apart}
    sections = tuple(f"{axis}." for axis in apart)
    overrides = {
        key: value
        for key, value in cell.overrides.items()
        if not key.removeprefix("~").startswith(sections)
    }
    return name_of(choices, overrides, cell.seed, cell.repeat, None)


def digest_of_round(digests: Mapping[str, str]) -> str:
    """Of the digests of its runs, by name."""
    return hashlib.sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest()
