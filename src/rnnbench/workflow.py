"""What the Snakefile is made of: paths, parameters and hooks. Rules wire; this decides."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from rnnbench import locks
from rnnbench.datasets.pins import pinned
from rnnbench.errors import ConfigError, RecordError, RunError
from rnnbench.planning import Plan, make_plan, write_plan
from rnnbench.records.store import read_json
from rnnbench.tracking.address import redacted, tracking_uri

CHATTER = ("Select jobs to execute", "Execute ", "Assuming unrestricted shared filesystem")
KEYS = ("experiment", "site", "conf")
DEFAULT_EXPERIMENT = "quick"


def load(config: Mapping[str, Any], root: Path) -> Job:
    """The job that ``--config`` asks for, or an error that names the key."""
    for key in config:
        if key not in KEYS:
            raise ConfigError(
                f"there is no key {key!r}.",
                where="--config",
                remedy=f"known are {', '.join(KEYS)}.",
            )
    results = root / Job.results
    if results.exists() and not results.is_dir():
        raise ConfigError(
            "is a file.", where=str(results), remedy="move it aside: records are kept there."
        )
    extra = [Path(folder) for folder in str(config.get("conf", "")).split(",") if folder]
    for folder in extra:
        if not folder.is_dir():
            raise ConfigError(f"{folder} is no folder.", where="--config conf")
    name = str(config.get("experiment", DEFAULT_EXPERIMENT))
    site = config.get("site")
    plan = make_plan(name, [root / "conf", *extra], root, site=str(site) if site else None)
    return Job(plan, root)


def hush() -> None:
    """Leaves out Snakemake's lines about its own scheduling, one pair for each run."""
    logging.getLogger("snakemake.logging").addFilter(
        lambda record: not str(record.msg).startswith(CHATTER)
    )


