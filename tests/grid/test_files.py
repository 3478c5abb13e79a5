"""User-supplied models and kernels: errors in their files are reported when a grid is read, with
file, key and fix."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml

from rnnbench.errors import ConfigError
from rnnbench.grid.choices import OPTIMIZERS
from rnnbench.grid.expand import expand
from rnnbench.grid.experiment import load_experiment
from rnnbench.grid.files import user_files
from rnnbench.grid.point import digest_of, full_identity
from rnnbench.planning.planner import make_plan
from tests.conftest import ROOT
from tests.grid.conftest import MINE, MINE_YAML
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


PYTHON = """
from somewhere import from_canonical
def make(keras, cell, units, options): ...
def to_canonical(layer, values=None): ...
"""
YAML = "implementation: mine.py\ncells: [lstm]\nkernels: [while]\noptions: {unroll: 4}\n"


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    folder = tmp_path / "anywhere"
    folder.mkdir()
    (folder / "mine.yaml").write_text(YAML)
    (folder / "mine.py").write_text(PYTHON)
    return folder


def test_a_kernel_is_two_files_in_any_folder(expanded, kernel: Path) -> None:
    grid = f"model=digits_rnn,mnist_mlp cell=lstm,gru rnn={kernel}/mine.yaml,keras device=cpu_1"
    points = [p for p in expanded(grid) if p.choices["rnn"] == "mine"]
    assert [(point.name, point.skip) for point in points] == [
        ("digits_rnn-lstm-mine-cpu_1-current-s0-r0", None),
        ("digits_rnn-gru-mine-cpu_1-current-s0-r0", "rnn=mine is for cell=lstm only"),
        (
            "mnist_mlp-lstm-mine-cpu_1-current-s0-r0",
            "this model has no recurrent layer: it takes rnn=none",
        ),
        ("mnist_mlp-gru-mine-cpu_1-current-s0-r0", "rnn=mine is for cell=lstm only"),
    ]
    assert points[0].config["rnn"]["implementation"] == f"{kernel}/mine.py"
    assert user_files(points[0].config) == {kernel / "mine.py"}


def test_a_path_in_a_grid_is_relative_to_the_choice(expanded, kernel: Path) -> None:
    (kernel / "other.py").write_text(PYTHON)
    grid = f"rnn={kernel}/mine.yaml device=cpu_1 rnn.implementation=other.py"
    (point,) = expanded(grid)
    assert point.config["rnn"]["implementation"] == f"{kernel}/other.py"
    with pytest.raises(ConfigError, match=r"missing.py: .*/anywhere/missing.py does not exist"):
        expanded(grid.replace("other", "missing"))


def test_dropout_that_is_not_in_options_skips_the_grid_point(expanded, kernel: Path) -> None:
    grid = f"model=imdb_lstm rnn={kernel}/mine.yaml device=cpu_1"
    (point,) = expanded(grid)
    assert point.skip == "rnn=mine has no dropout: its file does not list it in options"
    (kernel / "mine.yaml").write_text(YAML.replace("unroll: 4", "dropout: 0, recurrent_dropout: 0"))
    (point,) = expanded(grid)
    assert point.skip is None


def test_the_key_cells_is_not_part_of_the_identity(expanded, kernel: Path) -> None:
    def digest() -> str:
        (point,) = expanded(f"rnn={kernel}/mine.yaml device=cpu_1")
        return digest_of(full_identity(point.config, {}))

    before = digest()
    (kernel / "mine.yaml").write_text(YAML.replace("[lstm]", "[lstm, gru]"))
    assert digest() == before
    (kernel / "mine.yaml").write_text(YAML.replace("[while]", "null"))
    assert digest() != before


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "implementation: mine.py",
            "x: 1",
            "mine.yaml: rnn has no implementation. .*add implementation .mine.py.* keras, ",
        ),
        ("mine.py", "nine.py", "mine.yaml: nine.py: .*nine.py does not exist.*relative to the Y"),
        ("mine.py", "kears", "mine.yaml: rnn.implementation is 'kears'.*did you mean keras"),
        ("[lstm]", "[lsmt]", "mine.yaml: cells has the unknown name 'lsmt'.*mean lstm.*are gru, "),
        (
            "[lstm]",
            "lstm",
            r"mine.yaml: rnn.cells is 'lstm'; it must be a list.*write cells: .lstm.*null for",
        ),
        ("kernels", "kernel", "mine.yaml: unknown key 'kernel'.*did you mean kernels"),
        (
            "[while]",
            "[whlie]",
            "mine.yaml: rnn.kernels has the value 'whlie'; .* one of .*mean while",
        ),
        (
            "[while]",
            "{cpu: {lstm: [whlie]}}",
            "mine.yaml: rnn.kernels has the value 'whlie'; .*mean while",
        ),
        ("[while]", "[]", r"mine.yaml: rnn.kernels is \[\]; .*null for any kernel"),
        (
            "{unroll: 4}",
            "[unroll]",
            r"mine.yaml: rnn.options is \['unroll'\].*write options: {NAME: DEF",
        ),
        (
            "",
            "+rnn.options.unrol=3",
            "rnn=mine .*does not honour rnn.options.unrol; it honours unroll",
        ),
    ],
)
def test_an_invalid_yaml_file_is_a_one_line_error(
    expanded, kernel: Path, old: str, new: str, message: str
) -> None:
    grid = f"rnn={kernel}/mine.yaml device=cpu_1"
    if old:
        (kernel / "mine.yaml").write_text(YAML.replace(old, new))
    else:
        grid += f" {new}"
    with pytest.raises(ConfigError, match=message) as caught:
        expanded(grid)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        PYTHON.replace("def make", "try:\n  import a\nexcept ImportError: ...\nelse:\n def make"),
        "from elsewhere import *",
        "import other\nmake = other.make\nto_canonical, from_canonical = other.both",
    ],
)
def test_functions_may_be_imported(expanded, kernel: Path, text: str) -> None:
    (kernel / "mine.py").write_text(text)
    assert expanded(f"rnn={kernel}/mine.yaml device=cpu_1")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("def make", "def mkae", "mine.py: has no function make. .*docs/own_kernel.md"),
        ("import from_canonical", "import x", "mine.py: has no function from_canonical"),
        ("def make(", "def make(:", "mine.py: cannot be read as Python .*line 3"),
        ("units, options", "units", "mine.py, line 3: make cannot be called with 4 arguments"),
        (", values=None", "", "mine.py, line 4: to_canonical cannot be called with 2 arguments"),
        ("options)", "options, *, x)", "mine.py, line 3: make cannot be called with 4 arguments"),
    ],
)
def test_an_invalid_python_file_is_a_one_line_error(
    expanded, kernel: Path, old: str, new: str, message: str
) -> None:
    (kernel / "mine.py").write_text(PYTHON.replace(old, new))
    with pytest.raises(ConfigError, match=message) as caught:
        expanded(f"rnn={kernel}/mine.yaml device=cpu_1")
    assert "\n" not in str(caught.value)
