"""From ``--config`` to the job, without the pointers that lead nowhere."""

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


def load(config: Mapping[str, Any], root: Path, mend: bool = True) -> Job:
    """The job that ``--config`` asks for, or an error that names the key. `mend` is False in a
    cluster's job, which may not see yet what another node has written."""
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
    job = Job(plan, root)
    if mend:
        take_away_damaged(job)
    return job


def take_away_damaged(job: Job) -> None:
    """Takes away pointers to records that are damaged or gone, so that these are measured
    again (`rnnbench train` sets the rest of a record aside), and those that say "not needed"
    by other `repeats` than are asked for now."""
    rule = job.plan.experiment.repeats
    asked = rule.as_dict() if rule else None
    for pointer in map(job.root.joinpath, job.pointers):
        if pointer.exists() and not stands(job.root / job.results, pointer, asked):
            with contextlib.suppress(RecordError):
                if not_needed(read_json(pointer)):
                    pointer.unlink(missing_ok=True)
                    continue
            pointer.unlink(missing_ok=True)
            words = "its record is damaged or gone; it is measured again"
            print(f"rnnbench: {pointer.stem}: {words}.", file=sys.stderr)
