"""The worker: what it is told, and its process from start to end."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import rnnworker
from rnnbench.builds.launcher import environment as build_environment
from rnnbench.builds.launcher import launcher
from rnnbench.records.store import write_json
from rnnbench.running import affinity
from rnnbench.running.supervise import Event, Outcome, supervise

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "GOTO_NUM_THREADS",
)


def job_of(
    config: Mapping[str, Any], root: Path, *, pinned_md5: str | None = None, **more: Any
) -> dict[str, Any]:
    """What a worker is told to do: `config` (sections ``device`` and ``build`` at least), on cores
    that are chosen here, and `more`. It loads pickles only from a dataset whose bytes have
    `pinned_md5`."""
    cores = affinity.choose(affinity.read_topology(), config["device"].get("threads"))
    dataset = (config.get("dataset") or {}).get("path")
    return {
        "config": config,
        "threads": len(cores),
        "cores": list(cores),
        "dataset": str(root / dataset) if dataset else None,
        "pinned_md5": pinned_md5,
        "memory_bytes": (config.get("limits") or {}).get("memory_bytes"),
        "parent": os.getpid(),
        **more,
    }


def work(
    job: Mapping[str, Any],
    root: Path,
    files: Path,
    *,
    timing: int,
    limits: Mapping[str, float],
    on_event: Callable[[Event], None] = lambda event: None,
    on_handshake: Callable[[list[Event]], None] = lambda events: None,
) -> Outcome:
    """Has a new worker do `job` and returns when it is gone.

    **Arguments:**

    - `files`: what its files begin with; ``.log`` and ``.events.jsonl`` are left.
    - `timing`: the descriptor of the host's timing lock, which the worker holds too.
    - `limits`, `on_event`, `on_handshake`: as in `supervise`.
    """
    job_file = Path(f"{files}.job.json")
    write_json(job_file, job)
    outcome = supervise(
        [
            *launcher(job["config"]["build"], root),
            str(Path(rnnworker.__file__).parent),
            str(job_file),
        ],
        environment=worker_environment(os.environ, job["config"], job["threads"]),
        log=Path(f"{files}.log"),
        events_file=Path(f"{files}.events.jsonl"),
        limits=limits,
        inherit=(timing,),
        on_event=on_event,
        on_handshake=on_handshake,
    )
    job_file.unlink(missing_ok=True)
    return outcome


def worker_environment(
    environment: Mapping[str, str], config: Mapping[str, Any], threads: int
) -> dict[str, str]:
    """The worker's environment: ours, without the thread counts that Snakemake exports and
    without what leads Python to our packages; then the config's own."""
    kept = {
        name: value
        for name, value in environment.items()
        if name not in (*THREAD_VARIABLES, "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
        and not name.startswith(("MLFLOW_", "SNAKEMAKE_"))
    }
    kept["OMP_NUM_THREADS"] = str(threads)
    kept["PYTHONUNBUFFERED"] = "1"
    return {**kept, **build_environment(config["build"])}
