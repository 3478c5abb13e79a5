"""Which files are records, next to files left by an interrupted run or another site."""

from __future__ import annotations

from pathlib import Path, PurePath

import pytest

from rnnbench import cli, workflow
from rnnbench.records.store import is_record, record_files, write_json
from tests.conftest import Project
from tests.factory import make_late, make_record

LEFTOVERS = ("job.json", "events.jsonl", "log", "unreadable")


@pytest.fixture
def record(tmp_path: Path, monkeypatch) -> Path:
    """A record, next to the files of a later attempt that was interrupted."""
    record = make_record()
    file = tmp_path / f"results/records/{record.key}.json"
    write_json(file, record.to_json())
    for ending in LEFTOVERS:
        (file.parent / f"20990101T000000_000000Z.{ending}").write_text("{}\n")
    (file.parent / f".{file.name}.abcd").write_text("half a file")
    monkeypatch.chdir(tmp_path)
    return file


def test_records_are_recognised_by_their_names(record: Path) -> None:
    assert is_record(PurePath("20261121T075000_123456Z.json"))
    assert not any(is_record(PurePath(f"20261121T075000_123456Z.{end}")) for end in LEFTOVERS)
    assert record_files(record.parents[3]) == [record]
    assert record_files(record.parents[3], name="another*") == []


def test_files_of_an_interrupted_run_are_not_shown(record: Path, capsys) -> None:
    assert cli.main(["show", record.parent.name]) == 0
    assert record.stem in capsys.readouterr().out


def test_a_companion_is_shown_if_there_is_no_other_record(tmp_path: Path, capsys) -> None:
    reference, _, companion = make_late()
    for record in (companion, reference):
        write_json(tmp_path / f"records/{record.key}.json", record.to_json())
        assert cli.main(["show", record.name, "--results", str(tmp_path)]) == 0
        assert record.started in capsys.readouterr().out


def test_files_of_an_interrupted_run_are_not_tracked(record: Path, capsys, monkeypatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{record.parents[4]}/mlflow.db")
    assert cli.main(["track", "--all", "--output", "tracked.json"]) == 0
    assert capsys.readouterr().err.count("cannot") == 0


def test_report_inputs_from_another_site(project: Project, monkeypatch) -> None:
    job = workflow.load({"experiment": "small", "conf": str(project.conf)}, project.folder)
    inputs = ["a-s0-r0.json", "certificates/m-lstm-current.json", "probes/cpu_1-current.json"]
    others = [
        "attempts/a-s0-r0/1.json",  # renewed every 10 s
        "certificates/work/m-lstm-current.job.json",
        "certificates.json",
        "probes.json",
        "experiment.json",
        "tracked/0.json",
        ".a-s0-r0.json.abcd",
        "certificates/.m-lstm-current.json",
    ]
    for name in inputs + others:
        write_json(project.folder / "results/imported/away/small" / name, {})
    assert job.imported_files == [f"results/imported/away/small/{name}" for name in inputs]
