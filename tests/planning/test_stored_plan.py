"""A stored plan is read only if nothing that it was made from has changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest

from rnnbench.planning import stored_plan
from rnnbench.planning.planner import make_plan
from tests.conftest import ROOT, Project, make_project

# One start: reads or makes the plan and stores it. Without the two seconds for which a changed file
# keeps a plan from being stored, because the tests make theirs just before.
START = """
import json, sys
from pathlib import Path
from rnnbench.planning import stored_plan
stored_plan.SETTLED = float(sys.argv[1])
stored_plan.SOURCE = Path("source")
root = Path.cwd()
plan, to_store = stored_plan.plan_of(
    "mine", [root / "conf", root / "own"], root, overrides=sys.argv[2]
)
if to_store:
    stored_plan.store(to_store, root)
configs = {name: run.config for name, run in plan.runs.items()}
digests = {name: run.digest for name, run in plan.runs.items()}
print(json.dumps([to_store is not None, "hydra" in sys.modules, configs, digests]))
"""
PLANS = stored_plan.CACHE / "plans"
MODEL = '''
import keras

def build(settings, inputs, layer):
    """{}"""
    return keras.Sequential([inputs, layer(4), keras.layers.Dense(2)])
'''


class Started:
    """What a start did: whether it stored a plan and imported Hydra, and what it planned."""

    def __init__(self, project: Project, overrides: str = "", settled: float = 0, **variables: str):
        result = subprocess.run(
            [sys.executable, "-c", START, str(settled), overrides],
            cwd=project.folder,
            env={**project.environment, **variables},
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        self.stores, self.hydra, self.configs, self.digests = json.loads(result.stdout)


@pytest.fixture
def mine(tmp_path: Path) -> Project:
    """A project with an experiment whose choices lie in conf/, in a folder of their own, and
    elsewhere."""
    project = make_project(tmp_path)
    (tmp_path / "source").mkdir()
    (tmp_path / "source/code.py").write_text("one = 1\n")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "named.yaml").write_text("defaults: [fake_fast]\ntitle: first\n")
    np.savez(elsewhere / "data.npz", x=np.zeros((8, 2)))
    text = (
        "title: mine\ngrids: ['model=fake build=fake device=cpu_1 dataset=file"
        f" dataset.path={elsewhere}/data.npz rnn=fake_slow,{elsewhere}/named.yaml']\n"
    )
    (project.conf / "experiment/mine.yaml").write_text(text)
    return project


def test_a_start_without_changes_reads_the_plan(mine: Project) -> None:
    first = Started(mine)
    again = Started(mine)
    assert (first.stores, first.hydra) == (True, True)
    assert (again.stores, again.hydra) == (False, False)
    assert (again.configs, again.digests) == (first.configs, first.digests)
    assert len(again.configs) == 2


def append(path: str, text: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        with (folder / path).open("a") as file:
            file.write(text)

    return change


CHANGES: dict[str, Callable[[Path], None]] = {
    "the experiment": append("own/experiment/mine.yaml", "about: changed\n"),
    "a choice": append("own/rnn/fake_slow.yaml", "about: changed\n"),
    "a choice named by path": append("elsewhere/named.yaml", "about: changed\n"),
    "the primary config": append("conf/config.yaml", "\n# changed\n"),
    "a new choice": append("own/rnn/another.yaml", "defaults: [fake_fast]\n"),
    "a removed choice": lambda folder: (folder / "conf/rnn/cudnn.yaml").unlink(),
    "the user's data": append("elsewhere/data.npz", "more"),
    "the pins of the data sets": append("data.dvc", "\n# changed\n"),
    "our code": append("source/code.py", "two = 2\n"),
    "our code has a new file": append("source/new.py", ""),
    "the stored plan itself": append("results/cache/plans/mine.json", "}"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_change_makes_a_new_plan(mine: Project, change: Callable[[Path], None]) -> None:
    assert Started(mine).stores
    change(mine.folder)
    assert Started(mine).hydra


def test_the_changed_plan_is_the_one_that_is_made(mine: Project) -> None:
    first = Started(mine)
    append("elsewhere/data.npz", "more")(mine.folder)
    changed = Started(mine)
    assert changed.digests.keys() == first.digests.keys()
    assert all(changed.digests[name] != first.digests[name] for name in first.digests)
    again = Started(mine)
    assert (again.hydra, again.digests) == (False, changed.digests)


def test_a_file_replaced_by_one_of_the_same_size_and_time_is_a_change(mine: Project) -> None:
    Started(mine)
    file = mine.folder / "own/rnn/fake_slow.yaml"
    found, text = file.stat(), file.read_text()
    file.write_text(f"{text[:-1]} ")
    os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns))
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (found.st_size, found.st_mtime_ns)
    assert Started(mine).hydra


def test_other_arguments_and_variables_make_a_new_plan(mine: Project) -> None:
    first = Started(mine)
    seeds = Started(mine, "seed=0,1")
    assert seeds.hydra
    assert len(seeds.configs) == 2 * len(first.configs)
    assert not Started(mine, "seed=0,1").hydra
    assert Started(mine, "seed=0,1", CUDA_VISIBLE_DEVICES="0").hydra


def test_a_users_code_is_an_input(mine: Project) -> None:
    file = mine.folder / "elsewhere/layer.py"
    file.write_text(MODEL.format("one"))
    choice = mine.folder / "own/model/coded.yaml"
    choice.write_text(f"defaults: [fake]\nfunction: {file}:build\n")
    first = Started(mine, "model=coded")
    assert not Started(mine, "model=coded").hydra
    file.write_text(MODEL.format("one") + "\nWIDTH = 4\n")
    changed = Started(mine, "model=coded")
    assert changed.hydra
    assert changed.digests != first.digests


def test_data_whose_md5_is_known_is_an_input(mine: Project) -> None:
    Started(mine, "seed=1")  # computes the md5
    assert Started(mine).hydra  # makes another plan, with the cached md5
    append("elsewhere/data.npz", "more")(mine.folder)
    assert Started(mine).hydra


def test_an_input_that_has_just_changed_keeps_the_plan_from_being_stored(mine: Project) -> None:
    append("own/rnn/fake_slow.yaml", "about: changed\n")(mine.folder)
    assert not Started(mine, settled=3600).stores
    assert not (mine.folder / PLANS).exists()


def test_a_plan_for_which_a_program_was_started_is_not_stored(mine: Project) -> None:
    command = f"defaults: [fake]\ncommand: env {sys.executable}\n"
    (mine.conf / "build/started.yaml").write_text(command)
    assert not Started(mine, "build=started").stores


def test_variables_are_not_written(mine: Project) -> None:
    Started(mine, SECRET="hunter2")
    assert "hunter2" not in (mine.folder / PLANS / "mine.json").read_text()


@pytest.mark.parametrize("name", ["quick", "builds", "inference", "seeds_small", "gpu"])
def test_a_plan_is_the_same_after_reading(name: str) -> None:
    plan = make_plan(name, [ROOT / "conf"], ROOT, site="elsewhere")
    stored = stored_plan.Stored("key", {}, plan)
    content = msgspec.json.encode(stored, enc_hook=stored_plan._encoded)
    read = msgspec.json.decode(content, type=stored_plan.Stored, dec_hook=stored_plan._decoded).plan
    assert read == plan
    assert list(read.runs) == list(plan.runs)
    assert read.rounds == plan.rounds
    assert [round_.digest for round_ in read.rounds.values()] == [
        round_.digest for round_ in plan.rounds.values()
    ]
