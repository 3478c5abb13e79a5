"""What a bundle's start knows about durations from earlier starts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rnnworker.durations import GUESS_SECONDS, Durations


def planned(name: str, build: str = "b") -> dict:
    return {"name": name, "config": {"build": {"name": build}}}


def write(path: Path, **content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def recalled(out: Path, *names: str) -> Durations:
    durations = Durations()
    durations.recall(str(out), [planned(name) for name in names])
    return durations


def test_the_longest_of_a_configuration_counts_then_of_its_kind_then_of_its_build() -> None:
    durations = Durations()
    assert durations.needed(planned("m-s0-r0")) == GUESS_SECONDS
    durations.note(planned("m-s0-r0"), 4.0)
    durations.note(planned("m-s0-r1"), 6.0)
    durations.note(planned("m-s0-r2"), 5.0)
    assert durations.needed(planned("m-s0-r7")) == durations.needed(planned("n-s0-r0")) == 6.0
    assert durations.needed(planned("certificates/k")) == 6.0
    durations.note(planned("certificates/k"), 50.0)
    assert durations.needed(planned("certificates/l")) == 50.0
    assert durations.needed(planned("n-s0-r0")) == 6.0
    assert durations.needed(planned("m-s0-r0", "other")) == GUESS_SECONDS


def test_outcomes_of_earlier_starts_are_recalled(tmp_path: Path) -> None:
    out = tmp_path / "out [1]"  # no pattern of glob
    write(out / "m-s0-r0/1/outcome.json", seconds=7.0)
    write(out / "m-s0-r0/2/outcome.json", seconds=9.0)
    write(out / "m-s0-r1/1/job.json", config={})
    write(out / "certificates/k/1/outcome.json", seconds=20.0)
    write(out / "certificates/k/1/1/outcome.json", seconds=21.0)
    write(out / "certificates/l/1/outcome.json", seconds=None)
    durations = recalled(out, "m-s0-r0", "m-s0-r1", "certificates/k", "certificates/l")
    assert durations.needed(planned("m-s0-r1")) == 9.0
    assert durations.needed(planned("certificates/k")) == 41.0, "both devices"
    assert not durations.endless and not durations.too_long


@pytest.mark.parametrize(("seconds", "endless"), [(100.0, False), (400.0, True)])
def test_what_was_cut_takes_longer_than_that(tmp_path: Path, seconds, endless) -> None:
    folder = tmp_path / "certificates/k/1"
    folder.mkdir(parents=True)
    Durations(540.0).keep_cut(str(folder), planned("certificates/k"), seconds)
    durations = recalled(tmp_path, "certificates/k")
    assert durations.needed(planned("certificates/k")) == seconds
    assert durations.endless == ({"certificates/k"} if endless else set())
    durations.note(planned("certificates/k"), 500.0)
    assert durations.needed(planned("certificates/k")) == 500.0


def test_a_short_cut_does_not_shorten_the_guess(tmp_path: Path) -> None:
    Durations(60.0).keep_cut(str(tmp_path), planned("m-s0-r0"), 2.0)
    durations = Durations()
    durations.recall(str(tmp_path.parent), [planned(tmp_path.name)])
    assert durations.needed(planned("m-s0-r0")) == GUESS_SECONDS


def test_a_phase_that_took_too_long_is_recalled(tmp_path: Path) -> None:
    folder = tmp_path / "certificates/k/1"
    folder.mkdir(parents=True)
    Durations(240.0).keep_cut(str(folder), planned("certificates/k"), 90.0, phase_seconds=60.0)
    assert recalled(tmp_path, "certificates/k").too_long == {"certificates/k": 60.0}
