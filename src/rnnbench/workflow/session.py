"""The hooks that run when Snakemake starts and ends."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rnnbench import locks
from rnnbench.errors import RunError, say
from rnnbench.planning.plan import write_plan
from rnnbench.running import host_check
from rnnbench.running.worker import WorkflowImporters
from rnnbench.workflow import signal_handling
from rnnbench.workflow.job import Job
from rnnbench.workflow.summary import Summary, summarize

if TYPE_CHECKING:
    from snakemake.workflow import Workflow


class Session:
    """One execution of `job`, which holds the lock of the results folder."""

    def __init__(self, job: Job):
        self.job = job
        self._importers: WorkflowImporters | None = None

    def start(self, local: bool = True) -> None:
        """Locks the results folder until this process ends and writes the plan, before the first
        job. `local` is False if jobs go to a cluster."""
        folder = self.job.root / self.job.results
        try:
            self._lock, holder = locks.take(folder / ".lock", f"process {os.getpid()}")
            if self._lock is None:
                raise RunError(
                    f"is in use by another process ({holder}).",
                    where=str(folder),
                    remedy="wait for it or end it, then run the same command again.",
                )
            write_plan(self.job.plan, folder)
            signal_handling.install(self._interrupted, local)
            if local:
                self._importers = WorkflowImporters(self._missing(), self.job.root)
            for warning in host_check.warnings(host_check.read_host_facts()):
                say(f"warning: {warning}.")
        except RunError as error:
            _leave(error)
        except OSError as error:
            _leave(
                RunError(
                    f"cannot be written: {error}.",
                    where=str(folder),
                    remedy="make the folder writable, or free some space.",
                )
            )

    def _missing(self) -> Iterable[Mapping[str, Any]]:
        """The configurations of the runs that have no record and can run here."""
        runs = zip(self.job.plan.runs.values(), self.job.pointers, strict=True)
        return (run.config for run, pointer in runs if not (self.job.root / pointer).exists())

    def _interrupted(self) -> str:
        if self._importers:
            self._importers.end()
        done = sum((self.job.root / pointer).exists() for pointer in self.job.pointers)
        return f"{done} of {len(self.job.pointers)} runs have a record; the same command continues."

    def end(self, failed: bool = False) -> None:
        """Prints the summary: void runs, missing runs, the path of the report."""
        if self._importers:
            self._importers.end()
        if failed:
            with contextlib.suppress(Exception):
                self._report_finished_runs()
        for line in self._summary.lines:
            say(line)

    def wrap_execution(self, workflow: Workflow, made_again: Iterable[str]) -> None:
        """Changes what a hook of Snakemake cannot (https://github.com/snakemake/snakemake/pull/1796
        asks for one). The files `made_again` are made again, like those of ``--forcerun``: each is
        removed when its job starts, none during a dry run. This process ends with the exit code of
        `summarize`. Void runs are also printed if there is nothing to do."""
        execute = workflow.execute

        def execute_and_exit(*arguments, **named) -> None:
            settings = workflow.dag_settings
            settings.forcerun = {*settings.forcerun, *made_again}
            execute(*arguments, **named)
            if workflow.dryrun or not workflow.is_main_process:
                return
            if "_summary" not in vars(self) and self._summary.void:
                self.end()
            if self._summary.exit_code:
                sys.exit(self._summary.exit_code)

        workflow.execute = execute_and_exit

    @cached_property
    def _summary(self) -> Summary:
        """To be read only when all jobs have ended."""
        return summarize(self.job.plan, self.job.root, self.job.results)

    def _report_finished_runs(self) -> None:
        from rnnbench.commands import report

        if any((self.job.root / pointer).exists() for pointer in self.job.pointers):
            report.main(
                [self.job.experiment, "--site", self.job.site, "--out", self.job.report_folder]
            )


def _leave(error: RunError) -> None:
    say(error)
    os._exit(error.exit_code)
