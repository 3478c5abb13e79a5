"""A fake framework with known sleep times: the whole workflow reports those times, throughputs and
speed-ups, and no process of the workflow runs during a turn."""

from __future__ import annotations

import itertools
import json
import math
import sqlite3
import statistics
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from rnnbench.records.record import run_seconds
from rnnbench.records.store import read_record
from rnnbench.tables.effects import examined
from rnnbench.tables.states import State
from rnnbench.tables.stats import mean_interval
from tests.conftest import Project, descendants, make_project
from tests.factory import phase_of
from tests.running.alone import outside, slept_effects, slept_in_turns

EPOCH_SECONDS = {"fake_slow": 0.30, "fake_middle": 0.20, "fake_fast": 0.10}
SAMPLES, STEPS = 1000, 20
TOLERANCE = 0.02
CALLS = {"evaluate": 0.04, "predict": 0.06}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = make_project(tmp_path_factory.mktemp("selftest"))
    project.prepare()
    with (project.folder / "out").open("wb") as out:
        process = subprocess.Popen(
            project.command(), cwd=project.folder, env=project.environment, stdout=out, stderr=out
        )
        project.commands = watched(process)  # type: ignore[attr-defined]
    assert process.returncode == 0, (project.folder / "out").read_text()
    return project


def watched(process: subprocess.Popen) -> dict[tuple[int, str], list[float]]:
    """Each command of rnnbench that the workflow starts, (pid, name), with the moments at which it
    was seen (monotonic seconds)."""
    seen: dict[tuple[int, str], list[float]] = {}
    while process.poll() is None:
        for pid, command in descendants(process.pid).items():
            if command[1:3] == ["-m", "rnnbench"]:
                seen.setdefault((pid, command[3]), []).append(time.monotonic())
        time.sleep(0.1)
    return seen


@pytest.fixture(scope="module")
def records(finished: Project):
    return [read_record(path) for path in finished.records()]


@pytest.fixture(scope="module")
def turns(finished: Project) -> list[tuple[float, float, str]]:
    """All turns of all workers: begin and end (monotonic seconds) and the run's name."""
    return sorted(
        (event["begin"], event["t"], file.parent.name)
        for file in finished.folder.glob("results/records/*/*/*.events.jsonl")
        for event in json_lines(file)
        if event["event"] == "turn"
    )


def json_lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def excess(measured: Sequence[float], slept: Sequence[float]) -> float:
    """The smallest relative excess of the `measured` seconds over those that the fake framework
    timed itself. A busy host wakes a sleeping process late, which lengthens both; a delay between
    the two readings of the clock lengthens only one, but not in all pairs."""
    return min(mine / own - 1 for mine, own in zip(measured, slept, strict=True))


def test_measured_times_are_the_slept_ones(records) -> None:
    assert len(records) == 9
    for record in records:
        slept = phase_of(record, "train").facts["slept"]
        step = EPOCH_SECONDS[record.run.choices["rnn"]] / STEPS
        assert min(took for _, took in slept["step"]) >= step
        pairs = [
            tuple(zip(*slept_in_turns(record), strict=True)),
            ([e.val_seconds for e in record.epochs], slept["validation"]),
        ]
        for phase, seconds in CALLS.items():
            details = phase_of(record, phase).facts
            measured = [details["first_call"], *details["calls"]]
            assert min(details["result"]["slept"]) >= seconds
            pairs.append((measured, details["result"]["slept"]))
        for measured, own in pairs:
            assert 0 <= excess(measured, own) < TOLERANCE
        for epoch in record.epochs:
            assert epoch.took >= EPOCH_SECONDS[record.run.choices["rnn"]]


@pytest.mark.parametrize("wrong", [1.021, 0.98])
def test_a_wrong_measurement_would_be_detected(records, wrong: float) -> None:
    for record in records:
        measured, slept = zip(*slept_in_turns(record), strict=True)
        assert not 0 <= excess([wrong * seconds for seconds in measured], slept) < TOLERANCE


