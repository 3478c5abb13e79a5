"""What Snakemake is asked for: settings, targets, a cluster that is not there. No job runs."""

from __future__ import annotations

import html
import shutil
from pathlib import Path

import pytest
from msgspec import to_builtins

from rnnbench import cli
from rnnbench.errors import ConfigError
from rnnbench.planning import planner
from rnnbench.planning.plan import write_plan
from rnnbench.planning.planner import NothingToRun
from rnnbench.records.rounds import NotNeeded, Result, write_results
from rnnbench.records.store import write_json
from rnnbench.workflow.job import Job, damaged, load
from rnnbench.workflow.session import NO_USABLE_RUN, Session, check_slurm, summarize
from tests.conftest import ROOT

OWN = str(ROOT / "tests/conf")
CHANGES = ["model.epochs=3", "repeat=0"]


@pytest.fixture(scope="module")
def job() -> Job:
    return load({"experiment": "small", "conf": OWN}, ROOT)


def test_overrides_and_conf_are_a_text_or_a_list() -> None:
    texts = load({"experiment": "small", "conf": OWN, "overrides": " ".join(CHANGES)}, ROOT)
    lists = load({"experiment": "small", "conf": [OWN], "overrides": CHANGES}, ROOT)
    assert texts.plan_digest == lists.plan_digest
    assert lists.experiment == "small+model.epochs=3+repeat=0"
    for key in ("overrides", "conf"):
        with pytest.raises(ConfigError, match=rf"--config[: ]+{key}: is 3.*a list of texts"):
            load({"experiment": "small", "conf": OWN} | {key: 3}, ROOT)


