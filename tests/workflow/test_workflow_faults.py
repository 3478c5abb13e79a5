"""Bad input gives one line with file, key and fix; a failed run does not affect other runs."""

from __future__ import annotations

import pytest

from rnnbench import workflow
from rnnbench.errors import ConfigError
from rnnbench.records.store import why_not_tracked
from rnnbench.tracking.track import read_tracked
from rnnbench.workflow.session import NO_USABLE_RUN
from tests.conftest import Project


@pytest.mark.parametrize(
    ("experiment", "config", "words"),
    [
        ("mine", {}, ["mine.yaml", "cores", "Fix: "]),
        ("small", {"conf": "absent"}, ["absent", "--config conf"]),
        ("small", {"experimnt": "quick"}, ["experimnt", "experiment, overrides"]),
        ("small", {"budget": 3}, ["--config budget", "fixed number of repeats"]),
        ("small", {"allow_void": "maybe"}, ["--config allow_void", "Fix: "]),
    ],
)
def test_what_cannot_run_is_an_error(
    project: Project, experiment: str, config: dict, words: list[str]
) -> None:
    grid = "model=fake build=fake rnn=fake_fast device.threads=999"
    (project.conf / "experiment/mine.yaml").write_text(f"grids: ['{grid}']\n")
    with pytest.raises(ConfigError) as caught:
        workflow.load(
            {"experiment": experiment, "conf": str(project.conf), **config}, project.folder
        )
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_snakemake_prints_one_line_and_exits_with_2(project: Project) -> None:
    (project.folder / "results").write_text("a file instead of a folder")
    result = project.snakemake(experiment="small")
    assert result.returncode == 2
    assert "Traceback" not in result.stdout + result.stderr
    (line,) = (line for line in result.stderr.splitlines() if line.startswith("rnnbench: "))
    assert "results" in line and "Fix: " in line


def test_a_configuration_with_only_void_runs_is_reported_and_exit_code_3(project: Project) -> None:
    result = project.snakemake(experiment="faulty")
    assert result.returncode == NO_USABLE_RUN == 3, result.stdout + result.stderr
    message = "2 of 3 runs are void and left out of all results; 2 configurations have no usable "
    message += "run (exit code 3). Fix: "
    assert result.stderr.count(message) == 1 and "so there is no result" not in result.stderr
    assert "NaN or infinite in epoch 2" in result.stderr
    assert "RuntimeError in phase train: a made-up fault in the model" in result.stderr
    assert len(project.records()) == 3
    command = project.command(experiment="faulty")
    assert project.run([*command, "allow_void=true"]).returncode == 0
    page = (project.folder / "reports/faulty/report.md").read_text()
    assert "NaN or infinite in epoch 2" in page

    experiment = project.conf / "experiment/faulty.yaml"
    good = "  - model=fake build=fake rnn=fake_fast device=cpu_1\n"
    experiment.write_text(experiment.read_text().replace(good, ""))
    message = "all 2 runs are void, so there is no result (exit code 3). "
    for done in (False, True):
        result = project.snakemake(experiment="faulty")
        assert result.returncode == NO_USABLE_RUN, result.stdout + result.stderr
        assert result.stderr.count(message) == 1 and "`rnnbench retry faulty`" in result.stderr
        assert ("Nothing to be done" in result.stdout + result.stderr) == done
    dry = project.snakemake("-n", experiment="faulty")
    assert dry.returncode == 0, "a dry run does not fail"


@pytest.mark.fault(
    "the MLflow server is unavailable",
    "records and report are made; a warning",
    "run the same command later to log them",
)
def test_damaged_data_stop_the_runs_and_an_unreachable_mlflow_does_not(small: Project) -> None:
    more = small.conf / "experiment/small.yaml"
    more.write_text(more.read_text().replace("repeat=range(2)", "repeat=range(3)"))
    data = small.folder / "data/digits.npz"
    content = bytearray(data.read_bytes())
    content[1000] ^= 1
    data.unlink()
    data.write_bytes(content)
    reachable = small.environment
    small.environment = {**reachable, "MLFLOW_TRACKING_URI": "http://user:secret@127.0.0.1:9"}
    made = sorted(small.folder.glob("results/*/small/*/*.json"))
    before = {path: path.read_bytes() for path in made}
    result = small.snakemake(experiment="small")
    assert result.returncode == 1
    assert len(small.records()) == 4
    assert {path: path.read_bytes() for path in made} == before and made, "no output is lost"
    lines = [line for line in result.stderr.splitlines() if line.startswith("rnnbench: ")]
    assert any("digits.npz" in line and "rnnbench dataset digits" in line for line in lines)
    repaired = small.rnnbench("dataset", "digits")
    assert repaired.returncode == 0, repaired.stderr

    page = small.folder / "reports/small/report.html"
    page.unlink()
    result = small.snakemake(experiment="small")
    assert result.returncode == 0, result.stderr
    assert "rnnbench: runs are missing in MLflow: http://" in result.stderr
    assert len(small.records()) == 6 and page.exists()
    assert "secret" not in result.stdout + result.stderr

    small.environment = reachable
    result = small.snakemake(experiment="small")
    assert result.returncode == 0, result.stderr
    assert "missing in MLflow" not in result.stderr
    (tracked,) = small.folder.glob("results/*/small/tracked/0.json")
    assert len(read_tracked([tracked.parents[1]])) == 6
    assert why_not_tracked(tracked) is None, "it is not made again"
