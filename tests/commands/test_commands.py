"""The arguments that commands about an experiment share, the small commands, and the log
of when commands were busy."""

from __future__ import annotations

import re
import shlex
import shutil
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import pytest

from rnnbench.cli import main
from rnnbench.commands import COMMANDS, track
from rnnbench.commands.arguments import parse_words
from rnnbench.commands.experiment import command_of
from rnnbench.commands.machine import doctor
from rnnbench.commands.prediction import folder_of_exports
from rnnbench.errors import ConfigError, RunError
from rnnbench.records.store import write_record
from rnnworker import machine
from tests.conftest import ROOT, Project
from tests.factory import make_record


def test_words_are_a_name_and_overrides() -> None:
    assert parse_words(["mine", "a=1", "~b"]) == ("mine", ["a=1", "~b"])
    assert parse_words(["a=1", "experiment=mine"]) == ("mine", ["a=1"])
    assert parse_words([]) == (None, [])
    with pytest.raises(ConfigError, match="names two experiments, one and two"):
        parse_words(["one", "two"])


def test_run_composes_the_snakemake_command(tmp_path: Path) -> None:
    assert command_of([]) == ["--cores", "all", "--config", "experiment=quick"]
    given = ["mine", "model.epochs=3", "repeat=0", "--conf", str(tmp_path), "--cores", "2"]
    assert command_of([*given, "--", "-n", "--profile", "x"]) == [
        *("--cores", "2", "-n", "--profile", "x", "--config"),
        *("experiment=mine", "overrides=model.epochs=3 repeat=0", f"conf={tmp_path}"),
    ]
    assert command_of(["--allow-void"])[-1] == "allow_void=true"
    given = ["mine", "--", "--config", "site=mine", "-n", "--configfile", "x"]
    expected = ["-n", "--configfile", "x", "--config", "experiment=mine", "site=mine"]
    assert command_of(given) == ["--cores", "all", *expected]
    with pytest.raises(ConfigError, match="is not a folder"):
        command_of(["--conf", str(tmp_path / "absent")])


PREDICT = "compare framework litert --predict --model x.keras --data requirements.lock"
# Words on the command line → the end of what the error says.
BAD = {
    "compare keras block --budget nan": "argument --budget: nan is not a finite number > 0",
    "run --budget -1": "argument --budget: -1 is not a finite number > 0",
    "run quick -n": "unrecognized arguments: -n; write options of Snakemake after --, as in",
    "run quick --cores 0": "argument --cores: 0 is not a number ≥ 1 or all",
    "grid quick --json --cfg": "argument --json: not allowed with argument --cfg",
    "ui --port 0": "argument --port: 0 is not a number from 1 to 65535",
    "ui --port 99999": "argument --port: 99999 is not a number from 1 to 65535",
    "compare keras blok --budget 1": "are not two choices of one axis. Fix: did you mean block?",
    "compare keras keras --budget 1": "keras cannot be compared with keras. Fix: name each choice",
    "compare keras block --loss no.py:f": "command line: {root}/no.py: {root}/no.py does not exist",
    "compare keras block --budget 1e300": "--budget: budget is 6e+301; it must be a number ≤ 1000",
    "compare keras block --model tests/models/weather.py:build": "weather.py:build needs data.",
    "compare keras block --model tests/models/weather.py": "tests/models/weather.py needs data.",
    f"{PREDICT} --build tf_1_15 --model tests/models/weather.py:build": "tf_1_15: has keras2_",
    f"{PREDICT} --rounds 0": "rounds is 0; it must be an integer ≥ 1",
    f"{PREDICT} --threads -1": "threads is -1; it must be an integer ≥ 1",
    f"{PREDICT} --batch 1,0": "batches has the value 0; it must be an integer ≥ 1",
    f"{PREDICT} --json /no/x": "rnnbench: /no/x: cannot be written: No such file or dir",
    f"{PREDICT} --json /tmp": "/tmp: cannot be written: Is a directory. Fix: ",
    f"{PREDICT} --out README.md/x": "README.md/x: cannot be written: Not a directory. Fix: ",
    f"{PREDICT} --files /proc/x/y": "/proc/x/y: cannot be written: No such file or directory. Fix",
    f"{PREDICT} --model digits_rnn": "--model digits_rnn: is not a model. Fix: name FILE.py:",
    f"{PREDICT} --model mine.py": "model={root}/mine.py: no such file.",
    f"{PREDICT} --model tests/models/weather.py:no": "weather.py has no function no. Fix: ",
    "compare keras block --json /no/x": "/no/x: cannot be written: No such file or directory. Fix",
    "report quick --out /proc/x": "/proc/x: cannot be written: No such file or directory. Fix: ",
    f"{PREDICT} --out ''": "'': cannot be written. Fix: ",
    f"{PREDICT} --batch ²": "--batch ²: is not a list of sizes. Fix: ",
    "compare keras block --model '' --budget 1": "--model: model is ''; it must be a string. Fix: ",
    "compare keras block --loss '' --budget 1": "--loss: loss is ''; it must be a string. Fix: wr",
    "compare keras block --fail-if ''": "--fail-if: '' is no condition. Fix: write 'block<1.2'",
    "report quick --out README.md": "README.md: cannot be written: Not a directory. Fix: ",
    "bundle quick -o /dev/null/x": "/dev/null/x: cannot be written: Not a directory. Fix: ",
    "export quick -o /proc/x": "/proc/x: cannot be written: ",
}


