"""The reference of a configuration, its options, and comparisons of selections and builds.

An implementation is an rnn choice with its overrides of ``rnn``, except overrides that change the
function, which belong to the variant.
"""

from __future__ import annotations

import math
import re
from statistics import stdev

import pytest

from rnnbench.records.overrides import NONE, Overrides, reference_label
from rnnbench.records.record import Reason, Record, Verdict
from rnnbench.report.answer import answers
from rnnbench.report.provenance import raw_configurations
from rnnbench.report.speed import time_section
from rnnbench.sources.certificates import certificate_of
from rnnbench.tables.certificates import Certificates
from rnnbench.tables.comparison import builds, selected, versus, void_messages
from rnnbench.tables.contests import contests
from rnnbench.tables.estimates import Measurements, with_named_options
from rnnbench.tables.frame import tidy
from rnnbench.tables.learning import learning
from rnnbench.tables.outcome import Equality, Outcome
from rnnbench.tables.ratios import Basis
from rnnbench.tables.time import time
from rnnworker.cohorts import reference_of
from tests.factory import KERAS, make_record, make_runs, measured, replace
from tests.report.made_up import UNEQUAL as MADE_UP
from tests.report.made_up import measurements

OPTION = "rnn.options."
RELU = {f"{OPTION}activation": "relu", f"{OPTION}recurrent_activation": "hard_sigmoid"}
TANH = {f"{OPTION}activation": "tanh", f"{OPTION}recurrent_activation": "sigmoid"}
RELU_ONLY = {f"{OPTION}activation": "relu"}
FIRST, SECOND = ({f"{OPTION}implementation": value} for value in (1, 2))
RELU_OVERRIDES = Overrides.of(RELU)
RELU_TEXT = "activation=relu, recurrent_activation=hard_sigmoid"


def runs(rnn: str, seconds: float, overrides: dict | None = None, **changes) -> list[Record]:
    return make_runs({rnn: seconds}, overrides=overrides, **changes)


def rows(records: list[Record], reference: dict[str, str] = KERAS):
    return time(measured(records, reference)).set_index(["rnn", "variant", "options"])


def only(table) -> dict:
    """The only row of a table."""
    (row,) = table.to_dict("records")
    return row


def test_options_of_an_implementation_keep_the_reference_and_the_contest() -> None:
    records = make_runs({"keras": 0.5, "cudnn_raw": 0.25})
    records += runs("cudnn_raw", 0.2, {f"{OPTION}op": "CudnnRNNV3"})
    for name, seconds in (("LSTMCell", 0.4), ("LSTMBlockCell", 0.3)):
        records += runs("contrib", seconds, {f"{OPTION}class": name})
    every = measured(records)
    table = time(every)
    assert table["words"].tolist() == [Outcome.REFERENCE, *[Outcome.FASTER] * 4]
    assert table["speedup"].tolist() == pytest.approx([1, 2, 2.5, 1.25, 1.67], rel=0.01)
    names = ["keras", "cudnn_raw", "cudnn_raw op=CudnnRNNV3"]
    assert table["implementation"].tolist()[:3] == names
    (contest,) = contests(every, table)
    assert contest.contestants[0].name == "cudnn_raw op=CudnnRNNV3"
    assert len(contest.contestants) == 5
    assert learning(every)["is_reference"].tolist() == [True, *[False] * 4]


def test_a_different_function_is_a_different_task() -> None:
    records = [*make_runs({"keras": 0.5, "unrolled": 0.4}), *runs("unrolled", 0.1, RELU)]
    key = ("unrolled", RELU_OVERRIDES, RELU_OVERRIDES)
    assert rows(records).loc[key, "words"] == Outcome.NO_REFERENCE
    records += runs("keras", 0.3, RELU)
    assert rows(records).loc[key, "speedup"] == pytest.approx(3)
    every = measured(records)
    found = contests(every, time(every))
    assert [each.configuration["variant"] for each in found] == [NONE, RELU_OVERRIDES]
    assert [each.contestants[0].name for each in found] == ["unrolled", "unrolled"]
    assert set(learning(every)["variant"]) == {NONE, RELU_OVERRIDES}


