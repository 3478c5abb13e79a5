"""Bad input is one line with file, key and remedy; what goes wrong in a run loses nothing else."""

from __future__ import annotations

import subprocess

import pytest

from rnnbench.records.store import read_record
from rnnbench.workflow.summary import ALL_VOID
from tests.conftest import Project


def one_line(done: subprocess.CompletedProcess) -> str:
    lines = [line for line in done.stderr.splitlines() if line.startswith("rnnbench: ")]
    assert len(lines) == 1, done.stderr
    assert "Traceback" not in done.stdout + done.stderr
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
def test_what_the_grid_gets_wrong(project: Project, grids: str, words: list[str]) -> None:
    write_experiment(project, grids)
    done = project.snakemake(experiment="mine")
    assert done.returncode == 2
    line = one_line(done)
    assert all(word in line for word in words), line


def test_unknown_experiment_lists_the_known(project: Project) -> None:
    done = project.snakemake(experiment="quik")
    assert done.returncode == 2
    assert "quick" in one_line(done)


def test_unknown_config_key(project: Project) -> None:
    done = subprocess.run(
        [*project.command(), "experimnt=quick"],
        cwd=project.folder,
        env=project.environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "experimnt" in one_line(done)


def test_void_runs_are_recorded_and_the_others_go_on(project: Project) -> None:
    done = project.snakemake(experiment="faulty")
    assert done.returncode == 0, done.stdout + done.stderr
    verdicts = {record.name: record.verdict for record in map(read_record, project.records())}
    assert sorted(verdict.status for verdict in verdicts.values())[1:] == ["void", "void"]
    assert "NaN or infinite in epoch 2" in done.stderr
    assert "RuntimeError in phase train: a made-up fault in the model" in done.stderr
    page = (project.folder / "reports/faulty/report.md").read_text()
    assert "NaN or infinite in epoch 2" in page


def test_flipped_byte_stops_the_run_and_says_how_to_mend_it(project: Project) -> None:
    assert project.snakemake("--until", "dataset", experiment="small").returncode == 0
    data = project.folder / "data/digits.npz"
    content = bytearray(data.read_bytes())
    content[1000] ^= 1
    data.unlink()
    data.write_bytes(content)
    done = project.snakemake(experiment="small")
    assert done.returncode == 1
    assert not project.records()
    last = [line for line in done.stderr.splitlines() if line.startswith("rnnbench: ")]
    assert any("digits.npz" in line and "rnnbench dataset digits" in line for line in last)

    mended = project.rnnbench("dataset", "digits")
    assert mended.returncode == 0, mended.stderr
    assert project.snakemake(experiment="small").returncode == 0


def test_no_network_and_no_mirror(project: Project) -> None:
    write_experiment(project, "['model=fake build=fake rnn=fake_fast dataset=nietzsche']")
    dataset = project.folder / "conf/dataset/nietzsche.yaml"
    text = dataset.read_text()
    url = next(line for line in text.splitlines() if line.startswith("url:"))
    dataset.write_text(text.replace(url, "url: http://127.0.0.1:9/nietzsche.txt"))
    done = project.snakemake(experiment="mine")
    assert done.returncode == 1
    assert "RNNBENCH_DATA_MIRROR" in done.stderr
    assert "Traceback" not in done.stderr


def test_results_folder_that_cannot_be_written(project: Project) -> None:
    (project.folder / "results").write_text("a file where the folder should be")
    done = project.snakemake(experiment="small")
    assert done.returncode != 0
    assert "results" in one_line(done)


@pytest.mark.fault(
    "the MLflow server is away",
    "records and report are made, tracking fails",
    "the same command logs them later",
)
def test_unreachable_mlflow_loses_nothing_and_is_caught_up(project: Project) -> None:
    away = {**project.environment, "MLFLOW_TRACKING_URI": "http://user:secret@127.0.0.1:9"}
    known = project.environment
    project.environment = away
    done = project.snakemake(experiment="small")
    assert done.returncode == 1
    assert len(project.records()) == 4
    assert (project.folder / "reports/small/report.html").exists()
    assert "secret" not in done.stdout + done.stderr
    project.environment = known
    caught_up = project.snakemake(experiment="small")
    assert caught_up.returncode == 0, caught_up.stderr
    assert len(project.records()) == 4


def test_an_experiment_of_void_runs_alone_says_so_and_again(project: Project) -> None:
    grid = "model=fake build=fake rnn=fake_fast,fake_middle device=cpu_1 rnn.fake.fault=not_finite"
    (project.conf / "experiment" / "void.yaml").write_text(f"grids: [{grid!r}]\n")
    done = project.snakemake(experiment="void")
    words = "all 2 runs are void, so there is no number (exit code 3): "
    assert done.returncode == ALL_VOID == 3, done.stdout + done.stderr
    assert words in done.stderr and "`rnnbench retry void`" in done.stderr
    again = project.snakemake(experiment="void")
    assert "Nothing to be done" in again.stdout + again.stderr
    assert again.returncode == ALL_VOID and words in again.stderr
    planned = project.snakemake("-n", experiment="void")
    assert planned.returncode == 0, "planning finds nothing wrong"


def test_some_void_runs_are_a_line_and_no_failure(project: Project) -> None:
    words = "2 of 3 runs are void and in no number: "
    for _ in range(2):
        done = project.snakemake(experiment="faulty")
        assert done.returncode == 0
        assert done.stderr.count(words) == 1 and "so there is no number" not in done.stderr
