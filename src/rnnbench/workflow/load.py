"""Loads the job of ``--config`` and finds its incomplete rounds."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import yaml

from rnnbench.commands.arguments import DEFAULT_EXPERIMENT
from rnnbench.errors import ConfigError, RecordError, say
from rnnbench.grid.experiment import Experiment, Repeats
from rnnbench.planning.planner import make_plan
from rnnbench.records.store import (
    not_needed,
    pointer_is_valid,
    read_json,
    why_not_tracked,
)
from rnnbench.validation import converted
from rnnbench.workflow.job import Job

SCHEMA = Path(__file__).parents[3] / "workflow/schemas/config.schema.yaml"


def load(config: Mapping[str, Any], root: Path) -> Job:
    """The job that ``--config`` requests. Raises `ConfigError`, which names the key."""
    # Not by snakemake.utils.validate, whose error is a traceback.
    keys = yaml.safe_load(SCHEMA.read_text(encoding="utf-8"))["properties"]
    for key in config:
        if key not in keys:
            raise ConfigError(
                f"there is no key {key!r}.", where="--config", remedy=f"use {', '.join(keys)}."
            )
    results = root / Job.results
    if results.exists() and not results.is_dir():
        raise ConfigError(
            "is a file, but records need a folder.", where=str(results), remedy="move it aside."
        )
    extra = [Path(folder) for folder in str(config.get("conf", "")).split(",") if folder]
    for folder in extra:
        if not folder.is_dir():
            raise ConfigError(f"{folder} is not a folder.", where="--config conf")
    name = str(config.get("experiment", DEFAULT_EXPERIMENT))
    site = config.get("site")
    plan = make_plan(
        name,
        [root / "conf", *extra],
        root,
        site=str(site) if site else None,
        overrides=str(config.get("overrides") or ""),
    )
    if "budget" in config:
        plan = replace(plan, experiment=with_budget(plan.experiment, config["budget"]))
    return Job(plan, root)


def with_budget(experiment: Experiment, minutes: Any) -> Experiment:
    """`experiment` with this budget. Raises `ConfigError` if it has a fixed number of repeats."""
    if experiment.repeats is None:
        raise ConfigError(
            f"{experiment.name} has a fixed number of repeats.",
            where="--config budget",
            remedy="give it `repeats: {least: 3, most: 8, until: 0.04}`, or leave the budget out.",
        )
    seconds = converted(minutes, float, "--config budget", "give minutes, such as 3.") * 60
    repeats = {**experiment.repeats.as_dict(), "budget_s": seconds}
    remedy = "give more than 0 minutes."
    return msgspec.structs.replace(
        experiment, repeats=converted(repeats, Repeats, "--config budget", remedy)
    )


def made_again(job: Job) -> list[str]:
    """The files that exist and are made again: the rounds that are `damaged`, and what could not be
    logged to MLflow when it was tried last."""
    untracked = [name for name in job.tracked if why_not_tracked(job.root / name)]
    return [*damaged(job), *untracked]


def damaged(job: Job) -> list[str]:
    """The files of finished rounds with an invalid pointer: one that is missing, one to a record
    (the run's or a companion's) that is damaged or missing, or one that says "not needed" by an
    earlier value of `repeats`. Damaged records are reported. Only reads: `rnnbench round` sets
    damaged records aside and measures what is missing."""
    rule = job.plan.experiment.repeats
    repeats = rule.as_dict() if rule else None
    rounds = []
    for name in job.rounds:
        if not (job.root / name).exists():
            continue
        pointers = [job.root / path for path in job.pointers_of(name)]
        invalid = [
            path for path in pointers if not pointer_is_valid(job.root / job.results, path, repeats)
        ]
        if not invalid:
            continue
        rounds.append(name)
        for pointer in filter(Path.exists, invalid):
            with contextlib.suppress(RecordError):
                if not_needed(read_json(pointer)):
                    continue
            say(f"{pointer.stem}: a record is damaged or missing; it is measured again.")
    return rounds
