"""``rnnbench grid`` on the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rnnbench.cli import main
from tests.conftest import ROOT


@pytest.fixture(autouse=True)
def in_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def test_the_table_shows_full_names_when_piped(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["grid", "experiment=quick", "cell=gru", "repeat=0"]) == 0
    out = capsys.readouterr().out
    assert "digits_rnn-gru-unrolled-cpu_2-current-s0-r0" in out
    assert "TensorFlow's BlockLSTM op exists for LSTM only" in out
    assert "8 grid points: " in out


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["grid", "--json", "rnn=keras,none", "device=cpu_1", "repeat=0"]) == 0
    keras, none = json.loads(capsys.readouterr().out)
    assert (keras["run"], keras["why"]) == (True, None)
    assert (none["run"], none["why"]) == (False, "rnn=none is for models without a recurrent layer")
    assert keras["choices"]["device"] == "cpu_1"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["experiment=quikc"], "command line: experiment=quikc is not a choice"),
        (["rnn=kears"], "command line: rnn=kears is not a choice"),
        (["--conf", "/nowhere"], "--conf /nowhere: is not a folder"),
        (["experiment=quick", "experiment=quick"], "names two experiments"),
    ],
)
def test_an_error_is_one_line_and_exit_code_2(
    argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["grid", *argv]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert captured.err.count("\n") == 1


def test_without_a_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["grid"]) == 2
    assert "is not a project: there is no conf/config.yaml" in capsys.readouterr().err


def test_the_help_needs_no_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["grid", "--help"])
    assert ended.value.code == 0
    assert "usage: rnnbench grid" in capsys.readouterr().out


def test_a_reader_that_has_ended_is_no_error() -> None:
    """As for `head`, which ends after some lines."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "rnnbench", "grid", "quick", "repeat=0"]
    done = subprocess.run(command, cwd=ROOT, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("flag", ["-m", "--multirun"])
@pytest.mark.parametrize("command", ["grid", "run", "plan", "report", "history", "compare"])
def test_the_option_for_sweeps_is_refused_with_the_way_to_sweep(command, flag, capsys) -> None:
    with pytest.raises(SystemExit):
        main([command, "quick", flag, "rnn=keras,block"])
    assert f"{flag} is not needed: commas sweep by themselves" in capsys.readouterr().err
