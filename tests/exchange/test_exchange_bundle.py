"""A bundle measures with Python alone, and its outcomes are judged like local runs."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from rnnbench.records.record import Record
from rnnbench.records.store import read_record
from rnnbench.tables.effects import effects_of
from rnnworker.bundle_machine import NEEDED
from rnnworker.frameworks import FRAMEWORKS
from tests.conftest import Project, make_project
from tests.exchange.bundles import bundle, run


def test_a_bundle_runs_resumes_and_is_imported(bundled: tuple[Project, Path]) -> None:
    project, folder = bundled
    stopped = run(folder, "--limit", "0.001")
    assert stopped.returncode == 1 and "runs are left" in stopped.stdout
    assert len(list(folder.glob("out/*/*/outcome.json"))) < 4
    resumed = run(folder)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert len(list(folder.glob("out/*/*/outcome.json"))) == 4

    imported = project.rnnbench("import", str(folder), "--restore")
    assert imported.returncode == 0, imported.stderr
    records = [read_record(path) for path in project.records()]
    assert len(records) == 4
    assert {record.verdict.status for record in records} <= {"clean", "suspect"}
    assert all(len(record.epochs) == 5 for record in records)
    by_round: dict[str, list[Record]] = {}
    for record in records:
        by_round.setdefault(record.round.id, []).append(record)
    assert len(by_round) == 2, "the runs of a repeat took turns"
    for members in by_round.values():
        assert {record.run.choices["rnn"] for record in members} == {"fake_middle", "fake_fast"}
        effects = effects_of(members)
        effect = {record.run.choices["rnn"]: effects[record.key].log for record in members}
        assert effect["fake_middle"] - effect["fake_fast"] == pytest.approx(math.log(2), abs=0.1)
    again = project.rnnbench("import", str(folder), "--restore")
    assert again.returncode == 0 and "0 files written" in again.stdout


def test_a_changed_worker_is_refused(bundled: tuple[Project, Path], tmp_path: Path) -> None:
    _, folder = bundled
    target = folder / "rnnworker" / "events.py"
    before = target.read_text()
    target.write_text(before + "\n# changed in transit\n")
    try:
        refused = run(folder)
        assert refused.returncode != 0
        assert "rnnworker/events.py is not what was packed" in refused.stderr
    finally:
        target.write_text(before)


def test_an_outcome_of_another_plan_is_refused(bundled: tuple[Project, Path]) -> None:
    project, folder = bundled
    run(folder)
    path = next(folder.glob("out/*/*/outcome.json"))
    before = path.read_text()
    path.write_text(json.dumps({**json.loads(before), "digest": "0" * 64}))
    try:
        refused = project.rnnbench("import", str(folder), "--restore")
        assert refused.returncode == 1 and "another plan" in refused.stderr
    finally:
        path.write_text(before)


def test_the_memory_limit_applies_in_a_bundle(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    grid = "model=fake build=fake rnn=fake_fast device=cpu_1 rnn.fake.fault=eat_native"
    (project.conf / "experiment/eats.yaml").write_text(
        f"title: x\ngrids: ['{grid} limits.memory_bytes=536870912']\n"
    )
    folder = tmp_path / "bundle"
    bundle(project, "eats", folder)
    assert run(folder).returncode == 0
    imported = project.rnnbench("import", str(folder), "--restore")
    assert imported.returncode == 0, imported.stderr
    (record,) = map(read_record, project.records())
    assert record.verdict.reasons[0].code == "out_of_memory"


def test_an_experiment_in_two_bundles(tmp_path: Path) -> None:
    project = make_project(tmp_path / "home")
    for repeat in ("1", "0", "1"):
        folder = tmp_path / repeat
        if not folder.exists():
            bundle(project, "small", folder, f"repeat={repeat}")
            assert run(folder).returncode == 0
        assert project.rnnbench("import", str(folder), "--restore").returncode == 0
    (plan,) = (project.folder / "results").glob("*/small/plan.jsonl")
    names = {json.loads(line)["name"] for line in plan.read_text().splitlines()}
    assert names == {path.stem for path in project.pointers("small")} and len(names) == 4


def test_help_lists_the_exit_codes(bundled: tuple[Project, Path]) -> None:
    result = run(bundled[1], "--help")
    assert result.returncode == 0 and "3: the runs of a build were skipped" in result.stdout
    assert set(NEEDED) == set(FRAMEWORKS)