def test_report_has_the_known_times_throughputs_and_speedups(finished: Project, records) -> None:
    file = finished.folder / "reports/selftest/tables/time.csv"
    table = pd.read_csv(file).set_index("rnn")
    rounds = [[r for r in records if r.run.repeat == repeat] for repeat in range(3)]
    effects = [slept_effects(members) for members in rounds]
    measured = [run_seconds([epoch.seconds for epoch in record.epochs]) for record in records]
    level = mean_interval(measured).estimate
    # Cycles that a busy host has lengthened may be left out, which only shortens them.
    assert mean_interval(table["epoch_seconds"].tolist()).estimate <= level * (1 + 1e-6)
    for rnn, known in EPOCH_SECONDS.items():
        row = table.loc[rnn]
        assert row["epoch_seconds"] >= 0.95 * known
        assert row["us_per_sample"] == pytest.approx(row["epoch_seconds"] / SAMPLES * 1e6)
        slept = statistics.mean(effect["fake_slow"] - effect[rnn] for effect in effects)
        asked = math.log(EPOCH_SECONDS["fake_slow"] / known)
        assert outside(math.log(row["speedup"]), slept, asked) < 0.05
    # A round in which the machine was slowed down is left out if there are enough others.
    quiet = sum(each.state == State.QUIET for each in examined(records))
    counted = table["method"].dropna().str.extract(r"^in turns, (\d) rounds?\b")[0].astype(int)
    assert len(counted) == 2 and counted.between(max(quiet, 1), 3).all()


def test_mlflow_has_every_run_with_its_axes(finished: Project, records) -> None:
    with sqlite3.connect(finished.folder / "mlflow.db") as database:
        rows = dict(
            database.execute(
                "select t.value, p.value from runs r join params p on p.run_uuid = r.run_uuid"
                " join tags t on t.run_uuid = r.run_uuid and t.key = 'rnnbench.record'"
                " where p.key = 'rnn' and r.lifecycle_stage = 'active'"
            ).fetchall()
        )
        names = database.execute("select name from runs")
        shown = {name.removesuffix(" †") for (name,) in names}  # suspect on a busy host
        epochs = database.execute(
            "select count(*) from metrics where key = 'epoch_seconds'"
        ).fetchone()[0]
    assert rows == {record.key: record.run.choices["rnn"] for record in records}
    assert {"selftest", "fake_fast · r0"} <= shown, "run names hold only the axes that differ"
    assert epochs == sum(len(record.epochs) for record in records)


def test_nothing_ran_during_a_turn(finished: Project, records, turns) -> None:
    assert len(turns) >= 5 * len(records)
    for (_, end, one), (start, _, other) in itertools.pairwise(turns):
        assert end <= start, f"{one} and {other} were timed at the same time"
    for record in records:
        steps = zip(record.turns["start"], record.turns["seconds"], strict=True)
        own = [(begin, end) for begin, end, name in turns if name == record.name]
        for start, seconds in steps:
            assert any(begin <= start and start + seconds <= end for begin, end in own)
    commands = finished.commands  # type: ignore[attr-defined]
    assert {"rounds", "track", "report"} <= {command for _, command in commands}
    for (_, command), moments in commands.items():
        for start, end, name in turns if command != "rounds" else ():
            assert moments[-1] <= start or end <= moments[0], f"{command} during {name}"


def test_rounds_follow_the_plan_and_each_run_has_one_turn_per_cycle(
    finished: Project, records, turns
) -> None:
    (plan,) = finished.folder.glob("results/*/selftest/plan.jsonl")
    planned = list(dict.fromkeys(line["round"] for line in json_lines(plan)))
    begun = sorted((record.started, record.round.id) for record in records)
    measured = list(dict.fromkeys(name.split("/")[1] for _, name in begun))
    assert measured == planned and len(planned) == 3
    for repeat in range(3):
        names = [name for _, _, name in turns if name.endswith(f"r{repeat}")]
        assert len(set(names[:3])) == 3, "each run has one turn in a cycle"
