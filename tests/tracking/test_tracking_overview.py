"""The results that a report logs to MLflow, and its web page in a real browser."""

from __future__ import annotations

import re

import pytest

from rnnbench.commands.report import report
from rnnbench.records.store import write_json
from rnnbench.tracking.store import connected
from rnnbench.tracking.track import (
    SPEEDUP,
    UNEQUAL,
    differing_keys,
    label_of,
    track,
    view_of,
)
from tests.factory import as_run, make_record
from tests.report import made_up
from tests.tracking.conftest import write_run


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Two tracked implementations."""
    monkeypatch.chdir(tmp_path)
    levels = {"keras": 0.5, "unrolled": 0.4}
    records = [make_record(rnn=rnn, epoch_seconds=level) for rnn, level in levels.items()]
    runs = track([write_run(tmp_path, record) for record in records], tmp_path)
    folder = tmp_path / "results/site/quick"
    (folder / "plan.jsonl").write_bytes(b"".join(record.run.line() for record in records))
    facts = {"name": "quick", "title": "Which one?", "about": "", "reference": {"rnn": "keras"}}
    write_json(folder / "experiment.json", {**facts, "skipped": []})
    ids = {r.name: {"run_id": runs[r.key], "record": r.key} for r in records}
    write_json(folder / "tracked/0.json", ids)
    return folder


def test_the_report_is_logged_and_the_unequal_tag_set_and_removed(project, tmp_path):
    file = project / "certificates/digits_rnn-lstm-current.json"
    write_json(file, made_up.UNEQUAL)
    with connected(tmp_path) as client:
        number = client.get_experiment_by_name("quick").experiment_id

        def runs():
            return {run.info.run_name: run for run in client.search_runs([number])}

        (renamed,) = [run for run in runs().values() if run.data.params["rnn"] == "unrolled"]
        client.set_tag(renamed.info.run_id, "mlflow.runName", "mine")
        assert report(["quick"]) == 0
        assert set(runs()) == {"keras", "mine", "report"}
        assert UNEQUAL not in runs()["keras"].data.tags
        tag = runs()["mine"].data.tags[UNEQUAL]
        assert tag.startswith("≠1.2500 against keras: keras and unrolled: gradients")
        assert SPEEDUP not in runs()["mine"].data.metrics
        file.unlink()
        assert report(["quick"]) == 0
        again = runs()  # the second report reuses the run of the first
        assert set(again) == {"keras", "mine", "report"}
        assert all(UNEQUAL not in run.data.tags for run in again.values())
        tags = client.get_experiment(number).tags
        assert tags["mlflow.experimentKind"] == "custom_model_development"
        assert "Which one?" in tags["mlflow.note.content"]
        assert "`unrolled` trains digits_rnn 1.25× as fast" in tags["mlflow.note.content"]
        assert again["mine"].data.metrics[SPEEDUP] == pytest.approx(1.25)
        assert again["keras"].data.metrics[SPEEDUP] == 1
        uploaded = {file.path for file in client.list_artifacts(again["report"].info.run_id)}
        assert {"report.html", "report.md", "figures", "tables"} <= uploaded


def test_an_unreachable_store_does_not_fail_the_report(project, tmp_path, monkeypatch, capsys):
    write_json(project / "certificates/digits_rnn-lstm-current.json", made_up.UNEQUAL)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    assert report(["quick"]) == 0
    assert "127.0.0.1:9" in capsys.readouterr().err
    assert "≠1.2500" in (tmp_path / "reports/quick/tables/time.csv").read_text()


def test_labels_name_what_differs():
    runs = [
        as_run({"name": f"{rnn}-{repeat}", "choices": {"rnn": rnn, "device": "cpu_1"},
                "overrides": {"model.units": units}, "repeat": repeat})
        for rnn, units in (("keras", 4), ("block", 8))
        for repeat in range(2)
    ]  # fmt: skip
    assert differing_keys(runs) == ["rnn", "model.units", "repeat"]
    assert label_of(runs[3], differing_keys(runs)) == "block · model.units=8 · r1"
    assert label_of(runs[0], []) == "keras-0"


def test_mlflow_shows_the_view(browser, server, project, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server)
    records = [make_record(experiment="viewed", rnn=rnn) for rnn in ("keras", "block")]
    track([write_run(tmp_path, record) for record in records], tmp_path)
    folder = tmp_path / "results/site/viewed"
    for name in ("plan.jsonl", "experiment.json", "tracked/0.json"):
        text = (project / name).read_text().replace("quick", "viewed").replace("unrolled", "block")
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    assert report(["viewed"]) == 0
    (address,) = re.findall(r"^MLflow: (\S+)$", capsys.readouterr().out, re.MULTILINE)
    page = browser.new_page(viewport={"width": 1500, "height": 1000})
    page.set_default_timeout(60_000)
    page.goto(address)
    for column in ("rnn", "speedup", "median_epoch_seconds", "rnnbench.verdict"):
        page.get_by_role("columnheader", name=column).first.wait_for()
    assert page.get_by_text("Evaluation runs").count() == 0
    page.close()
    assert view_of(["rnn"])["selectedColumns"][0] == "params.`rnn`"
