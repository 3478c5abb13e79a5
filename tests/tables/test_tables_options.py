"""An implementation is an rnn choice with its overrides of ``rnn``; those that make another
function belong to what is computed."""

from __future__ import annotations

import dataclasses

import pytest

from rnnbench.records.record import Record
from rnnbench.report.content import Experiment, content
from rnnbench.tables.certificates import UNEQUAL
from rnnbench.tables.comparison import versus
from rnnbench.tables.fastest import fastest
from rnnbench.tables.frame import tidy
from rnnbench.tables.learning import learning
from rnnbench.tables.reference_options import with_named_options
from rnnbench.tables.time import (
    FASTER,
    IS_REFERENCE,
    NO_REFERENCE,
    NOT_EQUAL,
    SLOWER,
    time,
)
from rnnworker.rounds import reference_of
from tests.factory import make_record

KERAS = {"rnn": "keras"}
OPTION = "rnn.options."
RELU = {"rnn.options.activation": "relu", "rnn.options.recurrent_activation": "hard_sigmoid"}
WORDS = "activation=relu, recurrent_activation=hard_sigmoid"


def runs(rnn: str, seconds: float, overrides: dict | None = None, **changes) -> list[Record]:
    return [
        make_record(
            rnn=rnn,
            repeat=repeat,
            epoch_seconds=seconds * (1 + 0.001 * repeat * len(rnn)),
            overrides=overrides,
            **changes,
        )
        for repeat in range(3)
    ]


def rows(records: list[Record], reference: dict[str, str] = KERAS):
    return time(tidy(records), reference).set_index(["rnn", "variant", "options"])


def unrolled(table, column: str = "speedup") -> list:
    return table.loc[table.index.get_level_values("rnn") == "unrolled", column].tolist()


def test_a_way_to_compute_finds_the_reference_of_its_task() -> None:
    table = rows(
        [
            *runs("keras", 0.5),
            *runs("cudnn_raw", 0.25),
            *runs("cudnn_raw", 0.2, {"rnn.options.op": "CudnnRNNV3"}),
            *runs("contrib", 0.4, {"rnn.options.class": "LSTMCell"}),
            *runs("contrib", 0.3, {"rnn.options.class": "LSTMBlockCell"}),
        ]
    )
    assert table["words"].tolist() == [IS_REFERENCE, *[FASTER] * 4]
    assert table["speedup"].round(1).tolist() == [1.0, 2.0, 2.5, 1.2, 1.7]
    names = ["keras", "cudnn_raw", "cudnn_raw op=CudnnRNNV3"]
    assert table["implementation"].tolist()[:3] == names


def test_they_are_contestants_of_one_contest_and_learn_beside_the_reference() -> None:
    frame = tidy([*runs("keras", 0.5), *runs("cudnn_raw", 0.2, {"rnn.options.op": "CudnnRNNV3"})])
    (row,) = fastest(frame, time(frame, KERAS), KERAS).to_dict("records")
    assert (row["name"], row["contestants"]) == ("cudnn_raw op=CudnnRNNV3", 2)
    assert learning(frame, KERAS)["is_reference"].tolist() == [True, False]


def test_another_function_is_another_task() -> None:
    records = [*runs("keras", 0.5), *runs("unrolled", 0.4), *runs("unrolled", 0.1, RELU)]
    table = rows(records)
    assert table.loc[("unrolled", WORDS, WORDS), "words"] == NO_REFERENCE
    frame = tidy([*records, *runs("keras", 0.3, RELU)])
    again = time(frame, KERAS).set_index(["rnn", "variant", "options"])
    assert again.loc[("unrolled", WORDS, WORDS), "speedup"] == pytest.approx(3, rel=0.01)
    contests = fastest(frame, time(frame, KERAS), KERAS)
    assert contests["variant"].tolist() == ["", WORDS]
    assert contests["name"].tolist() == ["unrolled", "unrolled"]
    assert set(learning(frame, KERAS)["variant"]) == {"", WORDS}


def test_a_function_in_a_choices_own_file_is_one_too() -> None:
    mine = [
        dataclasses.replace(
            record, config={**record.config, "rnn": {"options": {"activation": "relu", "op": 1}}}
        )
        for record in runs("my_relu", 0.1)
    ]
    table = rows([*runs("keras", 0.5), *mine])
    assert table.loc[("my_relu", "activation=relu", ""), "words"] == NO_REFERENCE
    relu = {"rnn.options.activation": "relu"}
    table = rows([*runs("keras", 0.5, relu), *mine])
    assert table.loc[("my_relu", "activation=relu", ""), "words"] == FASTER


