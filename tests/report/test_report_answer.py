"""The answer: what it states and does not claim; for many models, a headline."""

from __future__ import annotations

import dataclasses
import re

import pytest

import rnnlayers
from rnnbench.records.record import Verdict
from rnnbench.report.answer import NO_RUNS, USABLE, answers, headline, kernel_to_use
from rnnbench.report.content import Content
from rnnbench.report.numbers import ratio_span, shares_apart, shares_apart_span
from rnnbench.tables.certificates import Certificates
from rnnbench.tables.outcome import Equality
from tests.factory import VOID, make_record, make_runs, make_seeds, replace
from tests.report.made_up import EXPERIMENT, WrongSteps, as_read, certificate, measurements

KERAS = "fast as Keras's own layer"


def answers_of(records, reference=EXPERIMENT.reference, certificates=Certificates()):  # noqa: B008
    return list(map(str, answers(measurements(records, reference, certificates=certificates))))


def test_a_clear_winner_on_two_devices():
    levels = {"keras": 0.5, "unrolled": 0.4, "cell": 0.6}
    (text,) = answers_of(make_runs(levels) + make_runs(levels, device="cpu_2"))
    assert text.startswith(f"On one thread, `unrolled` trains this LSTM 1.25 times as {KERAS} (1.2")
    assert " to 1.25). On two threads, 1.25 times (1.25 to 1.2" in text
    assert text.endswith(
        "All three end at validation accuracy 0.970: no difference in accuracy shown. No "
        "certificate compared their loss curves."
    )


TWIN = "Their loss curves {} over the 20 steps of the certificate ({} of the loss apart; "


@pytest.mark.parametrize(
    ("noise", "differences", "texts"),
    [
        (1e-6, (1e-6, 1e-5), [TWIN.format("agree", "1e-05") + "rounding explains up to 3e-05)."]),
        (1e-6, (1e-6, 4e-5), [TWIN.format("differ", "4e-05") + "rounding explains up to 3e-05)."]),
        (None, (1e-6, 4e-5), ["Their loss curves agree over the 20 steps of an older certificate "
                              "(4e-05 of the loss apart; its fixed tolerance is 0.001)."]),
        (1e-6, (1e-6, None), [TWIN.format("agree", "1e-06"), "No certificate compared the "
                              "reference's and `unrolled`'s loss curves"]),
    ],
)  # fmt: skip
def test_the_answer_says_by_what_loss_curves_agree(noise, differences, texts) -> None:
    levels = {"keras": 0.5, "block": 0.4, "unrolled": 0.45}
    records = make_runs(levels, model="mnist_rnn", build="tf_2_21")
    made = certificate("tf_2_21") | {"machine": None}
    for pair in made["pairs"]:
        for name, difference in zip(("block", "unrolled"), differences, strict=True):
            if {pair["a"], pair["b"]} == {"keras", name}:
                pair["loss_curve"] = difference
        pair["noise"] = {} if noise is None else {"loss_curve": noise}
    judged = Certificates(as_read(made), tuple(records))
    (answer,) = answers_of(records, certificates=judged)
    for text in texts:
        assert text in answer, answer
    assert answer.count("oss curves") == len(texts)


@pytest.mark.parametrize(
    ("levels", "noise", "repeats", "ratio", "text"),
    [
        ({"keras": 0.5, "cell": 0.499}, 0.05, 4, False, "On one thread, `cell` is not shown to be "
         "faster than Keras's own layer: 1.03 times as fast (0.9"),
        # A runner-up that may be as fast is named.
        ({"keras": 0.9, "cell": 0.5, "block": 0.501}, 0.02, 4, True, "), and `"),
        ({"keras": 0.4, "cell": 0.5}, 0.001, 4, True, "On one thread, nothing trains this LSTM "
         "faster than Keras's own layer: 1.25 times as fast as `cell` (1.2"),
        ({"keras": 0.4, "cell": 0.4, "block": 0.6}, 0.05, 4, False, "is not shown to be faster"),
        ({"keras": 0.5, "cell": 0.4}, 0.001, 1, True, "On one thread, `cell` trains this LSTM "
         f"1.25 times as {KERAS} (one run)."),
    ],
)  # fmt: skip
def test_an_answer_claims_only_what_an_interval_shows(levels, noise, repeats, ratio, text):
    (answer,) = answers_of(make_runs(levels, repeats, noise))
    assert text in answer and ("may be as fast" in answer) == ("), and `" in text)
    assert ("as fast as" in answer) is ratio


