"""Changes to Snakemake: less output, faster with thousands of runs, jobs in order of priority."""

from __future__ import annotations

import gc
import inspect
import logging
from collections.abc import Iterable
from typing import Any, TypeVar

from snakemake.common import overwrite_function_params
from snakemake.scheduling.job_scheduler import JobScheduler

SILENCED = ("Select jobs to execute", "Execute ", "Assuming unrestricted shared filesystem")
Kind = TypeVar("Kind", bound=type)


def silence_scheduler_log() -> None:
    """Drops Snakemake's log lines about its scheduling, of which there are two per run."""
    logging.getLogger("snakemake.logging").addFilter(
        lambda record: not str(record.msg).startswith(SILENCED)
    )


def raise_gc_threshold() -> None:
    """Makes garbage collections rarer, which take a fifth of the planning of 10,000 runs: Snakemake
    keeps about a hundred objects per job to its end. Objects without reference cycles are freed as
    before."""
    gc.set_threshold(100_000, 50, 1000)


def submit_by_priority() -> None:
    """Makes jobs that are ready at the same time start by priority. Snakemake submits them in the
    order of a set, and a cluster's queue keeps the order of submission."""
    select = JobScheduler.job_selector

    def by_priority(scheduler: JobScheduler, jobs: Any) -> list[Any]:
        return sorted(select(scheduler, jobs), key=lambda job: job.priority, reverse=True)

    JobScheduler.job_selector = by_priority


def force_rebuild(files: Iterable[str]) -> None:
    """Makes Snakemake make existing `files` again, as ``--forcerun`` does: each is removed when its
    job starts, none during a dry run."""
    from snakemake.dag import DAG  # cannot be imported before snakemake.workflow

    initialize = DAG.__init__

    def initialize_and_force(dag: DAG, *arguments: Any, **options: Any) -> None:
        initialize(dag, *arguments, **options)
        dag.forcefiles.update(files)

    DAG.__init__ = initialize_and_force


def memoized(kind: Kind) -> Kind:
    """Class decorator that stores the signature of each method. Snakemake reads the signature of
    a rule's function at least four times per job."""
    for method in filter(inspect.isfunction, vars(kind).values()):
        _, *others = inspect.signature(method).parameters.values()
        overwrite_function_params(method, {parameter.name: parameter for parameter in others})
    return kind
