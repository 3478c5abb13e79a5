"""Events of a worker, in a pipe."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from types import SimpleNamespace

import pytest


@pytest.fixture
def pipe() -> Iterator[SimpleNamespace]:
    """`reader`, `writer`, and `received`, which ends the writing and returns what was written."""
    reader, writer = os.pipe()

    def received() -> list[dict]:
        os.close(writer)
        with os.fdopen(os.dup(reader), "rb") as file:
            return [json.loads(line) for line in file.read().splitlines()]

    yield SimpleNamespace(reader=reader, writer=writer, received=received)
    for descriptor in (reader, writer):
        with contextlib.suppress(OSError):
            os.close(descriptor)