def test_the_answer_says_which_device_to_use():
    def of_devices(two: float, **changes) -> str:
        records = make_runs({"keras": 0.5, "block": 0.4}, noise=0.01)
        records += make_runs({"block": two, "keras": 0.5}, noise=0.01, device="cpu_2", **changes)
        (text,) = answers_of(records)
        return text

    clear = of_devices(0.2)
    times = r" times as fast as one thread \(\d\.\d+ to \d\.\d+\), with `block`\. "
    assert re.search(r"\)\. Two threads train \d\.\d+" + times, clear)
    assert "). One thread trains 1.2" in of_devices(0.49)
    of_gpu = answers_of(make_runs({"keras": 0.5}) + make_runs({"keras": 0.1}, device="p100"))
    assert ". `p100` trains 5.00 times as fast as one thread (" in of_gpu[0]
    # Nothing is claimed that no interval shows.
    tie = of_devices(0.4, verdict="suspect")
    assert re.search(r"threads? (is|are) not shown to be faster than \w+ threads?: 1\.0", tie)
    assert "threads train" not in tie
    single = make_runs({"keras": 0.5, "block": 0.4}, 1)
    single += make_runs({"block": 0.2, "keras": 0.5}, 1, device="cpu_2")
    assert "cannot be compared, because one run each shows no spread" in answers_of(single)[0]


def test_a_device_with_other_threads_than_its_name_says_is_not_renamed():
    overrides = {"device.threads": 3}
    (text,) = answers_of(make_runs({"keras": 0.5, "block": 0.4}, overrides=overrides))
    assert text.startswith("On `cpu_1`, `block` trains this LSTM 1.25 times as fast")


def test_an_answer_without_a_comparison_says_so():
    assert answers_of([]) == [NO_RUNS]
    assert answers_of([make_record()]) == [
        "On one thread, only `keras` has been run, so there is nothing to compare."
    ]
    (text,) = answers_of(make_runs({"cell": 0.4, "block": 0.5}))
    assert "the reference, Keras's own layer, was not run there" in text


def test_configurations_with_only_void_runs_are_named():
    void = [make_record(repeat=r, verdict="void") for r in range(3)]
    why = "Excluded because every run is void: `keras` (the loss is not finite from epoch 2) on "
    why += "one thread."
    for others, text in (
        ({}, f"On one thread, no run has a comparable result. {why}"),
        ({"unrolled": 0.4}, "On one thread, only `unrolled` has a result, so there is nothing to "
         f"compare. {why}"),
        ({"unrolled": 0.4, "block": 0.5},
         f"every run of the reference, Keras's own layer, is void there. {why}"),
    ):  # fmt: skip
        (answer,) = answers_of([*void, *make_runs(others)])
        assert text in answer and (len(others) > 1 or text == answer)


@pytest.mark.parametrize("suspect", ["keras", "cell", "block"])
def test_the_dagger_is_at_the_name_that_is_suspect(suspect):
    records = [
        replace(each, verdict=Verdict("suspect")) if each.run.choices["rnn"] == suspect else each
        for each in make_runs({"keras": 0.5, "cell": 0.4, "block": 0.4001}, noise=0.003)
    ]
    (answer,) = answers(measurements(records))
    lines = [line.text for line in answer.rankings[0]]
    assert "†" not in str(answer)
    assert sum("†" in line for line in lines) == 1 and f"`{suspect}` †" in " ".join(lines)


def test_the_first_sentence_is_short_and_each_competitor_has_a_line():
    levels = {"keras": 0.5, "unrolled": 0.41, "cell": 0.6, "block": 0.4, "native": 0.7, "a": 0.8}
    levels |= {"b": 0.9}
    (answer,) = answers(measurements(make_runs(levels) + make_runs(levels, device="cpu_2")))
    assert len(answer.speed_sentence.split()) <= 25
    first, second = answer.rankings
    assert [line.text[:12] for line in first][:2] == ["`block` on o", "1.02 times a"]
    assert first[1].text.startswith("1.02 times as fast as `unrolled` (1.0")
    assert first[-1].text == "the table has 1 more" and len(first) == 7
    assert second[0].text.startswith("`block` on two threads: 0.4")


@pytest.mark.parametrize(
    ("on_two", "name"),
    [
        ({"block": 0.3, "unrolled": 0.35}, "block"),
        ({"block": 0.3501, "unrolled": 0.35}, "block"),  # which may be as fast there
        ({"block": 0.4, "unrolled": 0.35}, ""),
        ({"block": 0.6, "unrolled": 0.7}, ""),  # no faster than Keras's own layer
    ],
)
def test_the_kernel_to_use_may_be_the_fastest_in_every_contest(on_two, name):
    records = make_runs({"keras": 0.5, "block": 0.4, "unrolled": 0.45}, noise=0.003)
    records += make_runs({"keras": 0.5, **on_two}, noise=0.003, device="cpu_2")
    assert kernel_to_use(measurements(records)) == name
    assert set(rnnlayers.kernels()) - set(USABLE) == {"keras", "cell"}


