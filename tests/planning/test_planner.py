"""Plans: the order of measuring, rounds, and facts of this machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rnnbench.grid.point import GridPoint, canonical, digest_of, full_identity
from rnnbench.planning.planner import make_plan, plan_order, rounds_of
from tests.conftest import ROOT

POINTS = [
    GridPoint(f"{letter}-s{seed}-r{repeat}", {}, {}, seed, repeat, None, {}, None)
    for letter in "abcdefgh"
    for seed in (0, 1)
    for repeat in (0, 1, 2)
]


def test_a_block_contains_each_configuration_of_one_seed_and_repeat_once() -> None:
    ordered = plan_order(POINTS)
    assert [entry.order for entry in ordered] == list(range(len(POINTS)))
    assert [entry.block for entry in ordered] == sorted(entry.block for entry in ordered)
    for block in range(6):
        points = [entry.point for entry in ordered if entry.block == block]
        assert {point.name[0] for point in points} == set("abcdefgh")
        assert len(points) == 8
        assert len({(point.seed, point.repeat) for point in points}) == 1


def test_the_order_is_random_but_seeded_and_leaves_out_skipped_grid_points() -> None:
    skipped = GridPoint("x-s0-r0", {}, {}, 0, 0, None, {}, "not here")
    assert plan_order(POINTS) == plan_order([skipped, *reversed(POINTS)])
    ordered = plan_order(POINTS)
    blocks = [[e.point.name[0] for e in ordered if e.block == block] for block in range(6)]
    assert len({tuple(block) for block in blocks}) > 1


def test_in_sequential_order_every_block_of_a_grid_comes_before_the_next_grid() -> None:
    points = [replace(point, grid=int(point.name[0] < "d")) for point in POINTS]
    ordered = plan_order(points, sequential=True)
    assert [entry.point.grid for entry in ordered] == [0] * 30 + [1] * 18
    assert [entry.block for entry in ordered] == sorted(entry.block for entry in ordered)
    assert ordered[-1].block == 11


@pytest.fixture
def conf(tmp_path: Path) -> list[Path]:
    (tmp_path / "experiment").mkdir()
    grid = "rnn=keras,unrolled build=tf_2_21 repeat=range(15)"
    (tmp_path / "experiment/mine.yaml").write_text(f"grids: ['{grid}']\n")
    return [ROOT / "conf", tmp_path]


def test_each_run_has_the_digest_of_its_identity(conf: list[Path]) -> None:
    plan = make_plan("mine", conf, ROOT, site="elsewhere")
    assert len(plan.runs) == 30
    for run in plan.runs.values():
        assert run.digest == digest_of(full_identity(run.config, run.identity))
    assert len({run.digest for run in plan.runs.values()}) == 30
    rounds = list(plan.rounds.values())
    assert [len(members.runs) for members in rounds] == [2] * 15
    assert [[plan.rounds[name] for name in batch] for batch in plan.batches()] == [
        rounds[:12],
        rounds[12:],
    ]


def test_a_build_with_overrides_is_checked_separately(
    conf: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(build, root):
        return None if build["python"] == "3.12" else f"no Python {build['python']}"

    monkeypatch.setattr("rnnbench.planning.planner.missing", missing)
    overrides = "build.python='9.8','3.12' repeat=0"
    plan = make_plan("mine", conf, ROOT, overrides=overrides)
    assert {run.config["build"]["python"] for run in plan.runs.values()} == {"3.12"}
    assert [why for _, why in plan.skipped] == ["no Python 9.8"] * 2
    assert len(plan.environments) == 1


VALUES = st.one_of(st.integers(-2, 2), st.text("a -_.=,·/", min_size=1, max_size=3), st.booleans())
KEYS = st.sampled_from(["model.n", "model.a.n", "model.b.n", "measure.n", "build.environment.n"])


@given(st.dictionaries(KEYS, VALUES, max_size=2), st.dictionaries(KEYS, VALUES, max_size=2))
def test_two_networks_never_share_a_round(first: dict, second: dict) -> None:
    """Two implementations, each with its own overrides: one round if these are the same."""
    config = {"device": {"kind": "cpu"}, "measure": {}}
    points = [
        GridPoint(f"{rnn}-s0-r0", {"model": "m", "rnn": rnn}, overrides, 0, 0, None, config)
        for rnn, overrides in (("keras", first), ("block", second))
    ]
    rounds = rounds_of(points, {"rnn": "keras"}, False)
    assert (rounds["keras-s0-r0"] == rounds["block-s0-r0"]) == (
        canonical(first) == canonical(second)
    )
    assert all(name.endswith("-s0-r0") for name in rounds.values())
    assert rounds_of(points[:1], {}, False)["keras-s0-r0"].startswith("m")
