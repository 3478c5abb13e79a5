from __future__ import annotations

from pathlib import Path

import pytest

from rnnbench.grid.point import digest_of, full_identity
from rnnbench.planning.planner import make_plan

ROOT = Path(__file__).parents[2]


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
