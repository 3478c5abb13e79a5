"""The table of faults in tests/faults/README.md. As a pytest plugin (``-p tests.faults.matrix``)
this module writes the results of tests marked ``fault`` to it. A row passes if all its tests pass.
"""

from __future__ import annotations

import collections
import datetime
import os
import platform
from collections.abc import Mapping
from pathlib import Path

import pytest

README = Path(__file__).parent / "README.md"
BEGIN, END = "<!-- made by make faults -->\n", "<!-- end -->\n"
OUTCOMES: dict[tuple[str, str, str], collections.Counter] = collections.defaultdict(
    collections.Counter
)
SECONDS: collections.Counter = collections.Counter()
SKIPPED: dict[tuple[str, str, str], str] = {}


def rows(arguments: str, cases: Mapping[str, tuple], *row: str) -> pytest.MarkDecorator:
    """Parametrizes a test by `cases`: name → values of the `arguments`. Each is a `row` of the
    table, in which ``{}`` is its name."""
    return pytest.mark.parametrize(
        arguments.split(),
        [
            pytest.param(*values, id=name, marks=pytest.mark.fault(*(t.format(name) for t in row)))
            for name, values in cases.items()
        ],
    )


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    marker = item.get_closest_marker("fault")
    if marker is None:
        return
    row = marker.args
    SECONDS[row] += report.duration
    if report.when == "call" or not report.passed:
        OUTCOMES[row][report.outcome] += 1
    if report.skipped:
        SKIPPED[row] = str(report.longrepr[-1]).removeprefix("Skipped: ")


def pytest_sessionfinish(session) -> None:
    if OUTCOMES and not session.config.option.collectonly:
        head, _, rest = README.read_text(encoding="utf-8").partition(BEGIN)
        tail = rest.partition(END)[2]
        README.write_text(head + BEGIN + table() + END + tail, encoding="utf-8")


def table() -> str:
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    system = f"{platform.system()} {platform.release()}, {os.cpu_count()} cores"
    lines = [
        f"{today}, {system}, Python {platform.python_version()}.",
        "",
        "| fault | outcome | what to do | result | s |",
        "|---|---|---|---|--:|",
        *(
            f"| {' | '.join(row)} | {result(row, counts)} | {SECONDS[row]:.0f} |"
            for row, counts in OUTCOMES.items()
        ),
    ]
    return "\n".join(["", *lines, "", ""])


def result(row, counts: collections.Counter) -> str:
    if counts["failed"]:
        return f"**{counts['failed']} of {counts.total()} failed**"
    if counts["passed"]:
        return f"passed ({counts['passed']})" if counts["passed"] > 1 else "passed"
    return f"skipped: {SKIPPED.get(row, '')}"
