"""From ``--config`` to the job, and the pointers that lead nowhere."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rnnbench.errors import ConfigError, RecordError
from rnnbench.planning import make_plan
from rnnbench.records.store import not_needed, read_json, stands
from rnnbench.workflow.job import Job

KEYS = ("experiment", "overrides", "site", "conf")
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
    plan = make_plan(
        name,
        [root / "conf", *extra],
        root,
        site=str(site) if site else None,
        overrides=str(config.get("overrides") or ""),
    )
    return Job(plan, root)


def damaged(job: Job) -> list[str]:
    """The pointers to records that are damaged or gone, which is said, and those that say "not
    needed" by other `repeats` than are asked for now. Only reads: Snakemake takes each away when it
    measures the run again (`rnnbench train` sets the rest of a record aside)."""
    rule = job.plan.experiment.repeats
    asked = rule.as_dict() if rule else None
    found = []
    for name in job.pointers:
        pointer = job.root / name
        if not pointer.exists() or stands(job.root / job.results, pointer, asked):
            continue
        found.append(name)
        with contextlib.suppress(RecordError):
            if not_needed(read_json(pointer)):
                continue
        words = "its record is damaged or gone; it is measured again"
        print(f"rnnbench: {pointer.stem}: {words}.", file=sys.stderr)
    return found
