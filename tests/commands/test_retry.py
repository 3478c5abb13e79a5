from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from rnnbench.commands.results import retry as main
from rnnbench.errors import ConfigError, RunError
from rnnbench.locks import take
from rnnbench.records.store import write_json

VERDICTS = {"a-keras-s0-r0": "clean", "a-block-s0-r0": "void", "a-block-s0-r1": "suspect"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "here" / "quick"
    for name, verdict in VERDICTS.items():
        write_json(folder / f"{name}.json", {"record": "x", "digest": "d", "verdict": verdict})
    write_json(folder / "summary.json", {"verdict": "void"})
    return folder


def retry(folder: Path, *names: str) -> set[str]:
    """Runs the command and returns the names of the marked runs."""
    results = folder.parents[1]
    assert main([folder.name, *names, "--site", "here", "--results", str(results)]) == 0
    remaining = {path.stem for path in folder.glob("*.json")}
    marks = folder / "retry"
    marked = {path.name for path in marks.iterdir()} if marks.exists() else set()
    assert marked == set(VERDICTS) - remaining
    assert "summary" in remaining
    return marked


@pytest.mark.parametrize(
    ("names", "marked"),
    [
        ([], {"a-block-s0-r0"}),
        (["a-keras-s0-r0"], {"a-keras-s0-r0"}),
        (["a-block-*"], {"a-block-s0-r0", "a-block-s0-r1"}),
        (["*-r0", "a-keras-s0-r0"], {"a-keras-s0-r0", "a-block-s0-r0"}),
    ],
)
def test_retry_marks_void_or_named_runs(folder: Path, names: list[str], marked: set, capsys):
    assert retry(folder, *names) == marked
    output = capsys.readouterr().out
    assert output == f"The next snakemake measures {len(marked)} of 3 runs again.\n"


def test_the_mark_holds_its_time(folder: Path) -> None:
    retry(folder)
    mark = (folder / "retry" / "a-block-s0-r0").read_text()
    assert re.fullmatch(r"\d{8}T\d{6}_\d{6}Z\n", mark)


def test_an_unknown_name_changes_nothing(folder: Path) -> None:
    with pytest.raises(ConfigError, match="no finished run is named 'b-\\*'"):
        retry(folder, "a-keras-s0-r0", "b-*")
    assert {path.stem for path in folder.glob("*-s*-r*.json")} == set(VERDICTS)
    assert not (folder / "retry").exists()


def test_nothing_is_marked_while_the_results_are_locked(folder: Path) -> None:
    results = folder.parents[1]
    lock, _ = take(results / ".lock", "process 7")
    assert lock is not None
    with pytest.raises(RunError, match="is in use by another process \\(process 7\\)"):
        main([folder.name, "--site", "here", "--results", str(results)])
    assert {path.stem for path in folder.glob("*-s*-r*.json")} == set(VERDICTS)
    os.close(lock)


def test_an_experiment_without_runs_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no finished run"):
        main(["absent", "--site", "here", "--results", str(tmp_path)])