def test_function_options_in_the_file_of_a_choice_count() -> None:
    options = {"options": {"activation": "relu", "op": 1}}
    my_relu = [
        replace(record, config={**record.run.config, "rnn": options})
        for record in runs("my_relu", 0.1)
    ]
    for overrides, words in ((None, Outcome.NO_REFERENCE), (RELU_ONLY, Outcome.FASTER)):
        table = rows([*runs("keras", 0.5, overrides), *my_relu])
        assert table.loc[("my_relu", Overrides.of(RELU_ONLY), NONE), "words"] == words


@pytest.mark.parametrize(
    ("of_unrolled", "of_keras", "speedup"),
    [
        (SECOND, {0.5: FIRST, 0.4: SECOND}, 2),  # the same options
        (SECOND, {0.5: FIRST, 0.4: SECOND, 1.0: {}}, 5),  # no options
        ({}, {0.4: SECOND}, 2),  # the only candidate
        ({}, {0.5: FIRST, 0.4: SECOND}, None),
    ],
)
def test_the_reference_is_the_implementation_without_options_if_it_exists(
    of_unrolled: dict, of_keras: dict, speedup: float | None
) -> None:
    records = runs("unrolled", 0.2, of_unrolled)
    records += [run for seconds, own in of_keras.items() for run in runs("keras", seconds, own)]
    row = only(rows(records).loc[["unrolled"]])
    assert row["words"] == (Outcome.FASTER if speedup else Outcome.NO_REFERENCE)
    assert speedup is None or row["speedup"] == pytest.approx(speedup, rel=0.01)


def test_a_void_reference_is_not_replaced() -> None:
    records = [*runs("unrolled", 0.2), *runs("keras", 0.4, SECOND)]
    table = rows([*records, *runs("keras", 0.5, verdict="void")])
    assert table["words"].tolist() == [Outcome.NO_REFERENCE, Outcome.NO_REFERENCE]


def test_a_build_as_reference_keeps_the_options() -> None:
    old = runs("keras", 0.2, FIRST, build="tf_1_15")
    table = rows([*runs("keras", 0.5), *runs("keras", 0.4, FIRST), *old], {"build": "current"})
    assert only(table[table["build"] == "tf_1_15"])["speedup"] == pytest.approx(2, rel=0.01)


def test_versus_gives_no_speedup_between_different_functions() -> None:
    records = make_runs({"keras": 0.5, "unrolled": 0.4})
    every = measured([*records, *make_runs({"unrolled": 0.1, "keras": 0.3}, overrides=RELU)])
    for term in ("*relu*", "activation=relu", RELU_TEXT.split(", ")[1]):
        row = only(versus(every, [term], ["unrolled"]))
        assert row["equal"] == Equality.UNEQUAL and row["ratio"] != row["ratio"], term
        assert row["unequal"].estimate == pytest.approx(4, rel=0.01)
        assert str(row["unequal"]).startswith("≠")
        assert row["difference"] == (
            "activation relu instead of tanh, recurrent activation hard_sigmoid instead of sigmoid"
        )
        assert row["equal_why"] == f"not the same function: {row['difference']}"
        assert (row["same"], row["a"], row["b"]) == ("unrolled", RELU_TEXT, "")
    row = only(versus(every, ["unrolled", "*relu*"], ["keras", "*relu*"]))
    assert row["ratio"] == pytest.approx(3, rel=0.01) and row["unequal"] == row["difference"] == ""


