"""Before each repeat it is decided whether the repeat is needed, from the finished runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec import structs

from rnnbench.planning import finished as module
from rnnbench.planning.finished import FinishedRun, FinishedRuns, finished
from rnnbench.planning.repeats import known_of, ratios_of, rounds_measured, why_not_needed
from rnnbench.records.plan_file import Repeats
from rnnbench.records.record import Record, Run, run_seconds
from rnnbench.records.rounds import NotNeeded, Result, read_results, write_results
from rnnbench.records.store import Place, read_record
from rnnbench.report.rounds import so_far, unneeded_text
from rnnbench.tables.states import State
from tests.factory import BEGINNING, VOID, forget, in_round, make_record, put, replace
from tests.report.made_up import measurements

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


def finish(place: Place, record: Record, companions: Sequence[Record] = ()) -> None:
    put(place.results, record, companions, site=place.site, experiment=place.experiment)


def by_name(place: Place) -> dict[str, FinishedRun]:
    return {run.name: run for run in FinishedRuns(place).read()}


def test_measurements_agree_with_the_records(place: Place) -> None:
    records = [run_of(units, repeat) for repeat in range(3) for units in range(4)]
    plan(place, records)
    for record in records:
        finish(place, record)
    runs = by_name(place)
    assert set(runs) == {record.name for record in records}
    for record in records:
        run = runs[record.name]
        seconds = run_seconds([epoch.seconds for epoch in record.epochs])
        assert run.value.log == pytest.approx(math.log(seconds))
        assert run.device == record.run.choices["device"]
        assert run.wall_seconds == record.measured.wall_seconds


def a_later_record(place: Place, record: Record) -> None:
    finish(place, replace(run_of(0, 0, 7.0), started="20261122T075000_123456Z"))


def a_void_one(place: Place, record: Record) -> None:
    later = replace(record, started="20261122T075000_123456Z", verdict=VOID)
    finish(place, later)


def file_of(place: Place, record: Record) -> Path:
    return place.folder / f"rounds/{record.run.round}.json"


def retried(place: Place, record: Record) -> None:
    forget(file_of(place, record), record.name)


def planned_anew(place: Place, record: Record) -> None:
    file = place.folder / "plan.jsonl"
    file.write_text(file.read_text().replace(record.run.digest, "e" * 64, 1))


def not_needed(place: Place, record: Record) -> None:
    why = NotNeeded(spent=2.0, budget=1.0)
    reason = Result(record=None, digest=record.run.digest, not_needed=why)
    file = file_of(place, record)
    write_results(file, {**read_results(file), record.name: reason})


def a_damaged_record(place: Place, record: Record) -> None:
    later = replace(record, started="20261122T075000_123456Z")
    finish(place, later)
    (place.results / later.path).write_text("[")


@pytest.mark.parametrize(
    ("change", "value"),
    [(a_later_record, 7.0), (a_void_one, None), (a_damaged_record, 0), (retried, 0),
     (planned_anew, 0), (not_needed, 0)],
)  # fmt: skip
def test_changed_files_are_read_again(
    place: Place, change: Callable[[Place, Record], None], value: float | None
) -> None:
    """A value of 0 means that the run no longer counts."""
    records = [run_of(units, 0) for units in range(3)]
    plan(place, records)
    for record in records:
        finish(place, record)
    before = by_name(place)
    change(place, records[0])
    after = by_name(place)
    if value == 0:
        assert set(after) == set(before) - {records[0].name}
    elif value is None:
        assert after[records[0].name].value is None
    else:
        assert math.exp(after[records[0].name].value.log) == pytest.approx(value)


@pytest.mark.parametrize("text", ["[", "[1]"])
def test_a_round_whose_file_is_damaged_does_not_count(place: Place, text: str) -> None:
    records = [run_of(1, repeat) for repeat in range(2)]
    plan(place, records)
    for record in records:
        finish(place, record)
    file_of(place, records[0]).write_text(text)
    assert set(by_name(place)) == {records[1].name}


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
    place: Place, rounds: list[list[Record]], has_reference: bool = True, rule: Repeats = RULE
) -> dict[str, NotNeeded]:
    """Why the last round is not needed after the others: a reason for each of its runs, or none."""
    lines = plan(place, [record for members in rounds for record in members])
    for record in (record for members in rounds[:-1] for record in members):
        finish(place, record)
    last = [line for line in lines if line.repeat == len(rounds) - 1]
    reference = last[0].name if has_reference else None
    reasons = why_not_needed(last, FinishedRuns(place).read(), rule, reference=reference)
    assert not reasons or set(reasons) == {line.name for line in last}
    return reasons


@pytest.mark.parametrize("has_reference", [True, False])
@pytest.mark.parametrize(("spread", "enough"), [(0.0005, True), (0.02, False)])
def test_runs_in_turns_are_judged_by_their_ratios(
    place: Place, spread: float, enough: bool, has_reference: bool
) -> None:
    effects = [[units * (0.1 + spread * (-1) ** r) for units in (1, 2, 3)] for r in range(4)]
    assert bool(reasons_of_the_last(place, rounds_of(effects), has_reference)) is enough


def test_the_rule_waits_until_it_is_known_who_is_fastest(place: Place) -> None:
    """The two faster ones vary in opposite directions and the reference hardly, so both ratios to
    it are known better than their own."""
    effects = [[0.4, 0.1 + 0.004 * (-1) ** r, 0.08 - 0.004 * (-1) ** r] for r in range(7)]
    rounds = rounds_of(effects)
    assert not reasons_of_the_last(place, rounds, rule=replace_rule(until=1e-6))
    found = FinishedRuns(place).read()
    last = [record.run for record in rounds[-1]]
    widths = []
    for base, other in ((0, 1), (0, 2), (1, 2)):
        ratios = ratios_of(last, found, last[base].name)
        ratio = ratios[last[other].configuration]
        widths.append(ratio.high / ratio.estimate - 1)
    to_the_reference, lead = max(widths[:2]), widths[2]
    assert lead > 1.2 * to_the_reference
    between = replace_rule(until=(to_the_reference + lead) / 2)
    assert not why_not_needed(last, found, between, reference=last[0].name)
    wide = replace_rule(until=1.01 * lead)
    assert why_not_needed(last, found, wide, reference=last[0].name)


def test_two_configurations_do_not_pool_their_spread_and_need_five_rounds(place: Place) -> None:
    rounds = rounds_of([[0.1, 0.2 + 0.0001 * number] for number in range(6)])
    assert not reasons_of_the_last(place, rounds[:5])
    assert {why.runs for why in reasons_of_the_last(place, rounds).values()} == {5}


def test_runs_on_their_own_are_judged_by_their_seconds(place: Place) -> None:
    rounds = [
        [run_of(units, repeat, units + 0.001 * repeat) for units in (1, 2)] for repeat in range(6)
    ]
    assert not reasons_of_the_last(place, rounds[:5])
    assert {why.runs for why in reasons_of_the_last(place, rounds).values()} == {5}
    new = run_of(7, 5).run
    known = known_of([rounds[0][0].run, new], FinishedRuns(place).read(), None)
    seconds = known[rounds[0][0].run.configuration]
    assert seconds.runs == 5 and seconds.interval.estimate == pytest.approx(1.002, abs=1e-4)
    assert known[new.configuration] is None


def test_seconds_of_rounds_with_too_few_turns_are_not_mixed_with_ratios(place: Place) -> None:
    same = [[0.1 * units for units in (1, 2, 3)]]
    rounds = rounds_of(same * 5)
    rounds[1] = rounds_of(same * 2, cycles=3)[1]
    reasons = reasons_of_the_last(place, rounds)
    assert {why.runs for why in reasons.values()} == {3}


def test_the_budget_includes_the_time_of_companions(place: Place) -> None:
    rounds = rounds_of([[0.1, 0.2, 0.4], [0.1, 0.2, 0.2], [0.1, 0.2, 0.3]])
    own = [record for members in rounds[:2] for record in members]
    spent = sum(record.measured.wall_seconds for record in own)
    rule = replace_rule(budget_s=spent + 0.5)
    assert not reasons_of_the_last(place, rounds, rule=rule)
    companion = as_companion(rounds[1][0], seconds=1.0)
    finish(place, rounds[1][1], [companion])
    known = FinishedRuns(place).read()
    reasons = why_not_needed([each.run for each in rounds[2]], known, rule, rounds[2][0].name)
    assert {why.is_over_budget for why in reasons.values()} == {True}
    assert [why.spent for why in reasons.values()] == pytest.approx([spent + 1.0] * 3)


def test_a_repeat_within_the_minimum_is_needed_whatever_was_spent(place: Place) -> None:
    rounds = rounds_of([[0.1, 0.2], [0.1, 0.2], [0.1, 0.2]])
    spent = sum(each.measured.wall_seconds for members in rounds[:2] for each in members)
    assert not reasons_of_the_last(place, rounds, rule=replace_rule(least=3, budget_s=1.0))
    assert not reasons_of_the_last(place, rounds, rule=replace_rule(budget_s=spent + 0.1))
    assert reasons_of_the_last(place, rounds, rule=replace_rule(budget_s=spent - 0.1))


def test_the_reason_of_the_reference_is_that_of_the_least_known(place: Place) -> None:
    effects = [[0.0, 0.1 + 0.0005 * (-1) ** r, 0.2 + 0.002 * (-1) ** r] for r in range(9)]
    rounds = rounds_of(effects)
    reasons = reasons_of_the_last(place, rounds)
    reference, near, far = (reasons[record.name].halfwidth for record in rounds[-1])
    assert reference == far > near > 0


def test_a_round_without_a_ratio_is_needed(place: Place) -> None:
    """Only its reference is left, or one of its configurations has never been measured."""
    rounds = rounds_of([[0.1, 0.2, 0.3]] * 6)
    assert reasons_of_the_last(place, rounds)
    last = [record.run for record in rounds[-1]]
    base = last[0].name
    assert why_not_needed(last[:1], FinishedRuns(place).read(), RULE, reference=base) == {}
    new = run_of(7, 5).run
    known = known_of([*last, new], FinishedRuns(place).read(), base)
    assert new.configuration in known and known[new.configuration] is None
    assert last[0].configuration not in known
    assert why_not_needed([*last, new], FinishedRuns(place).read(), RULE, reference=base) == {}


def replace_rule(**changes: float) -> Repeats:
    return Repeats(**{"least": 2, "most": 9, "until": None, "budget_s": None, **changes})


def as_companion(record: Record, seconds: float) -> Record:
    """The record of a later round in which its run was measured again for others."""
    later = replace(record, started="20261123T075000_123456Z")
    facts = structs.replace(later.round, companion=True, id=f"{later.round.id}-again")
    return replace(later, round=facts, facts={**later.facts, "wall_seconds": seconds})


def test_ratios_to_a_companion_count(place: Place) -> None:
    """keras and block were measured in three rounds; cell was added later, with a companion."""
    first = [
        in_round([make_record(rnn=rnn, repeat=number) for rnn in ("keras", "block")],
                 [0.0, -0.4 + 0.001 * number], 20, number=number)
        for number in range(3)
    ]  # fmt: skip
    later = [
        in_round(
            [
                make_record(rnn=rnn, repeat=number, started=BEGINNING + timedelta(hours=1 + number))
                for rnn in ("keras", "cell")
            ],
            [0.0, 0.1 + 0.001 * number], 20, number=10 + number,
        )
        for number in range(3)
    ]  # fmt: skip
    planned = [*first[2], later[2][1]]
    plan(place, [*(each for members in first for each in members), *(pair[1] for pair in later)])
    for record in (record for members in first for record in members):
        finish(place, record)
    for keras, cell in later:
        companion = replace(keras, round=structs.replace(keras.round, companion=True))
        finish(place, cell, [companion])
    runs = [each.run for each in planned]
    ratios = ratios_of(runs, FinishedRuns(place).read(), planned[0].name)
    found = {name.split("-")[2]: ratio.estimate for name, ratio in ratios.items()}
    assert sorted(found.values()) == pytest.approx([math.exp(-0.101), math.exp(0.399)], rel=1e-4)
    assert {ratio.method.units for ratio in ratios.values()} == {3}


def test_the_interval_of_the_rule_is_that_of_the_page_in_any_number_of_sessions() -> None:
    """Two rounds in each of three sessions, which differ by more than their rounds."""
    shown = []
    for hours in (0, 2):  # between sessions
        records = []
        for number in range(6):
            session = number // 2
            start = BEGINNING + timedelta(hours=hours * session, minutes=2 * number)
            members = [
                make_record(rnn=rnn, repeat=number, started=start) for rnn in ("keras", "block")
            ]
            effects = [0.0, -0.4 + 0.02 * session + 0.001 * number]
            records += in_round(members, effects, 20, number=number)
        base, own = (record.run for record in records[:2])
        known = known_of([base, own], finished(records), base.name)[own.configuration]
        page = measurements(records).time.set_index("implementation").loc["block"]
        ends = page["speedup"], page["speedup_low"], page["speedup_high"]
        interval = known.interval
        assert (interval.estimate, interval.low, interval.high) == pytest.approx(ends)
        shown.append(known.halfwidth)
    assert shown[1] > 1.5 * shown[0]


def test_the_number_of_a_block_plays_no_part() -> None:
    """It changes if an experiment is extended; records keep the old number."""
    records = [
        make_record(rnn=rnn, repeat=repeat, block=block, epoch_seconds=seconds)
        for rnn, blocks in (("keras", (0, 1, 2)), ("block", (0, 2, 4)))
        for repeat, block in enumerate(blocks)
        for seconds in [1.0 + 0.3 * repeat]
    ]
    units = [run.value.unit for run in finished(records)]
    assert units[:3] == units[3:] and len(set(units)) == 3


def test_only_new_rounds_are_read(place: Place, monkeypatch) -> None:
    rounds = rounds_of([[0.1, 0.2, 0.3 + 0.001 * number] for number in range(4)], cycles=20)
    plan(place, [record for members in rounds for record in members])
    read: list[str] = []

    def counted(file: Path) -> Record:
        read.append(file.name)
        return read_record(file)

    monkeypatch.setattr(module, "read_record", counted)
    known = FinishedRuns(place)
    for members in rounds:
        for record in members:
            finish(place, record)
        read.clear()
        runs = known.read()
        assert len(read) == len(members)
        read.clear()
        assert known.read() == runs == FinishedRuns(place).read()
        assert len(read) == len(runs), "of the one that knew nothing"
    a_void_one(place, rounds[0][0])
    read.clear()
    values = {run.name: run.value for run in known.read()}
    assert len(read) == 1 + 2, "the others of its round"
    assert values[rounds[0][0].name] is None and values[rounds[0][1].name] is not None


def with_reads(members: list[Record], slower: float) -> list[Record]:
    """The records of a round in which random reads took this many times 0.01 s."""
    reads = [0.01 * slower] * 20
    return [replace(record, turns={**record.turns, "reads": reads}) for record in members]


def test_what_is_kept_of_rounds_is_what_all_records_say(place: Place) -> None:
    """After each step, also if a round grows, shrinks, or turns out to have been slowed."""
    effects = [[0.1, 0.2, 0.3 + 0.01 * number] for number in range(4)]
    # The third shows the reads to be 2, 1.9 and 2.2 times as long as undisturbed in the others.
    made = [
        with_reads(members, slower)
        for members, slower in zip(rounds_of(effects, 20), (2.0, 1.9, 1.0, 2.2), strict=True)
    ]
    plan(place, [record for members in made for record in members])
    there: dict[str, Record] = {}

    def agree() -> list[int]:
        """The states of the rounds' runs."""
        kept, again = by_name(place), by_name(place)
        runs = {run.name: run for run in finished(there.values())}
        assert kept == again and set(kept) == set(runs)
        for name, run in runs.items():
            # The order in which the records of a round were read changes the last digit.
            assert kept[name].value.log == pytest.approx(run.value.log, abs=1e-12)
            assert kept[name].value._replace(log=0.0) == run.value._replace(log=0.0)
        return [run.value.state for run in runs.values() if run.value.in_turns]

    quiet, slowed = [State.QUIET] * 3, [State.SLOWED] * 3
    expected = (quiet, quiet * 2, slowed * 2 + quiet, slowed * 2 + quiet + slowed)
    for members, states in zip(made, expected, strict=True):
        for record in members:
            finish(place, record)
            there[record.name] = record
            found = agree()
        assert found == states
    retried(place, made[0][1])
    del there[made[0][1].name]
    agree()


