"""The hooks that run when Snakemake starts and ends, and the last lines of its output.

Snakemake has no public means for either where this workflow is a module of another one: hooks of
modules are not run, and the exit code cannot be chosen. So `Session.attach` wraps
``Workflow.execute``.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rnnbench import locks
from rnnbench.errors import ConfigError, RecordError, RnnbenchError, RunError, say
from rnnbench.planning.plan import write_plan
from rnnbench.records.rounds import results_in
from rnnbench.records.store import read_record, why_not_tracked
from rnnbench.running import host_check
from rnnbench.tracking.store import say_if_unusable
from rnnbench.workflow import signal_handling
from rnnbench.workflow.job import Job, made_again

if TYPE_CHECKING:
    from snakemake.workflow import Workflow


class Session:
    """One execution of `job`, which holds the lock of the results folder. `exit_code`: that of
    `summarize`, once all jobs have ended."""

    def __init__(self, job: Job):
        self.job = job
        self.exit_code: int | None = None
        self._before = host_check.sample()
        self._lock = contextlib.ExitStack()  # held until this process ends

    def start(self, local: bool = True) -> None:
        """Locks the results folder until this process ends, and writes the plan, before the first
        job. Ends this process if another one holds the lock, or if the folder cannot be written.

        `local`: whether the jobs run on this machine, not on a cluster.
        """
        folder = self.job.root / self.job.results
        try:
            self._lock.enter_context(locks.exclusive(folder))
            write_plan(self.job.plan, folder)
            signal_handling.install(self._interrupted, local)
            for warning in host_check.warnings(host_check.read_host_facts(self._before)):
                say(f"warning: {warning}.")
            say_if_unusable(self.job.root)
        except OSError as error:
            fault = RunError(
                f"cannot be written: {error}.",
                where=str(folder),
                remedy="make the folder writable, or free some space.",
            )
            say(fault)
            os._exit(fault.exit_code)
        except RunError as error:
            say(error)
            os._exit(error.exit_code)

    def _interrupted(self) -> str:
        """The last line to print after a signal."""
        done = len(self.job.finished)
        total = len(self.job.plan.rounds)
        what = "rounds"
        if self.job.predictions:
            done = total = len(self.job.predictions)
            done -= len(_not_predicted(self.job))
            what = "predictions"
        return f"{done} of {total} {what} are finished; the same command continues."

    def end(self, failed: bool = False) -> None:
        """Prints the lines of `summarize`. If a job has `failed`, makes the report of the rounds
        that are finished, because its rule does not run then."""
        job = self.job
        some = len(_not_predicted(job)) < len(job.predictions)
        if failed and (job.finished or some):
            try:
                from rnnbench.commands.report import report

                report([job.experiment, "--site", job.site, "--out", job.report_folder])
            except Exception as error:  # the summary must still be printed
                say(f"warning: the report was not updated: {error}")

        lines, self.exit_code = summarize(job)
        for line in lines:
            say(line)

    def attach(self, workflow: Workflow) -> None:
        """Makes `workflow` start and end this session, also where this Snakefile is a module, whose
        hooks Snakemake does not run. The workflow ends with the exit code of `summarize`, whose
        lines are also printed if there is nothing to do.

        What `made_again` names is made again, like files of ``--forcerun``: each is removed when
        its job starts, none during a dry run. Raises `ConfigError` if the workflow has another
        session, or moves the files of this one.
        """
        for folder in ("data/", "results/", "reports/"):
            if workflow.modifier.path_modifier.replace_prefix(folder) != folder:
                raise ConfigError(
                    f"has a prefix or replace_prefix, but files in {folder} cannot be elsewhere.",
                    where="module",
                    remedy="remove it; `snakemake --directory FOLDER` sets the folder of all "
                    "files.",
                )

        # Snakemake reads a module's Snakefile once for each `use rule`.
        attached: Session = vars(workflow).setdefault("rnnbench_session", self)
        if attached is not self:
            self.job.check_same(attached.job)
            return

        again = []
        if workflow.is_main_process:
            # Not in a cluster's jobs: files that another node wrote may not be visible yet.
            again = made_again(self.job)
        execute = workflow.execute

        def execute_and_exit(executor_plugin: Any, executor_settings: Any, **named: Any) -> None:
            settings = workflow.dag_settings
            settings.forcerun = {*settings.forcerun, *again}
            try:
                self.job.check_targets(settings.targets)
                if not executor_plugin.common_settings.dryrun_exec:
                    check_slurm(getattr(executor_settings, "submit_cmd", None))
                    if workflow.is_main_process:
                        self.job.check_data()
            except RnnbenchError as error:
                say(error)
                sys.exit(error.exit_code)

            # Here, because a workflow that has this one as a module may define its own hooks later.
            # A job of a cluster is another process, and belongs to the session of the first.
            if workflow.is_main_process:
                self._add_to_hooks(workflow)
            execute(executor_plugin, executor_settings, **named)

            if workflow.dryrun or not workflow.is_main_process:
                return
            if self.exit_code is None:
                self.end()
            if self.exit_code:
                sys.exit(self.exit_code)

        workflow.execute = execute_and_exit

    def _add_to_hooks(self, workflow: Workflow) -> None:
        """Adds this session's start and end to the workflow's own hooks, which ``--no-hooks``
        leaves out."""
        onstart = workflow._onstart
        onsuccess = workflow._onsuccess
        onerror = workflow._onerror

        settings = workflow.execution_settings
        if settings.no_hooks:
            onstart = onsuccess = onerror = lambda log: None
            settings.no_hooks = False

        def start(log: str) -> None:
            self.start(local=workflow.local_exec)
            onstart(log)

        def succeed(log: str) -> None:
            onsuccess(log)
            self.end()

        def fail(log: str) -> None:
            onerror(log)
            self.end(failed=True)

        workflow._onstart = start
        workflow._onsuccess = succeed
        workflow._onerror = fail


def check_slurm(submit_command: str | None) -> None:
    """Raises `ConfigError` if the profile in use is the one for Slurm, and this host has no Slurm.
    `submit_command`: of the profile; None without a cluster."""
    if not submit_command or Path(submit_command.split()[0]).name != "submit.py":
        return
    try:
        asked = subprocess.run(
            ["squeue", "--me", "--noheader"],
            capture_output=True,
            text=True,
        )
    except OSError:
        why = "the command squeue does not exist"
    else:
        # For a while, submit.py waits for a controller that cannot be reached.
        if asked.returncode == 0 or "connect" in asked.stderr or "timed out" in asked.stderr:
            return
        said = asked.stderr.strip().splitlines()
        why = said[-1] if said else "squeue says nothing"

    raise ConfigError(
        f"there is no Slurm on this host ({why}).",
        where="--workflow-profile slurm",
        remedy="run it on a login node of the cluster, or leave out --workflow-profile.",
    )


# Exit code of snakemake if nothing can run here, or if every run has a record and those of a
# configuration are all void (unless ``--config allow_void=true`` allows that); 1 and 2 are those of
# `rnnbench.errors`.
NO_USABLE_RUN = 3

MOST_LINES = 8  # of one kind in the summary


def summarize(job: Job) -> tuple[list[str], int]:
    """The last lines to print, and the exit code, 0 or `NO_USABLE_RUN`, once all jobs have ended.
    There is one line per reason of void runs and per failure, then one each for the missing runs,
    the void runs together and the report's path. Runs that were not needed are no news: each round
    said why."""
    runs = job.plan.runs
    folder = job.root / job.folder
    void = {}
    usable = set()
    missing = []
    unneeded = []
    results, _ = results_in(folder)
    for run in runs.values():
        result = results.get(run.name)
        if result is None:
            missing.append(run.name)
        elif result.not_needed:
            unneeded.append(result.not_needed)
        elif result.record and result.verdict == "void":
            void[run.name] = _void_reason(job.root / job.results / result.record)
        else:
            usable.add(run.configuration)

    unusable = {runs[name].configuration for name in void} - usable

    lines = []
    obstacle = job.plan.obstacle
    if obstacle:
        lines.append(f"{obstacle.why} Fix: {obstacle.remedy}")
    lines += _shortened(_void_lines(void), "reasons of void runs")

    unmeasured = job.jobs_of({runs[name].round for name in missing})
    names = [Path(file).stem for file in unmeasured]
    failures = _failures(job, "rounds" if job.is_local else "round", names)
    failures += _failures(job, "predict", _not_predicted(job))
    lines += _shortened(failures, "failures")
    # With ``--until`` no run may have been asked for.
    if missing and (failures or len(missing) < len(runs)):
        some = ", ".join(missing[:3]) + (", …" if len(missing) > 3 else "")
        lines.append(
            f"{len(missing)} of {len(runs)} runs are not finished ({some}). "
            "Fix: run the same command again; it measures only what has no record."
        )

    for file in sorted((folder / "tracked").glob("*.json")):
        why = why_not_tracked(file)
        if why:
            lines.append(f"runs are missing in MLflow: {why}")
            break

    if void:
        all_void = len(void) + len(unneeded) == len(runs)
        lines.append(_void_total(job, len(void), len(unusable), all_void))
    if (job.root / job.report).exists():
        lines.append(f"the report is {job.report}")
    has_failed = obstacle or (unusable and not job.allow_void)
    return lines, NO_USABLE_RUN if has_failed else 0


def _not_predicted(job: Job) -> list[str]:
    """The names of the predictions without a result."""
    return [name for name in job.plan.predictions if not (job.root / job.predicted(name)).exists()]


def _failures(job: Job, rule: str, names: Iterable[str]) -> list[str]:
    """The last message of the command of each job of a `rule`, if it printed any."""
    prefix = "rnnbench: "
    failures = []
    for name in names:
        log = job.root / job.logs / f"{rule}/{name}.log"
        try:
            text = log.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        messages = [line for line in text.splitlines() if line.startswith(prefix)]
        if messages:
            failures.append(messages[-1].removeprefix(prefix))

    return failures


def _void_lines(void: Mapping[str, tuple[str, str]]) -> list[str]:
    """One line per reason, with the first run that has it. `void`: run → its reason and remedy."""
    by_reason: dict[tuple[str, str], list[str]] = {}
    for name, reason in void.items():
        by_reason.setdefault(reason, []).append(name)

    lines = []
    for (why, remedy), names in by_reason.items():
        which = f"{names[0]} is"
        if len(names) > 1:
            which = f"{names[0]} and {len(names) - 1} more are"
        lines.append(f"{which} void: {why.rstrip('.')}. Fix: {remedy}")
    return lines


def _void_total(
    job: Job,
    void: int,
    unusable: int,
    all_void: bool,
) -> str:
    """One line for the number of `void` runs, and of `unusable` configurations, those without
    another run. `all_void`: whether no run has a result."""
    text = f"{void} of {len(job.plan.runs)} runs are void and left out of all results"
    if all_void:
        which = f"all {void} runs are" if void > 1 else "the only run is"
        text = f"{which} void, so there is no result"
    elif unusable:
        which = "configurations have" if unusable > 1 else "configuration has"
        text += f"; {unusable} {which} no usable run"

    if unusable:
        text += f" (exit code {0 if job.allow_void else NO_USABLE_RUN})"
    return (
        f"{text}. Fix: correct what is named above, then run the same command again; if nothing "
        f"changed in a file that they use, `rnnbench retry {job.experiment}` first."
    )


def _void_reason(record: Path) -> tuple[str, str]:
    """The first reason of a void run and its remedy. `record`: the path of its record."""
    try:
        reason = read_record(record).verdict.reasons[0]
        return reason.text, reason.remedy
    except (RecordError, IndexError):
        return "its record cannot be read", "`rnnbench retry` measures it again."


def _shortened(lines: list[str], what: str) -> list[str]:
    """The first `MOST_LINES` lines, and how many more there are of `what`."""
    further = len(lines) - MOST_LINES
    if further <= 0:
        return lines
    return [*lines[:MOST_LINES], f"and {further} more {what}; the report lists them."]
