from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hydra.core.global_hydra import GlobalHydra

from rnnbench.grid.expand import expand
from rnnbench.grid.experiment import load_experiment
from rnnbench.grid.point import digest_of, full_identity
from tests.conftest import ROOT
from tests.grid.conftest import CONF, MINE, MINE_YAML, Expand, assert_error


def test_the_grid_points_of_quick_are_plain_data() -> None:
    quick = load_experiment("quick", [CONF])
    assert quick.reference == {"rnn": "keras"}
    assert quick.grids[0][0] == "model=digits_rnn"
    points = expand(quick, [CONF])
    assert len(points) == 2 * 4 * 6  # devices, implementations, repeats
    assert points[0].name == "digits_rnn-lstm-keras-cpu_1-current-s0-r0"
    assert all(point.skip is None for point in points)
    assert json.loads(json.dumps(points[0].config)) == points[0].config
    assert points[0].config["dataset"]["path"] == "data/digits.npz"
    assert not GlobalHydra.instance().is_initialized()


def test_every_pair_of_choices_of_the_project_composes(expanded: Expand) -> None:
    # In pairs, because a choice may require keys of another axis.
    pairs = itertools.combinations(("cell", "rnn", "device", "build"), 2)
    points = expanded(*(f"{first}=glob(*) {second}=glob(*)" for first, second in pairs))
    implementations = {point.choices["rnn"] for point in points}
    assert implementations >= {"keras", "cell", "unrolled", "block", "none"}
    assert all(point.config["rnn"]["name"] == point.choices["rnn"] for point in points)


def test_a_grid_point_that_cannot_run_is_skipped_with_its_first_reason(expanded: Expand) -> None:
    def never_met(config: Mapping[str, Any]) -> str:
        return f"no {config['device']['name']} here"

    points = expanded("cell=gru rnn=glob(*)", unmet_constraints=never_met)
    skips = {point.choices["rnn"]: point.skip for point in points}
    assert skips["keras"] == "no cpu_1 here"
    assert skips["block"] == "TensorFlow's BlockLSTM op exists for LSTM only"
    assert skips["none"] == "rnn=none is for models without a recurrent layer"


def test_an_override_with_the_default_is_the_same_grid_point_and_an_alias_is_another(
    expanded: Expand,
) -> None:
    point, duplicate = expanded("alias=null,again")
    assert (point.alias, duplicate.alias) == (None, "again")
    assert duplicate.name.endswith("-as_again-s0-r0")
    units, calls = point.config["model"]["units"], point.config["measure"]["predict_calls"]
    defaults = f"dataset=digits measure.predict_calls={calls} seed=0"
    grids = ("rnn=keras", f"model.units={units},3", defaults)
    names = [point.name for point in expanded(*grids)]
    assert names == [
        "digits_rnn-lstm-keras-cpu_1-current-s0-r0",
        "digits_rnn-lstm-keras-cpu_1-current-units3-s0-r0",
    ]


@pytest.mark.parametrize(
    "override",
    [
        "+measure.uncertified=false",
        "+model.data.augment=null",
        "++model.data={augment:null}",
        "+device.feed=host",
        "+device.replicas=1",
        "+build.jit_compile=false",
        "+build.as_published=false",
        "+model.layers=1 +model.bidirectional=false",
        "~device.threads",
        "~limits.members",
        "+model.class_weight=null",
        "measure.turns=true",
    ],
)
def test_an_override_that_states_the_default_changes_nothing(
    expanded: Expand, override: str
) -> None:
    choices = "device=cpu_all model=shape_short"
    (point,) = expanded(choices)
    (same,) = expanded(f"{choices} {override}")
    assert (same.name, same.overrides) == (point.name, {})
    assert digest_of(full_identity(same.config, {})) == digest_of(full_identity(point.config, {}))


def test_an_override_whose_absence_means_something_else_is_kept(expanded: Expand) -> None:
    (point,) = expanded("+model.arrays=null +rnn.options.activation=null")
    assert point.overrides == {"model.arrays": None, "rnn.options.activation": None}


def test_overrides_of_the_command_line_replace_the_grids(expanded: Expand) -> None:
    points = expanded("rnn=keras,cell repeat=range(3)", overrides=["repeat=0", "dataset=mnist"])
    assert [point.name for point in points] == [
        "digits_rnn-lstm-keras-cpu_1-current-mnist-s0-r0",
        "digits_rnn-lstm-cell-cpu_1-current-mnist-s0-r0",
    ]