def test_nothing_is_known_so_far_from_runs_with_too_few_turns(place: Place) -> None:
    """Their seconds are no ratios."""
    pair = [make_record(rnn=rnn, epoch_seconds=0.02) for rnn in ("keras", "block")]
    records = in_round(pair, [0.0, -0.4], cycles=3)
    lines = plan(place, records)
    for record in records:
        finish(place, record)
    assert ratios_of(lines, FinishedRuns(place).read(), lines[0].name) == {}
    assert so_far(lines, {}, lines[0].name, 1) == ""


def test_what_is_known_so_far_names_the_choices_that_differ(place: Place) -> None:
    rounds = [
        in_round(
            [make_record(rnn=rnn, repeat=number) for rnn in ("keras", "block", "cell")],
            [0.0, -0.4 + 0.01 * number, 0.1],
            20,
            number=number,
        )
        for number in range(4)
    ]
    lines = plan(place, [record for members in rounds for record in members])
    last = [line for line in lines if line.repeat == 3]
    texts = []
    for members in rounds[:3]:
        for record in members:
            finish(place, record)
        found = FinishedRuns(place).read()
        ratios = ratios_of(last, found, last[0].name)
        texts.append(so_far(last, ratios, last[0].name, rounds_measured(last, found)))
    assert texts == [
        "so far, speed relative to keras: block 1.49×, cell 0.90× after 1 round",
        "so far, speed relative to keras: block 1.48× (1.45–1.52), cell 0.90× (0.89–0.92) "
        "after 2 rounds",
        "so far, speed relative to keras: block 1.48× (1.45–1.50), cell 0.90× (0.90–0.91) "
        "after 3 rounds",
    ]


