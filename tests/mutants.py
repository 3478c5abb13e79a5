"""For ``make mutants``: a plugin of pytest, and as a program the score of what was tried so far.

Processes that a test starts in another folder do not count calls: mutmut would look for its
settings there, and end them. Charts are not drawn: each mutant is a forked process, in which V8,
once it ran in the parent, waits forever, so that mutmut would take the mutant for noticed.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from unittest import mock

import pytest
import vl_convert


def pytest_configure() -> None:
    svg = '<svg viewBox="0 0 1 1"></svg>'
    mock.patch.object(vl_convert, "vegalite_to_svg", return_value=svg).start()
    mock.patch.object(vl_convert, "svg_to_png", return_value=b"\x89PNG\r\n\x1a\n").start()


def pytest_runtest_setup(item: pytest.Item) -> None:
    # This process keeps the value, and children run a mutant like any other code.
    if os.environ.get("MUTANT_UNDER_TEST") in ("stats", "fail"):
        del os.environ["MUTANT_UNDER_TEST"]


def score(done: dict[str, int]) -> str:
    """The share of the mutants that a test notices, of those that were tried."""
    noticed = done["killed"] + done["timeout"] + done["segfault"]
    lived = done["survived"] + done["suspicious"] + done["no_tests"]
    tried = noticed + lived
    share = f"{noticed / tried:.0%}" if tried else "none"
    return (
        f"{noticed} of {tried} mutants noticed ({share}), {done['timeout']} of them by their time; "
        f"{done['survived']} survived, "
        f"{done['no_tests']} are called by no test, {done['total'] - tried} not tried"
    )


if __name__ == "__main__":
    print(score(json.loads(Path("mutants/mutmut-cicd-stats.json").read_text())))
