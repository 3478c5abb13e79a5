from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from rnnbench.commands.retry import main
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
    """Runs the command; returns the names that will be measured again."""
    results = folder.parents[1]
    assert main([folder.name, *names, "--site", "here", "--results", str(results)]) == 0
    left = {path.stem for path in folder.glob("*.json")}
    marks = folder / "retry"
    marked = {path.name for path in marks.iterdir()} if marks.exists() else set()
    assert marked == set(VERDICTS) - left
    assert "summary" in left
    return marked


@pytest.mark.parametrize(
    ("names", "again"),
    [
        ([], {"a-block-s0-r0"}),
        (["a-keras-s0-r0"], {"a-keras-s0-r0"}),
        (["a-block-*"], {"a-block-s0-r0", "a-block-s0-r1"}),
        (["*-r0", "a-keras-s0-r0"], {"a-keras-s0-r0", "a-block-s0-r0"}),
    ],
)
def test_void_runs_or_the_named_ones(folder: Path, names: list[str], again: set, capsys) -> None:
    assert retry(folder, *names) == again
    assert capsys.readouterr().out.startswith(f"{len(again)} of 3 runs will be measured again")


def test_the_mark_says_since_when(folder: Path) -> None:
    retry(folder)
    mark = (folder / "retry" / "a-block-s0-r0").read_text()
    assert re.fullmatch(r"\d{8}T\d{6}_\d{6}Z\n", mark)


def test_an_unknown_name_changes_nothing(folder: Path) -> None:
    with pytest.raises(ConfigError, match="no finished run is called 'b-\\*'"):
        retry(folder, "a-keras-s0-r0", "b-*")
    assert {path.stem for path in folder.glob("*-s*-r*.json")} == set(VERDICTS)
    assert not (folder / "retry").exists()


def test_nothing_is_taken_away_while_somebody_is_at_work(folder: Path) -> None:
    results = folder.parents[1]
    lock, _ = take(results / ".lock", "process 7")
    assert lock is not None
    with pytest.raises(RunError, match="is in use \\(process 7\\)"):
        main([folder.name, "--site", "here", "--results", str(results)])
    assert {path.stem for path in folder.glob("*-s*-r*.json")} == set(VERDICTS)
    os.close(lock)


def test_an_experiment_without_runs_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no finished run"):
        main(["absent", "--site", "here", "--results", str(tmp_path)])
