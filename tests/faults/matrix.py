"""A pytest plugin (``-p tests.faults.matrix``): what the tests marked ``fault`` found, as the
table in tests/faults/README.md. A row is passed when all its tests are."""

from __future__ import annotations

import collections
import datetime
import os
import platform
from pathlib import Path

import pytest

README = Path(__file__).parent / "README.md"
BEGIN, END = "<!-- made by make faults -->\n", "<!-- end -->\n"
FOUND: dict[tuple[str, str, str], collections.Counter] = collections.defaultdict(
    collections.Counter
)
SECONDS: collections.Counter = collections.Counter()
SKIPPED: dict[tuple[str, str, str], str] = {}


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    marker = item.get_closest_marker("fault")
    if marker is None:
        return
    row = marker.args
    SECONDS[row] += report.duration
    if report.when == "call" or not report.passed:
        FOUND[row][report.outcome] += 1
    if report.skipped:
        SKIPPED[row] = str(report.longrepr[-1]).removeprefix("Skipped: ")


def pytest_sessionfinish(session) -> None:
    if FOUND and not session.config.option.collectonly:
        head, _, rest = README.read_text(encoding="utf-8").partition(BEGIN)
        tail = rest.partition(END)[2]
        README.write_text(head + BEGIN + table() + END + tail, encoding="utf-8")


def table() -> str:
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    where = f"{platform.system()} {platform.release()}, {os.cpu_count()} cores"
    lines = [
        f"{today}, {where}, Python {platform.python_version()}.",
        "",
        "| fault | what happens | what a person does | result | s |",
        "|---|---|---|---|--:|",
        *(
            f"| {' | '.join(row)} | {words(row, counts)} | {SECONDS[row]:.0f} |"
            for row, counts in FOUND.items()
        ),
    ]
    return "\n".join(["", *lines, "", ""])


def words(row, counts: collections.Counter) -> str:
    if counts["failed"]:
        return f"**{counts['failed']} of {counts.total()} failed**"
    if counts["passed"]:
        return f"passed ({counts['passed']})" if counts["passed"] > 1 else "passed"
    return f"not tried: {SKIPPED.get(row, '')}"