def test_a_round_that_does_not_count_is_counted_so_far(place: Place) -> None:
    """Of four rounds, the last one was slowed down."""
    rounds = [
        in_round([make_record(rnn=rnn, repeat=number) for rnn in ("keras", "block")], [0.0, -0.4],
                 20, number=number)
        for number in range(4)
    ]  # fmt: skip
    lines = plan(place, [record for members in rounds for record in members])
    for members in rounds:
        for record in members:
            finish(place, record)
    found = FinishedRuns(place).read()
    last = lines[-2:]
    texts = []
    for state in (State.QUIET, State.SLOWED):
        found = [
            structs.replace(run, value=run.value._replace(state=state))
            if run.name in {line.name for line in last}
            else run
            for run in found
        ]
        ratios = ratios_of(last, found, last[0].name)
        texts.append(so_far(last, ratios, last[0].name, rounds_measured(last, found)))
    assert texts[0].endswith(" after 4 rounds")
    assert texts[1].endswith(" after 4 rounds, of which 3 count")
    assert rounds_measured([run_of(8, 0).run], found) == 0, "none of this configuration"
    alone = [structs.replace(run, value=run.value._replace(in_turns=False)) for run in found]
    assert rounds_measured(last, alone) == 0


def test_the_text_of_a_reason_has_the_width_or_the_budget() -> None:
    known = NotNeeded(halfwidth=0.0123, runs=3, until=0.025)
    assert unneeded_text(known) == "it is known to ± 1.23 % after 3 runs; required is ± 2.50 %"
    over = NotNeeded(spent=1100.0, budget=1000.0)
    assert unneeded_text(over) == "the budget of 1,000 s is used up (1,100 s)"


@pytest.mark.parametrize("fields", [{}, {"spent": 2.0}, {"halfwidth": 0.1}, {"runs": 3}])
def test_a_reason_needs_a_width_or_a_budget(fields) -> None:
    with pytest.raises(ValueError, match="needs either"):
        NotNeeded(**fields)
