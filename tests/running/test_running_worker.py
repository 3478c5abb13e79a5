"""What a worker's process is given of ours."""

from __future__ import annotations

from rnnbench.running.worker import worker_environment


def test_the_worker_environment_is_ours_but_for_what_would_lead_it_astray() -> None:
    ours = {
        "HOME": "/home/me",
        "PATH": "/bin",
        "PYTHONPATH": "/ours",
        "PYTHONHOME": "/ours",
        "VIRTUAL_ENV": "/ours",
        "OMP_NUM_THREADS": "8",
        "MKL_NUM_THREADS": "8",
        "OPENBLAS_NUM_THREADS": "8",
        "NUMEXPR_NUM_THREADS": "8",
        "GOTO_NUM_THREADS": "8",
        "VECLIB_MAXIMUM_THREADS": "8",
        "MLFLOW_TRACKING_URI": "http://somewhere",
        "MLFLOW_RUN_ID": "1",
        "SNAKEMAKE_PROFILE": "x",
    }
    config = {"build": {"environment": {"TF_FLAG": True, "PATH": "/theirs"}}}
    assert worker_environment(ours, config, 2) == {
        "HOME": "/home/me",
        "PATH": "/theirs",
        "OMP_NUM_THREADS": "2",
        "PYTHONUNBUFFERED": "1",
        "TF_FLAG": "1",
    }
    assert ours["PATH"] == "/bin"


def test_the_build_may_set_what_is_taken_out() -> None:
    build = {"environment": {"PYTHONPATH": "/theirs", "OMP_NUM_THREADS": 7}}
    assert worker_environment({"PYTHONPATH": "/ours"}, {"build": build}, 2) == {
        "PYTHONPATH": "/theirs",
        "OMP_NUM_THREADS": "7",
        "PYTHONUNBUFFERED": "1",
    }