def test_an_override_replaces_only_the_data_set_that_its_choice_stands_for(
    expanded: Expand, tmp_path: Path
) -> None:
    grids = ("model=mnist_mlp,imdb_lstm,shape_short", "dataset=imdb,mnist_10k model=imdb_fasttext")

    def datasets(override: str) -> list[tuple[str, str]]:
        points = expanded(*grids, overrides=[override])
        return [(p.choices["model"], p.config["dataset"]["name"]) for p in points]

    rest = [("shape_short", "none"), ("imdb_fasttext", "imdb_from_text")]
    assert datasets("dataset=mnist_10k,imdb_from_text") == [
        ("mnist_mlp", "mnist_10k"),
        ("imdb_lstm", "imdb_from_text"),
        *rest,
        ("imdb_fasttext", "mnist_10k"),
    ]
    assert datasets("dataset=imdb_from_text")[0] == ("mnist_mlp", "mnist")
    (tmp_path / "mine.yaml").write_text("{path: x.npz, replaces: none}")
    assert datasets(f"dataset={tmp_path}/mine.yaml")[2:] == [
        ("shape_short", "mine"),
        ("imdb_fasttext", "imdb"),
        ("imdb_fasttext", "mnist_10k"),
    ]
    assert {dataset for _, dataset in datasets("dataset=digits")} == {"digits"}
    assert datasets("dataset=mnist_10k,digits")[:3] == [
        ("mnist_mlp", "mnist_10k"),
        ("mnist_mlp", "digits"),
        ("imdb_lstm", "digits"),
    ]


def test_an_override_that_replaces_no_data_set_is_an_error(expanded: Expand) -> None:
    given = "dataset=imdb_from_text,mnist_10k"
    message = f"command line: {given} replaces only imdb, mnist; .* here are digits, none.*remove"
    function = functools.partial(expanded, overrides=[given])
    assert_error(message, function, "model=digits_rnn,adding")


def test_a_choice_may_have_interpolations_and_numeric_keys(expanded: Expand, extra: Path) -> None:
    (extra / "model" / "mine.py").write_text(MINE)
    text = f"{MINE_YAML}chunk: ${{model.batch}}\nrates: {{10: 0.1, 2: 0.2}}\n"
    (extra / "model" / "wide.yaml").write_text(text)
    small, large = expanded("model=wide model.batch=7,9 model.rates.2=0.3")
    assert (small.config["model"]["chunk"], large.config["model"]["chunk"]) == (7, 9)
    assert small.config["model"]["rates"] == {"10": 0.1, "2": 0.3}


def test_a_model_is_two_files_in_any_folder(expanded: Expand, tmp_path: Path) -> None:
    folder = tmp_path / "anywhere"
    folder.mkdir()
    (folder / "my model.yaml").write_text(
        "defaults: [digits_rnn, override /dataset@_global_.dataset: file, _self_]\n"
        "function: mine.py:build\ndata: {prepare: ./mine.py:prepare}\nunits: 3\n"
    )
    (folder / "mine.py").write_text("def build(k, r, c): ...\ndef prepare(s, c): ...\n")
    (point,) = expanded(f'model="{folder}/my model.yaml" dataset.path={ROOT}/data/x.npz')
    model = point.config["model"]
    assert point.name == "my_model-lstm-keras-cpu_1-current-x_a11e80-s0-r0"
    assert model["function"] == f"{folder}/mine.py:build"
    assert model["data"]["prepare"] == f"{folder}/mine.py:prepare"
    assert (model["name"], model["units"], model["recurrent"]) == ("my model", 3, True)
    assert point.config["dataset"]["name"] == "file"


