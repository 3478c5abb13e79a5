"""A fake framework with known sleep times goes through the whole workflow and comes back with
those times, throughputs and speed-ups. Nothing of ours ran beside a timed phase."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from statistics import median

import pandas as pd
import pytest

from rnnbench.records.store import read_record
from tests.conftest import Project, make_project

EPOCH_SECONDS = {"fake_slow": 0.30, "fake_middle": 0.20, "fake_fast": 0.10}
SAMPLES = 1000
TOLERANCE = 0.02
WAKING = 0.002  # seconds that a sleeper may be woken late: 2.8 % of 0.03 s were seen on CI


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


def test_measured_times_are_the_known_ones(records) -> None:
    assert len(records) == 9
    for record in records:
        expected = EPOCH_SECONDS[record.choices["rnn"]]
        epochs = record.epochs
        assert median(e.seconds for e in epochs) == pytest.approx(expected, rel=TOLERANCE)
        assert median(e.val_seconds for e in epochs) == pytest.approx(
            0.03, rel=TOLERANCE, abs=WAKING
        )
        for phase, seconds in (("evaluate", 0.04), ("predict", 0.06)):
            calls = record.phase(phase).details["calls"]
            assert median(calls) == pytest.approx(seconds, rel=TOLERANCE, abs=WAKING)
        assert abs(record.measured["closure"]) < 0.01


def test_report_has_the_known_times_throughputs_and_speedups(finished: Project) -> None:
    table = report_table(finished, "time").set_index("rnn")
    for rnn, seconds in EPOCH_SECONDS.items():
        row = table.loc[rnn]
        assert row["epoch_seconds"] == pytest.approx(seconds, rel=TOLERANCE)
        assert row["us_per_sample"] == pytest.approx(seconds / SAMPLES * 1e6, rel=TOLERANCE)
        speedup = EPOCH_SECONDS["fake_slow"] / seconds
        assert row["speedup"] == pytest.approx(speedup, rel=TOLERANCE)


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