def test_results_are_called_the_same_only_with_a_certificate_and_equal_accuracies():
    levels = {"keras": 0.5, "unrolled": 0.4}
    apart = make_seeds({"keras": (0.95,) * 2, "unrolled": (0.91,) * 2})
    for records, equal, is_same in (
        (make_runs(levels), Equality.CERTIFIED, True),
        (make_runs(levels), Equality.UNKNOWN, False),
        (apart, Equality.CERTIFIED, False),
    ):
        m = measurements(records)
        m.contests[0].configuration["equal"] = equal
        (answer,) = answers(m)
        assert (", with the same results." in answer.speed_sentence) == is_same


def test_devices_are_not_compared_if_the_machine_was_slowed_down_on_one():
    quick = {"keras": 0.5, "block": 0.4}
    records = make_runs(quick) + make_runs(quick, device="cpu_2")
    m = measurements(records)
    (choice,) = m.device_choices
    slowed = dataclasses.replace(choice.other, is_slowed=True)
    m.device_choices = [dataclasses.replace(choice, other=slowed)]
    where = {"cpu_1": "one thread", "cpu_2": "two threads"}[slowed.configuration["device"]]
    (answer,) = answers(m)
    why = f"cannot be compared, because the machine was slowed down during the runs on {where}."
    assert why in answer.further and "times as fast as one" not in answer.further
    # Nor if devices are what the reference names.
    m = measurements(make_runs({"keras": 0.5}) + make_runs({"keras": 0.25}, device="cpu_2"),
                     {"device": "cpu_1"})  # fmt: skip
    m.contests = [dataclasses.replace(m.contests[0], is_slowed_apart=True)]
    assert "`cpu_2` and `cpu_1` cannot be compared" in answers(m)[0].speed_sentence


def test_an_accuracy_that_differs_between_builds_or_thread_counts_is_reported():
    one, two = (0.667, 0.731, 0.773), (0.90, 0.92, 0.94)
    on_2 = make_seeds({"keras": two, "block": two}, device="cpu_2")
    (text,) = answers_of(make_seeds({"keras": one}) + on_2)
    assert (
        "Accuracy differs by more than the seeds explain: `keras, current` on one thread ends at "
        "validation accuracy 0.724; the other builds, thread counts and implementations end at "
        "0.920 from the same seeds (allowed: ± 0.0"
    ) in text
    assert "seeds explain" not in answers_of(on_2)[0]


def test_an_implementation_that_applies_wrong_gradients_is_never_the_fastest():
    levels = {"keras": 0.5, "block": 0.4, "cell": 0.2}
    (text,) = answers_of(make_runs(levels), certificates=WrongSteps())
    assert text.startswith(f"On one thread, `block` trains this LSTM 1.25 times as {KERAS} (")
    assert ". Not compared: `cell` (applies wrong gradients: worst 210 %)" in text
    (text,) = answers_of(make_runs(levels), {"rnn": "cell"}, WrongSteps())
    assert "no speed-up, because the reference, `cell`, applies wrong gradients" in text
    (text,) = answers_of(make_runs({"cell": 0.2}), certificates=WrongSteps())
    assert text.startswith("On one thread, no run has a comparable result. ")


@pytest.mark.parametrize(
    ("low", "high", "like", "text"),
    [(0.998, 2.013, 1.42, "0.998–2.013"), (1.0004, 1.2, 1.1, "1.0004–1.2000"),
     (0.91, 1.09, 1.0, "0.91–1.09"), (1.0, 1.0, 1.0, "1.00–1.00"),
     (1.04, 30.0, 12.5, "1.04–30.00")],
)  # fmt: skip
def test_a_bound_shows_on_which_side_of_1_it_is(low, high, like, text):
    assert ratio_span(low, high, like) == text


def test_a_difference_of_accuracies_shows_on_which_side_of_0_it_is():
    assert shares_apart_span(-0.54111, -0.322) == "-0.541 to -0.322"
    assert shares_apart_span(-0.0002, 0.04) == "-0.0002 to 0.040"
    assert (shares_apart(0.0), shares_apart(None)) == ("0", "–")


TOO_FEW = (
    ", they differ by at most 0.040 in final validation accuracy; fewer than three seeds cannot "
    "show whether this is more than chance."
)