def test_a_reference_may_name_options_of_an_implementation() -> None:
    option, records = f"{OPTION}implementation", runs("unrolled", 0.1)
    for value, seconds in enumerate((0.2, 0.4, 0.8)):
        records += runs("keras", seconds, {option: value})
    every = measured(records, {**KERAS, option: "1"})
    table = time(every)
    assert table["words"].tolist() == [
        Outcome.FASTER,
        Outcome.FASTER,
        Outcome.REFERENCE,
        Outcome.SLOWER,
    ]
    assert table["speedup"].round(1).tolist() == [4.0, 2.0, 1.0, 0.5]
    (contest,) = contests(every, table)
    assert contest.contestants[0].name == "unrolled" and len(contest.contestants) == 4


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
    reference = {**KERAS, **TANH}
    records = [*runs("keras", 0.4, TANH), *runs("keras", 0.2, RELU), *runs("unrolled", 0.3)]
    every = Measurements(with_named_options(tidy(records), reference), reference)
    table = time(every).set_index("implementation")
    assert set(table["variant"]) == {NONE}
    relu = table.loc[f"keras {RELU_TEXT}"]
    assert relu["words"] == Outcome.ANOTHER_FUNCTION and relu["speedup"] != relu["speedup"]
    assert relu["unequal"].estimate == pytest.approx(2, rel=0.01)
    assert relu["difference"].startswith("activation relu instead of tanh, recurrent activation")
    assert table.loc["unrolled", "speedup"] == pytest.approx(1.33, rel=0.01)
    (contest,) = contests(every, table.reset_index())
    assert contest.contestants[0].name == "unrolled" and len(contest.contestants) == 2
    assert "relu instead of tanh" in contest.left_out[0].why
    assert learning(every)["is_reference"].tolist() == [True, False, False]
    # If the reference does not name the options, they are separate tasks.
    assert with_named_options(tidy(records), KERAS)["variant"].nunique() == 3
    # A name has only the options that differ from the reference.
    records = [*runs("keras", 0.4, TANH), *runs("keras", 0.2, {**TANH, **RELU_ONLY})]
    names = with_named_options(tidy(records), reference)["implementation"]
    assert names.unique().tolist() == ["keras", "keras activation=relu"]


def test_a_key_of_the_model_may_be_the_reference() -> None:
    """Its other values are other functions; what only says how to train is the same function."""
    reference = {**KERAS, "model.dropout": "0.0"}
    records = [
        *runs("keras", 0.4, {"model.dropout": 0.0}),
        *runs("keras", 0.5, {"model.dropout": 0.2}),
        *runs("unrolled", 0.2, {"model.dropout": 0.0}),
    ]
    m = measurements(records, reference)
    table = m.time.set_index("implementation")
    assert set(table["variant"]) == {NONE}
    assert table.loc["unrolled", "speedup"] == pytest.approx(2, rel=0.01)
    other = table.loc["keras dropout=0.2"]
    assert other["words"] == Outcome.ANOTHER_FUNCTION and other["speedup"] != other["speedup"]
    assert other["unequal"].estimate == pytest.approx(0.8, rel=0.01)
    assert other["difference"] == "model.dropout 0.2 instead of 0.0"
    links = {link for row in time_section(m).views[0].rows for link in row.links}
    assert links == {cell.anchor for cell in raw_configurations(m)} and len(links) == 3
    assert reference_label(reference) == "keras dropout=0.0"

    batches = [*runs("keras", 0.4, {"model.batch": 8}), *runs("keras", 0.2, {"model.batch": 16})]
    table = measurements(batches, {**KERAS, "model.batch": "8"}).time.set_index("implementation")
    assert table.loc["keras batch=16", "speedup"] == pytest.approx(2, rel=0.01)
    # If the reference does not name the key, they are separate tables.
    assert with_named_options(tidy(records), KERAS)["variant"].nunique() == 2


def test_links_lead_to_the_runs_of_a_reference_with_options() -> None:
    records = [*runs("keras", 0.4, TANH), *runs("keras", 0.2, RELU)]
    m = measurements(records, {**KERAS, **TANH})
    assert reference_label(m.reference) == "keras activation=tanh, recurrent_activation=sigmoid"
    links = {link for row in time_section(m).views[0].rows for link in row.links}
    assert links == {cell.anchor for cell in raw_configurations(m)} and len(links) == 2
    text = str(answers(m)[0])
    assert text.startswith("On one thread, `keras activation=relu, recurrent_activation=")
    others = (
        "` computes a different function from `keras`, so there is no speed-up; it trains "
        "≠ 2.00× as fast (2.00 to 2.00)."
    )
    assert others in text and "Not compared" not in text