def test_the_path_of_data_is_relative_to_the_file_that_contains_it(
    expanded: Expand, extra: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (extra / "experiment" / "a.npz").touch()
    (tmp_path / "b.npz").touch()
    grid = "model=digits_rnn dataset=file dataset.path="
    monkeypatch.chdir(tmp_path)

    def paths(text: str, **options: Any) -> list[str]:
        return [point.config["dataset"]["path"] for point in expanded(grid + text, **options)]

    absolute = f"{tmp_path}/b.npz"
    assert paths(f"a.npz,{absolute}") == [f"{extra}/experiment/a.npz", absolute]
    assert paths("a.npz", overrides=["dataset.path=b.npz"]) == [absolute]
    # In the project it is relative to the project, as in data.dvc; data may be fetched later.
    assert paths(f"{ROOT}/README.md,{ROOT}/data/x.npz") == ["README.md", "data/x.npz"]
    assert_error(r"b.npz: \S+/experiment/b.npz does not exist", paths, "b.npz")


def test_a_model_in_a_second_config_folder(expanded: Expand, extra: Path) -> None:
    (extra / "model" / "mlp.yaml").write_text(
        "defaults: [digits_rnn, _self_]\nrecurrent: false\nfunction: mlp.py:build\n"
    )
    (extra / "model" / "mlp.py").write_text("def build(k, r, c): ...\n")
    keras, none = expanded("model=mlp rnn=keras,none")
    assert keras.skip == "this model has no recurrent layer: it takes rnn=none"
    assert none.skip is None
    assert none.config["model"]["function"] == f"{extra}/model/mlp.py:build"


def test_the_published_scale_is_that_of_the_models_files(expanded: Expand) -> None:
    grid = "model=shape_short model.batch=1,2 model.val_samples=${model.batch} model.epochs=2"
    points = expanded(grid, overrides=["scale=published"])
    sizes = [[p.config["model"][key] for key in ("epochs", "val_samples")] for p in points]
    assert sizes == [[20, 1], [20, 2]]
    large = functools.partial(expanded, overrides=["scale=large"])
    assert_error("command line: scale is large", large, grid)


@pytest.mark.parametrize(
    ("grids", "message"),
    [
        (["rnn=kears"], "mean keras.*the choices of rnn are .*block, .*unrolled"),
        (["model.loss=" + "[" * 1400 + "]" * 1400], "is nested too deeply"),
        (["rnn=[keras"], r"from_grids.yaml, grid .rnn=\[keras.: .* is not an override"),
        (["+build.environment.x='a b','a_b'"], "two grid points have .*x='a b'.*x='a_b'.*alias="),
        (["model.batch=9", "+build.environment.batch=9"], "two grid points have .*model.batch=9"),
        (
            ["+build.environment.activation=null", "+rnn.options.activation=null"],
            "two grid points have .* one with build.*=None, the other with rnn.*=None",
        ),
        (["alias=[1]"], r"alias is \[1\]; it must be a text.*write alias=NAME"),
        (["model.loss=null model.optimizer=null"], "neither loss nor optimizer.*keep the loss"),
        (["+build.environment.x=true,'True'"], "not tell two .* one with .*=True, .*='True'"),
        (["seed=-1"], "must be an integer ≥ 0"),
        (["~seed"], "~seed adds or deletes"),
        (["+rnn=keras"], r"\+rnn adds or deletes an axis"),
        (["device.threads=0"], "device.threads is 0; it must be an integer ≥ 1"),
        (["limits.members=0"], "limits.members is 0; it must be an integer ≥ 1"),
        (["measure.warmup_seconds=-1"], "measure.warmup_seconds is -1.0; it must be a number ≥ 0"),
        (["device.kind=tpu"], "device.kind is 'tpu'; it must be one of cpu, gpu"),
        (["precision=half"], "precision is 'half'; it must be one of float32, mixed_bfloat16, "),
        (["+device.treads=2"], "unknown key 'device.treads'. .*did you mean device.threads=VALUE"),
        (["dataset=file"], "dataset.path has no value.*write dataset.path=VALUE"),
        (["model=/nowhere/mine.yaml"], "no such file"),
        (["model.function=nope.py:build"], "/conf/model/nope.py does not exist"),
        (["model.loss=${nope}"], "interpolation cannot be resolved"),
    ],
)
def test_an_invalid_grid_is_an_error(expanded: Expand, grids: list[str], message: str) -> None:
    assert_error(message, expanded, *grids)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", r"bad.yaml"),
        ("", r"bad.yaml: rnn has no implementation.*add implementation .mine.py"),
        ("# @package _global_\nmeasure: {warmup_steps: 3}\nrnn: {x: 1}", "outside its own section"),
        ("defaults: [nowhere]", "nowhere"),
        ("implementation: keras\nx: .nan", "rnn=bad.* cannot be composed: .*not JSON compliant"),
        ("implementation: keras\nx: !!binary aGk=", "rnn=bad.*cannot be composed: .*JSON"),
    ],
)
def test_an_invalid_choice_is_an_error(
    expanded: Expand, extra: Path, text: str, message: str
) -> None:
    (extra / "rnn" / "bad.yaml").write_text(text)
    assert_error(message, expanded, "rnn=keras,bad")
    assert not GlobalHydra.instance().is_initialized()
