"""Snakemake trusts pointers; what they point to is looked at before it does."""

from __future__ import annotations

from pathlib import Path

import pytest

from rnnbench import workflow
from rnnbench.records.store import pointer_to, write_json
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
    short, gone, strange, whole = pointers
    file = record_of(results, short)
    file.write_bytes(file.read_bytes()[:-100])
    record_of(results, gone).unlink()
    strange.write_text("[]")
    workflow.load(config, project.folder)
    assert [pointer.exists() for pointer in (short, gone, strange, whole)] == [False] * 3 + [True]
    said = capsys.readouterr().err
    assert said.count("measured again") == 3 and short.stem in said
    assert file.exists(), "a record is never deleted"


def record_of(results: Path, pointer: Path) -> Path:
    (file,) = results.glob(f"records/*/{pointer.stem}/2*.json")
    return file
