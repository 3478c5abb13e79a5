"""What the Snakefile is made of: paths, parameters and hooks. Rules wire; this decides."""

from rnnbench.workflow.job import Job
from rnnbench.workflow.load import load
from rnnbench.workflow.session import Session
from rnnbench.workflow.tuning import collect_rarely, hush, start_in_order

__all__ = ["Job", "Session", "collect_rarely", "hush", "load", "start_in_order"]
