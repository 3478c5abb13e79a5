"""An implementation is an rnn choice with its overrides of ``rnn``, except overrides that change
the function, which belong to the variant."""

from __future__ import annotations

import pytest

from rnnbench.records.overrides import NONE, Overrides
from rnnbench.records.plan_file import Experiment
from rnnbench.records.record import Record
from rnnbench.report.content import Content
from rnnbench.tables.certificates import UNEQUAL
from rnnbench.tables.comparison import versus
from rnnbench.tables.fastest import fastest
from rnnbench.tables.frame import tidy
from rnnbench.tables.learning import learning
from rnnbench.tables.reference import with_named_options
from rnnbench.tables.time import FASTER, IS_REFERENCE, NO_REFERENCE, NOT_EQUAL, SLOWER, time
from rnnworker.cohorts import reference_of
from tests.factory import make_record, replace

KERAS = {"rnn": "keras"}
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
    return time(tidy(records), reference).set_index(["rnn", "variant", "options"])


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
    frame = tidy([*runs("keras", 0.5), *runs("cudnn_raw", 0.2, {"rnn.options.op": "CudnnRNNV3"})])
    (row,) = fastest(frame, time(frame, KERAS), KERAS).to_dict("records")
    assert (row["name"], row["contestants"]) == ("cudnn_raw op=CudnnRNNV3", 2)
    assert learning(frame, KERAS)["is_reference"].tolist() == [True, False]


def test_a_different_function_is_a_different_task() -> None:
    records = [*runs("keras", 0.5), *runs("unrolled", 0.4), *runs("unrolled", 0.1, RELU)]
    table = rows(records)
    assert table.loc[("unrolled", RELU_OVERRIDES, RELU_OVERRIDES), "words"] == NO_REFERENCE
    frame = tidy([*records, *runs("keras", 0.3, RELU)])
    again = time(frame, KERAS).set_index(["rnn", "variant", "options"])
    key = ("unrolled", RELU_OVERRIDES, RELU_OVERRIDES)
    assert again.loc[key, "speedup"] == pytest.approx(3, rel=0.01)
    contests = fastest(frame, time(frame, KERAS), KERAS)
    assert contests["variant"].tolist() == [NONE, RELU_OVERRIDES]
    assert contests["name"].tolist() == ["unrolled", "unrolled"]
    assert set(learning(frame, KERAS)["variant"]) == {NONE, RELU_OVERRIDES}


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
    frame = tidy(
        [*runs("keras", 0.5), *runs("unrolled", 0.4), *runs("unrolled", 0.1, RELU),
         *runs("keras", 0.3, RELU)]
    )  # fmt: skip
    for term in ("*relu*", "activation=relu", RELU_TEXT.split(", ")[1]):
        (row,) = versus(frame, [term], ["unrolled"]).to_dict("records")
        assert row["equal"] == UNEQUAL and row["ratio"] != row["ratio"], term
        assert row["unequal"].estimate == pytest.approx(4, rel=0.01)
        assert str(row["unequal"]).startswith("≠")
        assert row["difference"].startswith("activation relu instead of tanh")
        assert (row["same"], row["a"], row["b"]) == ("unrolled", RELU_TEXT, "")
        assert row["equal_why"] == (
            "not the same function: activation relu instead of tanh, "
            "recurrent activation hard_sigmoid instead of sigmoid"
        )
    (row,) = versus(frame, ["unrolled", "*relu*"], ["keras", "*relu*"]).to_dict("records")
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
    frame = tidy(records)
    (best,) = fastest(frame, time(frame, reference), reference).to_dict("records")
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
    frame = with_named_options(tidy(records), reference)
    table = time(frame, reference).set_index("implementation")
    assert set(table["variant"]) == {NONE}
    relu = table.loc[f"keras {RELU_TEXT}"]
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
    frame = tidy([*runs("keras", 0.5), *runs("unrolled", 0.4), *runs("cell", 0.6)])
    table = versus(frame, ["*"], ["keras"])
    assert table["a"].tolist() == ["unrolled", "cell"]
    assert versus(frame, ["keras"], ["keras"]).empty


def test_blocks_are_common_only_within_experiment_site_and_machine() -> None:
    same = [*runs("keras", 0.5), *runs("unrolled", 0.4)]
    other_experiment = [*runs("keras", 0.5), *runs("unrolled", 0.4, experiment="other")]
    other_site = [*runs("keras", 0.5), *runs("unrolled", 0.4, site="cluster")]

    def method(records: list[Record]) -> str:
        (row,) = versus(tidy(records), ["unrolled"], ["keras"]).to_dict("records")
        assert row["ratio"] == pytest.approx(1.25, rel=0.01)
        return row["method"]

    assert method(same) == "paired"
    assert method(other_experiment) == method(other_site) == "welch"
    two_machines = [*runs("keras", 0.5), *runs("keras", 0.4, machine="other-0123abcd")]
    (row,) = versus(tidy(two_machines), ["other-0123abcd"], ["testbox-0123abcd"]).to_dict("records")
    assert row["method"] == "welch"


def test_a_name_has_only_the_options_that_differ_from_the_reference() -> None:
    plain = {f"{OPTION}activation": "tanh", f"{OPTION}recurrent_activation": "sigmoid"}
    reference = {"rnn": "keras", **plain}
    relu = {**plain, f"{OPTION}activation": "relu"}
    records = [*runs("keras", 0.4, plain), *runs("keras", 0.2, relu), *runs("cell", 0.3)]
    names = with_named_options(tidy(records), reference)["implementation"].unique().tolist()
    assert names == ["keras", "keras activation=relu", "cell"]
