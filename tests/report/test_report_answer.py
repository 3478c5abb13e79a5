"""What the first sentence says, and what it does not claim."""

from __future__ import annotations

import random

import pytest

from rnnbench.report.answer import NO_RUNS, answers, spans
from rnnbench.report.numbers import ratio_span
from rnnbench.tables.accuracy_outliers import alike
from rnnbench.tables.certificates import Certificates
from rnnbench.tables.fastest import fastest
from rnnbench.tables.frame import tidy
from rnnbench.tables.learning import learning
from rnnbench.tables.sort_order import ranked
from rnnbench.tables.time import time
from tests.factory import make_record
from tests.report.made_up import EXPERIMENT


def said(records, reference=EXPERIMENT.reference, certificates=Certificates()):  # noqa: B008
    frame = ranked(tidy(records))
    winners = fastest(frame, time(frame, reference, certificates), reference)
    found = answers(winners, learning(frame, reference), alike(frame), reference)
    return [str(answer) for answer in found]


def some(levels, noise=0.001, repeats=4, **changes):
    generator = random.Random(5)
    return [
        make_record(rnn=rnn, repeat=r, epoch_seconds=level * generator.gauss(1, noise), **changes)
        for r in range(repeats)
        for rnn, level in levels.items()
    ]


def test_a_clear_winner_on_two_devices():
    levels = {"keras": 0.5, "unrolled": 0.4, "cell": 0.6}
    (text,) = said(some(levels) + some(levels, device="cpu_2"))
    assert text.startswith(
        "`unrolled` trains digits_rnn 1.25× as fast as `keras` on cpu_1 (95 % 1.2"
    )
    assert " and 1.25× on cpu_2 (95 % " in text
    assert text.endswith(
        "All three end at validation accuracy 0.970 and their loss curves are the same: "
        "no difference in accuracy shown."
    )


def test_no_difference_is_said_as_such():
    (text,) = said(some({"keras": 0.5, "cell": 0.499}, noise=0.05))
    assert "no difference" in text.lower() and "faster" not in text.partition(".")[0]


def test_a_winner_within_the_noise_of_the_runner_up_shares_its_win():
    (text,) = said(some({"keras": 0.9, "cell": 0.5, "block": 0.501}, noise=0.02))
    assert "with no difference shown from `" in text


def test_the_reference_may_be_fastest():
    (text,) = said(some({"keras": 0.4, "cell": 0.5}))
    assert text.startswith(
        "`keras`, the reference, trains digits_rnn fastest on cpu_1: the next, `cell`"
    )


def test_one_run_each_gives_no_interval():
    (text,) = said(some({"keras": 0.5, "cell": 0.4}, repeats=1))
    assert "in one run, without interval" in text


def test_too_little_is_said_honestly():
    assert said([]) == [NO_RUNS]
    assert said([make_record()]) == [
        "Only `keras` has been run for digits_rnn on cpu_1, so there is nothing to compare."
    ]
    assert "the reference `keras` was not run there" in said(some({"cell": 0.4, "block": 0.5}))[0]


def test_void_runs_are_named_where_they_are_missed():
    gone = [make_record(repeat=r, verdict="void") for r in range(3)]
    why = "void, so in no number: `keras` (the loss is not finite from epoch 2) on cpu_1."
    assert said(gone) == [
        "No run for digits_rnn on cpu_1 gave a number that can be compared; " + why
    ]
    assert said([*gone, *some({"unrolled": 0.4})]) == [
        "Only `unrolled` has given a number for digits_rnn on cpu_1, so there is nothing to "
        f"compare; {why}"
    ]
    (text,) = said([*gone, *some({"unrolled": 0.4, "block": 0.5})])
    assert f"every run of the reference `keras` is void there; {why}" in text


@pytest.mark.parametrize("doubted", ["keras", "cell", "block"])
def test_the_dagger_stands_at_the_name_that_is_suspect(doubted):
    levels = {"keras": 0.5, "cell": 0.4, "block": 0.4001}
    records = [
        made
        for rnn in levels
        for made in some(levels, noise=0.003, verdict="suspect" if rnn == doubted else "clean")
        if made.choices["rnn"] == rnn
    ]
    (text,) = said(records)
    assert text.count("†") == 1 and f"`{doubted}` †" in text


def test_a_winner_on_two_devices_is_named_again_where_only_one_is_clean():
    levels = {"keras": 0.5, "cell": 0.4}
    (text,) = said(some(levels) + some(levels, device="cpu_2", verdict="suspect"))
    assert "`cell` † trains 1.25× as fast as `keras` † on cpu_2" in text


def test_an_accuracy_that_differs_between_builds_or_threads_is_said():
    reached = {"cpu_1": (0.667, 0.731, 0.773), "cpu_2": (0.90, 0.92, 0.94)}
    records = [
        make_record(rnn=rnn, device=device, seed=seed, acc=acc, epoch_seconds=level)
        for device, accs in reached.items()
        for rnn, level in (("keras", 0.5), ("block", 0.4))
        for seed, acc in enumerate(accs)
        if (device, rnn) != ("cpu_1", "block")
    ]
    (text,) = said(records)
    assert "differs by more than seeds explain: `keras, current` on cpu_1 ends at" in text
    assert "accuracy 0.724, the other builds, threads and implementations from the same seeds at "\
        "0.920 (allowed: ± 0.0" in text  # fmt: skip
    assert "seeds explain" not in said([r for r in records if r.choices["device"] != "cpu_1"])[0]


class Steps(Certificates):
    def why_not_learning(self, cell):
        return "does not learn what it computes: 210 % off" if cell["rnn"] == "cell" else None


def test_what_does_not_learn_what_it_computes_is_never_named_as_fastest():
    levels = {"keras": 0.5, "block": 0.4, "cell": 0.2}
    (text,) = said(some(levels), certificates=Steps())
    assert text.startswith("`block` trains digits_rnn 1.25× as fast as `keras`")
    assert "not compared: `cell` (does not learn what it computes: 210 % off)" in text
    (text,) = said(some(levels), {"rnn": "cell"}, Steps())
    assert "no speed-up, because the reference `cell` applies wrong gradients" in text
    (text,) = said(some({"cell": 0.2}), certificates=Steps())
    assert text.startswith("No run for digits_rnn on cpu_1 gave a number that can be compared")


@pytest.mark.parametrize(
    ("low", "high", "like", "text"),
    [(0.998, 2.013, 1.42, "0.998–2.013"), (1.0004, 1.2, 1.1, "1.0004–1.2000"),
     (0.91, 1.09, 1.0, "0.91–1.09"), (1.0, 1.0, 1.0, "1.00–1.00"),
     (1.04, 30.0, 12.5, "1.04–30.00")],
)  # fmt: skip
def test_a_bound_shows_on_which_side_of_1_it_lies(low, high, like, text):
    assert ratio_span(low, high, like) == text


def test_learning_something_else_is_said():
    records = [
        make_record(rnn=rnn, seed=seed, acc=acc + seed / 1000)
        for seed in range(3)
        for rnn, acc in (("keras", 0.95), ("block", 0.91))
    ]
    assert (
        "A difference in accuracy is shown: `block` ends 0.040 below the reference"
        in said(records)[0]
    )


def test_one_seed_cannot_show_a_difference_in_learning():
    records = [make_record(rnn="keras", acc=0.95), make_record(rnn="block", acc=0.91)]
    assert "one seed cannot show" in said(records)[0]


@pytest.mark.parametrize(("text", "pieces"), [("a `b` c", [(0, "a "), (1, "b"), (0, " c")])])
def test_spans(text, pieces):
    assert list(spans(text)) == pieces
