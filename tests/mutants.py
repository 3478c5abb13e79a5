"""A plugin of pytest for ``make mutants``: processes that a test starts in another folder do not
count calls. mutmut would look for its settings there, and end them."""

from __future__ import annotations

import os

import pytest


def pytest_runtest_setup(item: pytest.Item) -> None:
    # This process keeps the value, and children run a mutant like any other code.
    if os.environ.get("MUTANT_UNDER_TEST") in ("stats", "fail"):
        del os.environ["MUTANT_UNDER_TEST"]
