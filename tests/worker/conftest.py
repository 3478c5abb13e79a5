"""Events of a worker, in a pipe."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator

import pytest


@pytest.fixture
def pipe() -> Iterator[tuple[int, int, Callable[[], list[dict]]]]:
    """A reader, a writer, and a function that ends the writing and returns what was written."""
    reader, writer = os.pipe()

    def received() -> list[dict]:
        os.close(writer)
        with os.fdopen(os.dup(reader), "rb") as file:
            return [json.loads(line) for line in file.read().splitlines()]

    yield reader, writer, received
    for descriptor in (reader, writer):
        with contextlib.suppress(OSError):
            os.close(descriptor)