def test_the_reference_is_the_one_without_options_of_its_own() -> None:
    first, second = ({"rnn.options.implementation": way} for way in (1, 2))
    cells = [*runs("unrolled", 0.2, second), *runs("keras", 0.4, second)]
    table = rows([*cells, *runs("keras", 0.5, first)])
    assert unrolled(table) == pytest.approx([2], rel=0.01), "the same"
    table = rows([*cells, *runs("keras", 0.5, first), *runs("keras", 1.0)])
    assert unrolled(table) == pytest.approx([5], rel=0.01), "without"
    assert table["words"].tolist() == [FASTER, FASTER, FASTER, IS_REFERENCE]
    table = rows([*runs("unrolled", 0.2), *runs("keras", 0.4, second)])
    assert unrolled(table) == pytest.approx([2], rel=0.01), "the only one"
    table = rows([*runs("unrolled", 0.2), *runs("keras", 0.4, first), *runs("keras", 0.4, second)])
    assert unrolled(table, "words") == [NO_REFERENCE]


def test_no_other_takes_the_place_of_a_void_reference() -> None:
    other = runs("keras", 0.4, {"rnn.options.implementation": 2})
    table = rows([*runs("unrolled", 0.2), *other, *runs("keras", 0.5, verdict="void")])
    assert table["words"].tolist() == [NO_REFERENCE, NO_REFERENCE]


def test_with_a_build_as_reference_an_implementation_stays_what_it_is() -> None:
    ways = {"rnn.options.implementation": 1}
    old = [
        dataclasses.replace(
            record,
            name=record.name.replace("current", "tf_1_15"),
            choices={**record.choices, "build": "tf_1_15"},
        )
        for record in runs("keras", 0.2, ways)
    ]
    table = rows([*runs("keras", 0.5), *runs("keras", 0.4, ways), *old], {"build": "current"})
    found = table[table["build"] == "tf_1_15"]
    assert found["speedup"].tolist() == pytest.approx([2], rel=0.01)


def test_no_ratio_between_two_functions() -> None:
    frame = tidy(
        [*runs("keras", 0.5), *runs("unrolled", 0.4), *runs("unrolled", 0.1, RELU),
         *runs("keras", 0.3, RELU)]
    )  # fmt: skip
    for words in ("*relu*", "activation=relu", WORDS.split(", ")[1]):
        (row,) = versus(frame, [words], ["unrolled"]).to_dict("records")
        assert row["equal"] == UNEQUAL and row["ratio"] != row["ratio"], words
        assert row["unequal"].estimate == pytest.approx(4, rel=0.01)
        assert str(row["unequal"]).startswith("≠")
        assert row["difference"].startswith("activation relu instead of tanh")
        assert (row["same"], row["a"], row["b"]) == ("unrolled", WORDS, "")
        assert row["equal_why"] == (
            "not the same function: activation relu instead of tanh, "
            "recurrent activation hard_sigmoid instead of sigmoid"
        )
    (row,) = versus(frame, ["unrolled", "*relu*"], ["keras", "*relu*"]).to_dict("records")
    assert row["ratio"] == pytest.approx(3, rel=0.01) and row["unequal"] == row["difference"] == ""


def test_a_reference_may_name_an_option_of_the_way_to_compute() -> None:
    reference = {"rnn": "keras", "rnn.options.implementation": "1"}
    levels = {0: 0.2, 1: 0.4, 2: 0.8}
    records = [
        one
        for way, s in levels.items()
        for one in runs("keras", s, {f"{OPTION}implementation": way})
    ]
    records += runs("unrolled", 0.1)
    table = rows(records, reference)
    assert table["words"].tolist() == [FASTER, IS_REFERENCE, SLOWER, FASTER]
    assert table["speedup"].round(1).tolist() == [2.0, 1.0, 0.5, 4.0]
    frame = tidy(records)
    (best,) = fastest(frame, time(frame, reference), reference).to_dict("records")
    assert (best["name"], best["contestants"]) == ("unrolled", 4)