def test_a_batch_that_lacks_a_certificate_as_it_is_planned_is_made_again(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = load({"experiment": "quick"}, folder)
    (batch,) = job.plan.batches.values()
    (key,) = job.plan.certificates
    assert (job.certificates, batch.certificates) == ([], [key])
    assert damaged(job) == [], "nothing was measured"

    rule = to_builtins(job.plan.experiment.repeats)
    why = NotNeeded(spent=1.0, budget=1.0)
    for each in batch.rounds:
        results = {
            run.name: Result(record=None, digest=run.digest, not_needed=why, repeats=rule)
            for run in each.runs
        }
        write_results(folder / job.round_file(each.name), results)
    write_results(folder / job.batch_file("0"), results)
    file = f"{job.folder}/certificates/{key}.json"
    assert damaged(job) == [job.batch_file("0")], "it has no certificate"
    for content in ({"digest": "of other code"}, {}, [], None):
        write_json(folder / file, content)
        assert damaged(job) == [job.batch_file("0")]
    assert capsys.readouterr().err.count(f"certificate {key} is missing, or of something else") == 5
    write_json(folder / file, {"digest": job.plan.certificates[key].digest})
    assert damaged(job) == []
    assert Job(job.plan, folder, is_local=False).certificates == [file], "on a cluster"


def test_a_file_of_another_experiment_says_how_to_request_it(job: Job) -> None:
    job.check_targets(["all", job.report, *job.measured, "data/digits.npz", "fastest.csv"])
    for target, told in {
        "reports/quick/report.html": "this is a file of quick, but small is requested. Fix: add "
        "`--config experiment=quick`.",
        "reports/quick+seed=1/report.html": "experiment=quick` and the overrides that its name has",
        f"results/{job.site}/quick/rounds/a.json": "--config experiment=quick`",
        "results/records/m/other-s0-r0/a.json": "small has no run other-s0-r0",
    }.items():
        with pytest.raises(ConfigError) as caught:
            job.check_targets([target])
        assert told in str(caught.value)


def test_a_run_says_which_round_makes_it(job: Job) -> None:
    run = next(iter(job.plan.runs.values()))
    with pytest.raises(ConfigError, match=f"request {job.folder}/rounds/{run.round}.json"):
        job.check_targets([f"results/records/m/{run.name}/a.json"])


# Experiment → a text of one of its published rows.
WITH_PUBLISHED_ROWS = {
    "k80_p100": "12.5×",
    "relu_confound": "LSTM versus CuDNNLSTM",
    "cpu_against_gpu": "0.9910",
    "gpu_first": "CuDNNLSTM",
    "threads": "64 vCPUs",
    "pip_against_compiled": "compiled",
}

FIRST_SCREEN_ENDS = {"report.html": '<p class="about">', "report.md": "\nExperiment `"}


@pytest.fixture
def nothing_can_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "unmet_here", lambda config: "no NVIDIA GPU on this machine")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project without results, in which a command runs."""
    shutil.copytree(ROOT / "conf", tmp_path / "conf")
    shutil.copytree(ROOT / "reports/published", tmp_path / "reports/published")
    shutil.copy(ROOT / "data.dvc", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("nothing_can_run")
@pytest.mark.parametrize(
    "experiment",
    [
        "k80_p100",
        *(
            pytest.param(name, marks=pytest.mark.slow_tier("a page of each experiment"))
            for name in WITH_PUBLISHED_ROWS
            if name != "k80_p100"
        ),
    ],
)
def test_an_experiment_with_published_rows_has_a_page_where_nothing_can_run(
    experiment: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = load({"experiment": experiment}, folder)
    assert not job.measured and not job.tracked and not job.certificates
    write_plan(job.plan, folder / job.results)
    assert cli.main(["report", experiment]) == 0
    why = f"None of the {len(job.plan.skipped)} grid points can run on this machine: no NVIDIA GPU"
    assert capsys.readouterr().out.startswith(why)
    for name in ("report.html", "report.md"):
        page = html.unescape((folder / job.report_folder / name).read_text())
        text = page.replace("<code>", "`").replace("</code>", "`")
        assert why in text and f"`rnnbench bundle {experiment} -o FOLDER` here" in text
        assert "Published by others. Nothing of it was measured here" in text
        assert WITH_PUBLISHED_ROWS[experiment] in text
        # A published chart, what it compares and its source are on the first screen.
        first = text.partition(FIRST_SCREEN_ENDS[name])[0]
        assert "published-" in first and "Source: `" in first and why in first
    (*_, obstacle, report), exit_code = summarize(job)
    assert obstacle.startswith("none of the ") and "Fix: choose other devices" in obstacle
    assert report == f"the report is {job.report}"
    assert exit_code == NO_USABLE_RUN


@pytest.mark.usefixtures("nothing_can_run")
def test_a_page_without_runs_replaces_no_results_and_is_made_of_published_rows_only(
    folder: Path,
) -> None:
    job = load({"experiment": "k80_p100"}, folder)
    file = folder / job.folder / f"rounds/{job.plan.skipped[0][0]}.json"
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    with pytest.raises(NothingToRun, match="none of the 24 grid points can run"):
        load({"experiment": "k80_p100"}, folder)
    with pytest.raises(NothingToRun, match="none of the"):
        load({"experiment": "contrib"}, folder)


def test_a_report_that_cannot_be_made_after_a_failure_is_named(
    job: Job, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(arguments: list[str]) -> None:
        raise ConfigError("cannot be read.", where="conf/price/mine.yaml", remedy="correct it.")

    monkeypatch.setattr("rnnbench.commands.report.report", fail)
    monkeypatch.setattr(Job, "finished", list(job.plan.rounds.values()))
    Session(job).end(failed=True)
    told = "warning: the report was not updated: conf/price/mine.yaml: cannot be read."
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("squeue", "told"),
    [
        (None, "squeue does not exist"),
        ("echo 'no configuration source' >&2; exit 1", "no configuration source"),
        ("echo 'Unable to connect to slurm controller' >&2; exit 1", None),
        ("exit 0", None),
    ],
)
def test_a_host_without_slurm_is_one_line(
    squeue: str | None, told: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if squeue:
        (tmp_path / "squeue").write_text(f"#!/bin/sh\n{squeue}\n")
        (tmp_path / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    check_slurm("sbatch --parsable")  # not the profile's
    check_slurm(None)
    if told is None:
        check_slurm("/profiles/slurm/submit.py")
        return
    with pytest.raises(ConfigError, match=told) as caught:
        check_slurm("/profiles/slurm/submit.py")
    assert "\n" not in str(caught.value)