class Job:
    """An experiment at a site, as Snakemake sees it. Paths are relative to the project."""

    results = "results"

    def __init__(self, plan: Plan, root: Path):
        self.plan, self.root = plan, root
        self.experiment, self.site = plan.experiment.name, plan.site
        self.folder = f"{self.results}/{self.site}/{self.experiment}"
        self.store = f"{self.results}/{self.site}/store.json"
        self.report_folder = f"reports/{self.experiment}"
        self.report = f"{self.report_folder}/report.html"
        self.logs = f"{self.folder}/logs"
        self.first = len(plan.runs) + 1
        os.environ["RNNBENCH_INTERVALS"] = str(root / self.results / self.site / "intervals.jsonl")
        # `python` in a rule is this interpreter; its path is no parameter of any result.
        os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        os.environ["PYTHONPATH"] = os.pathsep.join(
            filter(None, [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")])
        )

    # -- paths --------------------------------------------------------------------------

    @cached_property
    def batches(self) -> list[list[str]]:
        return self.plan.batches()

    @property
    def tracked(self) -> list[str]:
        return [f"{self.folder}/tracked/{batch}.json" for batch in range(len(self.batches))]

    @property
    def pointers(self) -> list[str]:
        return [self.pointer(name) for batch in self.batches for name in batch]

    def pointer(self, name: str) -> str:
        return f"{self.folder}/{name}.json"

    def batch_pointers(self, wildcards) -> list[str]:
        return [self.pointer(name) for name in self.batches[int(wildcards.batch)]]

    # -- parameters of rules ------------------------------------------------------------

    def _run(self, wildcards):
        try:
            return self.plan.runs[wildcards.name]
        except KeyError:
            raise ValueError(f"{self.experiment} has no run {wildcards.name}") from None

    def dataset_of(self, wildcards) -> list[str]:
        path = self._run(wildcards).config["dataset"].get("path")
        return [path] if path else []

    def identity(self, wildcards) -> dict[str, Any]:
        return dict(self._run(wildcards).identity)

    def digest(self, wildcards) -> str:
        return self._run(wildcards).digest

    def priority(self, wildcards) -> int:
        return len(self.plan.runs) - self._run(wildcards).order

    def dataset_name(self, wildcards) -> str:
        return self.plan.datasets[f"data/{wildcards.file}"]

    def dataset_md5(self, wildcards) -> str:
        return pinned(self.root)[f"data/{wildcards.file}"].md5

    @cached_property
    def tracking_uri(self) -> str:
        return redacted(tracking_uri(self.root))

    @cached_property
    def plan_digest(self) -> str:
        experiment = self.plan.experiment
        text = json.dumps(
            [
                sorted((run.name, run.digest) for run in self.plan.runs.values()),
                sorted(self.plan.skipped),
                [experiment.title, experiment.about, dict(experiment.reference)],
            ],
            sort_keys=True,
        )
        return hashlib.sha256(text.encode()).hexdigest()

    @cached_property
    def report_code(self) -> str:
        state = hashlib.sha256()
        for room in ("tables", "report"):
            for file in sorted((Path(__file__).parent / room).rglob("*")):
                if file.is_file() and "__pycache__" not in file.parts:
                    state.update(file.read_bytes())
        return state.hexdigest()

    # -- hooks --------------------------------------------------------------------------

    def start(self) -> None:
        """Before the first job: this results folder is ours until this process ends."""
        folder = self.root / self.results
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
            write_plan(self.plan, folder)
        except OSError as error:
            _leave(
                RunError(
                    f"cannot be written: {error}.",
                    where=str(folder),
                    remedy="make the folder writable, or free some space.",
                )
            )

    def end(self, failed: bool = False) -> None:
        """The last lines a person reads: what is void, what is missing, where the report is."""
        if failed:
            with contextlib.suppress(Exception):
                self._report_what_is_there()
        for line in closing_lines(self.plan, self.root, self.results, failed):
            print(f"rnnbench: {line}", file=sys.stderr)

    def _report_what_is_there(self) -> None:
        from rnnbench.commands import report

        if any((self.root / pointer).exists() for pointer in self.pointers):
            report.main([self.experiment, "--site", self.site, "--out", self.report_folder])


def closing_lines(plan: Plan, root: Path, results: str, failed: bool) -> list[str]:
    """One line per void run and one for what is missing; the last says where the report is."""
    folder = root / results / plan.site / plan.experiment.name
    void: list[str] = []
    missing: list[str] = []
    failures: list[str] = []
    for run in sorted(plan.runs.values(), key=lambda run: run.order):
        pointer = folder / f"{run.name}.json"
        try:
            data = read_json(pointer)
        except RecordError:
            missing.append(run.name)
            failures += _last_word(folder / "logs" / "train" / f"{run.name}.log")
            continue
        if isinstance(data, dict) and data.get("verdict") == "void":
            void.append(_void_line(root / results, run.name, data))
    lines = [*_shortened(void, "void runs"), *_shortened(failures, "failures")]
    if missing:
        names = ", ".join(missing[:3]) + (", …" if len(missing) > 3 else "")
        lines.append(
            f"{len(missing)} of {len(plan.runs)} runs have no record ({names}). "
            "Remedy: the same command measures them, and them only."
        )
    report = root / "reports" / plan.experiment.name / "report.html"
    if report.exists():
        lines.append(f"the report is {report.relative_to(root)}")
    return lines


def _last_word(log: Path) -> list[str]:
    """What a failed command said last, if it said anything."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    return [line.removeprefix("rnnbench: ") for line in lines if line.startswith("rnnbench: ")][-1:]


def _void_line(results: Path, name: str, pointer: Mapping[str, Any]) -> str:
    try:
        reasons: Sequence[Mapping[str, str]] = read_json(results / pointer["record"])["verdict"][
            "reasons"
        ]
    except (RecordError, KeyError, TypeError):
        return f"{name} is void; its record cannot be read."
    words = "; ".join(reason["text"] for reason in reasons[:1])
    remedy = reasons[0]["remedy"] if reasons else ""
    return f"{name} is void: {words}. Remedy: {remedy}"


def _shortened(lines: list[str], what: str, most: int = 8) -> list[str]:
    if len(lines) <= most:
        return lines
    return [*lines[:most], f"and {len(lines) - most} more {what}; the report lists them."]


def _leave(error: RunError) -> None:
    print(f"rnnbench: {error}", file=sys.stderr, flush=True)
    os._exit(error.exit_code)
