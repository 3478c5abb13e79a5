"""Plans: the order of measuring, rounds, and facts of this machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rnnbench.errors import ConfigError
from rnnbench.grid.point import GridPoint, canonical, digest_of, full_identity
from rnnbench.planning import planner
from rnnbench.planning.plan import Plan, facts_of, write_plan
from rnnbench.planning.planner import NothingToRun, make_plan, plan_order, rounds_of
from rnnbench.records.plan_file import Repeats, digest_of_round, read_experiment, read_runs
from rnnbench.records.store import read_json
from tests.conftest import ROOT
from tests.factory import as_run

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
    assert {name: list(batch.rounds) for name, batch in plan.batches.items()} == {"0": rounds}


def test_a_build_with_overrides_is_checked_separately(
    conf: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(build, root):
        return None if build.python == "3.12" else f"no Python {build.python}"

    monkeypatch.setattr("rnnbench.planning.planner.missing", missing)
    overrides = "build.python='9.8','3.12' repeat=0"
    plan = make_plan("mine", conf, ROOT, overrides=overrides)
    assert {run.config["build"]["python"] for run in plan.runs.values()} == {"3.12"}
    assert [why for _, why in plan.skipped] == ["no Python 9.8"] * 2
    assert len(plan.environments) == 1


def test_a_round_is_made_again_if_one_of_its_runs_is_another(conf: list[Path]) -> None:
    """Its identity is what Snakemake compares."""
    plan = make_plan("mine", conf, ROOT, site="elsewhere")
    other = make_plan("mine", conf, ROOT, site="elsewhere", overrides="model.units=8")
    assert plan.site == other.site == "elsewhere"
    for members in plan.rounds.values():
        assert members.identity == {run.name: run.digest for run in members.runs}
        assert members.digest == digest_of_round(members.identity)
        assert members.runs[0].order == min(run.order for run in members.runs)
    digests = [made.digest for each in (plan, other) for made in each.rounds.values()]
    assert len(set(digests)) == len(digests)
    (certificate,) = plan.certificates.values()
    assert {run.certificate for run in plan.runs.values()} == {certificate.key}


def test_on_a_cluster_a_job_has_one_device(conf: list[Path]) -> None:
    file = conf[1] / "experiment/two.yaml"
    file.write_text("grids: ['device=cpu_1,cpu_2 repeat=0,1']\nreference: {device: cpu_1}\n")
    here, there = make_plan("two", conf, ROOT), make_plan("two", conf, ROOT, site="alps")
    assert [len(members.runs) for members in here.rounds.values()] == [2, 2]
    assert [len(members.runs) for members in there.rounds.values()] == [1] * 4
    assert set(here.runs) == set(there.runs)


def test_many_runs_are_logged_in_at_most_100_batches() -> None:
    """4,901 rounds of one run: 98 batches of 50 and one more."""
    runs = {f"a-s0-r{i}": as_run({"name": f"a-s0-r{i}"}) for i in range(4901)}
    batches = Plan(None, "here", runs, (), {}, {}, {}).batches.values()
    assert [len(batch.rounds) for batch in batches] == [50] * 98 + [1]
    names = [run.name for batch in batches for each in batch.rounds for run in each.runs]
    assert names == list(runs)


def test_the_files_of_a_plan_say_the_same(conf: list[Path], tmp_path: Path) -> None:
    plan = make_plan("mine", conf, ROOT, site="elsewhere", overrides="repeat=0,1")
    write_plan(plan, tmp_path / "results")
    folder = tmp_path / "results/elsewhere" / plan.experiment.name
    assert read_runs(folder / "plan.jsonl") == list(plan.runs.values())
    certificates = read_json(folder / "certificates.json")
    assert {key: made["digest"] for key, made in certificates.items()} == {
        key: made.digest for key, made in plan.certificates.items()
    }
    facts = read_experiment(folder / "experiment.json")
    assert facts == facts_of(plan)
    assert facts.rerun.startswith("snakemake --cores all --config experiment=mine")
    assert facts.models == ("digits_rnn",) and facts.skipped == ()


def test_what_an_experiment_says_reaches_its_plan_and_its_report(conf: list[Path]) -> None:
    text = """
