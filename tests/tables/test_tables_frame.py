"""The tidy frame, and the listings of runs, epochs and kernels."""

from __future__ import annotations

from datetime import timedelta

import pandas as pd
import pytest

from rnnbench.report.notes import order_notes
from rnnbench.report.sections import kernels_view
from rnnbench.tables.frame import ranked, run_values, split, tidy
from rnnbench.tables.runs import MAX_POINTS, kernels, order, runs, thinned_order
from tests.factory import BEGINNING, make_record


def test_the_frame_has_a_row_per_epoch_per_phase_and_per_run():
    record = make_record(epochs=5, overrides={"model.units": 128, "model.batch": 64})
    frame = tidy([record])
    assert len(frame) == 5 + len(record.phases) + 1
    assert set(map(str, frame["variant"])) == {"batch=64, units=128"}
    assert frame[frame["phase"] == "epoch"]["epoch"].tolist() == [1, 2, 3, 4, 5]
    assert frame[frame["phase"] == "evaluate"]["call_seconds"].tolist() == [0.05]
    frame = tidy([make_record(phases=(), epochs=0, verdict="void")])
    assert frame["phase"].tolist() == ["run"] and frame["verdict"].tolist() == ["void"]


def test_the_rows_of_a_group_keep_their_order():
    table = pd.DataFrame({"rnn": ["keras", "block", "cell"] * 200, "row": range(600)})
    groups = split(table, ["rnn"], ["row"])
    assert list(groups) == [("keras",), ("block",), ("cell",)]
    for first, group in enumerate(groups.values()):
        assert group["row"].tolist() == list(range(first, 600, 3))


def test_runs_and_order():
    later = BEGINNING + timedelta(seconds=60)
    frame = tidy([make_record(order=2), make_record(rnn="block", order=1, started=later)])
    assert runs(frame)["first_step_seconds"].tolist() == pytest.approx([1.1, 1.1])
    assert runs(frame)["peak_memory_bytes"].tolist() == [612_345_678] * 2
    assert order(frame)["planned"].tolist() == [2, 1]
    (note,) = order_notes(order(frame))
    assert "not exactly in the planned order" in note


@pytest.mark.parametrize(
    ("kernel", "texts"),
    [
        ({"found": ["block", "while"], "expected": None}, ["block, while"]),
        ({"found": [], "expected": ["while"]}, ["not attested: no kernel found"]),
        ({"found": [], "expected": None}, []),
    ],
)
def test_kernels(kernel, texts):
    measured = {"kernel": kernel}
    void = make_record(rnn="cell", facts=measured, verdict="void")
    table = kernels(tidy([make_record(facts=measured), make_record(rnn="block"), void]))
    assert table["kernel"].tolist() == texts
    assert table["implementation"].tolist() == ["keras"] * len(texts)
    assert table["runs"].tolist() == [1] * len(texts)


def test_kernel_groups_name_the_variant_if_kernels_differ():
    def view(*shown: tuple[list[str], dict]):
        records = []
        for why, overrides in shown:
            kernel = {"found": ["while"], "expected": None, "why_not_cudnn": why}
            records.append(make_record(overrides=overrides, facts={"kernel": kernel}))
        return kernels_view(kernels(tidy(records)))

    plain = (["a CPU"], {"model.units": 8})
    masked = (["a mask"], {"model.padding": "left"})
    assert [(row.group, row.cells[2]) for row in view(plain, masked).rows] == [
        ("lstm · current · units=8", "a CPU"),
        ("lstm · current · padding=left", "a mask"),
    ]
    rows = view(plain, (["a CPU"], {"model.units": 9})).rows
    assert [(row.group, row.cells[2]) for row in rows] == [("", "a CPU")]
    both = view(plain, (["a CPU", "a mask"], masked[1]))
    assert [row.cells[2] for row in both.rows] == ["–", "a mask"]
    assert both.notes == ("In every row, cuDNN is also ruled out because a CPU.",)


def test_a_reason_against_cudnn_is_one_value_whatever_text_it_has():
    """A reason that contains a semicolon was cut in two, and only its first half was common."""
    reasons = [["the mask (left; right) is not allowed"], ["the mask (left; right)", "a CPU"]]
    records = []
    for units, why in enumerate(reasons):
        kernel = {"found": ["while"], "expected": None, "why_not_cudnn": why}
        overrides = {"model.units": units}
        records.append(make_record(overrides=overrides, facts={"kernel": kernel}))
    frame = tidy(records)
    whole = frame[frame["phase"] == "run"]
    assert whole["why_not_cudnn"].tolist() == [tuple(why) for why in reasons]
    view = kernels_view(kernels(frame))
    assert [row.cells[2] for row in view.rows] == ["; ".join(why) for why in reasons]
    assert view.notes == ()


