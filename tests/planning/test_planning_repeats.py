"""Before each repeat it is decided whether the repeat is needed, from the finished runs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from rnnbench.grid.experiment import Repeats
from rnnbench.planning.repeats import finished_runs, known_so_far, why_not_needed
from rnnbench.records.pointer import Pointer
from rnnbench.records.record import Record, Run, run_value
from rnnbench.records.store import Place, write_json
from tests.factory import BEGINNING, VOID, in_round, make_record, put, replace

RULE = Repeats(least=2, most=9, until=0.01, budget_s=None)
CHOICES = make_record().run.choices


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
    put(place.results, record, site=place.site, experiment=place.experiment)


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
    reason = Pointer(record=None, digest=record.run.digest, not_needed="why")
    write_json(place.pointer(record.name), reason)


def damaged(place: Place, record: Record) -> None:
    place.pointer(record.name).write_text("[")


def another_text(place: Place, record: Record) -> None:
    place.pointer(record.name).write_text("[1]")


@pytest.mark.parametrize(
    ("change", "value"),
    [(a_later_record, 7.0), (a_void_one, None), (retried, 0), (planned_anew, 0), (not_needed, 0),
     (damaged, 0), (another_text, 0)],
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


def rounds_of(effects: list[list[float]], cycles: int = 9) -> list[list[Record]]:
    """Rounds of runs with 1, 2, … units and these effects; their seconds depend on the round."""
    return [
        in_round(
            [replace(run_of(units, repeat, 1.0 + 0.5 * repeat), choices=CHOICES)
             for units in range(1, len(own) + 1)],
            own, cycles, number=repeat,
        )
        for repeat, own in enumerate(effects)
    ]  # fmt: skip


def reasons_of_the_last(
    place: Place, rounds: list[list[Record]], has_reference: bool = True
) -> dict[str, str]:
    """Why the last round is not needed after the others: a reason for each of its runs, or none."""
    lines = plan(place, [record for members in rounds for record in members])
    for record in (record for members in rounds[:-1] for record in members):
        finish(place, record)
    last = [line for line in lines if line.repeat == len(rounds) - 1]
    reference = last[0].name if has_reference else None
    reasons = why_not_needed(last, place, RULE, reference=reference)
    assert not reasons or set(reasons) == {line.name for line in last}
    return reasons


@pytest.mark.parametrize(("spread", "enough"), [(0.0005, True), (0.02, False)])
def test_runs_in_turns_are_judged_by_their_ratios(
    place: Place, spread: float, enough: bool
) -> None:
    effects = [[units * (0.1 + spread * (-1) ** r) for units in (1, 2, 3)] for r in range(4)]
    assert bool(reasons_of_the_last(place, rounds_of(effects))) is enough


@pytest.mark.parametrize("has_reference", [True, False])
def test_seconds_of_rounds_with_too_few_turns_are_not_mixed_with_ratios(
    place: Place, has_reference: bool
) -> None:
    same = [[0.1 * units for units in (1, 2, 3)]]
    rounds = rounds_of(same * 5)
    rounds[1] = rounds_of(same * 2, cycles=3)[1]
    reasons = reasons_of_the_last(place, rounds, has_reference)
    assert reasons and all("after 3 runs" in why for why in reasons.values())


@pytest.mark.parametrize(("slower", "unequal"), [(1.0, 0.0), (1.5, 0.0), (1.5, 0.1)])
def test_rounds_in_which_the_members_were_slowed_unequally_count_for_the_undisturbed_machine(
    place: Place, slower: float, unequal: float
) -> None:
    def slowed(record: Record, position: int, number: int) -> Record:
        factor = slower ** (1 + unequal * position) if number < 2 else 1
        seconds = [0.01 * 1.1**position * factor] * 20
        return replace(record, turns={**record.turns, "seconds": seconds})

    rounds = [
        [slowed(record, position, number) for position, record in enumerate(members)]
        for number, members in enumerate(rounds_of([[0.0, 0.1, 0.2]] * 5, cycles=20))
    ]
    reasons = reasons_of_the_last(place, rounds)
    assert reasons and all("after 4 runs" in why for why in reasons.values())
    values = {name: run.value for name, run in finished_runs(place).items()}
    ratios = [values[records[1].name] / values[records[0].name] for records in rounds[:4]]
    assert ratios == pytest.approx([1.1] * 4, rel=0.003)


def test_nothing_is_known_so_far_from_runs_with_too_few_turns(place: Place) -> None:
    """Their seconds are no ratios."""
    pair = [make_record(rnn=rnn, epoch_seconds=0.02) for rnn in ("keras", "block")]
    records = in_round(pair, [0.0, -0.4], cycles=3)
    lines = plan(place, records)
    for record in records:
        finish(place, record)
    assert known_so_far(lines, place, lines[0].name) == ""


def test_what_is_known_so_far_names_the_choices_that_differ(place: Place) -> None:
    rounds = [
        in_round(
            [make_record(rnn=rnn, repeat=number) for rnn in ("keras", "block", "cell")],
            [0.0, -0.4 + 0.001 * number, 0.1],
            20,
            number=number,
        )
        for number in range(4)
    ]
    lines = plan(place, [record for members in rounds for record in members])
    last = [line for line in lines if line.repeat == 3]
    assert known_so_far(last, place, last[0].name) == ""
    both = "so far, speed relative to keras: block 1.49×{0}, cell 0.90×{0} (after {1})"
    for measured, after in enumerate(
        (("", "1 round"), ("", "2 rounds"), (" ± 0.2% at most", "3 rounds"))
    ):
        for record in rounds[measured]:
            finish(place, record)
        assert known_so_far(last, place, last[0].name) == both.format(*after)
