"""Changes to Snakemake: less output, and jobs in order of priority."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import Any

from snakemake.logging import DefaultFilter
from snakemake.scheduling.job_scheduler import JobScheduler
from snakemake.settings.enums import Quietness

SILENCED = (
    "Select jobs to execute",
    "Execute ",
    "Assuming unrestricted shared filesystem",
    "Building DAG of jobs",
    "Using shell",
    "Config file ",
    "Complete log(s)",
    "Elapsed time",
)


def silence_scheduler_log() -> None:
    """Drops Snakemake's log lines about its scheduling, of which there are two per run, and about
    itself; its own log files in ``.snakemake/log`` lack them too."""
    logging.raiseExceptions = False  # a full disk ends the log early, without tracebacks
    logging.getLogger("snakemake.logging").addFilter(
        lambda record: not str(record.msg).startswith(SILENCED)
    )


def list_jobs_of_a_dry_run() -> None:
    """Lists the jobs of ``snakemake -n``, although the profile's ``quiet`` hides those of a run."""
    for handler in logging.getLogger("snakemake.logging").handlers:
        for each in handler.filters:
            if isinstance(each, DefaultFilter) and each.dryrun:
                each.quiet = set(each.quiet) - {Quietness.RULES, Quietness.PROGRESS}


def submit_by_priority() -> None:
    """Makes jobs that are ready at the same time start by priority. Snakemake submits them in the
    order of a set (https://github.com/snakemake/snakemake/issues/615), and a cluster's queue keeps
    the order of submission. Which repeats are needed is decided in this order. A scheduler plugin
    would need a package of its own, and would be left out where this workflow is a module."""
    select = JobScheduler.job_selector

    def by_priority(scheduler: JobScheduler, jobs: Any) -> list[Any]:
        return sorted(select(scheduler, jobs), key=lambda job: job.priority, reverse=True)

    JobScheduler.job_selector = by_priority


def export_environment() -> None:
    """Sets the environment of the rules' commands: `python` is this interpreter (its path is not a
    parameter of any rule, because another one makes the same files), and imports this rnnbench."""
    folders = {
        "PATH": str(Path(sys.executable).parent),
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    for name, folder in folders.items():
        rest = os.environ.get(name)
        if rest:
            folder += os.pathsep + rest
        os.environ[name] = folder
