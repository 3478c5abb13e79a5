from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hydra.core.global_hydra import GlobalHydra

from rnnbench.errors import ConfigError
from rnnbench.grid.expand import expand
from rnnbench.grid.experiment import Experiment, load_experiment

Ask = Callable[..., Experiment]


def test_quick_is_cells_of_plain_data(conf: list[Path]) -> None:
    cells = expand(load_experiment("quick", conf), conf)
    assert len(cells) == 2 * 4 * 4  # of up to four repeats
    assert cells[0].name == "digits_rnn-lstm-keras-cpu_1-current-s0-r0"
    assert all(cell.skip is None for cell in cells)
    assert json.loads(json.dumps(cells[0].config)) == cells[0].config
    assert cells[0].config["dataset"]["path"] == "data/digits.npz"
    assert not GlobalHydra.instance().is_initialized()


def test_every_choice_of_the_project_composes(ask: Ask, conf: list[Path]) -> None:
    groups = ("cell", "rnn", "device", "build")
    cells = expand(ask(" ".join(f"{group}=glob(*)" for group in groups)), conf)
    assert {cell.choices["rnn"] for cell in cells} >= {"keras", "cell", "unrolled", "block", "none"}
    assert all(cell.config["rnn"]["name"] == cell.choices["rnn"] for cell in cells)


def test_what_cannot_exist_is_skipped_with_its_reason(ask: Ask, conf: list[Path]) -> None:
    skips = {cell.choices["rnn"]: cell.skip for cell in expand(ask("cell=gru rnn=glob(*)"), conf)}
    assert skips["keras"] is None
    assert skips["block"] == "TensorFlow's BlockLSTM op exists for LSTM only"
    assert skips["none"] == "rnn=none is for models without a recurrent layer"


def test_what_the_machine_lacks_comes_second(ask: Ask, conf: list[Path]) -> None:
    def nothing_goes(config: Any) -> str:
        return f"no {config['device']['name']} here"

    keras, none = expand(ask("rnn=keras,none device=gpu"), conf, (), nothing_goes)
    assert keras.skip == "no gpu here"
    assert none.skip == "rnn=none is for models without a recurrent layer"


def test_a_default_said_again_is_the_same_cell(ask: Ask, conf: list[Path]) -> None:
    (cell,) = expand(ask("rnn=keras"), conf)
    units, calls = cell.config["model"]["units"], cell.config["measure"]["predict_calls"]
    again = f"dataset=digits measure.predict_calls={calls} seed=0"
    grids = ("rnn=keras", f"model.units={units},3", again)
    names = [cell.name for cell in expand(ask(*grids), conf)]
    assert names == [
        "digits_rnn-lstm-keras-cpu_1-current-s0-r0",
        "digits_rnn-lstm-keras-cpu_1-current-units3-s0-r0",
    ]


def test_overrides_of_the_command_line_replace_the_grids(ask: Ask, conf: list[Path]) -> None:
    cells = expand(ask("rnn=keras,cell repeat=range(3)"), conf, ["repeat=0", "dataset=mnist"])
    assert [cell.name for cell in cells] == [
        "digits_rnn-lstm-keras-cpu_1-current-mnist-s0-r0",
        "digits_rnn-lstm-cell-cpu_1-current-mnist-s0-r0",
    ]


def test_an_alias_tells_one_cell_twice(ask: Ask, conf: list[Path]) -> None:
    a, b = expand(ask("alias=null,again"), conf)
    assert (a.alias, b.alias) == (None, "again")
    assert b.name.endswith("-as_again-s0-r0")


def test_interpolations_are_resolved_in_each_cell(ask: Ask, conf: list[Path], extra: Path) -> None:
    (extra / "rnn" / "wide.yaml").write_text("{implementation: keras, chunk: '${model.batch}'}")
    small, large = expand(ask("rnn=wide model.batch=7,9"), conf)
    assert (small.config["rnn"]["chunk"], large.config["rnn"]["chunk"]) == (7, 9)


