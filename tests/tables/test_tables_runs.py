"""The listings of runs, epochs, turns and facts, against a record whose numbers are known."""

from __future__ import annotations

import math
from datetime import timedelta

import pytest

from rnnbench.records.overrides import NONE
from rnnbench.tables.frame import tidy
from rnnbench.tables.runs import MAX_LENGTH, epochs, order, provenance, runs, turns
from tests.factory import BEGINNING, in_round, make_record, phase_of, replace

WHICH = {
    "model": "digits_rnn", "cell": "lstm", "rnn": "keras", "device": "cpu_1", "build": "current",
    "machine": "testbox-0123abcd", "implementation": "keras", "alias": "", "variant": NONE,
    "options": NONE, "seed": 1, "repeat": 2,
}  # fmt: skip


def test_a_row_of_a_run_by_hand() -> None:
    """Epochs of 9, 1, 2 and 3 s, of which the first does not count."""
    record = make_record(
        seed=1, repeat=2, epoch_seconds=[9.0, 1.0, 2.0, 3.0], verdict="suspect", order=7, block=3
    )
    measured = {**record.facts, "joules_per_sample": 0.25, "card_watts": 70.0}
    (row,) = runs(tidy([replace(record, facts=measured)])).to_dict("records")
    expected = {
        **WHICH,
        "name": record.name, "verdict": "suspect", "started": record.started,
        "reasons": "0.4 CPU seconds a second of others.", "block": 3, "order": 7,
        "epochs": 4, "median_epoch_seconds": 2.0, "import_seconds": 4.9, "data_seconds": 0.02,
        "build_seconds": 0.3, "first_step_seconds": 1.1, "warmup_seconds": 0.4,
        "evaluate_seconds": 0.05, "predict_seconds": 0.05,
        "wall_seconds": record.measured.wall_seconds, "peak_memory_bytes": 612_345_678,
        "parameters": 19_402, "joules_per_sample": 0.25, "card_watts": 70.0, "acc": 0.97,
        "val_acc": 0.97, "record": record.key,
    }  # fmt: skip
    for name, value in expected.items():
        found = row[name]
        assert found == (pytest.approx(value) if isinstance(value, float) else value), name
    assert row["loss"] == pytest.approx(2.3 * 0.05)


def test_runs_are_listed_by_their_start_even_without_an_epoch() -> None:
    later = BEGINNING + timedelta(seconds=60)
    untrained = make_record(rnn="block", phases=(), epochs=0, verdict="void")
    whole = {"samples": 359}  # calls that were not timed
    record = make_record(started=later)
    phases = [
        replace(phase, facts=whole) if phase.name == "predict" else phase for phase in record.phases
    ]
    table = runs(tidy([replace(record, phases=tuple(phases)), untrained]))
    assert table["rnn"].tolist() == ["block", "keras"] and table["epochs"].tolist() == [0, 5]
    assert math.isnan(table["median_epoch_seconds"][0])
    assert math.isnan(table["predict_seconds"][0])
    assert table["predict_seconds"][1] == pytest.approx(0.5)
    assert table["evaluate_seconds"][1] == 0.05


def test_a_row_of_an_epoch_by_hand() -> None:
    record = make_record(seed=1, repeat=2, epoch_seconds=[9.0, 1.0], verdict="void")
    first, second = epochs(tidy([record]), [record]).to_dict("records")
    for name, value in WHICH.items():
        assert first[name] == value
    assert (first["epoch"], second["epoch"]) == (1, 2)
    assert (first["epoch_seconds"], second["epoch_seconds"]) == (9.0, 1.0)
    assert (second["samples"], second["steps"], second["val_seconds"]) == (1438, 45, 0.04)
    assert second["start"] - first["start"] == pytest.approx(9.04)
    assert (second["acc"], second["val_acc"], second["verdict"]) == (0.97, 0.97, "void")
    assert (first["record"], first["name"]) == (record.key, record.name)


