"""Timestamps are UTC, and sort as text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from rnnbench.records import timestamps

STAMP = "20261121T075000_123456Z"


def test_a_timestamp_is_the_moment_in_utc() -> None:
    moment = datetime(2026, 11, 21, 7, 50, 0, 123456, UTC)
    assert timestamps.read(STAMP) == moment and timestamps.written(moment) == STAMP
    berlin = moment.astimezone(timezone(timedelta(hours=1)))
    assert timestamps.written(berlin) == STAMP
    assert abs(timestamps.read(timestamps.now()) - datetime.now(UTC)) < timedelta(minutes=1)


@pytest.mark.parametrize(
    ("stamp", "milliseconds"),
    [("19700101T000000_000000Z", 0), ("19700101T000001_500000Z", 1500),
     ("19700102T000000_000999Z", 86_400_000)],
)  # fmt: skip
def test_milliseconds_count_from_1970(stamp: str, milliseconds: int) -> None:
    assert timestamps.milliseconds(stamp) == milliseconds


@pytest.mark.parametrize("text", ["", "2026-11-21", STAMP + "x", STAMP[:-1]])
def test_another_text_is_not_a_timestamp(text: str) -> None:
    with pytest.raises(ValueError):
        timestamps.read(text)
