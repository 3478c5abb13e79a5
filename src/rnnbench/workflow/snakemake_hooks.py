"""What makes Snakemake quieter, faster with thousands of runs, and true to their order."""

from __future__ import annotations

import gc
import inspect
import logging
from collections.abc import Iterable
from typing import Any, TypeVar

from snakemake.common import overwrite_function_params
from snakemake.scheduling.job_scheduler import JobScheduler

CHATTER = ("Select jobs to execute", "Execute ", "Assuming unrestricted shared filesystem")
Kind = TypeVar("Kind", bound=type)


def silence_scheduler_log() -> None:
    """Leaves out Snakemake's lines about its own scheduling, one pair for each run."""
    logging.getLogger("snakemake.logging").addFilter(
        lambda record: not str(record.msg).startswith(CHATTER)
    )


def raise_gc_threshold() -> None:
    """Leaves out most of the garbage collector's walks over what Snakemake keeps to its end, some
    hundred objects a job: a fifth of the planning of 10,000 runs. What is dropped without a cycle
    is freed as before."""
    gc.set_threshold(100_000, 50, 1000)


def submit_by_priority() -> None:
    """Jobs that may start at once start by priority: Snakemake hands them over in the order of a
    set, and a cluster's queue keeps what it gets."""
    select = JobScheduler.job_selector

    def by_priority(scheduler: JobScheduler, jobs: Any) -> list[Any]:
        return sorted(select(scheduler, jobs), key=lambda job: job.priority, reverse=True)

    JobScheduler.job_selector = by_priority


def force_rebuild(files: Iterable[str]) -> None:
    """Has Snakemake make `files` again although they are there, as ``--forcerun`` does: each is
    removed when its job starts, and none by what only plans."""
    from snakemake.dag import DAG  # cannot be imported before snakemake.workflow

    prepare = DAG.__init__

    def with_files(dag: DAG, *arguments: Any, **options: Any) -> None:
        prepare(dag, *arguments, **options)
        dag.forcefiles.update(files)

    DAG.__init__ = with_files


def memoized(kind: Kind) -> Kind:
    """A class whose methods are given to rules. Snakemake asks for the parameters of each of these
    four times and more for every job: they are looked up here, once."""
    for method in filter(inspect.isfunction, vars(kind).values()):
        _, *others = inspect.signature(method).parameters.values()
        overwrite_function_params(method, {each.name: each for each in others})
    return kind
