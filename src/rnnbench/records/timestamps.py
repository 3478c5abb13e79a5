"""Moments as they stand in records and file names: UTC, sorting as text, no character that a
file system minds: ``20261121T075000_123456Z``."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from rnnbench.errors import RecordError

FORMAT = "%Y%m%dT%H%M%S_%fZ"


def now() -> str:
    return written(datetime.now(UTC))


def written(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime(FORMAT)


def read(stamp: str) -> datetime:
    """The moment, or a `RecordError` where `stamp` is none."""
    try:
        return datetime.strptime(stamp, FORMAT).replace(tzinfo=UTC)
    except (TypeError, ValueError):
        raise RecordError(f"{stamp!r} is no moment such as 20261121T075000_123456Z.") from None


def later(stamp: str) -> str:
    """The next moment after `stamp`, a millisecond on."""
    return written(read(stamp) + timedelta(milliseconds=1))


def milliseconds(stamp: str) -> int:
    """Milliseconds since 1970."""
    return int(read(stamp).timestamp() * 1000)
