"""Logs records and reports to a real SQLite store and to a real MLflow server."""

from __future__ import annotations

import json
import re
import shutil
import socket
import sqlite3
import time
from datetime import timedelta
from pathlib import Path

import pandas as pd
import pytest

from rnnbench.cli import main
from rnnbench.commands.report import report
from rnnbench.commands.track import DESKTOP, ui
from rnnbench.errors import TrackingError
from rnnbench.records.rounds import Result
from rnnbench.records.store import why_not_tracked, write_json
from rnnbench.tracking.mapping import COMPLETE
from rnnbench.tracking.store import connected, ensure_store, has_tables, say_if_unusable
from rnnbench.tracking.track import (
    REPORTS,
    SPEEDUP,
    UNEQUAL,
    differing_keys,
    label_of,
    publish,
    track,
    view_of,
)
from tests.factory import BEGINNING, DIGITS_MD5, as_run, make_late, make_record
from tests.report import made_up
from tests.tracking.conftest import free_port, round_of, start_track, write_run

SITE = "results/site/quick"
CERTIFICATE = f"{SITE}/certificates/digits_rnn-lstm-current.json"
LATER = BEGINNING + timedelta(hours=1)


@pytest.fixture(scope="module", params=["sqlite", "server"])
def store(request, tmp_path_factory):
    """A project folder with the address of its MLflow server, None for SQLite."""
    uri = request.getfixturevalue("server") if request.param == "server" else None
    return tmp_path_factory.mktemp(request.param), uri


@pytest.fixture
def root(store, monkeypatch) -> Path:
    folder, uri = store
    if uri:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    return folder


@pytest.fixture(scope="module")
def tracked(tmp_path_factory) -> Path:
    """A project with two tracked implementations."""
    root = tmp_path_factory.mktemp("tracked")
    levels = {"keras": 0.5, "unrolled": 0.4}
    records = [make_record(rnn=rnn, epoch_seconds=level) for rnn, level in levels.items()]
    runs = track([write_run(root, record) for record in records], root)
    (root / SITE / "plan.jsonl").write_bytes(b"".join(record.run.line() for record in records))
    facts = {"name": "quick", "title": "Which one?", "about": "", "reference": {"rnn": "keras"}}
    write_json(root / SITE / "experiment.json", {**facts, "skipped": []})
    ids = {r.name: {"run_id": runs[r.key], "record": r.key} for r in records}
    write_json(root / SITE / "tracked/0.json", ids)
    return root


@pytest.fixture
def project(tracked, tmp_path, monkeypatch) -> Path:
    """A copy of `tracked`, in which the test runs."""
    copy = shutil.copytree(tracked, tmp_path / "copy")
    (copy / "Snakefile").touch()
    monkeypatch.chdir(copy)
    return copy


def runs_of(root: Path, name: str):
    with connected(root) as client:
        experiment = client.get_experiment_by_name(name)
        return client.search_runs([experiment.experiment_id]) if experiment else []


def points_of(root: Path, run_id: str):
    with connected(root) as client:
        keys = client.get_run(run_id).data.metrics
        return [point for key in keys for point in client.get_metric_history(run_id, key)]


def test_a_record_is_logged_completely_and_once(root):
    record = make_record(experiment="whole")
    records = [write_run(root, record)]
    runs = track(records, root)
    before = points_of(root, runs[record.key])
    (run,) = runs_of(root, "whole")
    assert run.data.params["rnn"] == "keras" and run.info.status == "FINISHED"
    assert run.info.run_name == record.name
    assert [p.step for p in before if p.key == "epoch_seconds"] == [1, 2, 3, 4, 5]
    assert run.info.end_time > run.info.start_time == int(BEGINNING.timestamp() * 1000)
    (used,) = run.inputs.dataset_inputs
    assert used.dataset.digest == DIGITS_MD5 and used.dataset.name == "digits"
    with connected(root) as client:
        here = "params.rnn = 'keras' and params.device = 'cpu_1'"
        (found,) = client.search_runs([run.info.experiment_id], here)
        assert found.data.params.items() >= record.run.choices.items()
        files = {file.path for file in client.list_artifacts(run.info.run_id)}
        ours = {"record.json", "config.json", "facts.json", "packages.txt"}
        assert files == ours | {"run.log", "events.jsonl"}
        client.delete_tag(run.info.run_id, COMPLETE)  # as if killed just before the end
    assert track(records, root) == runs
    assert len(runs_of(root, "whole")) == 1
    assert len(points_of(root, run.info.run_id)) == len(before)
    assert len(runs_of(root, "whole")[0].inputs.dataset_inputs) == 1


