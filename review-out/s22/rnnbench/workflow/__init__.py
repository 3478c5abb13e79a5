"""The Python side of the Snakefile: paths and parameters of its rules, and its hooks."""

from rnnbench.workflow.job import Job, load
from rnnbench.workflow.session import Session
from rnnbench.workflow.snakemake_hooks import (
    export_environment,
    list_jobs_of_a_dry_run,
    silence_scheduler_log,
    submit_by_priority,
)

__all__ = [
    "Job",
    "Session",
    "export_environment",
    "list_jobs_of_a_dry_run",
    "load",
    "silence_scheduler_log",
    "submit_by_priority",
]
