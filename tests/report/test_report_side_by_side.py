"""What the reference compares stands side by side, whatever axis that is."""

from __future__ import annotations

import dataclasses

import pytest

from rnnbench.report.content import Content, Experiment, content
from tests.factory import make_record

SECONDS = {"old": 0.9, "current": 0.5, "fresh": 0.4}
EXPERIMENT = Experiment("builds", "Builds", "", {"build": "current"})


@pytest.fixture(scope="module")
def page() -> Content:
    made = []
    for build, seconds in SECONDS.items():
        for repeat in range(3):
            one = make_record(repeat=repeat, epoch_seconds=seconds * (1 + 0.001 * repeat))
            choices = {**one.choices, "build": build}
            name = f"{'-'.join(choices.values())}-s0-r{repeat}"
            made.append(dataclasses.replace(one, choices=choices, name=name))
    return content(made, EXPERIMENT)


def test_builds_are_the_rows_of_one_table_the_fastest_first(page: Content) -> None:
    view = page.time[0]
    assert [row.head for row in view.rows] == ["fresh", "current", "old"]
    assert {row.group for row in view.rows} == {""}
    assert [row.cells[0] for row in view.rows] == ["1.25×", "1.00×", "0.56×"]
    assert [row.head for row in page.accuracy[0].rows] == ["fresh", "current", "old"]


def test_they_share_a_figure_and_lead_to_their_own_runs(page: Content) -> None:
    (figure,) = page.figures_of("time")
    for build in SECONDS:
        assert build in figure.svg
    links = [row.links[0] for row in page.time[0].rows]
    assert len(set(links)) == 3
    assert set(links) == {cell.anchor for cell in page.cells}


def test_the_answer_does_not_name_the_build_as_if_it_were_the_models(page: Content) -> None:
    (answer,) = page.answers
    assert "(fresh)" not in str(answer) and "(current)" not in str(answer)


def test_of_several_groups_only_what_tells_them_apart_is_named() -> None:
    made = []
    for cell in ("lstm", "gru"):
        one = make_record()
        choices = {**one.choices, "cell": cell}
        made.append(
            dataclasses.replace(one, choices=choices, name=f"{'-'.join(choices.values())}-s0-r0")
        )
    found = content(made, dataclasses.replace(EXPERIMENT, reference={"rnn": "keras"}))
    assert {row.group for row in found.time[0].rows} == {"lstm", "gru"}
