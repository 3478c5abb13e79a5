"""What Snakemake is asked for: settings, targets, a cluster that is not there. No job runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from rnnbench.errors import ConfigError
from rnnbench.workflow.job import Job, load
from rnnbench.workflow.session import check_slurm
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


def test_a_file_of_another_experiment_says_how_to_request_it(job: Job) -> None:
    job.check_targets(["all", job.report, *job.rounds, "data/digits.npz", "fastest.csv"])
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
    for target in (f"results/records/m/{run.name}/a.json", f"{job.folder}/{run.name}.json"):
        with pytest.raises(ConfigError, match=f"request {job.folder}/rounds/{run.round}.json"):
            job.check_targets([target])


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
