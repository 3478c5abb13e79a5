"""Snakemake trusts pointers; what they point to is looked at before it does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rnnbench import workflow
from rnnbench.records.store import pointer_to, read_pointer, write_json
from tests.conftest import Project
from tests.factory import make_record


@pytest.mark.fault(
    "a record that is pointed to is cut short or gone",
    "noticed before anything starts, measured again",
    "the same command",
)
def test_damage_behind_a_pointer(project: Project, capsys, monkeypatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.setenv("RNNBENCH_INTERVALS", "")
    config = {"experiment": "small", "conf": str(project.conf)}
    job = workflow.load(config, project.folder)
    pointers = [project.folder / pointer for pointer in job.pointers]
    results = project.folder / "results"
    for pointer in pointers:
        record = make_record(name=pointer.stem)
        write_json(results / f"records/{record.key}.json", record.to_json())
        write_json(pointer, pointer_to(record))
    short, gone, strange, _whole = pointers
    file = record_of(results, short)
    file.write_bytes(file.read_bytes()[:-100])
    record_of(results, gone).unlink()
    strange.write_text("[]")
    assert workflow.damaged(job) == [], "no round is done yet"
    for name in job.rounds:
        write_json(project.folder / name, {"members": {}})
    kept = everything(results)
    assert workflow.damaged(job) == job.rounds, "in both something is missing"
    assert everything(results) == kept
    said = capsys.readouterr().err
    assert said.count("measured again") == 3 and short.stem in said


@pytest.mark.fault(
    "a record that is pointed to is damaged, then somebody only looks",
    "-n, --lint and --report leave every file as it is; a start measures again",
    "the same command",
)
def test_only_a_start_heals_a_damaged_pointer(project: Project) -> None:
    def snakemake(*arguments: str):
        done = project.snakemake(*arguments, experiment="small")
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    snakemake()
    short, strange, *whole = project.pointers("small")
    record = record_of(project.folder / "results", short)
    record.write_bytes(record.read_bytes()[:-100])
    strange.write_text("[]")
    before = everything(project.folder / "results")
    planned = re.findall(r"^round +(\d+)$", snakemake("-n", "--quiet", "host"), re.MULTILINE)
    assert set(planned) == {"2"}
    snakemake("--report", "page.html")
    project.snakemake("--lint", experiment="small")
    assert everything(project.folder / "results") == before

    snakemake()
    assert record.with_suffix(".unreadable").exists(), "a record is never deleted"
    for pointer in (short, strange):
        assert read_pointer(project.folder / "results", pointer).name == pointer.stem
    assert [path.read_bytes() for path in whole] == [before[path] for path in whole]
    assert "Nothing to be done" in snakemake()


def everything(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def record_of(results: Path, pointer: Path) -> Path:
    """The newest record of that name."""
    return max(results.glob(f"records/*/{pointer.stem}/2*Z.json"))