@pytest.mark.parametrize("words", BAD)
def test_a_bad_value_is_refused_before_anything_is_measured(words, monkeypatch, capsys) -> None:
    monkeypatch.chdir(ROOT)
    with suppress(SystemExit):  # of argparse, with 2
        assert main(shlex.split(words)) == 2
    out, error = capsys.readouterr()
    assert out == "" and BAD[words].replace("{root}", str(ROOT)) in error


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("- quick", "config/config.yaml: Expected `object`, got `array`. Fix: write a text"),
        ("experiment: [a]", "config/config.yaml: experiment: Expected `str | null`, got `array`"),
        ("overrides: {units: 8}", "overrides: Expected `str | array | null`, got `object`"),
        ("conf: [3]", "config/config.yaml: conf[0]: Expected `str`, got `int`. Fix: "),
    ],
)
def test_settings_of_another_type_are_refused(text, refusal, tmp_path, monkeypatch, capsys) -> None:
    """A list was ignored; a name was the text of a list, for which the command line was blamed."""
    (tmp_path / "config").mkdir()
    (tmp_path / "config/config.yaml").write_text(text)
    (tmp_path / "Snakefile").touch()
    monkeypatch.chdir(tmp_path)
    assert main(["plan"]) == 2
    out, error = capsys.readouterr()
    assert out == "" and refusal in error


def test_the_log_of_a_process_that_failed_is_kept() -> None:
    """The error names it."""
    with pytest.raises(RunError), folder_of_exports() as failed:
        (failed / "prepare.log").write_text("why")
        raise RunError("cannot be prepared", where=str(failed / "prepare.log"))
    assert (failed / "prepare.log").read_text() == "why"
    shutil.rmtree(failed)
    with suppress(ConfigError), folder_of_exports() as refused:
        raise ConfigError("no such file")
    with folder_of_exports() as done:
        assert done.is_dir()
    assert not refused.exists() and not done.exists()


@pytest.mark.parametrize("command", sorted({*COMMANDS, "environment", "lock"} - {"weights"}))
def test_outside_a_project_a_command_says_so_and_writes_nothing(
    command: str, tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([command, "x"]) == 2
    out, error = capsys.readouterr()
    assert out == "" and error.count("\n") == 1
    assert f"{tmp_path}: is not a project: there is no conf/config.yaml, workflow/Sn" in error
    with suppress(SystemExit):
        assert main([command, "--help"]) == 0
    assert capsys.readouterr().out.startswith("usage: ")
    assert not list(tmp_path.iterdir())


def test_the_version_and_all_commands_of_a_person_are_shown(capsys) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"rnnbench {version('rnnbench')}\n"
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert {"ui", "run", "grid"} <= set(re.findall(r"^  (\w+) ", shown, re.M))
    assert "--version" in shown


@pytest.mark.slow_tier("Snakemake")
def test_run_starts_snakemake(project: Project) -> None:
    (project.folder / "workflow").symlink_to(ROOT / "workflow")
    result = project.rnnbench("run", "small", "--conf", str(project.conf), "--", "-n", "--quiet")
    assert result.returncode == 0, result.stderr
    assert result.stderr.startswith("snakemake --cores all -n --quiet --config experiment=small")
    assert "profile" not in result.stderr and "Building DAG" not in result.stderr
    assert not list((project.folder / "results").glob("records/*"))


def test_doctor_lists_what_can_run_and_why_not(project: Project, monkeypatch, capsys) -> None:
    monkeypatch.chdir(project.folder)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    assert doctor(["--conf", str(project.conf)]) == 0
    output = capsys.readouterr().out
    assert machine.fingerprint()["machine"] in output
    (able,) = [line for line in output.splitlines() if line.startswith("devices")]
    assert "cpu_1" in able and "k80" not in able
    if not machine.gpus():
        (unavailable,) = (line for line in output.splitlines() if "no NVIDIA GPU on this" in line)
        assert unavailable.startswith("  not ") and " k80," in unavailable
    assert "fake" in output and "datasets   " in output
    assert "  generated without network access: digits\n" in output
    assert "MLflow: http://127.0.0.1:9: the MLflow server cannot be reached" in output


def test_a_record_that_cannot_be_logged_is_named(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(track, "ensure_store", lambda root: None)
    monkeypatch.setattr(track, "log_records", lambda records, root: {})
    file = write_record(tmp_path / "results", make_record())
    file.write_text("{")
    assert track.track(["--root", str(tmp_path)]) == 0
    assert track.track(["--all", "--root", str(tmp_path)]) == 1
    assert capsys.readouterr().err.count(f"{file}: cannot be read as JSON") == 1
