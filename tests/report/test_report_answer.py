"""What the first sentence says, and what it does not claim."""

from __future__ import annotations

import random

import pytest

from rnnbench.report.answer import NO_RUNS, answers, spans
from rnnbench.tables.fastest import fastest
from rnnbench.tables.frame import tidy
from rnnbench.tables.learning import learning
from rnnbench.tables.ranked import ranked
from rnnbench.tables.time import time
from tests.factory import make_record
from tests.report.made_up import EXPERIMENT


def said(records, reference=EXPERIMENT.reference):
    frame = ranked(tidy(records))
    winners = fastest(frame, time(frame, reference), reference)
    return [str(answer) for answer in answers(winners, learning(frame, reference), reference)]


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
        "`unrolled` trains digits_rnn 1.25× faster than `keras` on cpu_1 (95 % 1.2"
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
    assert said([make_record(verdict="void")]) == [NO_RUNS]
    assert said([make_record()]) == [
        "Only `keras` has been run for digits_rnn on cpu_1, so there is nothing to compare."
    ]
    assert "the reference `keras` was not run there" in said(some({"cell": 0.4, "block": 0.5}))[0]


def test_suspect_runs_mark_the_answer():
    assert "†" in said(some({"keras": 0.5, "cell": 0.4}, verdict="suspect"))[0]


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