def test_a_round_finds_the_run_whose_options_the_reference_names() -> None:
    planned = [
        {"name": f"keras-{way}", "choices": {"rnn": "keras"}, "alias": None,
         "overrides": {f"{OPTION}implementation": way}}
        for way in (0, 1)
    ]  # fmt: skip
    found = reference_of(planned, {"rnn": "keras", f"{OPTION}implementation": "1"})
    assert found and found["name"] == "keras-1"
    assert reference_of(planned, {"rnn": "keras", f"{OPTION}implementation": "2"}) is None


def test_functions_that_the_reference_tells_apart_stand_side_by_side_but_win_nothing() -> None:
    plain = {f"{OPTION}activation": "tanh", f"{OPTION}recurrent_activation": "sigmoid"}
    reference = {"rnn": "keras", **plain}
    records = [*runs("keras", 0.4, plain), *runs("keras", 0.2, RELU), *runs("unrolled", 0.3)]
    frame = with_named_options(tidy(records), reference)
    table = time(frame, reference).set_index("implementation")
    assert set(table["variant"]) == {""}
    relu = table.loc[f"keras {WORDS}"]
    assert relu["words"] == NOT_EQUAL and relu["speedup"] != relu["speedup"]
    assert relu["unequal"].estimate == pytest.approx(2, rel=0.01)
    assert relu["difference"] == (
        "activation relu instead of tanh, recurrent activation hard_sigmoid instead of sigmoid"
    )
    assert table.loc["unrolled", "speedup"] == pytest.approx(1.33, rel=0.01)
    (best,) = fastest(frame, table.reset_index(), reference).to_dict("records")
    assert (best["name"], best["contestants"]) == ("unrolled", 2)
    assert "relu instead of tanh" in best["left_out"]
    learnt = learning(frame, reference)
    assert learnt["is_reference"].tolist() == [True, False, False]
    # Where no reference names them they are two tasks, as before.
    assert with_named_options(tidy(records), KERAS)["variant"].nunique() == 3


def test_numbers_lead_to_the_runs_of_what_the_reference_names() -> None:
    plain = {f"{OPTION}activation": "tanh", f"{OPTION}recurrent_activation": "sigmoid"}
    records = [*runs("keras", 0.4, plain), *runs("keras", 0.2, RELU)]
    experiment = Experiment("relu", "t", "", {"rnn": "keras", **plain})
    found = content(records, experiment)
    assert found.reference_words == "keras, activation=tanh, recurrent_activation=sigmoid"
    links = {link for row in found.time[0].rows for link in row.links}
    assert links == {cell.anchor for cell in found.cells} and len(links) == 2
    said = found.answers[0].fast
    name = "`keras activation=tanh, recurrent_activation=sigmoid`"
    assert said.startswith(f"{name} is the only implementation of its function")
    assert "marked ≠; not compared: `keras activation=relu" in said and "×" not in said


def test_what_both_sides_choose_stands_for_one_of_them() -> None:
    frame = tidy([*runs("keras", 0.5), *runs("unrolled", 0.4), *runs("cell", 0.6)])
    found = versus(frame, ["*"], ["keras"])
    assert found["a"].tolist() == ["unrolled", "cell"]
    assert versus(frame, ["keras"], ["keras"]).empty


def test_a_block_belongs_to_its_experiment() -> None:
    """Both of three runs in blocks 0 to 2, the second cell's of another experiment."""
    together = [*runs("keras", 0.5), *runs("unrolled", 0.4)]
    apart = [*runs("keras", 0.5), *runs("unrolled", 0.4, experiment="other")]
    elsewhere = [*runs("keras", 0.5), *runs("unrolled", 0.4, site="cluster")]

    def method(records: list[Record]) -> str:
        (row,) = versus(tidy(records), ["unrolled"], ["keras"]).to_dict("records")
        assert row["ratio"] == pytest.approx(1.25, rel=0.01)
        return row["method"]

    assert method(together) == "paired"
    assert method(apart) == method(elsewhere) == "welch"
    two = [*runs("keras", 0.5), *runs("keras", 0.4, machine="other-0123abcd")]
    (row,) = versus(tidy(two), ["other-0123abcd"], ["testbox-0123abcd"]).to_dict("records")
    assert row["method"] == "welch", "two machines measure no block together"
