"""Probes in a bundle: made after the block that they explain; a failure is no run's fault."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from tests.conftest import Project, make_project
from tests.exchange.bundles import run


def with_a_probe(source: Path, folder: Path) -> Path:
    """A copy of the bundle with a probe that is to be made; there, the fake framework fails."""
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("out"))
    runs = [json.loads(line) for line in (folder / "plan.jsonl").read_text().splitlines()]
    config = {name: runs[0]["config"][name] for name in ("device", "build")}
    key, choices = "cpu_1-fake", {"device": "cpu_1", "build": "fake"}
    probe = {"key": key, "digest": "d", "choices": choices, "overrides": {}, "config": config}
    lines = [json.dumps({**one, "probe": key}) + "\n" for one in runs]
    changed = {
        "plan.jsonl": "".join(lines),
        "probes.json": json.dumps({key: {**probe, "models": []}}),
    }
    about = json.loads((folder / "bundle.json").read_text())
    for name, text in changed.items():
        (folder / name).write_text(text)
        about["files"][name] = hashlib.sha256(text.encode()).hexdigest()
    (folder / "bundle.json").write_text(json.dumps(about))
    return folder


@pytest.fixture(scope="module")
def probed(
    bundled: tuple[Project, Path], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Project, Path]:
    folder = tmp_path_factory.mktemp("probed")
    return make_project(folder / "home"), with_a_probe(bundled[1], folder / "bundle")


def test_a_probe_follows_the_first_block_and_its_failure_is_no_runs_fault(
    probed: tuple[Project, Path],
) -> None:
    project, folder = probed
    nothing = run(folder, "--stop-after", "0.001")
    assert nothing.returncode == 1 and "4 runs are left" in nothing.stdout
    done = run(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    said = [line.split()[0] for line in done.stdout.splitlines()]
    assert said == ["[1/4]", "[2/4]", "probes/cpu_1-fake", "[3/4]", "[4/4]"]
    assert "probes/cpu_1-fake  exit code 3" in done.stdout
    assert run(folder).stdout == ""
    again = run(folder, "--again")
    assert again.returncode == 0 and again.stdout.count("exit code 3") == 1
    assert run(folder, "--again", "--no-probes").stdout == ""

    taken = project.rnnbench("import", str(folder))
    assert taken.returncode == 0, taken.stderr
    (file,) = (project.folder / "results").glob("*/small/probes/*.json")
    probe = json.loads(file.read_text())
    assert probe["machine"] == file.parts[-4] and "in phase import" in probe["error"]
    report = project.rnnbench("report", "small")
    assert report.returncode == 0, report.stderr
    assert "the probe failed" in (project.folder / "reports/small/report.md").read_text()


def test_a_probe_that_does_not_fit_is_left(probed: tuple[Project, Path]) -> None:
    _, folder = probed
    assert run(folder).returncode == 0
    shutil.rmtree(folder / "out" / "probes")
    short = run(folder, "--stop-after", "1")
    assert short.returncode == 1 and "1 certificates and probes are left" in short.stdout
    assert run(folder).returncode == 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"digest": "e"}, "another plan"),
        ({"hardware": {"machine": "..", "gpus": []}}, "is no plain name"),
        ({"hardware": []}, "is no outcome of a bundle"),
    ],
)
def test_a_wrong_probe_is_refused(probed: tuple[Project, Path], change: dict, words: str) -> None:
    project, folder = probed
    assert run(folder).returncode == 0
    path = next(folder.glob("out/probes/*/*/outcome.json"))
    before = path.read_text()
    path.write_text(json.dumps({**json.loads(before), **change}))
    try:
        refused = project.rnnbench("import", str(folder))
        assert refused.returncode == 1 and words in refused.stderr
    finally:
        path.write_text(before)
