"""A bundle that lost an outcome measures the run again, in turns with the reference."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rnnbench.records.store import read_record
from rnnbench.tables.effects import effects_of
from tests.conftest import Project, make_project
from tests.exchange.bundles import bundle, run


def test_a_missing_run_of_a_round_takes_turns_with_the_reference(tmp_path: Path) -> None:
    """The outcome is missing as after an interrupted bundle."""
    project = make_project(tmp_path / "home")
    folder = tmp_path / "bundle"
    bundle(project, "small", folder)
    assert run(folder).returncode == 0
    (lost,) = folder.glob("out/*fake_fast*-r1/*/outcome.json")
    lost.unlink()
    again = run(folder)
    assert again.returncode == 0, again.stdout + again.stderr
    assert len(list(folder.glob("out/*/*/outcome.json"))) == 5, "the reference once more"
    assert run(folder).returncode == 0
    assert len(list(folder.glob("out/*/*/outcome.json"))) == 5, "all runs have an outcome"

    imported = project.rnnbench("import", str(folder), "--restore")
    assert imported.returncode == 0, imported.stderr
    records = {path: read_record(path) for path in project.records()}
    (companion,) = (path for path, record in records.items() if record.is_companion)
    assert records[companion].run.choices["rnn"] == "fake_middle"
    (late,) = (
        record
        for record in records.values()
        if not record.is_companion and record.round.id == records[companion].round.id
    )
    effects = effects_of([records[companion], late])
    difference = effects[records[companion].key].effect - effects[late.key].effect
    assert difference == pytest.approx(math.log(2), abs=0.3)
    files = (tmp_path / "home/results").glob("*/small/*-r1.json")
    pointers = [json.loads(path.read_text()) for path in files]
    companions = {Path(data["record"]).parent.name: data.get("companions") for data in pointers}
    assert len(companions) == 2, "the pointer of the reference names its first run"
    assert companions.pop(late.name) == [f"records/{records[companion].key}.json"]
    assert list(companions.values()) == [None]


TIMES = {"started", "finished", "id", "verdict", "turns", "switched_out", "major_faults",
         "peak_memory_bytes"}  # fmt: skip
# What only the machine that makes a bundle knows, or only the one that runs it.
OF_A_PROJECT = {"revision", "digest", "identity"}


def without_times(value: Any) -> Any:
    """JSON without its times and what depends on them."""
    if isinstance(value, dict):
        left_out = TIMES | OF_A_PROJECT
        return {key: without_times(item) for key, item in value.items() if key not in left_out}
    if isinstance(value, list | tuple):
        return [without_times(item) for item in value] if value and is_structure(value[0]) else []
    return "seconds" if isinstance(value, float) else value


def is_structure(value: Any) -> bool:
    return isinstance(value, dict | str)


def test_records_of_a_bundle_and_of_this_project_are_equal_but_for_times(
    measured_small: Project, tmp_path: Path
) -> None:
    here, there = measured_small, make_project(tmp_path / "there")
    folder = bundle(there, "small", tmp_path / "bundle")
    assert run(folder).returncode == 0
    assert there.rnnbench("import", str(folder), "--restore").returncode == 0
    local, measured_elsewhere = (
        {
            record.name: without_times(msgspec.to_builtins(record))
            for record in map(read_record, p.records())
        }
        for p in (here, there)
    )
    assert local == measured_elsewhere and len(local) == 4
    for project in (here, there):
        for record in map(read_record, project.records()):
            assert record.measured["asleep"]["seconds"] > 0
            assert record.measured["wall_seconds"] > 0 and record.turns["turn"]


def test_a_run_of_a_bundle_that_ran_out_of_memory_is_retried_on_its_own(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    grid = "model=fake build=fake device=cpu_1"
    (project.conf / "experiment/eats.yaml").write_text(
        f"title: x\nreference: {{rnn: fake_middle}}\ngrids:\n- {grid} rnn=fake_middle\n"
        f"- {grid} rnn=fake_fast rnn.fake.fault=memory rnn.fake.fault_epoch=1\n"
    )
    folder = bundle(project, "eats", tmp_path / "bundle")
    result = run(folder)
    assert "ran out of memory; retrying it on its own" in result.stdout, result.stdout
    assert project.rnnbench("import", str(folder), "--restore").returncode == 0
    records = {r.run.choices["rnn"]: r for r in map(read_record, project.records())}
    bad, good = records["fake_fast"], records["fake_middle"]
    assert [reason.code for reason in bad.verdict.reasons][:1] == ["out_of_memory"]
    assert bad.round.members == (bad.name,) and good.verdict.status != "void"


def with_a_probe(source: Path, folder: Path) -> Path:
    """A copy of the bundle with a planned probe, in which the fake framework fails."""
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("out"))
    runs = [json.loads(line) for line in (folder / "plan.jsonl").read_text().splitlines()]
    config = {name: runs[0]["config"][name] for name in ("device", "build")}
    key, choices = "cpu_1-fake", {"device": "cpu_1", "build": "fake"}
    probe = {"key": key, "digest": "d", "choices": choices, "overrides": {}, "config": config}
    lines = [json.dumps({**run, "probe": key}) + "\n" for run in runs]
    changed = {
        "plan.jsonl": "".join(lines),
        "probes.json": json.dumps({key: {**probe, "models": []}}),
    }
    facts = json.loads((folder / "bundle.json").read_text())
    for name, text in changed.items():
        (folder / name).write_text(text)
        facts["files"][name] = hashlib.sha256(text.encode()).hexdigest()
    (folder / "bundle.json").write_text(json.dumps(facts))
    return folder


@pytest.fixture(scope="module")
def probed(
    bundled: tuple[Project, Path], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Project, Path]:
    folder = tmp_path_factory.mktemp("probed")
    return make_project(folder / "home"), with_a_probe(bundled[1], folder / "bundle")


def test_a_probe_follows_the_first_block_and_its_failure_does_not_affect_runs(
    probed: tuple[Project, Path],
) -> None:
    project, folder = probed
    stopped = run(folder, "--stop-after", "0.001")
    assert stopped.returncode == 1 and "4 runs are left" in stopped.stdout
    result = run(folder)
    assert result.returncode == 0, result.stdout + result.stderr
    labels = [line.split()[0] for line in result.stdout.splitlines()]
    assert labels == ["[1/4]", "[2/4]", "probes/cpu_1-fake", "[3/4]", "[4/4]"]
    assert "probes/cpu_1-fake  exit code 3" in result.stdout
    assert run(folder).stdout == ""
    again = run(folder, "--again")
    assert again.returncode == 0 and again.stdout.count("exit code 3") == 1
    assert run(folder, "--again", "--no-probes").stdout == ""

    imported = project.rnnbench("import", str(folder), "--restore")
    assert imported.returncode == 0, imported.stderr
    (file,) = (project.folder / "results").glob("*/small/probes/*.json")
    probe = json.loads(file.read_text())
    assert probe["machine"] == file.parts[-4] and "in phase import" in probe["error"]
    report = project.rnnbench("report", "small")
    assert report.returncode == 0, report.stderr
    assert "the probe failed" in (project.folder / "reports/small/report.md").read_text()


def test_a_probe_beyond_the_time_limit_is_left(probed: tuple[Project, Path]) -> None:
    _, folder = probed
    assert run(folder).returncode == 0
    shutil.rmtree(folder / "out" / "probes")
    short = run(folder, "--stop-after", "1")
    assert short.returncode == 1 and "1 certificates and probes are left" in short.stdout
    assert run(folder).returncode == 0


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"digest": "e"}, "another plan"),
        ({"hardware": {"machine": "..", "gpus": []}}, "is not a safe name"),
        ({"hardware": []}, "is not an outcome of a bundle"),
    ],
)
def test_an_invalid_probe_is_refused(probed: tuple[Project, Path], change: dict, reason: str):
    project, folder = probed
    assert run(folder).returncode == 0
    path = next(folder.glob("out/probes/*/*/outcome.json"))
    before = path.read_text()
    path.write_text(json.dumps({**json.loads(before), **change}))
    try:
        refused = project.rnnbench("import", str(folder), "--restore")
        assert refused.returncode == 1 and reason in refused.stderr
    finally:
        path.write_text(before)
