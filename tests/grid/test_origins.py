"""``rnnbench grid --cfg``, and files whose defaults are other files."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from rnnbench.cli import main
from rnnbench.errors import ConfigError
from rnnbench.grid.expand import expand
from rnnbench.grid.experiment import load_experiment
from rnnbench.grid.origins import with_origins
from tests.conftest import ROOT

CONF = ROOT / "conf"


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    for name, text in {
        "model/small.yaml": "defaults: [digits_rnn, _self_]\nunits: 32\n",
        "model/first.yaml": "defaults: [_self_, digits_rnn]\nunits: 32\n",
        "model/on_mnist.yaml": "defaults:\n  - digits_rnn\n  - override /dataset: mnist\n",
        "experiment/longer.yaml": "defaults: [quick]\ntitle: Longer\nrepeats: {most: 9}\n",
        "experiment/twice.yaml": "defaults: [longer]\ngrids: model=small.yaml rnn=keras,cell\n",
        "experiment/small.yaml": "units: 8\n",
        "experiment/ring.yaml": "defaults: [ring]\n",
        "experiment/absent.yaml": "defaults: [quikc]\n",
        "experiment/pairs.yaml": "defaults: {quick: 1}\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def origins(text: str) -> dict[str, str]:
    """The last part of a key → the origin of its value."""
    lines = (line for line in text.splitlines() if "  # " in line)
    return {line.partition(":")[0].strip(): line.rpartition("  # ")[2] for line in lines}


EACH = pytest.mark.slow_tier("each kind of experiment")


@pytest.mark.parametrize(
    "name",
    [
        "quick",
        *(pytest.param(name, marks=EACH) for name in ("builds", "k80_p100", "samples_612235")),
    ],
)
def test_the_printed_configuration_is_the_composed_one(name: str) -> None:
    for point in expand(load_experiment(name, [CONF]), [CONF]):
        assert yaml.safe_load(with_origins(point, [CONF])) == point.config


def test_each_value_has_its_origin(mine: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(ROOT)
    words = "grid quick --cfg model=small rnn=cell repeat=1 model.batch=64 measure.turns=false"
    assert main([*words.split(), "+rnn.options.activation=relu", "--conf", str(mine)]) == 0
    output = capsys.readouterr().out
    assert output.startswith("# small-lstm-cell-cpu_1-current-")
    found = origins(output)
    assert found["units"] == f"{mine}/model/small.yaml"
    assert found["epochs"] == "conf/model/digits_rnn.yaml"
    assert found["implementation"] == "conf/rnn/cell.yaml"
    for key in ("batch", "turns", "activation", "repeat", "rnn", "model"):
        assert found[key] == "command line", key
    assert found["device"].startswith('conf/experiment/quick.yaml, grid "model=digits_rnn')
    assert found["threads"] == "conf/device/cpu_1.yaml"
    assert found["warmup_steps"] == found["alias"] == "conf/config.yaml"


def test_defaults_after_self_come_first(mine: Path) -> None:
    conf = [CONF, mine]
    (point, *_) = expand(load_experiment("quick", conf), conf, ["model=first"])
    assert point.config["model"]["units"] == 64
    assert origins(with_origins(point, conf))["units"].endswith("model/digits_rnn.yaml")


def test_an_experiment_may_have_defaults(mine: Path) -> None:
    conf = [CONF, mine]
    quick, longer, twice = (load_experiment(each, conf) for each in ("quick", "longer", "twice"))
    assert (longer.name, longer.title, twice.title) == ("longer", "Longer", "Longer")
    assert longer.reference == quick.reference
    assert longer.repeats.most == twice.repeats.most == 9
    assert longer.repeats.budget_s == quick.repeats.budget_s
    assert len(expand(longer, conf)) == len(expand(quick, conf)) / quick.repeats.most * 9
    # Paths in a grid are relative to the file that has it.
    (mine / "elsewhere").mkdir()
    below = mine / "elsewhere/below.yaml"
    below.write_text("defaults: [twice]\n")
    assert load_experiment(str(below), conf).folder == mine / "experiment"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("ring", "its defaults contain itself"),
        ("absent", "did you mean quick?"),
        ("pairs", "write a list of experiments, such as [quick]"),
    ],
)
def test_wrong_defaults_of_an_experiment(name: str, told: str, mine: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_experiment(name, [CONF, mine])
    assert told in str(caught.value)
    assert f"experiment/{name}.yaml" in str(caught.value)


def test_a_model_that_overrides_the_data_set_is_told_how(mine: Path) -> None:
    conf = [CONF, mine]
    with pytest.raises(ConfigError, match=r"override /dataset@_global_\.dataset: CHOICE`"):
        expand(load_experiment("quick", conf), conf, ["model=on_mnist"])
    file = mine / "model/on_mnist.yaml"
    file.write_text(file.read_text().replace("/dataset:", "/dataset@_global_.dataset:"))
    points = expand(load_experiment("quick", conf), conf, ["model=on_mnist"])
    assert {point.config["dataset"]["name"] for point in points} == {"mnist"}
