"""The answer to more questions than sentences would answer."""

from __future__ import annotations

import dataclasses

from rnnbench.records.record import Verdict
from rnnbench.report.content import content
from tests.factory import VOID, make_record
from tests.report.made_up import EXPERIMENT

CELLS = ("lstm", "gru", "gru_reset_before", "rnn_tanh", "rnn_relu", "a", "b")


def many(cells):
    """`unrolled` is faster than keras by a quarter for every cell but the last."""
    for cell in cells:
        for rnn, seconds in (("keras", 0.5), ("unrolled", 0.6 if cell == cells[-1] else 0.4)):
            for repeat in range(3):
                wobble = 1 + 0.001 * repeat + (0.001 if rnn == "keras" else 0) * (repeat % 2)
                one = make_record(rnn=rnn, repeat=repeat, epoch_seconds=seconds * wobble)
                choices = {**one.choices, "cell": cell}
                name = f"{'-'.join(choices.values())}-s0-r{repeat}"
                yield dataclasses.replace(one, choices=choices, name=name)


def test_a_headline_and_a_line_each():
    found = content(list(many(CELLS)), EXPERIMENT)
    (answer,) = found.answers
    assert answer.fast == (
        "Shortest epochs, of 7 comparisons: in 6 `unrolled` (1.25× as fast as `keras`), "
        "in 1 `keras` (the reference)."
    )
    (view,) = found.answer_sheets
    assert [row.head for row in view.rows] == list(CELLS)
    assert view.rows[0].cells[:2] == ("unrolled", "1.25×")
    assert view.rows[-1].cells[:4] == ("keras", "reference", "–", "unrolled")
    anchors = {cell.anchor for cell in found.cells}
    assert {link for row in view.rows for link in row.links if link} <= anchors


def test_a_few_stay_sentences():
    found = content(list(many(CELLS[:3])), EXPERIMENT)
    assert len(found.answers) == 3 and not found.answer_sheets


def test_many_networks_with_one_implementation_each_say_how_far_they_got():
    alone = [one for one in many(CELLS) if one.choices["rnn"] == "unrolled"]
    found = content(alone, EXPERIMENT)
    (answer,), (view,) = found.answers, found.answer_sheets
    assert "nothing to compare" in answer.fast
    assert [row.head for row in view.rows] == list(CELLS)
    last = alone[0].epochs[-1]
    assert view.rows[0].cells == (
        "unrolled", "0.400", f"{last.val_acc:.3f}", f"{last.val_loss:.3g}"
    )  # fmt: skip
    assert all(link for row in view.rows for link in row.links)


def test_a_network_with_one_implementation_is_no_contest():
    mixed = [r for r in many(CELLS) if r.choices["rnn"] == "keras" or r.choices["cell"] != "lstm"]
    (view,) = content(mixed, EXPERIMENT).answer_sheets
    assert [row.head for row in view.rows] == list(CELLS[1:])


def test_networks_of_one_row_each_are_named_by_their_model_and_one_dot_is_not_drawn():
    made = []
    for number, one in enumerate(r for r in many(CELLS) if r.choices["rnn"] == "unrolled"):
        if one.repeat == 0:
            choices = {**one.choices, "model": f"m{number}"}
            name = f"{'-'.join(choices.values())}-s0-r0"
            made.append(dataclasses.replace(one, choices=choices, name=name))
    found = content(made, EXPERIMENT)
    (view,) = found.answer_sheets
    assert [(row.head, row.group) for row in view.rows] == [
        (record.choices["model"], "") for record in made
    ]
    assert not found.figures_of("time")


def test_void_cells_and_suspect_ones_are_named_in_the_headline_and_the_lines():
    made = []
    for one in many(CELLS):
        rnn, cell = one.choices["rnn"], one.choices["cell"]
        if (rnn, cell) == ("keras", "gru"):
            one = dataclasses.replace(one, verdict=VOID)
        if rnn == "keras" and cell == "lstm":
            one = dataclasses.replace(one, verdict=Verdict("suspect"))
        made.append(one)
    found = content(made, EXPERIMENT)
    assert (
        "Void, so in no number: `keras` (the loss is not finite from epoch 2) for digits_rnn"
        in (found.answers[0].same)
    )
    rows = {row.head: row.cells for row in found.answer_sheets[0].rows}
    assert "gru" not in rows  # one cell is no contest
    assert rows["lstm"][:2] == ("unrolled", "1.25× (reference †)") and rows["lstm"][3] == "keras †"
    assert rows["rnn_tanh"][:2] == ("unrolled", "1.25×")


def test_where_every_run_is_void_that_is_the_answer():
    found = content([dataclasses.replace(one, verdict=VOID) for one in many(CELLS)], EXPERIMENT)
    (answer,) = found.answers
    assert answer.fast == "No run gave a number that can be compared."
    assert "`keras` (the loss is not finite from epoch 2); `unrolled`" in answer.same
