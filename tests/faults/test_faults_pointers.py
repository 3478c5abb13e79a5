"""Snakemake trusts pointers; their records are checked before it starts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rnnbench import workflow
from rnnbench.records.store import pointer_to, write_json
from tests.conftest import Project
from tests.factory import make_record, read_pointer


@pytest.mark.fault(
    "the record of a pointer is truncated or missing",
    "detected before anything starts; measured again",
    "run the same command",
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
    truncated, missing, invalid, _intact = pointers
    file = record_of(results, truncated)
    file.write_bytes(file.read_bytes()[:-100])
    record_of(results, missing).unlink()
    invalid.write_text("[]")
    assert workflow.made_again(job) == [], "no round is done yet"
    for name in job.rounds:
        write_json(project.folder / name, {"members": {}})
    before = contents(results)
    assert workflow.made_again(job) == job.rounds, "both rounds are damaged"
    assert contents(results) == before
    messages = capsys.readouterr().err
    assert messages.count("measured again") == 3 and truncated.stem in messages


@pytest.mark.fault(
    "the record of a pointer is damaged, followed by a dry run",
    "-n, --lint and --report change no file; a real run measures again",
    "run the same command",
)
def test_only_a_real_run_repairs_a_damaged_pointer(project: Project) -> None:
    def snakemake(*arguments: str):
        done = project.snakemake(*arguments, experiment="small")
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    snakemake()
    truncated, invalid, *intact = project.pointers("small")
    record = record_of(project.folder / "results", truncated)
    record.write_bytes(record.read_bytes()[:-100])
    invalid.write_text("[]")
    before = contents(project.folder / "results")
    planned = re.findall(r"^round +(\d+)$", snakemake("-n", "--quiet", "host"), re.MULTILINE)
    assert set(planned) == {"2"}
    snakemake("--report", "page.html")
    project.snakemake("--lint", experiment="small")
    assert contents(project.folder / "results") == before

    snakemake()
    assert record.with_suffix(".unreadable").exists(), "a record is never deleted"
    for pointer in (truncated, invalid):
        assert read_pointer(project.folder / "results", pointer).name == pointer.stem
    assert [path.read_bytes() for path in intact] == [before[path] for path in intact]
    assert "Nothing to be done" in snakemake()


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def record_of(results: Path, pointer: Path) -> Path:
    """The newest record of that name."""
    return max(results.glob(f"records/*/{pointer.stem}/2*Z.json"))
