"""The last lines of a workflow's output: what is void, what is missing and why, where the
report is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rnnbench.errors import RecordError
from rnnbench.planning import Plan
from rnnbench.records.store import not_needed, read_json


def closing_lines(plan: Plan, root: Path, results: str, failed: bool) -> list[str]:
    """One line per void run and one for what is missing; the last says where the report is."""
    folder = root / results / plan.site / plan.experiment.name
    void: list[str] = []
    missing: list[str] = []
    failures: list[str] = []
    unneeded = 0
    for run in sorted(plan.runs.values(), key=lambda run: run.order):
        pointer = folder / f"{run.name}.json"
        try:
            data = read_json(pointer)
        except RecordError:
            missing.append(run.name)
            failures += _last_word(folder / "logs" / "train" / f"{run.name}.log")
            continue
        unneeded += not_needed(data) is not None
        if isinstance(data, dict) and data.get("verdict") == "void":
            void.append(_void_line(root / results, run.name, data))
    lines = [*_shortened(void, "void runs"), *_shortened(failures, "failures")]
    if unneeded:
        lines.append(f"{unneeded} of {len(plan.runs)} runs were not needed; the report says why.")
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
