"""What breaks a certificate is told in MLflow too: beside each speed-up stands whether both runs
compute the same function, and why not or why that is unknown."""

from __future__ import annotations

import math
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from rnnbench.commands.report import report
from rnnbench.records.record import NOT_CERTIFIED, Reason, Verdict
from rnnbench.records.store import write_json
from rnnbench.tracking.store import connected
from rnnbench.tracking.track import EQUAL, UNEQUAL, track, view_of
from tests.factory import BEGINNING, make_record
from tests.report import made_up
from tests.tracking.conftest import write_run

LATER = BEGINNING + timedelta(hours=1)
SITE = "results/site/quick"
CERTIFICATE = f"{SITE}/certificates/digits_rnn-lstm-current.json"
PAIR = {"a": "keras", "b": "unrolled", "outputs": 1e-7, "gradients": 1e-7, "loss_curve": 1e-7}
CRASHED = {"a": "keras", "b": "unrolled", "why": "KeyError: 'bias'"}
CRASHED |= dict.fromkeys(("outputs", "gradients", "loss_curve"))


ANOTHER_REASON = pytest.mark.slow_tier("a page for each reason why nothing is certified")


def certificate(*pairs: dict[str, Any], **unrolled: Any) -> dict[str, Any]:
    tried = {"probed": {"cpu_1": made_up.layers()}, "applied": {"cpu_1": made_up.steps()}}
    entries = {"keras": made_up.CERTIFIED | tried}
    entries["unrolled"] = entries["keras"] | unrolled
    return {**made_up.UNEQUAL, "implementations": entries, "pairs": list(pairs)}


@pytest.fixture(scope="module")
def tracked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with two tracked implementations."""
    folder = tmp_path_factory.mktemp("tracked")
    levels = {"keras": 0.5, "unrolled": 0.4}
    records = [make_record(rnn=rnn, epoch_seconds=level) for rnn, level in levels.items()]
    runs = track([write_run(folder, record) for record in records], folder)
    (folder / SITE / "plan.jsonl").write_bytes(b"".join(each.run.line() for each in records))
    facts = {"name": "quick", "title": "Which one?", "about": "", "reference": {"rnn": "keras"}}
    write_json(folder / SITE / "experiment.json", {**facts, "skipped": []})
    ids = {each.name: {"run_id": runs[each.key], "record": each.key} for each in records}
    write_json(folder / SITE / "tracked/0.json", ids)
    (folder / "Snakefile").touch()
    return folder


@pytest.fixture
def project(tracked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of `tracked`, in which the test runs."""
    shutil.copytree(tracked, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def logged(root: Path, implementation: str) -> Any:
    """The tags and metrics of the run of an implementation."""
    with connected(root) as client:
        number = client.get_experiment_by_name("quick").experiment_id
        (run,) = client.search_runs([number], f"params.rnn = '{implementation}'")
        return run.data


@pytest.mark.parametrize(
    ("made", "equal"),
    [
        (
            certificate(CRASHED),
            "not certified: keras and unrolled were not compared: KeyError: 'bias'",
        ),
        pytest.param(certificate(), "not certified", marks=ANOTHER_REASON),
        pytest.param(None, "not certified", marks=ANOTHER_REASON),
        (certificate(PAIR), "certified"),
        (certificate(dict(PAIR, gradients=0.03)), "not equal"),
    ],
)
def test_each_run_says_whether_its_function_was_compared(project, capsys, made, equal: str) -> None:
    if made:
        write_json(project / CERTIFICATE, made)
    assert report(["quick"]) == 0
    is_unknown = equal.startswith("not certified")
    assert ("Not certified: `unrolled`" in capsys.readouterr().out) == is_unknown
    with connected(project) as client:
        note = client.get_experiment_by_name("quick").tags["mlflow.note.content"]
    assert ("Not certified: `unrolled`" in note) == is_unknown
    data = logged(project, "unrolled")
    assert data.tags[EQUAL].startswith(equal), data.tags[EQUAL]
    assert ("speedup" in data.metrics) == (equal != "not equal")
    assert (UNEQUAL in data.tags) == (equal == "not equal")
    assert EQUAL not in logged(project, "keras").tags, "it is the reference"
    columns = view_of([])["selectedColumns"]
    assert columns.index("tags.`equal`") == columns.index("metrics.`speedup`") + 1


def test_a_speed_up_of_an_earlier_report_is_void_once_the_functions_differ(project) -> None:
    write_json(project / CERTIFICATE, certificate(PAIR))
    assert report(["quick"]) == 0
    assert logged(project, "unrolled").metrics["speedup"] == pytest.approx(1.25)
    write_json(project / CERTIFICATE, certificate(dict(PAIR, gradients=0.03)))
    assert report(["quick"]) == 0
    assert math.isnan(logged(project, "unrolled").metrics["speedup"])
    assert logged(project, "unrolled").tags[EQUAL].startswith("not equal: ")
    write_json(project / CERTIFICATE, certificate(PAIR))
    assert report(["quick"]) == 0
    assert logged(project, "unrolled").metrics["speedup"] == pytest.approx(1.25)


def test_a_run_that_was_refused_has_the_reason_and_no_speed_up(project) -> None:
    """A layer that is never called, for example."""
    why = "mine.py, line 4: the layer that recurrent made is not part of the model"
    verdict = Verdict("void", (Reason(NOT_CERTIFIED, f"refused: {why}", "call every layer."),))
    void = make_record(rnn="unrolled", epoch_seconds=[], verdict=verdict, started=LATER)
    write_json(project / CERTIFICATE, certificate(status="refused", why=why, function_why=why))
    track([write_run(project, void)], project)
    assert report(["quick"]) == 0
    with connected(project) as client:
        number = client.get_experiment_by_name("quick").experiment_id
        (run,) = client.search_runs([number], "tags.verdict = 'void'")
    assert run.info.status == "FAILED" and run.data.tags["reasons"] == NOT_CERTIFIED
    assert why in run.data.tags["mlflow.note.content"]
    assert "speedup" not in run.data.metrics
