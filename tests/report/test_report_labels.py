"""Labels show what distinguishes variants and groups; rows that the reference compares are in one
table, whatever their axis."""

from __future__ import annotations

import re

import pytest

from rnnbench.records.overrides import Overrides
from rnnbench.records.plan_file import Experiment
from rnnbench.report.content import Content
from rnnbench.report.labels import variant_labels
from tests.factory import make_record, replace

SECONDS = {"old": 0.9, "current": 0.5, "fresh": 0.4}
EXPERIMENT = Experiment("builds", "Builds", "", {"build": "current"})


@pytest.fixture(scope="module")
def page() -> Content:
    records = [
        make_record(build=build, repeat=repeat, epoch_seconds=seconds * (1 + 0.001 * repeat))
        for build, seconds in SECONDS.items()
        for repeat in range(3)
    ]
    return Content(records, EXPERIMENT)


def test_builds_are_rows_of_one_table_by_speed(page: Content) -> None:
    view = page.time[0]
    assert [row.head for row in view.rows] == ["fresh", "current", "old"]
    assert {row.group for row in view.rows} == {""}
    assert [row.cells[0] for row in view.rows] == ["1.25×", "1.00×", "0.56×"]
    assert [row.head for row in page.accuracy[0].rows] == ["fresh", "current", "old"]
    (answer,) = page.answers
    assert "(fresh)" not in str(answer) and "(current)" not in str(answer)


def test_builds_share_a_figure_and_link_to_their_own_runs(page: Content) -> None:
    (figure,) = page.figures_of("time")
    assert all(build in figure.svg for build in SECONDS)
    links = [row.links[0] for row in page.time[0].rows]
    assert len(set(links)) == 3
    assert set(links) == {cell.anchor for cell in page.configuration_details}


def test_groups_are_named_by_the_axes_in_which_they_differ() -> None:
    records = [make_record(cell=cell) for cell in ("lstm", "gru")]
    found = Content(records, replace(EXPERIMENT, reference={"rnn": "keras"}))
    assert {row.group for row in found.time[0].rows} == {"lstm", "gru"}


@pytest.mark.parametrize(
    ("variants", "labels"),
    [
        ([], []),
        (["epochs=2"], ["epochs=2"]),
        (["epochs=2, batch=8", "epochs=2, batch=16"], ["batch=8", "batch=16"]),
        (["epochs=2, batch=8", "epochs=2"], ["batch=8", "default batch"]),
        (["", "units=32"], ["default units", "units=32"]),
        (["batch=8, val=${model.batch}", "val=${model.batch}"], ["batch=8", "default batch"]),
        # Without what follows from other keys, these would have one label.
        (["a=${b}", "a=${c}"], ["a=${b}", "a=${c}"]),
        (["sizes=[1,2], x=1", "sizes=[1,3], x=1"], ["sizes=[1,2]", "sizes=[1,3]"]),
        (["x=1, y=1", "x=1, y=2", "x=2, y=2"], ["x=1, y=1", "x=1, y=2", "x=2, y=2"]),
    ],
)
def test_variants(variants: list[str], labels: list[str]) -> None:
    written = [re.findall(r"(\w+)=(\S+?)(?:, |$)", variant) for variant in variants]
    overrides = [Overrides.of({f"model.{key}": value for key, value in each}) for each in written]
    assert list(map(str, overrides)) == [", ".join(sorted(v.split(", "))) for v in variants]
    assert list(variant_labels(overrides).values()) == labels
