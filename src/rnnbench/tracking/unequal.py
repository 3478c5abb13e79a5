"""Runs of another function than their reference's, marked in MLflow."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rnnbench.tracking.client import connected
from rnnbench.tracking.mapping import RECORD, TAG_LENGTH, shortened
from rnnbench.tracking.track import search

UNEQUAL = "rnnbench.unequal"


def mark_unequal(root: Path, experiment: str, texts: Mapping[str, str]) -> None:
    """Each run of `experiment` whose record is a key of `texts` gets the text as its tag
    ``rnnbench.unequal``; the other runs lose it. Raises a `TrackingError`."""
    with connected(root) as client:
        place = client.get_experiment_by_name(experiment)
        for run in search(client, place.experiment_id, "") if place else ():
            wanted = shortened(texts.get(run.tags.get(RECORD, ""), ""), TAG_LENGTH)
            if wanted and run.tags.get(UNEQUAL) != wanted:
                client.set_tag(run.run_id, UNEQUAL, wanted)
            elif not wanted and UNEQUAL in run.tags:
                client.delete_tag(run.run_id, UNEQUAL)
