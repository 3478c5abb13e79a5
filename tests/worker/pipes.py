"""A pipe for the events of a worker."""

from __future__ import annotations

import contextlib
import json
import os

import pytest


@pytest.fixture
def pipe():
    reader, writer = os.pipe()
    yield reader, writer
    for descriptor in (reader, writer):
        with contextlib.suppress(OSError):
            os.close(descriptor)


def lines(reader: int, writer: int) -> list[dict]:
    os.close(writer)
    with os.fdopen(os.dup(reader), "rb") as file:
        return [json.loads(line) for line in file.read().splitlines()]
