"""Before each repeat it is decided whether the repeat is needed, from the pointers alone."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from rnnbench.grid.repeats import Repeats
from rnnbench.records.record import Record, RoundFacts, run_value
from rnnbench.records.run import Run
from rnnbench.records.store import pointer_to, write_json
from rnnbench.running.repeats_needed import (
    finished_runs,
    pointer_without_record,
    why_not_needed,
)
from rnnbench.running.train import Place
from tests.factory import BEGINNING, VOID, make_record, replace

CONFIGURATIONS, REPEATS = 80, 5
RULE = Repeats(least=3, most=REPEATS, until=1e-9, budget_s=1e9)


def run_of(units: int, repeat: int, seconds: float | None = None) -> Record:
    """Every third configuration is on another device; each has a different spread."""
    seconds = seconds or 1.0 + units * 0.01 + 0.001 * (repeat * (units + 1) % 7)
    return make_record(
        overrides={"model.units": units},
        device="cpu_2" if units % 3 == 0 else "cpu_1",
        repeat=repeat,
        epoch_seconds=seconds,
        started=BEGINNING + timedelta(seconds=1000 * repeat + units),
    )


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path, tmp_path / "results", "here", "quick", tmp_path / "lock")
    made.folder.mkdir(parents=True)
    return made


def plan(place: Place, records: list[Record]) -> list[Run]:
    runs = [record.run for record in records]
    (place.folder / "plan.jsonl").write_bytes(b"".join(run.line() for run in runs))
    return runs


def finish(place: Place, record: Record) -> None:
    write_json(place.results / f"records/{record.key}.json", record.to_json())
    write_json(place.pointer(record.name), pointer_to(record))


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that were opened below the results folder."""
    files: list[Path] = []
    real = io.open

    def counting(file, *arguments, **options):
        if "results" in str(file):
            files.append(Path(file))
        return real(file, *arguments, **options)

    monkeypatch.setattr(io, "open", counting)
    return files


def test_decisions_read_no_record(place: Place, opened: list[Path]) -> None:
    records = [run_of(units, repeat) for repeat in range(4) for units in range(CONFIGURATIONS)]
    lines = plan(place, records)
    for record, line in zip(records, lines, strict=True):
        if record.run.repeat >= RULE.least and record.run.overrides["model.units"] % 20 == 0:
            assert why_not_needed([line], place, RULE) == {}
        finish(place, record)
    assert opened and not any("records" in path.parts for path in opened)


def test_a_pointer_of_an_earlier_rnnbench_is_read_with_its_record(place: Place) -> None:
    records = [run_of(units, 0) for units in range(3)]
    plan(place, records)
    for record in records:
        finish(place, record)
    runs = finished_runs(place)
    for record in records:
        earlier = {"record": f"records/{record.key}.json", "digest": record.run.digest}
        write_json(place.pointer(record.name), earlier)
    assert finished_runs(place) == runs


def test_measurements_agree_with_the_records(place: Place) -> None:
    records = [run_of(units, repeat) for repeat in range(3) for units in range(4)]
    plan(place, records)
    for record in records:
        finish(place, record)
    runs = finished_runs(place)
    assert set(runs) == {record.name for record in records}
    for record in records:
        run = runs[record.name]
        assert run.value == run_value([epoch.seconds for epoch in record.epochs])
        assert run.device == record.run.choices["device"]
        assert run.wall_seconds == record.measured["wall_seconds"]


def a_later_record(place: Place, record: Record) -> None:
    finish(place, replace(run_of(0, 0, 7.0), started="20261122T075000_123456Z"))


def a_void_one(place: Place, record: Record) -> None:
    later = replace(record, started="20261122T075000_123456Z", verdict=VOID)
    finish(place, later)


def retried(place: Place, record: Record) -> None:
    place.pointer(record.name).unlink()


def planned_anew(place: Place, record: Record) -> None:
    file = place.folder / "plan.jsonl"
    file.write_text(file.read_text().replace(record.run.digest, "e" * 64, 1))


def not_needed(place: Place, record: Record) -> None:
    write_json(place.pointer(record.name), pointer_without_record(record.run.digest, "why", RULE))


def damaged(place: Place, record: Record) -> None:
    place.pointer(record.name).write_text("[")


@pytest.mark.parametrize(
    ("change", "value"),
    [(a_later_record, 7.0), (a_void_one, None), (retried, 0), (planned_anew, 0), (not_needed, 0),
     (damaged, 0)],
)  # fmt: skip
def test_changed_files_are_read_again(
    place: Place, change: Callable[[Place, Record], None], value: float | None
) -> None:
    """A value of 0 means that the run no longer counts."""
    records = [run_of(units, 0) for units in range(3)]
    plan(place, records)
    for record in records:
        finish(place, record)
    before = finished_runs(place)
    change(place, records[0])
    after = finished_runs(place)
    if value == 0:
        assert set(after) == set(before) - {records[0].name}
    else:
        assert after[records[0].name].value == value


def in_turns(units: int, repeat: int, effect: float) -> Record:
    """A run in a round, with that effect; its seconds depend on the round only."""
    record = run_of(units, repeat, 1.0 + 0.5 * repeat)
    round_ = RoundFacts(
        id=f"round-{repeat}", members=("a", "b"), companion=False, effect=effect, cycles=20
    )
    return replace(record, choices={**record.run.choices, "device": "cpu_1"}, round=round_)


@pytest.mark.parametrize(("spread", "enough"), [(0.0005, True), (0.02, False)])
def test_runs_in_turns_are_judged_by_their_ratios(
    place: Place, spread: float, enough: bool
) -> None:
    """All runs of a round vary together, which does not affect their ratios."""
    effects = [(units, r, 0.3 * r + units * (0.1 + spread * (-1) ** r))
               for r in range(4) for units in (1, 2, 3)]  # fmt: skip
    records = [in_turns(*arguments) for arguments in effects]
    lines = plan(place, records)
    for record in records[:9]:
        finish(place, record)
    rule = Repeats(least=2, most=9, until=0.01, budget_s=None)
    last = [line for line in lines if line.repeat == 3]
    reasons = why_not_needed(last, place, rule, reference=last[0].name)
    assert set(reasons) == ({line.name for line in last} if enough else set())
    without_reference = why_not_needed(last, place, rule)
    assert without_reference == {}, "their absolute times are imprecise"


@pytest.mark.parametrize("has_reference", [True, False])
def test_seconds_of_disturbed_turns_are_not_mixed_with_ratios(
    place: Place, has_reference: bool
) -> None:
    """A round that was disturbed gives its runs no effect, only seconds."""
    records = [in_turns(units, r, 0.1 * units) for r in range(5) for units in (1, 2, 3)]
    records[3:6] = [
        replace(record, round=replace(record.round, effect=None)) for record in records[3:6]
    ]
    lines = plan(place, records)
    for record in records[:12]:
        finish(place, record)
    rule = Repeats(least=2, most=9, until=0.01, budget_s=None)
    last = [line for line in lines if line.repeat == 4]
    reference = last[0].name if has_reference else None
    reasons = why_not_needed(last, place, rule, reference=reference)
    assert set(reasons) == {line.name for line in last}
    assert all("after 3 runs" in why for why in reasons.values())