def test_text_with_digits_that_are_no_numbers_is_ordered() -> None:
    values = ["10²", "2", "1²"]
    records = [make_record(overrides={"model.scale": value}) for value in values]
    order = ranked(tidy(records))["variant"].drop_duplicates()
    assert [str(each) for each in order] == ["scale=1²", "scale=2", "scale=10²"]


def test_rows_are_in_the_order_of_devices_cells_and_speed() -> None:
    """In natural order, the LSTM first, unknown cells last; block is the fastest where both are."""
    made = [("gru", "keras", "cpu_16", 0.5), ("of_model", "keras", "cpu_2", 0.5),
            ("gru", "keras", "cpu_2", 0.5), ("lstm", "keras", "cpu_2", 0.5),
            ("lstm", "untrained", "cpu_2", None), ("lstm", "block", "cpu_2", 0.1)]  # fmt: skip
    records = [
        make_record(cell=cell, rnn=rnn, device=device, epoch_seconds=seconds or 1.0,
                    verdict="clean" if seconds else "void")
        for cell, rnn, device, seconds in made
    ]  # fmt: skip
    table = ranked(tidy(records))[["device", "cell", "rnn"]].drop_duplicates()
    assert list(table.itertuples(index=False, name=None)) == [
        ("cpu_2", "lstm", "block"), ("cpu_2", "lstm", "keras"), ("cpu_2", "lstm", "untrained"),
        ("cpu_2", "gru", "keras"), ("cpu_2", "of_model", "keras"), ("cpu_16", "gru", "keras"),
    ]  # fmt: skip


def test_implementations_are_in_the_order_of_their_times_relative_to_others_there() -> None:
    """keras takes 2/1.5 and 100/95 of the median there, block 1/1.5, cell 90/95."""
    made = [("cpu_1", "keras", 2.0), ("cpu_1", "block", 1.0),
            ("cpu_2", "keras", 100.0), ("cpu_2", "cell", 90.0)]  # fmt: skip
    records = [make_record(device=on, rnn=rnn, epoch_seconds=took) for on, rnn, took in made]
    table = ranked(tidy(records))[["device", "rnn"]].drop_duplicates()
    assert list(table.itertuples(index=False, name=None)) == [
        ("cpu_1", "block"), ("cpu_1", "keras"), ("cpu_2", "cell"), ("cpu_2", "keras"),
    ]  # fmt: skip


def test_a_block_is_a_seed_and_a_repeat_whatever_its_number_was() -> None:
    """An extended experiment counts its blocks anew; records keep the old number."""
    records = [
        make_record(rnn=rnn, seed=seed, repeat=repeat, block=block)
        for seed, repeat, block in ((0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 3))
        for rnn in ("keras", "block")
    ]
    blocks = run_values(tidy(records)).groupby("block")[["seed", "repeat"]].nunique()
    assert len(blocks) == 4
    assert blocks.eq(1).all(axis=None)


def test_a_spread_is_shared_by_the_runs_of_one_model_on_one_device() -> None:
    records = [make_record(), make_record(rnn="block"), make_record(device="cpu_2"),
               make_record(model="mnist_rnn"), make_record(machine="other")]  # fmt: skip
    shared = [value.device for value in run_values(tidy(records))["value"]]
    assert shared[0] == shared[1] and len(set(shared)) == 4


def test_the_order_of_many_runs_is_shown_by_medians_of_sections() -> None:
    """Of 1,800 runs of three implementations in turn: 200 sections with three runs of each."""
    count = 3 * MAX_POINTS
    many = pd.DataFrame(
        {
            "machine": "large",
            "implementation": ["keras", "block", "cell"] * (count // 3),
            "place": range(1, count + 1),
            # In each section, keras takes 0.9, 1.0 and 1.3 times its mean.
            "relative": [(0.9, 1.3, 1.0)[i // 3 % 3] if i % 3 == 0 else 1.0 for i in range(count)],
            "suspect": [i == 4 for i in range(count)],
        }
    )
    few = many[:2].assign(machine="small")
    thinned = thinned_order(pd.concat([many, few], ignore_index=True))
    assert thinned["machine"].value_counts().to_dict() == {"large": MAX_POINTS, "small": 2}
    first = thinned_order(pd.concat([few, many], ignore_index=True))["machine"]
    assert first.drop_duplicates().tolist() == ["small", "large"], "in the order of the table"
    large = thinned[thinned["machine"] == "large"]
    keras, block = (large[large["implementation"] == name] for name in ("keras", "block"))
    assert keras["place"].tolist() == list(range(4, count, 9)) and set(keras["relative"]) == {1.0}
    assert block["suspect"].tolist() == [True] + [False] * 199
    assert not keras["suspect"].any()
    pd.testing.assert_frame_equal(thinned_order(few), few, check_dtype=False)
    assert thinned_order(many[:0]).empty
