"""For ``make mutants``: a plugin of pytest, and as a program the score of what was tried so far.

Processes that a test starts in another folder do not count calls: mutmut would look for its
settings there, and end them. Charts are not drawn: each mutant is a forked process, in which V8,
once it ran in the parent, waits forever, so that mutmut would take the mutant for noticed.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from unittest import mock

import pytest
import vl_convert
from mutmut.stats import status_by_exit_code


def pytest_configure() -> None:
    svg = '<svg viewBox="0 0 1 1"></svg>'
    mock.patch.object(vl_convert, "vegalite_to_svg", return_value=svg).start()
    mock.patch.object(vl_convert, "svg_to_png", return_value=b"\x89PNG\r\n\x1a\n").start()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    looked_at = [item for item in items if "drawn_charts" in getattr(item, "fixturenames", ())]
    config.hook.pytest_deselected(items=looked_at)
    items[:] = [item for item in items if item not in looked_at]


def pytest_runtest_setup(item: pytest.Item) -> None:
    # This process keeps the value, and children run a mutant like any other code.
    if os.environ.get("MUTANT_UNDER_TEST") in ("stats", "fail"):
        del os.environ["MUTANT_UNDER_TEST"]


# Statuses of mutmut: noticed, and not noticed.
NOTICED = ("killed", "timeout", "segfault")
LIVED = ("survived", "suspicious", "no tests")


def exit_codes(folder: Path) -> dict[str, int | None]:
    """Name of each mutant that mutmut has made in `folder` → exit code of its tests, None if they
    did not run."""
    found: dict[str, int | None] = {}
    for file in sorted(folder.rglob("*.meta")):
        found |= json.loads(file.read_text())["exit_code_by_key"]
    return found


def sample(names: Iterable[str], number: int) -> list[str]:
    """The `number` names with the smallest hashes: two versions of the code, or of its tests, are
    asked about the same mutants."""
    return sorted(names, key=lambda name: hashlib.sha256(name.encode()).digest())[:number]


def score(codes: Iterable[int | None]) -> str:
    """The share of the mutants that a test notices, of those that were tried."""
    done = Counter(status_by_exit_code[code] for code in codes)
    noticed = sum(done[status] for status in NOTICED)
    tried = noticed + sum(done[status] for status in LIVED)
    share = f"{noticed / tried:.0%}" if tried else "none"
    return (
        f"{noticed} of {tried} mutants noticed ({share}), {done['timeout']} of them by their time; "
        f"{done['survived']} survived, {done['no tests']} are called by no test, "
        f"{done.total() - tried} not tried"
    )


if __name__ == "__main__":
    # ``names N`` or ``score N``, of a sample; ``score`` of all.
    command, *size = sys.argv[1:]
    codes = exit_codes(Path("mutants"))
    names = sample(codes, int(size[0])) if size else list(codes)
    if command == "names":
        print("\n".join(names))
    else:
        print(score(codes[name] for name in names))