@pytest.mark.parametrize(
    ("seeds", "text"),
    [
        (1, f"From 1 seed{TOO_FEW}"),
        (2, f"From 2 seeds{TOO_FEW}"),
        (3, "A difference in accuracy is shown: `block` ends 0.040 below the reference"),
    ],
)
def test_a_difference_in_accuracy_is_shown_from_three_seeds(seeds, text):
    (answer,) = answers_of(make_seeds({"keras": (0.95,) * seeds, "block": (0.91,) * seeds}))
    assert text in answer


def test_devices_are_compared_by_name_if_there_is_one_implementation():
    records = [*make_runs({"keras": 0.5}), *make_runs({"keras": 0.25}, device="cpu_2")]
    (text,) = answers_of(records, {"device": "cpu_1"})
    assert text.startswith("`cpu_2` trains this LSTM 2.00 times as fast as `cpu_1` (")
    records += [*make_runs({"block": 0.2}), *make_runs({"block": 0.1}, device="cpu_2")]
    (text,) = answers_of(records, {"device": "cpu_1"})
    assert text.startswith("`block, cpu_2` trains this LSTM 2.00 times as fast as `block, cpu_1` (")


CELLS = ("lstm", "gru", "gru_reset_before", "rnn_tanh", "rnn_relu", "a", "b")


def of_cells(cells=CELLS, rnns=("keras", "unrolled")):
    """`unrolled` is 1.25 times as fast as keras for every cell but the last."""
    records = []
    for cell in cells:
        levels = {"keras": 0.5, "unrolled": 0.6 if cell == cells[-1] else 0.4}
        records += make_runs({rnn: levels[rnn] for rnn in rnns}, cell=cell)
    return records


def test_many_models_get_a_headline():
    m = measurements(of_cells())
    assert m.is_long and headline(m).speed_sentence == (
        "Shortest epochs in 7 comparisons: `unrolled` in 6 (1.25 times as fast as `keras`), "
        "`keras` in 1; in 7, the first is shown to be faster than all others."
    )
    few = measurements(of_cells(CELLS[:3]))
    assert not few.is_long and len(answers(few)) == 3


@pytest.mark.parametrize(
    ("winners", "end"),
    [(("a", "b", "c", "d"), "`d` in 1"), (("a", "b", "c", "d", "e"), "`d` in 1 and 1 more")],
)
def test_the_headline_names_four_winners_and_counts_more(winners, end):
    records = []
    for number, cell in enumerate(CELLS):
        levels = {"keras": 0.5, winners[number % len(winners)]: 0.4}
        records += make_runs(levels, 1, cell=cell)
    sentence = headline(measurements(records)).speed_sentence
    assert sentence.startswith("Shortest epochs in 7 comparisons: `a` in 2")
    assert f"{end}; in none, the first is shown" in sentence


def test_networks_with_one_implementation_are_no_comparison():
    m = measurements(of_cells(rnns=["unrolled"]))
    assert headline(m).speed_sentence.startswith("Each network has been run with only one")


def test_a_single_dot_is_not_drawn():
    records = [make_record(rnn="unrolled", model=f"m_{cell}", cell=cell) for cell in CELLS]
    found = Content(records, EXPERIMENT)
    assert "time" not in [figure.kind for figure in found.figures]


def test_void_and_suspect_configurations_are_named_in_headline_and_rows():
    verdicts = {"gru": VOID, "lstm": Verdict("suspect")}
    records = of_cells(rnns=["unrolled"])
    for record in of_cells(rnns=["keras"]):
        verdict = verdicts.get(record.run.choices["cell"], record.verdict)
        records.append(replace(record, verdict=verdict))
    found = Content(records, EXPERIMENT)
    (answer,) = found.answers
    assert (
        "Excluded because every run is void: `keras` (the loss is not finite from epoch 2) for "
        "digits_rnn on cpu_1." in answer.accuracy_sentence
    )
    rows = {(row.group, row.head): row.cells for row in found.lead_views[0].rows}
    assert ("gru", "keras") not in rows
    assert rows["lstm", "unrolled"][0] == "1.25× †" and rows["rnn_tanh", "unrolled"][0] == "1.25×"


def test_if_every_run_is_void_the_answer_says_so():
    records = [replace(record, verdict=VOID) for record in of_cells()]
    (answer,) = Content(records, EXPERIMENT).answers
    assert answer.speed_sentence.endswith("or none has a result.")
    assert "`keras`, `unrolled` (the loss is not finite from epoch 2)" in answer.accuracy_sentence