def test_the_answer_names_several_other_functions_with_intervals() -> None:
    levels = {"tanh": 0.4, "elu": 0.2, "relu": 0.3, "selu": 0.5, "softsign": 0.8}
    records = [
        record
        for activation, level in levels.items()
        for record in runs("keras", level, {**TANH, f"{OPTION}activation": activation})
    ]
    text = answers(measurements(records, {**KERAS, **TANH}))[0].further
    found = re.findall(r"≠ (.{5}) \(`keras activation=(\w+)`, [\d.]+ to [\d.]+\)", text)
    assert found == [("2.00×", "elu"), ("1.33×", "relu"), ("0.80×", "selu")]
    assert text.endswith("as fast (the table has 1 more).")


def test_an_implementation_that_failed_is_not_another_function() -> None:
    records = [*runs("keras", 0.4, TANH), *runs("keras", 0.2, RELU), *runs("unrolled", 0.1, TANH)]
    tanh = "activation=tanh, recurrent_activation=sigmoid"
    entries = {
        f"keras {tanh}": {"status": "certified"},
        f"unrolled {tanh}": {"status": "failed", "function_why": "its loss is not finite"},
    }
    made = certificate_of({**MADE_UP, "implementations": entries, "pairs": []}, "here")
    certificates = Certificates((made,), tuple(records))
    m = measurements(records, {**KERAS, **TANH}, certificates=certificates)
    text = str(answers(m)[0])
    assert "so there is no speed-up; it trains ≠ 2.00× as fast (2.00 to 2.00)" in text
    assert "Not compared: `unrolled`" in text and "its loss is not finite" in text


@pytest.mark.parametrize(
    ("other", "basis"),
    [
        ({}, Basis.PAIRED),
        ({"experiment": "other"}, Basis.SEPARATE),
        ({"site": "cluster"}, Basis.SEPARATE),
        ({"machine": "other-0123abcd"}, Basis.SEPARATE),
    ],
)
def test_blocks_are_common_only_within_experiment_site_and_machine(other, basis) -> None:
    every = measured([*runs("keras", 0.5), *runs("unrolled", 0.4, **other)])
    row = only(versus(every, [other.get("machine", "unrolled")], ["keras"]))
    assert row["ratio"] == pytest.approx(1.25, rel=0.01) and row["method"].basis is basis


def test_builds_by_hand():
    of_new, of_old = (
        runs("keras", seconds, build=build, noise=0.01)
        for build, seconds in (("new", 1.0), ("old", 3.0))
    )
    new, old = builds(measured([*of_new, *of_old], {"build": "new"})).to_dict("records")
    assert new["change"] == 1 and old["change"] == pytest.approx(3)
    assert old["regression"] and old["words"] == "slower"
    assert old["effect"] == pytest.approx(math.log(3) / stdev(map(math.log, (1, 1.01, 0.99))))
    assert builds(measured(of_new, {})).empty


@pytest.mark.parametrize(("change", "regression"), [(1.015, False), (1.03, True), (0.97, False)])
def test_a_regression_is_a_shown_slowdown_of_more_than_2_percent(change, regression):
    of_new, of_old = (
        [
            make_record(rnn="keras", build=build, repeat=i, epoch_seconds=seconds * noise)
            for i, noise in enumerate((1.0, 1.001, 0.999))
        ]
        for build, seconds in (("new", 1.0), ("old", change))
    )
    _, old = builds(measured([*of_new, *of_old], {"build": "new"})).to_dict("records")
    assert old["shown_different"] and old["regression"] == regression
    assert old["words"] == ("slower" if change > 1 else "faster")


