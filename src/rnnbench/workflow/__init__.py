"""What the Snakefile is made of: paths, parameters and hooks. Rules wire; this decides."""

from rnnbench.workflow.job import Job
from rnnbench.workflow.load import damaged, load
from rnnbench.workflow.session import Session
from rnnbench.workflow.tuning import collect_rarely, hush, make_again, start_in_order

__all__ = [
    "Job",
    "Session",
    "collect_rarely",
    "damaged",
    "hush",
    "load",
    "make_again",
    "start_in_order",
]
