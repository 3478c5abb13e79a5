"""Workers in this project's builds: their jobs and processes."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rnnbench.builds.launcher import environment, launcher
from rnnbench.errors import RunError
from rnnbench.running.supervise import Event, Outcome, supervise
from rnnworker import workers
from rnnworker.members import Member


def job_of(config: Mapping[str, Any], root: Path, **more: Any) -> dict[str, Any]:
    """The job of a worker (see `workers.job_of`). Raises `RunError` if the device has more threads
    than this machine."""
    try:
        job: dict[str, Any] = workers.job_of(config, root, nvml=nvml(), **more)
    except ValueError as error:
        remedy = f"choose a device with 1 to {len(os.sched_getaffinity(0))} threads."
        raise RunError(f"{error}.", where="device.threads", remedy=remedy) from None
    return job


def member(
    name: str,
    job: Mapping[str, Any],
    root: Path,
    files: Path,
    *,
    timing: int | None,
    limits: Mapping[str, float],
    **more: Any,
) -> Member:
    """The member of a cohort that runs `job`.

    **Arguments:**

    - `files`: path prefix of its files ``.log``, ``.events.jsonl`` and, until `remove_job_file`,
      ``.job.json``.
    - `timing`: the descriptor of the host's timing lock, which the worker inherits, if any.
    - `limits`, `more`: as in `Member`.
    """
    build = job["config"]["build"]
    environment(build)  # raises for what is no variable
    inherit = () if timing is None else (timing,)
    files.parent.mkdir(parents=True, exist_ok=True)
    return workers.member_of(
        name, job, launcher(build, root), f"{files}.", limits, inherit=inherit, **more
    )


def remove_job_file(files: Path) -> None:
    Path(f"{files}.job.json").unlink(missing_ok=True)


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


def nvml() -> str | None:
    """The path of nvidia-ml-py's only module, with which a worker reads the state of its card."""
    spec = importlib.util.find_spec("pynvml")
    return spec.origin if spec else None
