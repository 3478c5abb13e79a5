"""Events of a worker, in a pipe."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from types import SimpleNamespace

import pytest


@pytest.fixture
def pipe() -> Iterator[SimpleNamespace]:
    """`reader`, `writer`, and `received`, which ends the writing and returns what was written."""
    reader, writer = (
        os.fdopen(each, mode, 0) for each, mode in zip(os.pipe(), ("rb", "wb"), strict=True)
    )

    def received() -> list[dict]:
        writer.close()
        return [json.loads(line) for line in reader.read().splitlines()]

    with reader, writer:
        yield SimpleNamespace(
            reader=reader.fileno(), writer=writer.fileno(), end=writer.close, received=received
        )
