"""Probes in a bundle: made after the first block; a failed probe does not affect the runs."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from tests.conftest import Project, make_project
from tests.exchange.bundles import run


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
