"""Whether a repeat is needed is decided before each: what that reads grows with the runs, and not
with their square."""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from rnnbench.grid.repeats import Repeats
from rnnbench.records.record import Record, run_value
from rnnbench.records.store import pointer_to, write_json
from rnnbench.running.finished_runs import CACHE, measured
from rnnbench.running.repeats_needed import pointer_without_record, why_not_needed
from rnnbench.running.train import Place
from tests.factory import BEGINNING, VOID, make_record

CELLS, REPEATS = 80, 5
RULE = Repeats(least=3, most=REPEATS, until=1e-9, budget_s=1e9)


def run_of(cell: int, repeat: int, seconds: float | None = None) -> Record:
    """Every third cell is on another device; all have spreads of their own."""
    seconds = seconds or 1.0 + cell * 0.01 + 0.001 * (repeat * (cell + 1) % 7)
    return make_record(
        overrides={"model.units": cell},
        device="cpu_2" if cell % 3 == 0 else "cpu_1",
        repeat=repeat,
        epoch_seconds=seconds,
        started=BEGINNING + timedelta(seconds=1000 * repeat + cell),
    )


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path, tmp_path / "results", "here", "quick", tmp_path / "lock")
    made.folder.mkdir(parents=True)
    return made


def plan(place: Place, records: list[Record]) -> list[dict]:
    lines = [
        {
            "name": record.name,
            "order": order,
            "block": record.repeat,
            "digest": record.digest,
            "choices": dict(record.choices),
            "repeat": record.repeat,
        }
        for order, record in enumerate(records)
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (place.folder / "plan.jsonl").write_text(text)
    return lines


def finish(place: Place, record: Record) -> None:
    write_json(place.results / f"records/{record.key}.json", record.to_json())
    write_json(place.pointer(record.name), pointer_to(record))


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that were opened below the results folder."""
    found: list[Path] = []
    real = io.open

    def counting(file, *arguments, **options):
        if "results" in str(file):
            found.append(Path(file))
        return real(file, *arguments, **options)

    monkeypatch.setattr(io, "open", counting)
    return found


def test_a_grid_of_hundreds_reads_each_record_once(place: Place, opened: list[Path]) -> None:
    records = [run_of(cell, repeat) for repeat in range(REPEATS) for cell in range(CELLS)]
    lines = plan(place, records)
    decisions = 0
    for record, line in zip(records, lines, strict=True):
        if record.repeat >= RULE.least:
            decisions += 1
            assert why_not_needed([line], place, RULE) == {}
        finish(place, record)
    read = [path for path in opened if path.name != CACHE]
    in_records = [path for path in read if "records" in path.parts]
    assert decisions == CELLS * (REPEATS - RULE.least)
    assert len(in_records) == len(set(in_records)) <= len(records)
    # The plan and the cache at each decision, each pointer and record once.
    assert len(opened) <= 3 * decisions + 2 * len(records)


def test_what_is_known_is_what_the_records_say(place: Place) -> None:
    records = [run_of(cell, repeat) for repeat in range(3) for cell in range(4)]
    plan(place, records)
    for record in records:
        finish(place, record)
    for _ in range(2):  # the second time from the cache
        found = measured(place)
        assert set(found) == {record.name for record in records}
        for record in records:
            one = found[record.name]
            assert one.value == run_value([epoch.seconds for epoch in record.epochs])
            assert one.device == record.choices["device"]
            assert one.wall_seconds == record.measured["wall_seconds"]


def a_later_record(place: Place, record: Record) -> None:
    finish(place, dataclasses.replace(run_of(0, 0, 7.0), started="20261122T075000_123456Z"))


def a_void_one(place: Place, record: Record) -> None:
    later = dataclasses.replace(record, started="20261122T075000_123456Z", verdict=VOID)
    finish(place, later)


def retried(place: Place, record: Record) -> None:
    place.pointer(record.name).unlink()


def planned_anew(place: Place, record: Record) -> None:
    file = place.folder / "plan.jsonl"
    file.write_text(file.read_text().replace(record.digest, "e" * 64, 1))


def not_needed(place: Place, record: Record) -> None:
    write_json(place.pointer(record.name), pointer_without_record(record.digest, "why", RULE))


def damaged(place: Place, record: Record) -> None:
    place.pointer(record.name).write_text("[")


@pytest.mark.parametrize(
    ("change", "value"),
    [(a_later_record, 7.0), (a_void_one, None), (retried, 0), (planned_anew, 0), (not_needed, 0),
     (damaged, 0)],
)  # fmt: skip
def test_what_changed_is_read_again(
    place: Place, change: Callable[[Place, Record], None], value: float | None
) -> None:
    """0: it counts for nothing."""
    records = [run_of(cell, 0) for cell in range(3)]
    plan(place, records)
    for record in records:
        finish(place, record)
    before = measured(place)
    change(place, records[0])
    after = measured(place)
    if value == 0:
        assert set(after) == set(before) - {records[0].name}
    else:
        assert after[records[0].name].value == value
    (place.folder / CACHE).unlink()
    assert measured(place) == after


@pytest.mark.parametrize("garbage", [b"\xff\n", b"{}\n", b"[]\n", b'{"name": "a", "schema": 1'])
def test_a_garbled_cache_is_no_fault(place: Place, garbage: bytes) -> None:
    records = [run_of(cell, 0) for cell in range(3)]
    plan(place, records)
    for record in records:
        finish(place, record)
    found = measured(place)
    (place.folder / CACHE).write_bytes(garbage)
    assert measured(place) == found
    assert measured(place) == found


def in_turns(cell: int, repeat: int, effect: float) -> Record:
    """A run of a round with that effect; the machine's minute makes its seconds."""
    record = run_of(cell, repeat, 1.0 + 0.5 * repeat)
    round_ = {"id": f"round-{repeat}", "members": ["a", "b"], "companion": False}
    about = {**round_, "effect": effect, "cycles": 20}
    return dataclasses.replace(record, choices={**record.choices, "device": "cpu_1"}, round=about)


@pytest.mark.parametrize(("spread", "enough"), [(0.0005, True), (0.02, False)])
def test_of_a_round_it_is_asked_how_its_runs_compare(
    place: Place, spread: float, enough: bool
) -> None:
    """Its runs go up and down together: that is the round's, and none of theirs."""
    effects = [(cell, r, 0.3 * r + cell * (0.1 + spread * (-1) ** r))
               for r in range(4) for cell in (1, 2, 3)]  # fmt: skip
    records = [in_turns(*one) for one in effects]
    lines = plan(place, records)
    for record in records[:9]:
        finish(place, record)
    rule = Repeats(least=2, most=9, until=0.01, budget_s=None)
    last = [line for line in lines if line["repeat"] == 3]
    found = why_not_needed(last, place, rule, reference=last[0]["name"])
    assert set(found) == ({line["name"] for line in last} if enough else set())
    alone = why_not_needed(last, place, rule)
    assert alone == {}, "against nothing they are known badly"
