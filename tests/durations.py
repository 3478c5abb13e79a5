"""Where the time of a test session goes: the end of the output lists it by file, test and tier.

Wall seconds are pytest's own durations. CPU seconds are of the test process and the children that
it has waited for; a service that outlives its tests is not in them. With
``RNNBENCH_DURATIONS=FILE``, the seconds of each tier and test are also written to that file (JSON;
see `benchmarks/suite.py`).
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests import cpu_time

SLOWEST_TESTS = 10
FILES = 25
FIRST_FAULTS = 20
RECORDED = Path(__file__).with_name("durations.json")


@dataclass(eq=False)
class Spent:
    """What one test, file or tier took; `begin` and `end` are seconds since the epoch."""

    wall: float = 0.0
    cpu: float = 0.0
    tests: int = 0
    begin: float = float("inf")
    end: float = 0.0

    def add(self, report: pytest.TestReport) -> None:
        self.wall += report.duration
        self.cpu += dict(report.user_properties).get("cpu_seconds", 0.0)
        self.tests += report.when == "call"
        self.begin = min(self.begin, report.start)
        self.end = max(self.end, report.stop)


class InTestProcess:
    """Notes the CPU seconds of each phase of a test in its report."""

    def __init__(self) -> None:
        self.before = cpu_time.seconds()

    def pytest_runtest_logstart(self) -> None:
        self.before = cpu_time.seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Iterator[None]:
        report = yield
        now = cpu_time.seconds()
        others = [each for each in report.user_properties if each[0] != "cpu_seconds"]
        report.user_properties = [*others, ("cpu_seconds", now - self.before)]
        self.before = now
        return report


@dataclass(eq=False)  # pytest hashes its plugins
class Summary:
    """Collects the reports of all test processes and prints what they took."""

    recorded: bool = False  # whether the session's durations replace those of `RECORDED`
    began: float = field(default_factory=time.time)
    tests: dict[str, Spent] = field(default_factory=lambda: defaultdict(Spent))
    files: dict[str, Spent] = field(default_factory=lambda: defaultdict(Spent))
    tiers: dict[str, Spent] = field(default_factory=lambda: defaultdict(Spent))
    faults: list[str] = field(default_factory=list)

    def pytest_internalerror(self) -> None:
        """pytest ends without a summary then; what failed before is often the cause."""
        for line in self.faults[:FIRST_FAULTS]:
            print(line, file=sys.stderr)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            text = crash.message if crash else report.longreprtext
            self.faults.append(f"{report.nodeid} ({report.when}): {text.strip().splitlines()[:2]}")
        file = report.nodeid.partition("::")[0]
        tier = "slow" if "slow_tier" in report.keywords else "quick"
        for spent in (self.tests[report.nodeid], self.files[file], self.tiers[tier]):
            spent.add(report)

    def pytest_sessionfinish(self) -> None:
        if self.recorded:
            walls = {file: round(spent.wall) for file, spent in sorted(self.files.items())}
            RECORDED.write_text(json.dumps(walls, indent=0) + "\n")

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        write = terminalreporter.write_line
        terminalreporter.section("seconds by file, test and tier (wall, CPU)")
        for file, spent in longest(self.files)[:FILES]:
            write(f"{spent.wall:7.1f} {spent.cpu:7.1f}  {file} ({spent.tests} tests)")
        rest = longest(self.files)[FILES:]
        if rest:
            wall = sum(spent.wall for _, spent in rest)
            cpu = sum(spent.cpu for _, spent in rest)
            write(f"{wall:7.1f} {cpu:7.1f}  {len(rest)} other files")
        write("")
        for name, spent in longest(self.tests)[:SLOWEST_TESTS]:
            write(f"{spent.wall:7.1f} {spent.cpu:7.1f}  {name}")
        write("")
        for tier, spent in sorted(self.tiers.items()):
            write(
                f"{tier} tier: {spent.tests} tests, {spent.end - spent.begin:.0f} s from its first "
                f"to its last, {spent.wall:.0f} s in all processes, {spent.cpu:.0f} CPU seconds"
            )
        write(f"the whole session: {time.time() - self.began:.0f} s")
        if "RNNBENCH_DURATIONS" in os.environ:
            of_tiers = {name: asdict(spent) for name, spent in self.tiers.items()}
            of_tests = {name: asdict(spent) for name, spent in self.tests.items()}
            text = json.dumps({"tiers": of_tiers, "tests": of_tests}, indent=1)
            Path(os.environ["RNNBENCH_DURATIONS"]).write_text(text)


def longest(spent: dict[str, Spent]) -> list[tuple[str, Spent]]:
    return sorted(spent.items(), key=lambda each: -each[1].wall)


def recorded() -> dict[str, float]:
    """File of tests → the wall seconds of all its tests, as `RECORDED` has them; {} without it."""
    try:
        walls: dict[str, float] = json.loads(RECORDED.read_text())
    except FileNotFoundError:
        return {}
    return walls