title: T
about: A
lead: kernels
grid_order: sequential
reference: {rnn: unrolled}
repeats: {least: 2, most: 3, until: 0.5}
grids: [rnn=keras, rnn=unrolled]
"""
    (conf[1] / "experiment/full.yaml").write_text(text)
    plan = make_plan("full", conf, ROOT, site="elsewhere")
    names = [run.choices["rnn"] for run in plan.runs.values()]
    assert names == ["keras"] * 3 + ["unrolled"] * 3, "one grid after the other"
    facts = facts_of(plan)
    assert (facts.name, facts.title, facts.about, facts.lead) == ("full", "T", "A", "kernels")
    assert facts.reference == {"rnn": "unrolled"} and facts.obstacle is None
    assert facts.repeats == Repeats(least=2, most=3, until=0.5)


@pytest.mark.parametrize("site", ["", "a b", "../x", ".x", "records", "imported", "cache"])
def test_a_site_is_not_a_folder_that_has_another_use(conf: list[Path], site: str) -> None:
    with pytest.raises(ConfigError, match="the site is") as caught:
        make_plan("mine", conf, ROOT, site=site)
    assert repr(site) in caught.value.what and "site" in caught.value.where
    assert "imported" in caught.value.remedy


@pytest.mark.parametrize(
    ("kinds", "told"),
    [("a", ": a."), ("abc", ": a; b; c."),
     ("abcd", ": a; b; c; and others, which `rnnbench grid mine seed=3` lists.")],
)  # fmt: skip
def test_without_a_run_the_most_common_reasons_are_told(
    conf: list[Path], monkeypatch: pytest.MonkeyPatch, kinds: str, told: str
) -> None:
    """Of 15 repeats, the last one has the last reason, the two before it the one before, …"""
    reasons = "".join(kind * count for kind, count in zip(kinds[::-1], (1, 2, 4, 8), strict=False))
    reasons = reasons.ljust(15, kinds[0])
    monkeypatch.setattr(planner, "unmet_at", lambda root: lambda config: reasons[config["repeat"]])
    with pytest.raises(NothingToRun) as caught:
        make_plan("mine", conf, ROOT, overrides="seed=3")
    assert "none of the 30 grid points" in caught.value.what and caught.value.what.endswith(told)
    assert caught.value.where.endswith("mine.yaml: grids")
    assert "`rnnbench bundle mine seed=3 -o FOLDER`" in caught.value.remedy
    plan = caught.value.plan
    assert (plan.obstacle.why, plan.obstacle.remedy) == (caught.value.what, caught.value.remedy)
    assert (plan.runs, plan.models, plan.batches) == ({}, ("digits_rnn",), {})
    assert len(plan.skipped) == 30 and facts_of(plan).obstacle == plan.obstacle
    assert {skipped.why for skipped in facts_of(plan).skipped} == set(kinds)


def test_the_arrays_of_a_users_file_are_checked_before_anything_runs(
    conf: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once for each model; what a user's function makes of them is not known."""
    (tmp_path / "own.npz").write_bytes(b"7")
    (tmp_path / "mine.py").write_text("def prepare(arrays, config): ...\n")
    (tmp_path / "dataset").mkdir()
    (tmp_path / "dataset/own.yaml").write_text(f"path: {tmp_path}/own.npz\n")
    checked = []
    monkeypatch.setattr(planner, "check_arrays", lambda *given: checked.append(given))
    file, name = tmp_path / "own.npz", "digits_rnn"
    prepare = f"model.data.prepare={tmp_path}/mine.py:prepare"
    for overrides, expected in (
        ("", (("x_train", "y_train", "x_val", "y_val"), name, (None, None))),
        ("+model.arrays=[x] +model.train_samples=9 +model.val_samples=4", (("x",), name, (9, 4))),
        ("+model.arrays=null", (None, name, (None, None))),
        (
            f"{prepare} +model.train_samples=9",
            (("x_train", "y_train", "x_val", "y_val"), name, None),
        ),
    ):
        plan = make_plan("mine", conf, ROOT, overrides=f"dataset=own {overrides}".strip())
        assert checked == [(file, *expected)] and plan.datasets == {}
        md5 = {run.identity["dataset_md5"] for run in plan.runs.values()}
        assert md5 == {"8f14e45fceea167a5a36dedd4bea2543"}, "of the text 7"
        checked.clear()
    assert make_plan("mine", conf, ROOT).datasets == {"data/digits.npz": "digits"}
    assert not checked


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
