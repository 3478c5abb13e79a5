"""The reference of a configuration, its options, and comparisons of selections and builds.

An implementation is an rnn choice with its overrides of ``rnn``, except overrides that change the
function, which belong to the variant.
"""

from __future__ import annotations

import math

import pytest

from rnnbench.records.overrides import NONE, Overrides
from rnnbench.records.plan_file import Experiment
from rnnbench.records.record import Record
from rnnbench.report.content import Content
from rnnbench.tables.certificates import UNEQUAL
from rnnbench.tables.comparison import builds, versus
from rnnbench.tables.estimates import Measurements, with_named_options
from rnnbench.tables.frame import tidy
from rnnbench.tables.learning import learning
from rnnbench.tables.time import (
    FASTER,
    IS_REFERENCE,
    NO_REFERENCE,
    NOT_EQUAL,
    SLOWER,
    fastest,
    time,
)
from rnnworker.cohorts import reference_of
from tests.factory import KERAS, make_record, measured, replace

OPTION = "rnn.options."


RELU = {"rnn.options.activation": "relu", "rnn.options.recurrent_activation": "hard_sigmoid"}


RELU_OVERRIDES = Overrides.of(RELU)


RELU_TEXT = "activation=relu, recurrent_activation=hard_sigmoid"


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
    return time(measured(records, reference)).set_index(["rnn", "variant", "options"])


def unrolled(table, column: str = "speedup") -> list:
    return table.loc[table.index.get_level_values("rnn") == "unrolled", column].tolist()


def test_options_of_an_implementation_keep_the_reference() -> None:
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


def test_options_of_an_implementation_stay_in_one_contest() -> None:
    op = {"rnn.options.op": "CudnnRNNV3"}
    every = measured([*runs("keras", 0.5), *runs("cudnn_raw", 0.2, op)])
    (row,) = fastest(every, time(every)).to_dict("records")
    assert (row["name"], row["contestants"]) == ("cudnn_raw op=CudnnRNNV3", 2)
    assert learning(every)["is_reference"].tolist() == [True, False]


def test_a_different_function_is_a_different_task() -> None:
    records = [*runs("keras", 0.5), *runs("unrolled", 0.4), *runs("unrolled", 0.1, RELU)]
    table = rows(records)
    assert table.loc[("unrolled", RELU_OVERRIDES, RELU_OVERRIDES), "words"] == NO_REFERENCE
    every = measured([*records, *runs("keras", 0.3, RELU)])
    again = time(every).set_index(["rnn", "variant", "options"])
    key = ("unrolled", RELU_OVERRIDES, RELU_OVERRIDES)
    assert again.loc[key, "speedup"] == pytest.approx(3, rel=0.01)
    contests = fastest(every, time(every))
    assert contests["variant"].tolist() == [NONE, RELU_OVERRIDES]
    assert contests["name"].tolist() == ["unrolled", "unrolled"]
    assert set(learning(every)["variant"]) == {NONE, RELU_OVERRIDES}


def test_function_options_in_the_file_of_a_choice_count() -> None:
    my_relu = [
        replace(
            record,
            config={**record.run.config, "rnn": {"options": {"activation": "relu", "op": 1}}},
        )
        for record in runs("my_relu", 0.1)
    ]
    relu = {"rnn.options.activation": "relu"}
    key = ("my_relu", Overrides.of(relu), NONE)
    table = rows([*runs("keras", 0.5), *my_relu])
    assert table.loc[key, "words"] == NO_REFERENCE
    table = rows([*runs("keras", 0.5, relu), *my_relu])
    assert table.loc[key, "words"] == FASTER


def test_the_reference_is_the_implementation_without_options_if_it_exists() -> None:
    first, second = ({"rnn.options.implementation": value} for value in (1, 2))
    records = [*runs("unrolled", 0.2, second), *runs("keras", 0.4, second)]
    table = rows([*records, *runs("keras", 0.5, first)])
    assert unrolled(table) == pytest.approx([2], rel=0.01), "same options"
    table = rows([*records, *runs("keras", 0.5, first), *runs("keras", 1.0)])
    assert unrolled(table) == pytest.approx([5], rel=0.01), "no options"
    assert table["words"].tolist() == [FASTER, FASTER, FASTER, IS_REFERENCE]
    table = rows([*runs("unrolled", 0.2), *runs("keras", 0.4, second)])
    assert unrolled(table) == pytest.approx([2], rel=0.01), "only candidate"
    table = rows([*runs("unrolled", 0.2), *runs("keras", 0.4, first), *runs("keras", 0.4, second)])
    assert unrolled(table, "words") == [NO_REFERENCE]


def test_a_void_reference_is_not_replaced() -> None:
    other = runs("keras", 0.4, {"rnn.options.implementation": 2})
    table = rows([*runs("unrolled", 0.2), *other, *runs("keras", 0.5, verdict="void")])
    assert table["words"].tolist() == [NO_REFERENCE, NO_REFERENCE]