def test_two_records_of_a_grid_point_are_two_runs_and_a_void_one_is_failed(root):
    first = make_record(experiment="twice")
    second = make_record(experiment="twice", started=LATER, verdict="void", acc=None)
    track([write_run(root, first)], root)
    runs = track([write_run(root, first), write_run(root, second)], root)
    assert len(set(runs.values())) == 2 == len(runs_of(root, "twice"))
    (void,) = [run for run in runs_of(root, "twice") if run.info.run_id == runs[second.key]]
    assert void.info.status == "FAILED" and "loss" not in void.data.metrics
    assert void.data.tags["reasons"] == "loss_not_finite"


def test_a_duplicate_run_of_a_dying_server_is_deleted(root):
    record = make_record(experiment="twins")
    track([write_run(root, record)], root)
    (run,) = runs_of(root, "twins")
    with connected(root) as client:
        client.create_run(run.info.experiment_id, tags={"rnnbench.record": record.key})
    track([write_run(root, record)], root)
    assert [kept.info.run_id for kept in runs_of(root, "twins")] == [run.info.run_id]


@pytest.fixture
def track_here(capfd):
    """`rnnbench track` in this process: exit code and standard error."""

    def run(*arguments: object) -> tuple[int, str]:
        code = main(["track", *map(str, arguments)])
        captured = capfd.readouterr()
        assert captured.out == ""
        return code, captured.err

    return run


def test_an_unreachable_server_is_one_line_without_its_password(
    tmp_path, track_here, monkeypatch, capfd
):
    record, _ = write_run(tmp_path, make_record())
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://me:topsecret@127.0.0.1:{free_port()}")
    begin, output = time.monotonic(), tmp_path / "tracked.json"
    code, error = track_here("--root", tmp_path, round_of(tmp_path, record))
    assert code == 1 and time.monotonic() - begin < 60
    assert len(error.splitlines()) == 1 and "127.0.0.1" in error and "Fix:" in error
    assert "topsecret" not in error and "me:" not in error
    code, error = track_here("--root", tmp_path, "--output", output)
    assert code == 0 and output.exists(), "a workflow goes on"
    assert "cannot be reached" in error
    say_if_unusable(tmp_path)
    assert capfd.readouterr().err == error, "the same before anything is measured"


