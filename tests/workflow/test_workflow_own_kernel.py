"""The user-supplied kernels of ``docs/own_kernel.md`` are certified, trained in turns with Keras's
and reported, following only the page."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from rnnbench.records.store import read_json, read_record
from tests.conftest import ROOT, make_project
from tests.worker.building import build_python

PAGE = (ROOT / "docs" / "own_kernel.md").read_text()
FILES = dict(re.findall(r"^`(\w+\.\w+)`:\n\n```\w+\n(.*?)^```", PAGE, re.S | re.M))
COMMANDS = re.findall(r'^snakemake --cores all --config overrides="(.*)"$', PAGE, re.M)
SMALL = "repeat=0 model.epochs=2 +model.train_samples=256 measure.warmup_steps=2"


def test_the_kernels_on_the_page_are_short() -> None:
    assert set(FILES) == {"scan_lstm.yaml", "scan_lstm.py", "loop_lstm.yaml", "loop_lstm.py"}
    assert all(len(text.splitlines()) < 40 for text in FILES.values())
    assert len(COMMANDS) == 2


@pytest.mark.parametrize(
    ("kernel", "build", "runs"),
    [("scan_lstm", None, ["while"]), ("loop_lstm", "keras3_torch", ["torch:loop"])],
)
def test_a_kernel_of_the_page(
    kernel: str,
    build: str | None,
    runs: list[str],
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    project = make_project(tmp_path / "project")
    if build:
        shutil.copytree(ROOT / "workflow" / "envs", project.folder / "workflow" / "envs")
        environment = build_python(build, "3.11", tmp_path_factory).parents[1]
        environments = project.folder / "results" / "envs"
        environments.mkdir(parents=True)
        (environments / environment.name).symlink_to(environment)
    home = tmp_path / "me"
    home.mkdir()
    for name, text in FILES.items():
        (home / name).write_text(text)
    (overrides,) = (text for text in COMMANDS if kernel in text)
    overrides = overrides.replace("/home/me", str(home))
    result = subprocess.run(
        [*project.command(experiment="quick"), f"overrides={overrides} {SMALL}"],
        cwd=project.folder,
        env=project.environment,
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-4000:]

    (path,) = project.folder.glob("results/*/quick/certificates/*.json")
    certificate = read_json(path)
    entry = certificate["implementations"][kernel]
    assert (entry["status"], entry["why"], entry["kernel"]) == ("certified", None, runs)
    assert [pair["equal"] for pair in certificate["pairs"]] == [True]
    records = {record.run.choices["rnn"]: record for record in map(read_record, project.records())}
    assert set(records) == {"keras", kernel}
    assert records[kernel].verdict.status != "void", records[kernel].verdict
    assert len(records[kernel].epochs) == 2
    assert records[kernel].round.id == records["keras"].round.id, "they took turns"
    report = (project.folder / "reports" / "quick" / "report.md").read_text()
    assert kernel.replace("_", "\\_") in report
