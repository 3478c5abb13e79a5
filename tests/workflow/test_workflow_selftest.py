"""A fake framework with known sleep times goes through the whole workflow and comes back with
those times, throughputs and speed-ups. Nothing of ours ran beside a timed phase."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pytest

from rnnbench.records.record import run_value
from rnnbench.records.store import read_record
from rnnbench.tables.stats import mean_interval
from tests.conftest import Project, make_project

EPOCH_SECONDS = {"fake_slow": 0.30, "fake_middle": 0.20, "fake_fast": 0.10}
SAMPLES = 1000
TOLERANCE = 0.02
CALLS = {"evaluate": 0.04, "predict": 0.06}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = make_project(tmp_path_factory.mktemp("selftest"))
    done = project.snakemake()
    assert done.returncode == 0, done.stdout + done.stderr
    return project


@pytest.fixture(scope="module")
def records(finished: Project):
    return [read_record(path) for path in finished.records()]


def report_table(project: Project, name: str) -> pd.DataFrame:
    return pd.read_csv(project.folder / "reports" / "selftest" / "tables" / f"{name}.csv")


def excess(measured: Sequence[float], slept: Sequence[float]) -> float:
    """The smallest relative excess of what was measured over what the fake framework read off the
    clock itself. A busy host wakes a sleeper late, which lengthens both; only what it does to a
    process between the two readings of one clock differs, and that is not in all of them."""
    return min(mine / own - 1 for mine, own in zip(measured, slept, strict=True))


def test_measured_times_are_the_known_ones(records) -> None:
    assert len(records) == 9
    for record in records:
        slept = record.phase("train").details["slept"]
        pairs = [
            ([e.seconds for e in record.epochs], slept["epoch"]),
            ([e.val_seconds for e in record.epochs], slept["validation"]),
        ]
        known = [EPOCH_SECONDS[record.choices["rnn"]], 0.03]
        for phase, seconds in CALLS.items():
            details = record.phase(phase).details
            measured = [details["first_call"], *details["calls"]]
            pairs.append((measured, details["result"]["slept"]))
            known.append(seconds)
        for (measured, own), seconds in zip(pairs, known, strict=True):
            assert min(own) >= seconds
            assert 0 <= excess(measured, own) < TOLERANCE


@pytest.mark.parametrize("wrong", [1.021, 0.98])
def test_a_harness_that_mismeasures_would_be_found(records, wrong: float) -> None:
    for record in records:
        measured = [epoch.seconds * wrong for epoch in record.epochs]
        slept = record.phase("train").details["slept"]["epoch"]
        assert not 0 <= excess(measured, slept) < TOLERANCE


def test_report_has_the_known_times_throughputs_and_speedups(finished: Project, records) -> None:
    """What the table has is what the tables' own arithmetic makes of the times slept."""
    table = report_table(finished, "time").set_index("rnn")
    for rnn in EPOCH_SECONDS:
        row = table.loc[rnn]
        seconds = slept_seconds(records, rnn)
        assert row["epoch_seconds"] == pytest.approx(seconds, rel=TOLERANCE)
        assert row["us_per_sample"] == pytest.approx(row["epoch_seconds"] / SAMPLES * 1e6)
        speedup = slept_seconds(records, "fake_slow") / seconds
        assert row["speedup"] == pytest.approx(speedup, rel=TOLERANCE)


def slept_seconds(records, rnn: str) -> float:
    """An epoch of `rnn`, by what its runs slept."""
    runs = [record for record in records if record.choices["rnn"] == rnn]
    own = [run_value(run.phase("train").details["slept"]["epoch"]) for run in runs]
    return mean_interval(own).estimate


def test_mlflow_has_every_run_with_its_axes(finished: Project, records) -> None:
    with sqlite3.connect(finished.folder / "mlflow.db") as database:
        rows = dict(
            database.execute(
                "select r.name, p.value from runs r join params p on p.run_uuid = r.run_uuid"
                " where p.key = 'rnn' and r.lifecycle_stage = 'active'"
            ).fetchall()
        )
        epochs = database.execute(
            "select count(*) from metrics where key = 'epoch_seconds'"
        ).fetchone()[0]
    assert rows == {record.name: record.choices["rnn"] for record in records}
    assert epochs == sum(len(record.epochs) for record in records)


def test_nothing_ran_beside_a_timed_phase(finished: Project, records) -> None:
    timed = [
        (phase.start, phase.end, record.name)
        for record in records
        for phase in record.phases
        if phase.timed
    ]
    assert len(timed) == 3 * len(records)
    timed.sort()
    for (_, end, one), (start, _, other) in zip(timed, timed[1:], strict=False):
        assert end <= start, f"{one} and {other} were timed at the same time"
    lines = intervals(finished.folder)
    assert {line["command"] for line in lines} == {"dataset", "train", "track", "report"}
    for line in lines:
        if line["command"] == "train":
            continue
        for start, end, name in timed:
            assert line["end"] <= start or end <= line["start"], f"{line['command']} beside {name}"


def test_order_is_the_planned_one_and_not_the_grids(finished: Project, records) -> None:
    plan = next((finished.folder / "results").glob("*/selftest/plan.jsonl"))
    planned = [json.loads(line)["name"] for line in plan.read_text().splitlines()]
    measured = [record.name for record in sorted(records, key=lambda record: record.started)]
    assert measured == planned
    blocks = [[name.rsplit("-s0", 1)[0] for name in planned[i : i + 3]] for i in (0, 3, 6)]
    assert all(sorted(block) == sorted(blocks[0]) for block in blocks)
    assert len({tuple(block) for block in blocks}) > 1, "every block has the same order"


def intervals(folder: Path) -> list[dict]:
    (file,) = (folder / "results").glob("*/intervals.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()]