def test_a_server_that_dies_is_reported_without_its_password(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://me:topsecret@127.0.0.1:{free_port()}")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(TrackingError) as caught, connected(tmp_path) as client:
        client.search_experiments()
    assert "topsecret" not in str(caught.value) and caught.value.__suppress_context__


@pytest.mark.fault(
    "mlflow.db is damaged or truncated",
    "detected; runs and report go on without MLflow; the file is left as it is",
    "move it away, then run `rnnbench track --all`",
)
@pytest.mark.parametrize("damage", ["truncated", "text", "overwritten", "another program's"])
def test_a_corrupt_database_is_an_error_with_the_way_to_log_again(
    project, track_here, damage, capfd
):
    new = make_record(seed=2)
    write_run(project, new)
    database, output = project / "mlflow.db", project / "tracked.json"
    whole, foreign = database.read_bytes(), b"no database at all\n" * 500
    damaged = {
        "truncated": whole[: len(whole) // 2],
        "text": foreign,
        "overwritten": whole[:8192] + foreign + whole[8192 + len(foreign) :],
    }
    if damage in damaged:
        database.write_bytes(damaged[damage])
    else:
        database.unlink()
        with sqlite3.connect(database) as connection:
            connection.execute("CREATE TABLE mine (x)")
        connection.close()
    content = database.read_bytes()
    code, error = track_here("--root", project, "--output", output, round_of(project, new))
    assert code == 0 and len(error.splitlines()) == 1, "it does not prevent runs"
    assert f"{database}: the MLflow store is damaged (" in error and "move it away" in error
    assert why_not_tracked(output) and database.read_bytes() == content
    say_if_unusable(project)
    assert capfd.readouterr().err == error, "the same before anything is measured"

    database.rename(project / "away")
    assert track_here("--root", project, "--all")[0] == 0
    logged = {run.data.tags["rnnbench.record"] for run in runs_of(project, "quick")}
    assert len(logged) == 3 and new.key in logged


def test_an_experiment_that_was_deleted_in_mlflow_is_named_by_run_and_report(project, track_here):
    with connected(project) as client:
        client.delete_experiment(client.get_experiment_by_name("quick").experiment_id)
    new = make_record(seed=3)
    write_run(project, new)
    said = "the experiment 'quick' was deleted in MLflow, so nothing is logged to it. Fix: run"
    code, error = track_here("--root", project, "--output", project / "x.json",
                             round_of(project, new))  # fmt: skip
    assert code == 0 and said in error
    with pytest.raises(TrackingError) as caught:
        publish(project, "quick", "text", [], {}, project)
    assert said in str(caught.value)


def test_what_looks_at_a_store_before_measuring_creates_nothing(tmp_path, capfd):
    say_if_unusable(tmp_path)
    assert not list(tmp_path.iterdir()) and capfd.readouterr().err == ""


def test_an_empty_database_is_created_anew_and_a_folder_in_its_place_is_an_error(tmp_path):
    (tmp_path / "mlflow.db").touch()
    for has in (False, True):
        assert has_tables(tmp_path / "mlflow.db") == has
        ensure_store(tmp_path)
    (tmp_path / "folder/mlflow.db/x").mkdir(parents=True)
    with pytest.raises(TrackingError, match=r"mlflow\.db"):
        ensure_store(tmp_path / "folder")


@pytest.mark.slow_tier("two processes with MLflow")
def test_two_processes_create_the_store_at_once(tmp_path):
    records = [make_record(seed=number) for number in range(6)]
    rounds = [round_of(tmp_path, write_run(tmp_path, record)[0]) for record in records]
    processes = [start_track("--root", tmp_path, *rounds[n::2]) for n in range(2)]
    results = [(process.communicate(timeout=120)[1], process.returncode) for process in processes]
    assert results == [("", 0)] * 2
    assert len(runs_of(tmp_path, "quick")) == 6


def test_broken_rounds_do_not_block_the_others(root, track_here):
    record, _ = write_run(root, make_record(experiment="broken"))
    file, output = round_of(root, record), root / "broken.json"
    texts = ["{", "[]", "{}", '{"members": [1]}', '{"members": {"a": 1}}']
    broken = [file.with_name(f"broken_{number}.json") for number in range(len(texts))]
    for path, text in zip(broken, texts, strict=True):
        path.write_text(text)
    code, error = track_here("--root", root, "--output", output, *broken, file)
    assert code == 1 and not output.exists()
    lines = error.splitlines()
    assert len(lines) == len(broken)
    assert all(path.name in line for path, line in zip(broken, lines, strict=True)), error
    assert [run.info.run_name for run in runs_of(root, "broken")] == [record.name]


def test_a_round_file_with_companions(root, track_here):
    first, late, companion = make_late(experiment="rounds")
    for record in (first, late, companion):
        write_run(root, record)
    members = {
        first.name: Result.of(first),
        late.name: Result.of(late, [companion.path]),
        "other": {
            "record": None,
            "digest": "d",
            "not_needed": {"spent": 2.0, "budget": 1.0},
            "repeats": {},
        },
    }
    file, output = round_of(root, first).with_name("another.json"), root / "rounds.json"
    write_json(file, {"members": members})
    assert track_here("--root", root, "--output", output, file) == (0, "")
    assert {name: run["record"] for name, run in json.loads(output.read_text()).items()} == {
        first.name: first.key,
        late.name: late.key,
        companion.key: companion.key,
    }
    runs = runs_of(root, "rounds")
    assert [run.info.status for run in runs] == ["FINISHED"] * 3
    tagged = {run.data.tags.get("rnnbench.companion"): run.data.tags for run in runs}
    assert tagged["true"]["rnnbench.record"] == companion.key


def test_a_project_that_was_copied_writes_into_its_own_folder(tracked, project):
    before = sorted(tracked.rglob("*"))
    more = [make_record(started=LATER), make_record(experiment="another")]
    track([write_run(project, record) for record in more], project)
    assert sorted(tracked.rglob("*")) == before
    runs = runs_of(project, "quick") + runs_of(project, "another")
    assert len(runs) == 4
    with connected(project) as client:
        for run in runs:
            artifacts = run.info.artifact_uri
            assert artifacts.startswith(f"{project}/mlruns/") and Path(artifacts).is_dir()
            assert client.list_artifacts(run.info.run_id)


def test_the_report_is_logged_and_the_unequal_tag_set_and_removed(project):
    write_json(project / CERTIFICATE, made_up.UNEQUAL)
    with connected(project) as client:
        number = client.get_experiment_by_name("quick").experiment_id

        def runs():
            return {run.info.run_name: run for run in client.search_runs([number])}

        (renamed,) = [run for run in runs().values() if run.data.params["rnn"] == "unrolled"]
        client.set_tag(renamed.info.run_id, "mlflow.runName", "mine")
        assert report(["quick"]) == 0
        assert set(runs()) == {"keras", "mine"}
        assert UNEQUAL not in runs()["keras"].data.tags
        tag = runs()["mine"].data.tags[UNEQUAL]
        assert tag.startswith("≠1.2500 against keras: keras and unrolled: gradients")
        assert SPEEDUP not in runs()["mine"].data.metrics
        (project / CERTIFICATE).unlink()
        assert report(["quick"]) == 0
        again = runs()
        assert set(again) == {"keras", "mine"}
        assert all(UNEQUAL not in run.data.tags for run in again.values())
        tags = client.get_experiment(number).tags
        assert tags["mlflow.experimentKind"] == "custom_model_development"
        assert "Which one?" in tags["mlflow.note.content"]
        assert "`unrolled` trains this LSTM 1.25 times as fast" in tags["mlflow.note.content"]
        mine = again["mine"].data.metrics
        assert mine[SPEEDUP] == pytest.approx(1.25)
        table = pd.read_csv(project / "reports/quick/tables/time.csv").set_index("rnn")
        for end in ("speedup_low", "speedup_high"):
            interval = table.loc["unrolled", end]
            assert mine.get(end) == (None if pd.isna(interval) else pytest.approx(interval))
        assert again["keras"].data.metrics[SPEEDUP] == 1
        found = client.search_runs([number], "tags.verdict = 'clean'")
        assert len(found) + len(client.search_runs([number], "tags.verdict != 'clean'")) == 2
        # The second report reuses the run of the first.
        (page,) = runs_of(project, REPORTS)
        assert page.info.run_name == "quick"
        uploaded = {file.path for file in client.list_artifacts(page.info.run_id)}
        assert {"report.html", "report.md", "figures", "tables"} <= uploaded


@pytest.mark.parametrize(
    ("uri", "message"),
    [("http://127.0.0.1:9", "127.0.0.1:9"),
     ("htp:/x", "unsupported URI 'htp:/x' for [a-z ]*. Fix: correct MLFLOW_TRACKING_URI, or")],
)  # fmt: skip
def test_an_unreachable_store_does_not_fail_the_report(project, monkeypatch, capsys, uri, message):
    write_json(project / CERTIFICATE, made_up.UNEQUAL)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    assert report(["quick"]) == 0
    assert re.search(message, capsys.readouterr().err)
    assert "≠1.2500" in (project / "reports/quick/tables/time.csv").read_text()


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
    relu = as_run({"name": "relu", "overrides": {"rnn.options.activation": "relu"}, "seed": 2})
    assert label_of(relu, ["rnn.options.activation", "seed"]) == "activation=relu · s2"


def test_mlflow_shows_the_view(browser, server, project, monkeypatch, capsys):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server)
    records = [make_record(experiment="viewed", rnn=rnn) for rnn in ("keras", "block")]
    track([write_run(project, record) for record in records], project)
    folder = project / "results/site/viewed"
    for name in ("plan.jsonl", "experiment.json", "tracked/0.json"):
        text = (project / SITE / name).read_text().replace("quick", "viewed")
        text = text.replace("unrolled", "block")
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    assert report(["viewed"]) == 0
    (address,) = re.findall(r"^MLflow: (\S+)$", capsys.readouterr().out, re.MULTILINE)
    for name in DESKTOP:  # which would open a window
        monkeypatch.delenv(name, raising=False)
    assert main(["ui"]) == 0
    assert f"viewed: {address}\n" in capsys.readouterr().out
    page = browser.new_page(viewport={"width": 1500, "height": 1000})
    page.set_default_timeout(60_000)
    page.goto(address)
    for column in ("rnn", "speedup", "median_epoch_seconds", "verdict"):
        page.get_by_role("columnheader", name=column).first.wait_for()
    assert page.get_by_text("Evaluation runs").count() == 0
    page.close()
    assert view_of(["rnn"])["selectedColumns"][0] == "params.`rnn`"


def test_ui_names_a_server_that_does_not_start_and_a_port_in_use(project, monkeypatch):
    monkeypatch.chdir(project)
    monkeypatch.setattr("rnnbench.commands.track.sys.executable", "/bin/false")
    with pytest.raises(TrackingError, match="did not start"):
        ui(["--port", str(free_port())])
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(TrackingError, match=f"port {port}: is in use.*--port {port + 1}"):
            ui(["--port", str(port)])
