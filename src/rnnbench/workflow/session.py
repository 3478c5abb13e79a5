"""What happens when Snakemake starts and when it ends."""

from __future__ import annotations

import contextlib
import os
import sys
from functools import cached_property
from typing import TYPE_CHECKING

from rnnbench import locks
from rnnbench.errors import RunError, say
from rnnbench.planning.plan import write_plan
from rnnbench.running import host_check
from rnnbench.workflow import signal_handling
from rnnbench.workflow.job import Job
from rnnbench.workflow.summary import Summary, summarize

if TYPE_CHECKING:
    from snakemake.workflow import Workflow


class Session:
    """One execution of `job`, which holds the results folder's lock."""

    def __init__(self, job: Job):
        self.job = job

    def start(self, local: bool = True) -> None:
        """Before the first job: this results folder is ours until this process ends. `local`
        is False where jobs go to a cluster."""
        folder = self.job.root / self.job.results
        try:
            self._lock, holder = locks.take(folder / ".lock", f"process {os.getpid()}")
            if self._lock is None:
                _leave(
                    RunError(
                        f"another snakemake is at work here ({holder}).",
                        where=str(folder),
                        remedy="wait for it, or end it; then the same command continues.",
                    )
                )
            write_plan(self.job.plan, folder)
            signal_handling.install(self._last_words, local)
            for warning in host_check.warnings(host_check.look()):
                say(f"warning: {warning}.")
        except OSError as error:
            _leave(
                RunError(
                    f"cannot be written: {error}.",
                    where=str(folder),
                    remedy="make the folder writable, or free some space.",
                )
            )

    def _last_words(self) -> str:
        done = sum((self.job.root / pointer).exists() for pointer in self.job.pointers)
        return f"{done} of {len(self.job.pointers)} runs have a record; the same command continues."

    def end(self, failed: bool = False) -> None:
        """The last lines a person reads: what is void, what is missing, where the report is."""
        if failed:
            with contextlib.suppress(Exception):
                self._report_what_is_there()
        for line in self._summary.lines:
            say(line)

    def follow(self, workflow: Workflow) -> None:
        """Ends this process with the exit code of `summarize`, and says what is void where nothing
        is to be done. Snakemake calls no hook then, and takes no exit code from one."""
        execute = workflow.execute

        def executed(*arguments, **named) -> None:
            execute(*arguments, **named)
            if workflow.dryrun or not workflow.is_main_process:
                return
            if "_summary" not in vars(self) and self._summary.void:
                self.end()
            if self._summary.exit_code:
                sys.exit(self._summary.exit_code)

        workflow.execute = executed

    @cached_property
    def _summary(self) -> Summary:
        """To be looked at when all is done."""
        return summarize(self.job.plan, self.job.root, self.job.results)

    def _report_what_is_there(self) -> None:
        from rnnbench.commands import report

        if any((self.job.root / pointer).exists() for pointer in self.job.pointers):
            report.main(
                [self.job.experiment, "--site", self.job.site, "--out", self.job.report_folder]
            )


def _leave(error: RunError) -> None:
    say(error)
    os._exit(error.exit_code)
