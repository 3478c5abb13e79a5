"""Bad input gives one line with file, key and fix; a failed run does not affect other runs."""

from __future__ import annotations

import subprocess

import pytest

from rnnbench.records.store import read_record
from rnnbench.sources.tracked_runs import read_tracked
from rnnbench.workflow.session import ALL_VOID
from tests.conftest import Project


def error_line(result: subprocess.CompletedProcess) -> str:
    """The only line of rnnbench on standard error."""
    lines = [line for line in result.stderr.splitlines() if line.startswith("rnnbench: ")]
    assert len(lines) == 1, result.stderr
    assert "Traceback" not in result.stdout + result.stderr
    assert "Fix: " in lines[0]
    return lines[0]


def write_experiment(project: Project, grids: str) -> None:
    (project.conf / "experiment/mine.yaml").write_text(f"title: mine\ngrids: {grids}\n")


@pytest.mark.parametrize(
    ("grids", "words"),
    [
        ("['model=fake build=fake rnn=fake_fats']", ["mine.yaml", "fake_fats", "fake_fast"]),
        ("['model=fake model.epohcs=3']", ["mine.yaml", "model.epohcs", "epochs"]),
        ("[]", ["mine.yaml", "grids"]),
        ("['model=fake build=fake rnn=fake_fast device.threads=999']", ["mine.yaml", "cores"]),
        ("['model=fake build=fake rnn=fake_fast seed=range(']", ["mine.yaml"]),
    ],
)
def test_an_invalid_grid(project: Project, grids: str, words: list[str]) -> None:
    write_experiment(project, grids)
    result = project.snakemake(experiment="mine")
    assert result.returncode == 2
    line = error_line(result)
    assert all(word in line for word in words), line


def test_an_unknown_experiment_lists_the_known_ones(project: Project) -> None:
    result = project.snakemake(experiment="quik")
    assert result.returncode == 2
    assert "quick" in error_line(result)


def test_an_unknown_config_key(project: Project) -> None:
    result = subprocess.run(
        [*project.command(), "experimnt=quick"],
        cwd=project.folder,
        env=project.environment,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 2
    assert "experimnt" in error_line(result)


def test_void_runs_are_recorded_and_other_runs_continue(project: Project) -> None:
    result = project.snakemake(experiment="faulty")
    assert result.returncode == 0, result.stdout + result.stderr
    verdicts = {record.name: record.verdict for record in map(read_record, project.records())}
    assert sorted(verdict.status for verdict in verdicts.values())[1:] == ["void", "void"]
    assert "NaN or infinite in epoch 2" in result.stderr
    assert "RuntimeError in phase train: a made-up fault in the model" in result.stderr
    page = (project.folder / "reports/faulty/report.md").read_text()
    assert "NaN or infinite in epoch 2" in page


def test_a_changed_byte_of_a_dataset_stops_the_runs_and_the_fix_is_named(project: Project) -> None:
    assert project.snakemake("--until", "dataset", experiment="small").returncode == 0
    data = project.folder / "data/digits.npz"
    content = bytearray(data.read_bytes())
    content[1000] ^= 1
    data.unlink()
    data.write_bytes(content)
    result = project.snakemake(experiment="small")
    assert result.returncode == 1
    assert not project.records()
    lines = [line for line in result.stderr.splitlines() if line.startswith("rnnbench: ")]
    assert any("digits.npz" in line and "rnnbench dataset digits" in line for line in lines)

    repaired = project.rnnbench("dataset", "digits")
    assert repaired.returncode == 0, repaired.stderr
    assert project.snakemake(experiment="small").returncode == 0


def test_no_network_and_no_mirror(project: Project) -> None:
    write_experiment(project, "['model=fake build=fake rnn=fake_fast dataset=nietzsche']")
    dataset = project.folder / "conf/dataset/nietzsche.yaml"
    text = dataset.read_text()
    url = next(line for line in text.splitlines() if line.startswith("url:"))
    dataset.write_text(text.replace(url, "url: http://127.0.0.1:9/nietzsche.txt"))
    result = project.snakemake(experiment="mine")
    assert result.returncode == 1
    assert "RNNBENCH_DATA_MIRROR" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_results_folder_that_cannot_be_written(project: Project) -> None:
    (project.folder / "results").write_text("a file instead of a folder")
    result = project.snakemake(experiment="small")
    assert result.returncode != 0
    assert "results" in error_line(result)


@pytest.mark.fault(
    "the MLflow server is unavailable",
    "records and report are made; a warning",
    "run the same command later to log them",
)
def test_records_are_logged_later_if_mlflow_was_unreachable(project: Project) -> None:
    reachable = project.environment
    project.environment = {
        **reachable,
        "MLFLOW_TRACKING_URI": "http://user:secret@127.0.0.1:9",
    }
    result = project.snakemake(experiment="small")
    assert result.returncode == 0, result.stderr
    assert "rnnbench: runs are missing in MLflow: http://" in result.stderr
    assert len(project.records()) == 4
    assert (project.folder / "reports/small/report.html").exists()
    assert "secret" not in result.stdout + result.stderr
    project.environment = reachable
    more = project.conf / "experiment/small.yaml"
    more.write_text(more.read_text().replace("repeat=range(2)", "repeat=range(3)"))
    result = project.snakemake(experiment="small")
    assert result.returncode == 0, result.stderr
    assert "missing in MLflow" not in result.stderr
    (tracked,) = project.folder.glob("results/*/small/tracked/0.json")
    assert len(read_tracked([tracked.parents[1]])) == len(project.records()) == 6
    again = project.snakemake(experiment="small")
    assert "Nothing to be done" in again.stdout + again.stderr


def test_if_all_runs_are_void_the_exit_code_is_3_every_time(project: Project) -> None:
    grid = "model=fake build=fake rnn=fake_fast,fake_middle device=cpu_1 rnn.fake.fault=not_finite"
    (project.conf / "experiment" / "void.yaml").write_text(f"grids: [{grid!r}]\n")
    result = project.snakemake(experiment="void")
    message = "all 2 runs are void, so there is no result (exit code 3): "
    assert result.returncode == ALL_VOID == 3, result.stdout + result.stderr
    assert message in result.stderr and "`rnnbench retry void`" in result.stderr
    again = project.snakemake(experiment="void")
    assert "Nothing to be done" in again.stdout + again.stderr
    assert again.returncode == ALL_VOID and message in again.stderr
    assert project.snakemake("-n", experiment="void").returncode == 0, "a dry run does not fail"


def test_if_some_runs_are_void_a_line_reports_them_and_the_exit_code_is_0(project: Project) -> None:
    message = "2 of 3 runs are void and left out of all results: "
    for _ in range(2):
        result = project.snakemake(experiment="faulty")
        assert result.returncode == 0
        assert result.stderr.count(message) == 1 and "so there is no result" not in result.stderr
