"""A file that cannot be read is left out and named, by every command alike, and measured again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Project, copy_of


def truncated(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])


def negative(file: Path) -> None:
    data = json.loads(file.read_text())
    data["epochs"][1]["seconds"] = -1.0
    file.write_text(json.dumps(data))


def absent(file: Path) -> None:
    file.unlink()


def names_it(project: Project, damage: Callable[[Path], None], file: Path) -> None:
    damage(file)
    planned = project.rnnbench("plan", "small", "--conf", str(project.conf))
    assert "3 done, 1 to do" in planned.stdout, planned.stdout + planned.stderr
    for command in (["report", "small"], ["compare", "fake_fast", "fake_middle"]):
        result = project.rnnbench(*command)
        assert result.returncode == 0, result.stderr
        assert file.name in result.stderr and "Traceback" not in result.stderr
    assert file.name in (project.folder / "reports/small/report.html").read_text()


@pytest.fixture(scope="module")
def measured(measured_small: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    return copy_of(measured_small, tmp_path_factory.mktemp("project"))


def test_the_page_is_made_without_a_plan_certificate_or_probe(measured: Project) -> None:
    (site,) = (measured.folder / "results").glob("*/small")
    for name in ("plan.jsonl", "certificates/x.json", "probes/x.json"):
        file = site / name
        file.parent.mkdir(exist_ok=True)
        before = file.read_bytes() if file.exists() else b""
        file.write_bytes(b"{" + before[:40])
        result = measured.rnnbench("report", "small")
        assert result.returncode == 0, result.stderr
        assert result.stderr.count("left out") == 1 and name in result.stderr
        file.write_bytes(before) if before else file.unlink()


def test_a_damaged_record_is_not_done(measured: Project) -> None:
    file = measured.records()[-1]
    before = file.read_bytes()
    for damage in (absent, negative, truncated):
        names_it(measured, damage, file)
        if damage is not truncated:
            file.write_bytes(before)
    assert measured.snakemake(experiment="small").returncode == 0
    planned = measured.rnnbench("plan", "small", "--conf", str(measured.conf))
    assert "4 done, 0 to do" in planned.stdout
