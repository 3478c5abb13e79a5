"""Workers: their jobs, environments and processes."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import rnnworker
from rnnbench.builds.launcher import environment as build_environment
from rnnbench.builds.launcher import launcher
from rnnbench.errors import RunError
from rnnbench.records.store import write_json
from rnnbench.running.supervise import Event, Outcome, supervise
from rnnworker import affinity, cards, machine
from rnnworker.members import Member
from rnnworker.rounds import may_fork

THREAD_VARIABLES = (
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS", "GOTO_NUM_THREADS",
)  # fmt: skip


def job_of(
    config: Mapping[str, Any],
    root: Path,
    *,
    pinned_md5: str | None = None,
    place: int = 0,
    **more: Any,
) -> dict[str, Any]:
    """The job of a worker, on cores chosen by this function.

    **Arguments:**

    - `config`: has at least the sections ``device`` and ``build``.
    - `pinned_md5`: md5 of the dataset from which the worker may load pickles.
    - `place`: the number of the worker in its cohort, whose members start on different cores.
    - `more`: further keys of the job.

    Raises `RunError` if the device has more threads than this machine.
    """
    topology = affinity.read_topology()
    card = card_of(config)
    try:
        cores = affinity.for_device(topology, config["device"], card)
    except ValueError as error:
        remedy = f"choose a device with 1 to {len(topology)} threads."
        raise RunError(f"{error}.", where="device.threads", remedy=remedy) from None
    dataset = (config.get("dataset") or {}).get("path")
    return {
        "config": config,
        "card": card,
        "nvml": nvml() if card else None,
        "threads": len(cores),
        "cores": list(cores),
        "start_cores": list(affinity.start_cores(topology, cores, place)),
        "dataset": str(root / dataset) if dataset else None,
        "pinned_md5": pinned_md5,
        "memory_bytes": (config.get("limits") or {}).get("memory_bytes"),
        "parent": os.getpid(),
        **more,
    }


def member(
    name: str,
    job: Mapping[str, Any],
    root: Path,
    files: Path,
    *,
    timing: int | None,
    limits: Mapping[str, float],
    on_event: Callable[[Event], None] = lambda event: None,
    on_handshake: Callable[[list[Event]], None] = lambda events: None,
) -> Member:
    """The member of a cohort that runs `job`.

    **Arguments:**

    - `files`: path prefix of its files ``.log``, ``.events.jsonl`` and, until `remove_job_file`,
      ``.job.json``.
    - `timing`: the descriptor of the host's timing lock, which the worker inherits, if any.
    - `limits`, `on_event`, `on_handshake`: as in `Member`.
    """
    job_file = _job_file(files)
    write_json(job_file, job)
    return Member(
        name,
        [
            *launcher(job["config"]["build"], root),
            str(Path(rnnworker.__file__).parent),
            str(job_file),
        ],
        worker_environment(os.environ, job["config"], job["threads"], job.get("card")),
        Path(f"{files}.log"),
        Path(f"{files}.events.jsonl"),
        limits,
        () if timing is None else (timing,),
        on_event,
        on_handshake,
        forks=may_fork(job["config"]),
    )


def remove_job_file(files: Path) -> None:
    _job_file(files).unlink(missing_ok=True)


def run_workers(
    jobs: Mapping[str, tuple[Mapping[str, Any], Path]],
    root: Path,
    *,
    on_event: Callable[[str], Callable[[Event], None]],
    **options: Any,
) -> dict[str, Outcome]:
    """Runs the `jobs` (name → job and path prefix of its files, which are made anew) in new workers
    side by side, not in turns, and returns name → outcome. `on_event` makes the function that is
    called with the events of a name; the other arguments are those of `member`."""
    for _, files in jobs.values():
        for ending in (".log", ".events.jsonl"):
            Path(f"{files}{ending}").unlink(missing_ok=True)
    outcomes = supervise(
        [
            member(name, job, root, files, on_event=on_event(name), **options)
            for name, (job, files) in jobs.items()
        ]
    )
    for _, files in jobs.values():
        remove_job_file(files)
    return outcomes


def _job_file(files: Path) -> Path:
    return Path(f"{files}.job.json")


def nvml() -> str | None:
    """The path of nvidia-ml-py's only module, with which a worker reads the state of its card."""
    spec = importlib.util.find_spec("pynvml")
    return spec.origin if spec else None


def card_of(config: Mapping[str, Any]) -> dict[str, Any] | None:
    """The card that a run with `config` uses on this host (`cards.select_card`)."""
    if config["device"].get("kind") != "gpu":
        return None
    environment = {**os.environ, **(config["build"].get("environment") or {})}
    return cards.select_card(config["device"], machine.gpus(), environment)


def worker_environment(
    environment: Mapping[str, str],
    config: Mapping[str, Any],
    threads: int,
    card: Mapping[str, Any] | None = None,
) -> dict[str, str]:
    """The worker's environment: this process's, without the thread counts that Snakemake exports
    and without variables that lead Python to rnnbench's packages; then the build's variables, and
    `card` as the only visible card."""
    kept = {
        name: value
        for name, value in environment.items()
        if name not in (*THREAD_VARIABLES, "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
        and not name.startswith(("MLFLOW_", "SNAKEMAKE_"))
    }
    kept["OMP_NUM_THREADS"] = str(threads)
    kept["PYTHONUNBUFFERED"] = "1"
    return {**kept, **build_environment(config["build"]), **cards.variables(card)}
