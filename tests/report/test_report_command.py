"""``rnnbench report``: from pointers to a page, with missing and broken records."""

from __future__ import annotations

import pytest

from rnnbench.cli import main
from rnnbench.records.store import write_json
from tests.factory import put
from tests.report.made_up import EXPERIMENT, SKIPPED, quick


@pytest.fixture
def results(tmp_path):
    folder, records = tmp_path / "results" / "here" / "quick", quick()
    for record in records[:-2]:
        put(tmp_path / "results", record)
    (folder / f"{records[-2].name}.json").write_text("{")
    (folder / "plan.jsonl").write_bytes(b"".join(record.run.line() for record in records))
    facts = {"name": "quick", "title": EXPERIMENT.title, "about": "", "skipped": SKIPPED}
    write_json(folder / "experiment.json", {**facts, "reference": {"rnn": "keras"}})
    return tmp_path / "results"


def test_readable_runs_are_reported_and_the_others_counted(results, tmp_path, capsys):
    out = tmp_path / "out"
    arguments = ["quick", "--results", str(results), "--site", "here", "--out", str(out)]
    assert main(["report", *arguments]) == 0
    output = capsys.readouterr()
    lines = output.out.splitlines()
    assert "as fast as `keras`" in lines[0]
    assert lines[1].startswith("Measured within 3 minutes: the intervals hold for the state of")
    assert lines[2] == "1 of 23 planned runs are missing."
    assert output.err.count("left out") == 1 and f"{quick()[-2].name}.json" in output.err
    assert f"{quick()[-2].name}.json: cannot be read" in (out / "report.md").read_text()
    assert lines[-1] == str(out / "report.html")
    assert quick()[-1].name in (out / "report.html").read_text()


def test_an_unplanned_experiment_is_a_one_line_error(results, capsys):
    assert main(["report", "nothing", "--results", str(results), "--site", "here"]) == 1
    message = capsys.readouterr().err
    assert message.count("\n") == 1 and "has a plan of nothing" in message and "Fix:" in message


def test_a_broken_experiment_file_is_a_one_line_error(results, capsys):
    (results / "here" / "quick" / "experiment.json").write_text("[]")
    assert main(["report", "quick", "--results", str(results), "--site", "here"]) == 1
    assert "experiment.json" in capsys.readouterr().err


def test_a_report_that_cannot_be_written_is_a_one_line_error(results, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    arguments = ["--results", str(results), "--site", "here", "--out", str(tmp_path / "file")]
    assert main(["report", "quick", *arguments]) == 1
    message = capsys.readouterr().err
    assert message.count("\n") == 1 and f"{tmp_path}/file" in message and "Fix:" in message
    assert (tmp_path / "file").read_text() == ""
