"""A file that cannot be read is left out and named, by every command alike."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from rnnbench import cli
from rnnbench.planning.plan import write_plan
from rnnbench.planning.planner import make_plan
from tests.conftest import Project
from tests.factory import BEGINNING, make_record, put, replace


@pytest.fixture
def measured(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project in which each run of `small` has a record, with made-up times without spread."""
    monkeypatch.chdir(project.folder)
    plan = make_plan("small", [project.folder / "conf", project.conf], project.folder)
    results = project.folder / "results"
    write_plan(plan, results)
    for number, run in enumerate(plan.runs.values()):
        record = make_record(machine=plan.site, started=BEGINNING + timedelta(hours=number))
        put(results, replace(record, run=run), site=plan.site, experiment="small")
    return project


def truncated(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])


def negative(file: Path) -> None:
    data = json.loads(file.read_text())
    data["epochs"][1]["seconds"] = -1.0
    file.write_text(json.dumps(data))


@pytest.mark.parametrize("damage", [truncated, negative, Path.unlink])
def test_a_damaged_record_is_not_done(
    measured: Project, damage: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    planned = ["plan", "small", "--conf", str(measured.conf)]
    assert cli.main(planned) == 0
    assert "4 done, 0 to do" in capsys.readouterr().out
    file = measured.records()[-1]
    damage(file)
    assert cli.main(planned) == 0
    assert "3 done, 1 to do" in capsys.readouterr().out
    for command in (["report", "small"], ["compare", "fake_fast", "fake_middle"]):
        assert cli.main(command) == 0
        assert file.name in capsys.readouterr().err
    assert file.name in Path("reports/small/report.html").read_text()


def test_the_page_is_made_without_a_plan_or_certificate(
    measured: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    (site,) = Path("results").glob("*/small")
    for name in ("plan.jsonl", "certificates/x.json"):
        file = site / name
        file.parent.mkdir(exist_ok=True)
        before = file.read_bytes() if file.exists() else b""
        file.write_bytes(b"{" + before[:40])
        assert cli.main(["report", "small"]) == 0
        error = capsys.readouterr().err
        assert error.count("left out") == 1 and name in error
        file.write_bytes(before) if before else file.unlink()
