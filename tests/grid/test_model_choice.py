"""A model's YAML that cannot be right is told when the grid is read, by file, key and fix."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml

from rnnbench.errors import ConfigError
from rnnbench.grid.model_choice import OPTIMIZERS, check_model
from rnnbench.planning.plan import make_plan
from tests.grid.test_model_choices import MINE, MINE_YAML, ROOT
from tests.worker.building import answer

SLIPS = [
    ({"loss": None}, "has no loss. Fix: add loss"),
    ({"batch": None, "batchs": 32}, "has the key batchs, .* Fix: did you mean batch"),
    ({"metric": ["accuracy"]}, "has the key metric, .* Fix: did you mean metrics"),
    ({"optimizer": "adam"}, r"optimizer is 'adam', not .* Fix: write optimizer: {name: adam, lear"),
    ({"optimizer": {"learning_rate": 1}}, "not a mapping with a name"),
    ({"optimizer": {"name": "adm"}}, "name 'adm'. Fix: did you mean adam"),
    ({"optimizer": {"name": "adam", "learningrate": 1}}, "Fix: did you mean learning_rate"),
    ({"optimizer": {"name": "sgd", "beta_1": 1}}, "optimizer sgd has no beta_1. Fix: its settings"),
    ({"recurrent": "yes please"}, "recurrent is 'yes please'. Fix: write true"),
    ({"data": None}, "has no data"),
    ({"data": {"prepair": "mine.py:prepare"}}, "data has no prepare. Fix: write data"),
    ({"data": "mine.py:prepare"}, "data has no prepare"),
    ({"function": "mine.py"}, "function is 'mine.py'. Fix: write function: mine.py:NAME"),
    ({"function": "mine.py:bild"}, r"no function bild. Fix: did you mean build"),
    ({"data": {"prepare": "mine.py:load"}}, r"data.prepare: .*mine.py has no function load"),
    ({"function": "other.py:build"}, "there is no .*other.py"),
    ({"function": "broken.py:build"}, r"broken.py: cannot be read as Python"),
    ({"function": "rnnworker.models.digits_rnn:bild"}, "no function bild. Fix: did you mean build"),
    ({"epochs": 0}, "mine.yaml: model.epochs is 0; it must be an integer ≥ 1"),
    ({"epochs": "five"}, "mine.yaml: model.epochs is 'five'; it must be an integer"),
]


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "broken.py").write_text("def build(:")
    return tmp_path / "mine.yaml"


@pytest.mark.parametrize(("change", "told"), SLIPS)
def test_a_slip_is_told_with_its_file(
    mine: Path, conf: list[Path], change: dict, told: str
) -> None:
    model = {**yaml.safe_load(MINE_YAML), **change}
    mine.write_text(yaml.safe_dump({key: value for key, value in model.items() if value}))
    if change.get("epochs") == 0:
        mine.write_text(MINE_YAML.replace("epochs: 5", "epochs: 0"))
    with pytest.raises(ConfigError, match=told) as caught:
        make_plan("quick", conf, ROOT, overrides=f"model={mine} device=cpu_1 repeat=0")
    assert len(str(caught.value).splitlines()) == 1 and " Fix: " in str(caught.value)


def test_an_override_is_held_to_the_same(mine: Path, conf: list[Path]) -> None:
    mine.write_text(MINE_YAML)
    for slip, told in (
        ("model.optimizer.name=adm", "did you mean adam"),
        ("+model.optimizer.rate=1", "has no rate"),
        (f"model.function={mine.parent}/mine.py:bild", "did you mean build"),
    ):
        with pytest.raises(ConfigError, match=told):
            make_plan("quick", conf, ROOT, overrides=f"model={mine} device=cpu_1 repeat=0 {slip}")


def test_what_a_model_reads_itself_is_its_own(mine: Path) -> None:
    mine.write_text(MINE_YAML)
    model = yaml.safe_load(MINE_YAML) | {"function": f"{mine.parent}/mine.py:build"}
    model["data"] = {"prepare": "a.package.of.mine:prepare"}
    check_model({**model, "depth": 3, "batch": "${seed}"}, "mine.yaml")


# In a process of its own: TensorFlow 2 sets TF2_BEHAVIOR, which TensorFlow 1.15 would inherit.
KERAS = """
import json
from keras import optimizers
classes = {name.lower(): getattr(optimizers, name) for name in dir(optimizers) if name[0].isupper()}
names = %s
print(json.dumps({name: sorted(classes[name]().get_config()) for name in names}))
"""


def test_every_optimizer_is_one_of_keras() -> None:
    known = answer(sys.executable, KERAS % list(OPTIMIZERS))
    for name, settings in OPTIMIZERS.items():
        assert set(settings) <= set(known[name]), name