def test_a_build_as_reference_keeps_the_options() -> None:
    options = {"rnn.options.implementation": 1}
    old = [
        replace(
            record,
            name=record.name.replace("current", "tf_1_15"),
            choices={**record.run.choices, "build": "tf_1_15"},
        )
        for record in runs("keras", 0.2, options)
    ]
    table = rows([*runs("keras", 0.5), *runs("keras", 0.4, options), *old], {"build": "current"})
    old_rows = table[table["build"] == "tf_1_15"]
    assert old_rows["speedup"].tolist() == pytest.approx([2], rel=0.01)


def test_versus_gives_no_speedup_between_different_functions() -> None:
    every = measured(
        [*runs("keras", 0.5), *runs("unrolled", 0.4), *runs("unrolled", 0.1, RELU),
         *runs("keras", 0.3, RELU)])  # fmt: skip
    for term in ("*relu*", "activation=relu", RELU_TEXT.split(", ")[1]):
        (row,) = versus(every, [term], ["unrolled"]).to_dict("records")
        assert row["equal"] == UNEQUAL and row["ratio"] != row["ratio"], term
        assert row["unequal"].estimate == pytest.approx(4, rel=0.01)
        assert str(row["unequal"]).startswith("≠")
        assert row["difference"].startswith("activation relu instead of tanh")
        assert (row["same"], row["a"], row["b"]) == ("unrolled", RELU_TEXT, "")
        assert row["equal_why"] == (
            "not the same function: activation relu instead of tanh, "
            "recurrent activation hard_sigmoid instead of sigmoid"
        )
    (row,) = versus(every, ["unrolled", "*relu*"], ["keras", "*relu*"]).to_dict("records")
    assert row["ratio"] == pytest.approx(3, rel=0.01) and row["unequal"] == row["difference"] == ""


def test_a_reference_may_name_options_of_an_implementation() -> None:
    reference = {"rnn": "keras", "rnn.options.implementation": "1"}
    levels = {0: 0.2, 1: 0.4, 2: 0.8}
    records = [
        run
        for value, seconds in levels.items()
        for run in runs("keras", seconds, {f"{OPTION}implementation": value})
    ]
    records += runs("unrolled", 0.1)
    table = rows(records, reference)
    assert table["words"].tolist() == [FASTER, IS_REFERENCE, SLOWER, FASTER]
    assert table["speedup"].round(1).tolist() == [2.0, 1.0, 0.5, 4.0]
    every = measured(records, reference)
    (best,) = fastest(every, time(every)).to_dict("records")
    assert (best["name"], best["contestants"]) == ("unrolled", 4)


def test_reference_of_a_round_has_the_named_options() -> None:
    planned = [
        {"name": f"keras-{value}", "choices": {"rnn": "keras"}, "alias": None,
         "overrides": {f"{OPTION}implementation": value}}
        for value in (0, 1)
    ]  # fmt: skip
    base = reference_of(planned, {"rnn": "keras", f"{OPTION}implementation": "1"})
    assert base and base["name"] == "keras-1"
    assert reference_of(planned, {"rnn": "keras", f"{OPTION}implementation": "2"}) is None


def test_functions_named_by_the_reference_are_in_one_group_but_not_contestants() -> None:
    plain = {f"{OPTION}activation": "tanh", f"{OPTION}recurrent_activation": "sigmoid"}
    reference = {"rnn": "keras", **plain}
    records = [*runs("keras", 0.4, plain), *runs("keras", 0.2, RELU), *runs("unrolled", 0.3)]
    every = Measurements(with_named_options(tidy(records), reference), reference)
    table = time(every).set_index("implementation")
    assert set(table["variant"]) == {NONE}
    relu = table.loc[f"keras {RELU_TEXT}"]
    assert relu["words"] == NOT_EQUAL and relu["speedup"] != relu["speedup"]
    assert relu["unequal"].estimate == pytest.approx(2, rel=0.01)
    assert relu["difference"] == (
        "activation relu instead of tanh, recurrent activation hard_sigmoid instead of sigmoid"
    )
    assert table.loc["unrolled", "speedup"] == pytest.approx(1.33, rel=0.01)
    (best,) = fastest(every, table.reset_index()).to_dict("records")
    assert (best["name"], best["contestants"]) == ("unrolled", 2)
    assert "relu instead of tanh" in best["left_out"]
    learnt = learning(every)
    assert learnt["is_reference"].tolist() == [True, False, False]
    # If the reference does not name the options, they are separate tasks.
    assert with_named_options(tidy(records), KERAS)["variant"].nunique() == 3


