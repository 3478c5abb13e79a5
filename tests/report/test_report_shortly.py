"""The answer of a report with many models: a headline and a table."""

from __future__ import annotations

import pytest

from rnnbench.records.record import Verdict
from rnnbench.report.answer import answers
from rnnbench.report.content import Content
from rnnbench.report.runs import raw_configurations
from rnnbench.report.summary import answer_view, headline
from tests.factory import VOID, make_record, replace
from tests.report.made_up import EXPERIMENT, measurements

CELLS = ("lstm", "gru", "gru_reset_before", "rnn_tanh", "rnn_relu", "a", "b")


def records_of(cells=CELLS, rnns=("keras", "unrolled")):
    """`unrolled` is 1.25 times as fast as keras for every cell but the last."""
    for cell in cells:
        for rnn in rnns:
            for repeat in range(3):
                level = 0.5 if rnn == "keras" else 0.6 if cell == cells[-1] else 0.4
                noise = 1 + 0.001 * repeat + (0.001 if rnn == "keras" else 0) * (repeat % 2)
                yield make_record(rnn=rnn, cell=cell, repeat=repeat, epoch_seconds=level * noise)


def test_many_models_get_a_headline_and_a_row_each():
    m = measurements(list(records_of()))
    assert m.is_long and headline(m).speed_sentence == (
        "Shortest epochs in 7 comparisons: `unrolled` in 6 (1.25× as fast as `keras`), "
        "`keras` in 1 (the reference)."
    )
    view = answer_view(m)
    assert [row.head for row in view.rows] == list(CELLS)
    assert view.rows[0].cells[:2] == ("unrolled", "1.25×")
    assert view.rows[-1].cells[:4] == ("keras", "reference", "–", "unrolled")
    anchors = {cell.anchor for cell in raw_configurations(m)}
    assert {link for row in view.rows for link in row.links if link} <= anchors
    few = measurements(list(records_of(CELLS[:3])))
    assert not few.is_long and len(answers(few)) == 3


@pytest.mark.parametrize(
    ("winners", "end"),
    [(("a", "b", "c", "d"), "`d` in 1"), (("a", "b", "c", "d", "e"), "2 others in 2")],
)
def test_the_headline_names_four_winners_and_counts_more(winners, end):
    records = [
        make_record(rnn=rnn, cell=cell, epoch_seconds=seconds)
        for number, cell in enumerate(CELLS)
        for rnn, seconds in (("keras", 0.5), (winners[number % len(winners)], 0.4))
    ]
    answer = headline(measurements(records))
    start = "Shortest epochs in 7 comparisons: `a` in 2, `b` in 2, `c` in "
    assert answer.speed_sentence.startswith(start)
    assert answer.speed_sentence.endswith(f", {end}.")
    caveat = "In 7 comparisons, a single run cannot show a difference yet."
    assert caveat in answer.accuracy_sentence


def test_networks_with_one_implementation_show_their_results_or_are_no_comparison():
    unrolled = list(records_of(rnns=["unrolled"]))
    m = measurements(unrolled)
    answer, view = headline(m), answer_view(m)
    assert "nothing to compare" in answer.speed_sentence
    assert [row.head for row in view.rows] == list(CELLS)
    last = unrolled[0].epochs[-1]
    reached = ("unrolled", "0.400", f"{last.val_acc:.3f}", f"{last.val_loss:.3g}")
    assert view.rows[0].cells == reached
    assert all(link for row in view.rows for link in row.links)
    mixed = [*records_of(rnns=["keras"]), *unrolled[3:]]  # without that of the first network
    assert [row.head for row in answer_view(measurements(mixed)).rows] == list(CELLS[1:])


def test_networks_with_one_row_each_are_named_by_their_model_and_a_single_dot_is_not_drawn():
    models = [f"m{number}" for number in range(len(CELLS))]
    records = [
        make_record(rnn="unrolled", model=model, cell=cell)
        for model, cell in zip(models, CELLS, strict=True)
    ]
    found = Content(records, EXPERIMENT)
    (view,) = found.answer_views
    assert [(row.head, row.group) for row in view.rows] == [(model, "") for model in models]
    assert not found.figures_of("time")


def test_void_and_suspect_configurations_are_named_in_headline_and_rows():
    verdicts = {"gru": VOID, "lstm": Verdict("suspect")}
    records = [*records_of(rnns=["unrolled"])]
    for record in records_of(rnns=["keras"]):
        verdict = verdicts.get(record.run.choices["cell"], record.verdict)
        records.append(replace(record, verdict=verdict))
    m = measurements(records)
    assert (
        "Excluded because every run is void: `keras` (the loss is not finite from epoch 2) for "
        "digits_rnn" in headline(m).accuracy_sentence
    )
    rows = {row.head: row.cells for row in answer_view(m).rows}
    assert "gru" not in rows  # a single configuration is not a comparison
    assert rows["lstm"][:2] == ("unrolled", "1.25× (reference †)") and rows["lstm"][3] == "keras †"
    assert rows["rnn_tanh"][:2] == ("unrolled", "1.25×")


def test_if_every_run_is_void_the_answer_says_so():
    records = [replace(record, verdict=VOID) for record in records_of()]
    answer = headline(measurements(records))
    assert answer.speed_sentence == "No run has a comparable result."
    assert "`keras` (the loss is not finite from epoch 2); `unrolled`" in answer.accuracy_sentence
