"""An error in a model's YAML is reported when the grid is read, with file, key and fix."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml

from rnnbench.errors import ConfigError
from rnnbench.grid.choices import OPTIMIZERS
from rnnbench.grid.expand import expand
from rnnbench.grid.experiment import load_experiment
from rnnbench.planning.planner import make_plan
from tests.grid.test_model_choices import MINE, MINE_YAML, ROOT
from tests.worker.building import answer

ERRORS = [
    ({"loss": None}, "has no loss. Fix: add loss"),
    ({"batch": None, "batchs": 32}, "has the key batchs, .* Fix: did you mean batch"),
    ({"metric": ["accuracy"]}, "has the key metric, .* Fix: did you mean metrics"),
    ({"optimizer": "adam"}, r"optimizer is 'adam'; .* Fix: write optimizer: {name: adam, lear"),
    ({"optimizer": {"learning_rate": 1}}, "optimizer has no name. Fix: add name"),
    ({"optimizer": {"name": "adm"}}, "name is 'adm'; .* one of sgd, .* Fix: did you mean adam"),
    ({"optimizer": {"name": "adam", "learningrate": 1}}, "Fix: did you mean learning_rate"),
    (
        {"optimizer": {"name": "sgd", "beta_1": 1}},
        "unknown key 'beta_1' in model.optimizer=sgd. Fix: the keys are",
    ),
    ({"recurrent": "yes please"}, "'yes please'; it must be true or false. Fix: write true"),
    ({"data": None}, "has no data"),
    (
        {"data": {"prepair": "mine.py:prepare"}},
        "data has no prepare. Fix: add prepare .prepare.source, config",
    ),
    ({"data": "mine.py:prepare"}, "Fix: write data: {prepare: mine.py:prepare}"),
    (
        {"function": "mine.py"},
        "function is '.*mine.py'; it must be like .* Fix: write function: mine.py:NAME",
    ),
    ({"function": "mine.py:bild"}, r"no function bild. Fix: did you mean build"),
    ({"data": {"prepare": "mine.py:load"}}, r"data.prepare: .*mine.py has no function load"),
    ({"function": "other.py:build"}, "other.py does not exist"),
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


@pytest.mark.parametrize(("change", "message"), ERRORS)
def test_an_error_names_the_file(mine: Path, conf: list[Path], change: dict, message: str) -> None:
    model = {**yaml.safe_load(MINE_YAML), **change}
    mine.write_text(yaml.safe_dump({key: value for key, value in model.items() if value}))
    if change.get("epochs") == 0:
        mine.write_text(MINE_YAML.replace("epochs: 5", "epochs: 0"))
    with pytest.raises(ConfigError, match=message) as caught:
        make_plan("quick", conf, ROOT, overrides=f"model={mine} device=cpu_1 repeat=0")
    assert len(str(caught.value).splitlines()) == 1 and " Fix: " in str(caught.value)


def test_overrides_are_checked_too(mine: Path, conf: list[Path]) -> None:
    mine.write_text(MINE_YAML)
    grid = f"model={mine} device=cpu_1 repeat=0"
    for override, message in (
        ("model.optimizer.name=adm", "did you mean adam"),
        ("+model.optimizer.rate=1", "unknown key 'rate' in model.optimizer=adam"),
        (f"model.function={mine.parent}/mine.py:bild", "did you mean build"),
    ):
        with pytest.raises(ConfigError, match=message):
            make_plan("quick", conf, ROOT, overrides=f"{grid} {override}")


def test_a_model_may_have_further_keys(mine: Path, conf: list[Path]) -> None:
    changes = {"data": {"prepare": "a.package.of.mine:prepare"}, "depth": 3, "batch": "${repeat}"}
    optimizer = {"name": "Adam", "learning_rate": 1}
    mine.write_text(yaml.safe_dump(yaml.safe_load(MINE_YAML) | changes | {"optimizer": optimizer}))
    experiment = load_experiment("quick", conf)
    point, *_ = expand(experiment, conf, [f"model={mine}", "device=cpu_1", "repeat=7"])
    assert (point.config["model"]["batch"], point.config["model"]["depth"]) == (7, 3)


# In a separate process: TensorFlow 2 sets TF2_BEHAVIOR, which TensorFlow 1.15 would inherit.
KERAS = """
import json
from keras import optimizers
classes = {name.lower(): getattr(optimizers, name) for name in dir(optimizers) if name[0].isupper()}
names = %s
print(json.dumps({name: sorted(classes[name]().get_config()) for name in names}))
"""


def test_keras_has_every_optimizer_with_its_settings() -> None:
    known = answer(sys.executable, KERAS % list(OPTIMIZERS))
    for name, settings in OPTIMIZERS.items():
        assert set(settings) <= set(known[name]), name