def test_links_lead_to_the_runs_of_a_reference_with_options() -> None:
    plain = {f"{OPTION}activation": "tanh", f"{OPTION}recurrent_activation": "sigmoid"}
    records = [*runs("keras", 0.4, plain), *runs("keras", 0.2, RELU)]
    experiment = Experiment("relu", "t", "", {"rnn": "keras", **plain})
    report = Content(records, experiment)
    assert report.reference_words == "keras activation=tanh, recurrent_activation=sigmoid"
    links = {link for row in report.time[0].rows for link in row.links}
    assert links == {cell.anchor for cell in report.configuration_details} and len(links) == 2
    text = report.answers[0].speed_sentence
    assert text.startswith("`keras` is the only implementation of its function")
    assert "; the other one computes another, so no speed-up is shown" in text
    assert text.endswith("marked ≠.") and "×" not in text and "not compared" not in text


def test_a_configuration_that_matches_both_sides_counts_for_one() -> None:
    every = measured([*runs("keras", 0.5), *runs("unrolled", 0.4), *runs("cell", 0.6)])
    table = versus(every, ["*"], ["keras"])
    assert table["a"].tolist() == ["unrolled", "cell"]
    assert versus(every, ["keras"], ["keras"]).empty


def test_blocks_are_common_only_within_experiment_site_and_machine() -> None:
    same = [*runs("keras", 0.5), *runs("unrolled", 0.4)]
    other_experiment = [*runs("keras", 0.5), *runs("unrolled", 0.4, experiment="other")]
    other_site = [*runs("keras", 0.5), *runs("unrolled", 0.4, site="cluster")]

    def method(records: list[Record]) -> str:
        (row,) = versus(measured(records), ["unrolled"], ["keras"]).to_dict("records")
        assert row["ratio"] == pytest.approx(1.25, rel=0.01)
        return row["method"]

    assert method(same) == "paired"
    assert method(other_experiment) == method(other_site) == "welch"
    two_machines = [*runs("keras", 0.5), *runs("keras", 0.4, machine="other-0123abcd")]
    (row,) = versus(measured(two_machines), ["other-0123abcd"], ["testbox-0123abcd"]).to_dict(
        "records"
    )
    assert row["method"] == "welch"


def test_a_name_has_only_the_options_that_differ_from_the_reference() -> None:
    plain = {f"{OPTION}activation": "tanh", f"{OPTION}recurrent_activation": "sigmoid"}
    reference = {"rnn": "keras", **plain}
    relu = {**plain, f"{OPTION}activation": "relu"}
    records = [*runs("keras", 0.4, plain), *runs("keras", 0.2, relu), *runs("cell", 0.3)]
    names = with_named_options(tidy(records), reference)["implementation"].unique().tolist()
    assert names == ["keras", "keras activation=relu", "cell"]


def in_build(build, **changes):
    record = make_record(**changes)
    return replace(
        record,
        choices={**record.run.choices, "build": build},
        name=record.name.replace("current", build),
    )


def test_builds_by_hand():
    records = [
        in_build(build, repeat=repeat, epoch_seconds=level * noise)
        for repeat, noise in enumerate((1.0, 1.01, 1.02))
        for build, level in (("new", 1.0), ("old", 3.0))
    ]
    new, old = builds(measured(records, {"build": "new"})).to_dict("records")
    assert new["change"] == 1 and old["change"] == pytest.approx(3)
    assert old["regression"] and old["words"] == "slower"
    logs = [math.log(x) for x in (1.0, 1.01, 1.02)]
    spread = math.sqrt(sum((x - sum(logs) / 3) ** 2 for x in logs) / 2)
    assert old["effect"] == pytest.approx(math.log(3) / spread)
    assert builds(measured(records[::2], {})).empty


def test_change_between_builds_has_the_interval_of_the_time_table():
    times = ((0.99, 1.02, 1.0), (1.0, 0.98, 1.03), (1.02, 1.0, 0.99))
    every = measured([
        in_build(build, repeat=repeat, epoch_seconds=seconds)
        for build, by_repeat in zip(("new", "old", "older"), times, strict=True)
        for repeat, seconds in enumerate(by_repeat)
    ], {"build": "new"})  # fmt: skip
    changes = builds(every).set_index("build")
    speed = time(every).set_index("build")
    assert speed["method"]["old"].startswith("pooled")
    for build in ("old", "older"):
        assert changes["change_low"][build] == pytest.approx(1 / speed["speedup_high"][build])
        assert changes["change_high"][build] == pytest.approx(1 / speed["speedup_low"][build])


def test_versus_pairs_configurations_that_are_otherwise_equal():
    records = [
        make_record(rnn=rnn, device=device, repeat=repeat, epoch_seconds=level)
        for repeat in (0, 1)
        for device in ("cpu_1", "cpu_2")
        for rnn, level in (("keras", 0.6), ("block", 0.3))
    ]
    table = versus(measured(records), ["block"], ["keras"])
    assert table["same"].tolist() == ["cpu_1", "cpu_2"]
    assert table["ratio"].tolist() == pytest.approx([2, 2])
    table = versus(measured(records), ["cpu_1", "keras"], ["cpu_2", "keras"])
    assert len(table) == 1 and table["ratio"].iloc[0] == pytest.approx(1)
    assert versus(measured(records), ["nothing"], ["keras"]).empty
