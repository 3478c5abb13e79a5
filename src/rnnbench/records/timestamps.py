"""Timestamps of records and file names, such as ``20261121T075000_123456Z``: UTC, sortable as
text, and valid in every file system."""

from __future__ import annotations

from datetime import UTC, datetime

FORMAT = "%Y%m%dT%H%M%S_%fZ"


def now() -> str:
    return written(datetime.now(UTC))


def written(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime(FORMAT)


def read(stamp: str) -> datetime:
    """The moment of `stamp`. Raises a `ValueError` if it is not a timestamp."""
    return datetime.strptime(stamp, FORMAT).replace(tzinfo=UTC)


def milliseconds(stamp: str) -> int:
    """Milliseconds since 1970."""
    return int(read(stamp).timestamp() * 1000)
