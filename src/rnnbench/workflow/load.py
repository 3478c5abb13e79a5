"""From ``--config`` to the job, and the rounds in which something is missing."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rnnbench.errors import ConfigError, RecordError, say
from rnnbench.grid.experiment import DEFAULT_EXPERIMENT
from rnnbench.planning.plan import make_plan
from rnnbench.records.store import not_needed, read_json, stands
from rnnbench.workflow.job import Job

KEYS = ("experiment", "overrides", "site", "conf")


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
    """The files of the rounds in which a run has no pointer, one to a record (its own or a
    companion's) that is damaged or gone, which is said, or one that says "not needed" by other
    `repeats` than are asked for now. Only reads: `rnnbench round` sets the rest of a record aside,
    and measures what is missing."""
    rule = job.plan.experiment.repeats
    asked = rule.as_dict() if rule else None
    found = []
    for name in job.rounds:
        if not (job.root / name).exists():
            continue
        pointers = [job.root / path for path in job.pointers_of(name)]
        fallen = [one for one in pointers if not stands(job.root / job.results, one, asked)]
        if not fallen:
            continue
        found.append(name)
        for pointer in fallen:
            if pointer.exists():
                with contextlib.suppress(RecordError):
                    if not_needed(read_json(pointer)):
                        continue
                words = "a record of it is damaged or gone; what is missing is measured again"
                say(f"{pointer.stem}: {words}.")
    return found
