"""Names that a shell would execute are only names, in every command that Snakemake starts."""

from __future__ import annotations

import json
import shutil

from tests.conftest import Project
from tests.outside.attacks import ESCAPE, HTML, RIGHT_TO_LEFT

HOSTILE = {
    "model": "-x;touch made",
    "rnn": "a'b\"$(touch made)`touch made`",
    "device": ".d e|touch made",
    "build": f"b{RIGHT_TO_LEFT}{{x}}%s",
}
USED = {"model": "fake", "rnn": "fake_fast", "device": "pretend_slow", "build": "fake"}


def test_nothing_is_executed_and_everything_is_measured(project: Project) -> None:
    for group, name in HOSTILE.items():
        folder = project.conf / group
        shutil.copy(folder / f"{USED[group]}.yaml", folder / f"{name}.yaml")
    words = [f"{group}='{name}'".replace("a'b", r"a\'b") for group, name in HOSTILE.items()]
    experiment = {"title": f"$(touch made){HTML}{ESCAPE}", "grids": [words], "probe": False}
    (project.conf / "experiment/mine.yaml").write_text(json.dumps(experiment))
    result = project.snakemake(experiment="mine")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "Traceback" not in result.stderr and "\x1b[2J" not in result.stdout + result.stderr
    assert len(project.records()) == len(project.pointers("mine")) == 1
    assert "<script>alert" not in (project.folder / "reports/mine/report.html").read_text()
    exported = project.rnnbench("export", "mine", "-o", "mine.tar.gz")
    assert exported.returncode == 0, exported.stderr
    assert not list(project.folder.rglob("made"))
