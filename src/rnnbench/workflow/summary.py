"""The last lines of a workflow's output: void runs, missing runs and why, the report's path."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rnnbench.errors import RecordError
from rnnbench.planning.plan import Plan
from rnnbench.records.store import not_needed, read_json, why_not_tracked

# Exit code of snakemake if every run has a record and all are void; 1 and 2 are those of
# `rnnbench.errors`. If only some runs are void, the exit code is 0.
ALL_VOID = 3


@dataclass(frozen=True)
class Summary:
    """The last lines to print, the number of void runs, and the exit code, 0 or `ALL_VOID`."""

    lines: tuple[str, ...]
    void: int
    exit_code: int


def summarize(plan: Plan, root: Path, results: str) -> Summary:
    """One line per void run and per failure, then one each for the runs that were not needed, the
    missing runs, the void runs together and the report's path."""
    folder = root / results / plan.site / plan.experiment.name
    void: list[str] = []
    reasons: Counter[str] = Counter()
    missing: list[str] = []
    logs: dict[str, Path] = {}
    unneeded = 0
    for run in sorted(plan.runs.values(), key=lambda run: run.order):
        pointer = folder / f"{run.name}.json"
        try:
            data = read_json(pointer)
        except RecordError:
            missing.append(run.name)
            logs[str(run.round)] = folder / "logs" / "round" / f"{run.round}.log"
            continue
        unneeded += not_needed(data) is not None
        if isinstance(data, dict) and data.get("verdict") == "void":
            why, remedy = _void_reason(root / results, data)
            reasons[why] += 1
            void.append(f"{run.name} is void: {why}. Fix: {remedy}")
    failures = [line for log in logs.values() for line in _last_message(log)]
    all_void = bool(void) and len(void) + unneeded == len(plan.runs)
    lines = [*_shortened(void, "void runs"), *_shortened(failures, "failures")]
    if unneeded:
        lines.append(f"{unneeded} of {len(plan.runs)} runs were not needed; the report says why.")
    if missing:
        names = ", ".join(missing[:3]) + (", …" if len(missing) > 3 else "")
        lines.append(
            f"{len(missing)} of {len(plan.runs)} runs have no record ({names}). "
            "Fix: run the same command again; it measures only those."
        )
    untracked = list(
        filter(None, map(why_not_tracked, sorted((folder / "tracked").glob("*.json"))))
    )
    if untracked:
        lines.append(f"runs are missing in MLflow: {untracked[0]}")
    if void:
        lines.append(_void_total(plan, len(void), reasons, all_void))
    report = root / "reports" / plan.experiment.name / "report.html"
    if report.exists():
        lines.append(f"the report is {report.relative_to(root)}")
    return Summary(tuple(lines), len(void), ALL_VOID if all_void else 0)


def _last_message(log: Path) -> list[str]:
    """The last message of a failed command, if it printed any."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    return [line.removeprefix("rnnbench: ") for line in lines if line.startswith("rnnbench: ")][-1:]


def _void_total(plan: Plan, void: int, reasons: Counter[str], all_void: bool) -> str:
    why, count = reasons.most_common(1)[0]
    text = f"{void} of {len(plan.runs)} runs are void and left out of all results"
    if all_void:
        which = f"all {void} runs are" if void > 1 else "the only run is"
        text = f"{which} void, so there is no result (exit code {ALL_VOID})"
    share = "" if count == void else f" ({count} of them)"
    return (
        f"{text}: {why}{share}. Fix: correct that, run `rnnbench retry {plan.experiment.name}`, "
        "then the same command again, which measures them again."
    )


def _void_reason(results: Path, pointer: Mapping[str, Any]) -> tuple[str, str]:
    """The first reason of a void run and its remedy."""
    try:
        reasons: Sequence[Mapping[str, str]] = read_json(results / pointer["record"])["verdict"][
            "reasons"
        ]
        return reasons[0]["text"], reasons[0]["remedy"]
    except (RecordError, KeyError, TypeError, IndexError):
        return "its record cannot be read", "`rnnbench retry` measures it again."


def _shortened(lines: list[str], what: str, limit: int = 8) -> list[str]:
    if len(lines) <= limit:
        return lines
    return [*lines[:limit], f"and {len(lines) - limit} more {what}; the report lists them."]
