"""The ratio of two functions in MLflow: marked, and gone where it is no more."""

from __future__ import annotations

import json

import pytest

from rnnbench.commands.report import main as report
from rnnbench.records.store import write_json
from rnnbench.tracking.client import connected
from rnnbench.tracking.track import track
from rnnbench.tracking.unequal import UNEQUAL
from tests.factory import make_record
from tests.tracking.conftest import lay_down

FOUND = {"status": "certified", "why": None, "applied": {}}
CERTIFICATE = {
    "schema": 2, "model": "digits_rnn", "cell": "lstm", "build": "current", "overrides": {},
    "tolerance": {"gradients": 1e-4}, "implementations": {"keras": FOUND, "unrolled": FOUND},
    "pairs": [{"a": "keras", "b": "unrolled", "gradients": 0.03, "equal": False}],
}  # fmt: skip


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Two tracked implementations, of which the certificate says that they are not equal."""
    monkeypatch.chdir(tmp_path)
    levels = {"keras": 0.5, "unrolled": 0.4}
    records = [make_record(rnn=rnn, epoch_seconds=level) for rnn, level in levels.items()]
    runs = track([lay_down(tmp_path, record) for record in records], tmp_path)
    folder = tmp_path / "results/site/quick"
    (folder / "plan.jsonl").write_text(
        "".join(json.dumps({"name": record.name}) + "\n" for record in records)
    )
    facts = {"name": "quick", "title": "t", "about": "", "reference": {"rnn": "keras"}}
    write_json(folder / "experiment.json", {**facts, "skipped": []})
    ids = {r.name: {"run_id": runs[r.key], "record": r.key} for r in records}
    write_json(folder / "tracked/0.json", ids)
    return folder


def tags(root):
    with connected(root) as client:
        place = client.get_experiment_by_name("quick")
        found = client.search_runs([place.experiment_id])
        return {run.data.params["rnn"]: run.data.tags.get(UNEQUAL) for run in found}


def test_a_ratio_of_two_functions_is_a_marked_tag_until_it_is_one_no_more(project, tmp_path):
    file = project / "certificates/digits_rnn-lstm-current.json"
    write_json(file, CERTIFICATE)
    assert report(["quick"]) == 0
    found = tags(tmp_path)
    assert found["keras"] is None
    assert found["unrolled"].startswith("≠1.2500 against keras: keras and unrolled: gradients")
    file.unlink()
    assert report(["quick"]) == 0
    assert tags(tmp_path) == {"keras": None, "unrolled": None}


def test_a_store_that_is_away_makes_no_report_fail(project, tmp_path, monkeypatch, capsys):
    write_json(project / "certificates/digits_rnn-lstm-current.json", CERTIFICATE)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    assert report(["quick"]) == 0
    assert "127.0.0.1:9" in capsys.readouterr().err
    assert "≠1.2500" in (tmp_path / "reports/quick/tables/time.csv").read_text()