def test_the_order_is_that_of_the_starts_on_each_machine() -> None:
    """keras takes 0.5 and 0.7 s: 5/6 and 7/6 of its mean."""
    records = [
        make_record(machine=machine, repeat=repeat, epoch_seconds=seconds, order=planned,
                    verdict=verdict, started=BEGINNING + timedelta(minutes=minutes))
        for machine, repeat, seconds, planned, verdict, minutes in (
            ("a", 1, 0.7, 1, "suspect", 5),
            ("a", 0, 0.5, 0, "clean", 0),
            ("b", 0, 3.0, 0, "clean", 9),
        )
    ]  # fmt: skip
    table = order(tidy(records))
    assert table["machine"].tolist() == ["a", "a", "b"] and table["place"].tolist() == [1, 2, 1]
    assert table["relative"].tolist() == pytest.approx([5 / 6, 7 / 6, 1.0])
    assert table["planned"].tolist() == [0, 1, 0] and table["suspect"].tolist() == [0, 1, 0]
    assert table["block"].tolist() == ["s0-r0", "s0-r1", "s0-r0"]
    assert table["together"].nunique() == 3
    pair = in_round([make_record(), make_record(rnn="block")], [0.0, 0.1])
    assert set(order(tidy(pair))["together"]) == {pair[0].round_id}


def test_facts_are_listed_once_for_each_value() -> None:
    hardware = {"cpu": "A", "available_cores": 2, "flags": "x" * (MAX_LENGTH + 1), "none": None}
    records = [
        make_record(rnn=rnn, hardware={**hardware, "cores": cores}, environment={"keras": "3"})
        for rnn, cores in (("keras", 2), ("block", 4), ("cell", 2))
    ]
    records.append(make_record(build="older", hardware={}, environment={"keras": "2"}))
    rows = provenance(records).to_dict("split")["data"]
    assert rows == [
        ["machine", "testbox-0123abcd", "cpu", "A"],
        ["machine", "testbox-0123abcd", "cores", "2"],
        ["machine", "testbox-0123abcd", "cores", "4"],
        ["build", "current", "keras", "3"],
        ["build", "current", "lock", "b" * 64],
        ["build", "older", "keras", "2"],
        ["build", "older", "lock", "b" * 64],
        ["dataset", "digits", "md5", records[0].run.identity["dataset_md5"]],
    ]
    longest = {"flags": "x" * MAX_LENGTH}
    assert len(provenance([make_record(hardware=longest, environment={})])) == 3


def test_turns_say_which_of_them_are_compared() -> None:
    """20 cycles, of which other processes disturbed one and another was cut short."""
    pair = in_round([make_record(), make_record(rnn="block")], [0.0, 0.1], 20, disturbed=[3])
    cut = [number != 19 for number in range(20)]
    pair[1] = replace(pair[1], turns={**pair[1].turns, "full": cut})
    table = turns(pair, tidy(pair))
    assert len(table) == 40 and set(table["round"]) == {pair[0].round_id}
    assert set(table["state"]) == {0} and table["cycle"].tolist() == [*range(20)] * 2
    keras, block = (table[table["rnn"] == rnn] for rnn in ("keras", "block"))
    assert keras["counts"].tolist() == [int(cycle != 3) for cycle in range(20)]
    assert block["counts"].tolist() == [int(cycle not in (3, 19)) for cycle in range(20)]
    assert block["seconds"].tolist() == pair[1].turns["seconds"] and set(block["steps"]) == {10}
    none = turns([make_record()], tidy([make_record()]))
    assert none.empty and list(none.columns) == list(table.columns)


def test_a_member_without_turns_has_no_rows() -> None:
    first, second = in_round([make_record(), make_record(rnn="block")], [0.1, -0.1])
    silent = replace(second, turns={name: [] for name in second.turns})
    table = turns([first, silent], tidy([first, silent]))
    assert set(table["record"]) == {first.key}


def test_the_import_of_a_forked_worker_includes_that_of_its_importer() -> None:
    record = make_record()
    phases = tuple(
        replace(phase, facts={"before_fork": 2.0}) if phase.name == "import" else phase
        for phase in record.phases
    )
    forked = replace(record, phases=phases)
    assert runs(tidy([forked]))["import_seconds"].tolist() == pytest.approx([6.9])
    assert phase_of(forked, "import").seconds == pytest.approx(4.9)
