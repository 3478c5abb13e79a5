"""``rnnbench history``: records on disk, also those that were set aside, → terminal and table."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pandas as pd
import pytest

from rnnbench.cli import main
from rnnbench.records.store import RETRIED, write_json, write_record
from tests.factory import BEGINNING, make_runs, put, replace
from tests.report.made_up import EXPERIMENT
from tests.tables.test_tables_history import at

SITE = "testbox-0123abcd"


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path / "results"


def store(results: Path, *measured: list) -> None:
    """Writes the records of each measurement, the last one as that of the present plan."""
    for records in measured:
        for record in records:
            put(results, record, site=SITE)
    folder = results / SITE / "quick"
    write_json(folder / "experiment.json", EXPERIMENT)
    (folder / "plan.jsonl").write_bytes(b"".join(each.run.line() for each in measured[-1]))


def run(results: Path, *words: str) -> int:
    return main(["history", "quick", "--site", SITE, "--results", str(results), *words])


def test_regressions_come_first_with_their_intervals(results, capsys):
    levels = {"keras": 0.5, "block": 0.4, "unrolled": 0.45, "cell": 0.5}
    later = {**levels, "block": 0.5, "unrolled": 0.3}
    newer = {"python": "3.11.2", "tensorflow": "2.22.0", "keras": "3.12.0"}
    update = {"started": BEGINNING + timedelta(days=9), "environment": newer}
    store(results, make_runs(levels, noise=0.004), make_runs(later, noise=0.004, **update))
    assert run(results) == 0
    said = capsys.readouterr().out
    lines = said.splitlines()
    assert lines[0].startswith("1: 2026-11-21 07:50:00 UTC, 12 runs, TensorFlow 2.21.0, Keras 3.12")
    assert lines[1].startswith("2: 2026-11-30 07:50:00 UTC, 12 runs, TensorFlow 2.22.0")
    assert "1.25×" in said and "1.67×" in said
    (worse, better) = (line for line in lines if " from 1 to 2: " in line)
    assert lines.index(worse) < lines.index(better)
    assert worse.startswith("Regression: `block` · cpu_1 from 1 to 2: 0.80 times (0.79 to 0.8")
    assert better.startswith("Faster: `unrolled`") and "relative to `keras`" in better
    assert "3 comparisons: even if nothing changed, about 0.15" in said
    table = pd.read_csv("reports/quick/tables/history.csv")
    assert lines[-1] == "The table: reports/quick/tables/history.csv"
    assert table["trend"].dropna().tolist().count("regression") == 1
    assert len(table) == 8 and table["measurement"].dtype == "int64"


def test_what_was_set_aside_counts(results, capsys):
    old, new = at(0, 0.4), at(3, 0.4)
    store(results, old, new)
    for record in old:
        file = results / record.path
        file.rename(file.with_suffix(RETRIED))
    assert run(results) == 0
    assert "No change is shown in 1 comparison." in capsys.readouterr().out


def test_one_round_and_one_measurement_say_what_to_do(results, capsys):
    store(results, at(0, 0.4), at(3, 0.5, repeats=1))
    assert run(results) == 0
    assert "Cannot be told: 1 comparison with a measurement without an" in capsys.readouterr().out
    store(results.parent / "other", at(0, 0.4))
    assert run(results.parent / "other") == 0
    assert "There is one measurement, and nothing to compare" in capsys.readouterr().out


def test_records_of_others_do_not_count_and_damaged_ones_are_named(results, capsys):
    store(results, at(0, 0.4), at(3, 0.4))
    foreign = [replace(record, site="elsewhere") for record in at(6, 0.1)]
    for record in foreign:
        write_record(results, record)
    damaged = results / at(0, 0.4)[0].path
    damaged.write_text("{")
    assert run(results) == 0
    said = capsys.readouterr()
    assert "3: " not in said.out and damaged.name in said.err


def test_without_results_it_says_how_to_get_some(results, capsys):
    results.mkdir()
    assert run(results) == 1
    error = capsys.readouterr().err
    assert "no site has a plan of quick" in error and "rnnbench run quick" in error
    folder = results / SITE / "quick"
    write_json(folder / "experiment.json", EXPERIMENT)
    (folder / "plan.jsonl").write_bytes(at(0, 0.4)[0].run.line())
    assert run(results) == 1
    error = capsys.readouterr().err
    assert "has no record" in error and "--config experiment=quick" in error


def test_an_experiment_without_a_reference_and_edited_code(results, capsys):
    """The heading ended after "relative to", and code that was edited looked like its commit."""
    store(results, [changed(each, revision=f"{'a' * 40}-edited") for each in at(0, 0.4)])
    facts = {"name": "quick", "title": "", "about": "", "reference": {}}
    write_json(results / SITE / "quick/experiment.json", facts)
    assert run(results) == 0
    said = capsys.readouterr().out
    assert "speed relative" not in said and f"code {'a' * 40}-edited\n" in said


def changed(record, **facts):
    return replace(record, facts={**record.facts, **facts})
