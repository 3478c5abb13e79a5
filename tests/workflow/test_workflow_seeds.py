"""``experiment=seeds_small``: each of its workloads learns, end to end, on real data.

Takes about ten minutes on two cores, so it runs only with ``RNNBENCH_SLOW=1``.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rnnbench.records.store import read_record
from tests.conftest import SHARED, make_project

# Model → (metric, bound, why). The third column has the value of one run with seed 0.
LEARNS = {
    "mnist_mlp": ("val_acc", 0.90, "chance is .1; .940 was reached"),
    "mnist_cnn": ("val_acc", 0.90, "chance is .1; .960 was reached"),
    "mnist_rnn": ("val_acc", 0.85, "chance is .1; .883 was reached"),
    "imdb_fasttext": ("val_acc", 0.75, "chance is .5; .845 was reached"),
    "imdb_bilstm": ("val_acc", 0.75, "chance is .5; .814 was reached"),
    "imdb_lstm": ("val_acc", 0.75, "chance is .5; .809 was reached"),
    "lstm_textgen": ("val_acc", 0.28, "always a blank: .18; .338 was reached"),
    "shape_short": ("val_acc", 0.80, "chance is .1; .972 was reached"),
    "shape_long": ("val_acc", 0.60, "chance is .1; .938 was reached"),
    "adding": ("val_loss", 0.010, "always .5: .037 at 20 steps; .0013 was reached"),
}


@pytest.mark.skipif(
    not os.environ.get("RNNBENCH_SLOW") or not (SHARED / "data" / "mnist_10k.npz").exists(),
    reason="ten minutes: RNNBENCH_SLOW=1, and ../shared/data for the images and reviews",
)
def test_every_workload_learns(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    project.environment["RNNBENCH_DATA_MIRROR"] = str(SHARED / "data")
    overrides = "dataset=mnist_10k,imdb_from_text"
    result = project.run(project.command(experiment="seeds_small", overrides=overrides), 3600)
    assert result.returncode == 0, result.stdout + result.stderr
    records = {
        record.run.choices["model"]: record for record in map(read_record, project.records())
    }
    assert set(records) == set(LEARNS)
    for model, (metric, bound, why) in LEARNS.items():
        assert records[model].verdict.status != "void", records[model].verdict
        value = getattr(records[model].epochs[-1], metric)
        assert value <= bound if metric == "val_loss" else value >= bound, (model, value, why)