def test_versus_pairs_configurations_that_are_otherwise_equal():
    levels = {"keras": 0.6, "block": 0.3, "cell": 0.9}
    every = measured([run for n in (1, 2) for run in make_runs(levels, device=f"cpu_{n}")])
    table = versus(every, ["block"], ["keras"])
    assert table["same"].tolist() == ["cpu_1", "cpu_2"]
    assert table["ratio"].tolist() == pytest.approx([2, 2], rel=0.01)
    row = only(versus(every, ["cpu_1", "keras"], ["cpu_2", "keras"]))
    assert row["ratio"] == pytest.approx(1)
    # A configuration that matches both sides counts for one.
    assert versus(every, ["*"], ["keras"])["a"].tolist() == ["block", "cell"] * 2
    assert versus(every, ["keras"], ["keras"]).empty
    assert versus(every, ["nothing"], ["keras"]).empty


def test_void_runs_of_experiments_with_both_sides_are_told() -> None:
    """Of the reasons, the most common one; a term is a choice, an override or a pattern."""
    odd = Verdict("void", (Reason("died", "it died", "look."),))
    records = [make_record(rnn=rnn, repeat=number) for number in range(2) for rnn in ("keras", "x")]
    records += [make_record(rnn="x", repeat=number, verdict="void") for number in (5, 6)]
    records += [make_record(rnn="x", repeat=7, verdict=odd)]
    records += [make_record(device="cpu_2", rnn="x", verdict="void", experiment="another")]
    frame = tidy(records)
    (told,) = void_messages(frame, [["keras"], ["x", "cpu_1"]])
    assert told.startswith("3 runs of 'x,cpu_1' are void and in no number: the loss is not finite")
    (told,) = void_messages(frame, [["keras"], ["x", "*-r7"]])
    assert told == f"{records[6].name} is void and in no number: it died"
    assert void_messages(frame, [["keras"], ["x", "cpu_2"]]) == [], "of another experiment"
    assert void_messages(frame, [["keras"], ["keras"]]) == []


def test_runs_match_all_terms_of_a_selection() -> None:
    wide = make_record(overrides={"model.units": 128, "rnn.op": "V3"})
    records = [make_record(), make_record(device="cpu_2"), wide]
    whole = tidy(records)
    whole = whole[whole["phase"] == "run"]

    def found(*selections: list[str]) -> list[str]:
        return selected(whole, *selections)["name"].tolist()

    plain, two, third = (record.name for record in records)
    assert found(["keras"]) == [plain, two, third]
    assert found(["keras", "cpu_2"]) == [two] and found(["cpu_2"], ["units=128"]) == [two, third]
    assert found(["op=V3"]) == [third] and found(["units=12"]) == []
    assert (
        found(["*cpu_2*"]) == [two] and found(["CPU_2"]) == [] and found([""]) == found(["keras"])
    )
    assert found([wide.machine]) == [plain, two, third]


def test_builds_are_compared_with_that_of_the_reference() -> None:
    """keras takes 1.0 s in the first build, 1.5 s in the second and 1.01 s in the third."""
    records = [
        record
        for build, seconds in (("first", 1.0), ("second", 1.5), ("third", 1.01))
        for record in make_runs({"keras": seconds}, build=build)
    ]
    table = builds(measured(records)).set_index("build")
    assert set(table["against"]) == {"first"}
    assert table["change"].tolist() == pytest.approx([1.0, 1.5, 1.01], rel=1e-3)
    assert table["epoch_seconds"].tolist() == pytest.approx([1.0, 1.5, 1.01], rel=2e-3)
    assert table["regression"].tolist() == [False, True, False]
    assert table["words"].tolist()[:2] == [Outcome.REFERENCE, Outcome.SLOWER]
    assert table["effect"].iloc[1] > 100 and math.isnan(table["effect"].iloc[0])
    table = builds(measured(records, {"build": "second"})).set_index("build")
    assert set(table["against"]) == {"second"}
    assert table["change"].tolist() == pytest.approx([1 / 1.5, 1.0, 1.01 / 1.5], rel=1e-3)
    assert not table["regression"].any()
    assert builds(measured(make_runs({"keras": 1.0}))).empty
