"""The tidy frame, its groups, and the listings of runs, epochs and kernels."""

from __future__ import annotations

import time as clock

import pandas as pd
import pytest

from rnnbench.records.record import Record
from rnnbench.report.notes import order_notes
from rnnbench.report.sections import kernels_view
from rnnbench.tables.frame import split, tidy
from rnnbench.tables.runs import kernels, order, runs, steadiness, warm_epochs
from tests.factory import make_record, replace

TABLE = pd.DataFrame(
    {
        "model": ["b", "a", "b", "a", "c"],
        "threads": [2.0, 1.0, 2.0, 4.0, None],
        "seconds": [5.0, 4.0, 3.0, 2.0, 1.0],
        "name": ["one", "two", "three", "four", "five"],
    }
)


def test_groups_and_rows_keep_the_order_of_the_table() -> None:
    groups = split(TABLE, ["model"], ["seconds", "name"])
    assert list(groups) == [("b",), ("a",), ("c",)]
    assert groups["b",]["seconds"].tolist() == [5.0, 3.0]
    assert groups["a",]["name"].tolist() == ["two", "four"]


def test_groups_are_those_of_pandas() -> None:
    groups = split(TABLE, ["model", "threads"], ["seconds"])
    expected = TABLE.groupby(["model", "threads"], sort=False, dropna=False)
    assert [rows["seconds"].tolist() for rows in groups.values()] == [
        rows["seconds"].tolist() for _, rows in expected
    ]
    assert list(groups)[:3] == [("b", 2.0), ("a", 1.0), ("a", 4.0)]


def test_an_empty_table_has_no_groups() -> None:
    assert split(TABLE.iloc[:0], ["model"], ["seconds"]) == {}


def test_the_frame_has_a_row_per_epoch_per_phase_and_per_run():
    record = make_record(epochs=5, overrides={"model.units": 128, "model.batch": 64})
    frame = tidy([record])
    assert len(frame) == 5 + len(record.phases) + 1
    assert set(map(str, frame["variant"])) == {"batch=64, units=128"}
    assert frame[frame["phase"] == "epoch"]["epoch"].tolist() == [1, 2, 3, 4, 5]
    assert frame[frame["phase"] == "evaluate"]["call_seconds"].tolist() == [0.05]


def test_a_run_without_phases_is_in_the_frame():
    frame = tidy([make_record(phases=(), epochs=0, verdict="void")])
    assert frame["phase"].tolist() == ["run"] and frame["verdict"].tolist() == ["void"]


def test_runs_kernels_and_order():
    records = [
        make_record(order=2, started=make_started(0)),
        make_record(
            rnn="block", order=1, started=make_started(60), measured={"kernel": {"op": "B"}}
        ),
    ]
    frame = tidy(records)
    assert runs(frame)["first_step"].tolist() == pytest.approx([1.1, 1.1])
    assert runs(frame)["peak_memory_bytes"].iloc[0] == 612_345_678
    assert kernels(frame)[["implementation", "kernel", "runs"]].values.tolist() == [
        ["block", "op: B", 1]
    ]
    not_found = {"found": [], "expected": ["while"]}
    table = kernels(tidy([make_record(measured={"kernel": not_found})]))
    assert table["kernel"].tolist() == ["not attested: no kernel found"]
    assert kernels(tidy([make_record(measured={"kernel": {**not_found, "expected": None}})])).empty
    assert order(frame)["planned"].tolist() == [2, 1]
    (note,) = order_notes(order(frame))
    assert "not exactly in the planned order" in note


def make_started(seconds):
    from datetime import timedelta

    from tests.factory import BEGINNING

    return BEGINNING + timedelta(seconds=seconds)


def test_the_frame_takes_linear_time():
    record = make_record(epochs=10)
    start = clock.perf_counter()
    tidy([record] * 2000)
    assert clock.perf_counter() - start < 5


@pytest.mark.parametrize(
    ("seconds", "epochs"),
    [
        ([2.0, 1.0, 1.01, 0.99, 1.0, 1.0], 1),
        ([1.5, 1.4, 1.0, 1.01, 0.99, 1.0], 2),
        ([1.0, 1.01, 0.99, 1.0, 1.0], 0),
        ([1.03, 1.0, 1.0, 1.0, 1.0], 0),  # slower by less than 5 %
        ([1.0, 1.0, 1.0, 1.0, 5.0], 0),  # slow at the end
    ],
)
def test_warmup_is_a_change_point(seconds, epochs):
    assert warm_epochs(seconds) == epochs
    assert steadiness(tidy([make_record(epoch_seconds=[9.0, *seconds])]))["warm"].tolist() == [
        epochs
    ]


def test_kernel_groups_name_the_variant_if_kernels_differ():
    def attested(why: str, **overrides) -> Record:
        record = make_record(overrides={f"model.{k}": v for k, v in overrides.items()})
        kernel = {"found": ["while"], "expected": None, "why_not_cudnn": why.split("; ")}
        return replace(record, measured={**record.measured, "kernel": kernel})

    def groups(*records: Record) -> list[tuple[str, str]]:
        rows = kernels_view(kernels(tidy(records))).rows
        return [(row.group, row.cells[2]) for row in rows]

    plain, masked = attested("a CPU", units=8), attested("a mask", padding="left")
    assert groups(plain, masked) == [
        ("lstm · current · units=8", "a CPU"),
        ("lstm · current · padding=left", "a mask"),
    ]
    assert groups(plain, attested("a CPU", units=9)) == [("", "a CPU")]
    both = kernels_view(kernels(tidy([plain, attested("a CPU; a mask", padding="left")])))
    assert [row.cells[2] for row in both.rows] == ["–", "a mask"]
    assert both.notes == ("In every row, cuDNN is also ruled out because a CPU.",)