def test_a_model_is_two_files_anywhere(ask: Ask, conf: list[Path], tmp_path: Path) -> None:
    home = tmp_path / "anywhere"
    home.mkdir()
    (home / "my model.yaml").write_text(
        "defaults: [digits_rnn, override /dataset@_global_.dataset: file, _self_]\n"
        "function: mine.py:build\ndata: {prepare: ./mine.py:prepare}\nunits: 3\n"
    )
    (home / "mine.py").write_text("def build(): ...\ndef prepare(): ...\n")
    (cell,) = expand(ask(f'model="{home}/my model.yaml" dataset.path=x.npz'), conf)
    model = cell.config["model"]
    assert cell.name == "my_model-lstm-keras-cpu_1-current-pathx.npz-s0-r0"
    assert model["function"] == f"{home}/mine.py:build"
    assert model["data"]["prepare"] == f"{home}/mine.py:prepare"
    assert (model["name"], model["units"], model["recurrent"]) == ("my model", 3, True)
    assert cell.config["dataset"]["name"] == "file"


def test_a_model_in_a_folder_of_ones_own(ask: Ask, conf: list[Path], extra: Path) -> None:
    (extra / "model" / "mlp.yaml").write_text(
        "defaults: [digits_rnn, _self_]\nrecurrent: false\nfunction: mlp.py:build\n"
    )
    (extra / "model" / "mlp.py").write_text("def build(): ...\n")
    keras, none = expand(ask("model=mlp rnn=keras,none"), conf)
    assert keras.skip == "this model has no recurrent layer: it takes rnn=none"
    assert none.skip is None
    assert none.config["model"]["function"] == f"{extra}/model/mlp.py:build"


def test_keys_that_are_numbers_are_text_as_the_worker_gets_them(
    ask: Ask, conf: list[Path], extra: Path
) -> None:
    (extra / "rnn" / "paced.yaml").write_text("implementation: keras\nrates: {10: 0.1, 2: 0.2}")
    (paced,) = expand(ask("rnn=paced rnn.rates.2=0.3"), conf)
    assert paced.config["rnn"]["rates"] == {"10": 0.1, "2": 0.3}


@pytest.mark.parametrize(
    ("grids", "message"),
    [
        (["rnn=kears"], "mean keras.*the choices of rnn are .*block, .*unrolled"),
        (["model.loss=" + "[" * 1400 + "]" * 1400], "is nested too deeply"),
        (["model.unist=3"], "model.unist is not a key of the config.*did you mean model.units"),
        (["rnn=[keras"], r"mine_to_ask.yaml, grid .rnn=\[keras.: .* is not an override"),
        (["rnn=glob(x*)"], "the grid is empty"),
        (["+model.x='a b','a_b'"], "two cells have the name .*model.x=a b.*model.x=a_b.*alias="),
        (["+model.a.n=1", "+model.b.n=1"], "two cells have the name .*model.a.n=1.*model.b.n=1"),
        (["seed=-1"], "must be an integer ≥ 0"),
        (["~seed"], "~seed adds or deletes"),
        (["+rnn=keras"], r"\+rnn adds or deletes an axis"),
        (["device.threads=0"], "device.threads is 0; it must be an integer ≥ 1"),
        (["limits.members=0"], "limits.members is 0; it must be an integer ≥ 1"),
        (["measure.warmup_seconds=-1"], "measure.warmup_seconds is -1.0; it must be a number ≥ 0"),
        (["device.kind=tpu"], "device.kind is 'tpu'.*one of cpu, gpu"),
        (["dataset=file"], "dataset.path has no value.*write dataset.path=VALUE"),
        (["model=/nowhere/mine.yaml"], "no such file"),
        (["model.function=nope.py:build"], "there is no /.*/conf/model/nope.py"),
        (["model.loss=${nope}"], "interpolation cannot be resolved"),
    ],
)
def test_bad_grids_are_one_line(ask: Ask, conf: list[Path], grids: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        expand(ask(*grids), conf)
    assert caught.value.where
    assert caught.value.remedy
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", r"bad.yaml"),
        ("", r"bad.yaml: has no implementation.*add implementation: mine.py"),
        ("# @package _global_\nmeasure: {warmup_steps: 3}\nrnn: {x: 1}", "outside its own section"),
        ("defaults: [nowhere]", "nowhere"),
        ("implementation: keras\nx: .nan", "rnn=bad.* cannot be composed: .*not JSON compliant"),
        ("implementation: keras\nx: !!binary aGk=", "rnn=bad.*cannot be composed: .*JSON"),
    ],
)
def test_bad_choices_are_one_line(
    ask: Ask, conf: list[Path], extra: Path, text: str, message: str
) -> None:
    (extra / "rnn" / "bad.yaml").write_text(text)
    with pytest.raises(ConfigError, match=message) as caught:
        expand(ask("rnn=keras,bad"), conf)
    assert "\n" not in str(caught.value)
    assert not GlobalHydra.instance().is_initialized()
