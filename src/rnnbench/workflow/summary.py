"""The last lines of a workflow's output: what is void, what is missing and why, where the
report is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rnnbench.errors import RecordError
from rnnbench.planning.plan import Plan
from rnnbench.records.store import not_needed, read_json

# What snakemake ends with where every run has a record and each is void: 1 and 2 are taken
# (`rnnbench.errors`). Some void runs beside others are no failure: 0, and a line.
ALL_VOID = 3


@dataclass(frozen=True)
class Summary:
    """What a person reads last, how many runs are void, and the exit code: 0 or `ALL_VOID`."""

    lines: tuple[str, ...]
    void: int
    exit_code: int


def summarize(plan: Plan, root: Path, results: str) -> Summary:
    """One line per void run, one for all of them and one for what is missing; the last says where
    the report is."""
    folder = root / results / plan.site / plan.experiment.name
    void: list[str] = []
    whys: Counter[str] = Counter()
    missing: list[str] = []
    logs: dict[str, Path] = {}
    unneeded = 0
    for run in sorted(plan.runs.values(), key=lambda run: run.order):
        pointer = folder / f"{run.name}.json"
        try:
            data = read_json(pointer)
        except RecordError:
            missing.append(run.name)
            logs[run.round] = folder / "logs" / "round" / f"{run.round}.log"
            continue
        unneeded += not_needed(data) is not None
        if isinstance(data, dict) and data.get("verdict") == "void":
            why, remedy = _void_reason(root / results, data)
            whys[why] += 1
            void.append(f"{run.name} is void: {why}. Fix: {remedy}")
    failures = [line for log in logs.values() for line in _last_word(log)]
    all_void = bool(void) and len(void) + unneeded == len(plan.runs)
    lines = [*_shortened(void, "void runs"), *_shortened(failures, "failures")]
    if unneeded:
        lines.append(f"{unneeded} of {len(plan.runs)} runs were not needed; the report says why.")
    if missing:
        names = ", ".join(missing[:3]) + (", …" if len(missing) > 3 else "")
        lines.append(
            f"{len(missing)} of {len(plan.runs)} runs have no record ({names}). "
            "Fix: the same command measures them, and them only."
        )
    if void:
        lines.append(_void_in_all(plan, len(void), whys, all_void))
    report = root / "reports" / plan.experiment.name / "report.html"
    if report.exists():
        lines.append(f"the report is {report.relative_to(root)}")
    return Summary(tuple(lines), len(void), ALL_VOID if all_void else 0)


def _last_word(log: Path) -> list[str]:
    """What a failed command said last, if it said anything."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    return [line.removeprefix("rnnbench: ") for line in lines if line.startswith("rnnbench: ")][-1:]


def _void_in_all(plan: Plan, void: int, whys: Counter[str], all_void: bool) -> str:
    why, times = whys.most_common(1)[0]
    words = f"{void} of {len(plan.runs)} runs are void and in no number"
    if all_void:
        which = f"all {void} runs are" if void > 1 else "the only run is"
        words = f"{which} void, so there is no number (exit code {ALL_VOID})"
    often = "" if times == void else f" ({times} of them)"
    return (
        f"{words}: {why}{often}. Fix: mend that, say `rnnbench retry {plan.experiment.name}` "
        "and give the same command again: it measures them anew."
    )


def _void_reason(results: Path, pointer: Mapping[str, Any]) -> tuple[str, str]:
    """The first reason of a void run, and its remedy."""
    try:
        reasons: Sequence[Mapping[str, str]] = read_json(results / pointer["record"])["verdict"][
            "reasons"
        ]
        return reasons[0]["text"], reasons[0]["remedy"]
    except (RecordError, KeyError, TypeError, IndexError):
        return "its record cannot be read", "`rnnbench retry` measures it again."


def _shortened(lines: list[str], what: str, most: int = 8) -> list[str]:
    if len(lines) <= most:
        return lines
    return [*lines[:most], f"and {len(lines) - most} more {what}; the report lists them."]
