"""User-supplied models and kernels: errors in their files are reported when a grid is read, with
file, key and fix."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from rnnbench.errors import ConfigError
from rnnbench.grid.files import user_files
from rnnbench.grid.point import digest_of, full_identity
from tests.grid.conftest import MINE, MINE_YAML, assert_error

# What replaces the same keys of `MINE_YAML`.
ERRORS = [
    ("loss: null", "has no loss. Fix: add loss"),
    ("loss: mean_square_error", "must be one of KLD, .* Fix: did you mean mean_squared_error"),
    ("{batch: null, batchs: 32}", "has the key batchs, .* Fix: did you mean batch"),
    ("metric: [accuracy]", "has the key metric, .* Fix: did you mean metrics"),
    ("optimizer: adam", r"optimizer is 'adam'; .* Fix: write optimizer: {name: adam, lear"),
    ("optimizer: {learning_rate: 1}", "optimizer has no name. Fix: add name"),
    ("optimizer: {name: adm}", "name is 'adm'; .* one of sgd, .* Fix: did you mean adam"),
    ("optimizer: {name: adam, learningrate: 1}", "Fix: did you mean learning_rate"),
    ("optimizer: {name: sgd, beta_1: 1}", "key 'beta_1' in model.optimizer=sgd. Fix: the keys are"),
    ("recurrent: yes please", "'yes please'; it must be true or false. Fix: write true"),
    ("data: null", "has no data"),
    (
        "data: {prepair: mine.py:prepare}",
        "unknown key 'prepair' in model.data. Fix: did you mean prepare",
    ),
    ("data: mine.py:prepare", "Fix: write data: {prepare: mine.py:prepare}"),
    ("function: mine.py", "is '.*mine.py'; it must be like .* Fix: write function: mine.py:NAME"),
    ("function: mine.py:bild", r"no function bild. Fix: did you mean build"),
    ("data: {prepare: mine.py:load}", r"data.prepare: .*mine.py has no function load"),
    ("function: other.py:build", "other.py does not exist"),
    ("function: broken.py:build", r"broken.py: cannot be read as Python"),
    ("function: rnnworker.models.digits_rnn:bild", "no function bild. Fix: did you mean build"),
    ("class_weight: {0: x}", "model.class_weight.0 is 'x'; it must be a num"),
    ("epochs: 0", "mine.yaml: model.epochs is 0; it must be an integer ≥ 1"),
    ("epochs: five", "mine.yaml: model.epochs is 'five'; it must be an integer"),
]


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "broken.py").write_text("def build(:")
    (tmp_path / "mine.yaml").write_text(MINE_YAML)
    return tmp_path / "mine.yaml"


def change(mine: Path, text: str) -> None:
    """Changes keys of the YAML file; null removes a key."""
    model = {**yaml.safe_load(MINE_YAML), **yaml.safe_load(text)}
    mine.write_text(yaml.safe_dump({key: v for key, v in model.items() if v is not None}))


def test_a_loss_without_an_optimizer_is_completed_as_its_fix_says(expanded, tmp_path: Path) -> None:
    own, data = tmp_path / "own.py", tmp_path / "own.npz"
    own.write_text("def build(keras): ...\n")
    data.write_bytes(b"")
    grid = f"model={own} dataset.path={data} rnn=keras model.loss=mse"
    with pytest.raises(ConfigError, match="model has no optimizer") as caught:
        expanded(grid)
    fix = re.search(r"'(model\.optimizer=.*?)'", caught.value.remedy)[1]
    (point,) = expanded(f"{grid} {fix}")
    assert point.config["model"]["optimizer"] == {"name": "adam", "learning_rate": 0.001}


@pytest.mark.parametrize(("text", "message"), ERRORS)
def test_an_invalid_model_is_an_error(expanded, mine: Path, text: str, message: str) -> None:
    change(mine, text)
    assert_error(message, expanded, f"model={mine}")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("model.optimizer.name=adm", "did you mean adam"),
        (
            "+model.optimizer.rate=1",
            "unknown key 'model.optimizer.rate'.*keys of model.optimizer are",
        ),
        ("model.function={}/mine.py:bild", "did you mean build"),
    ],
)
def test_overrides_are_checked_too(expanded, mine: Path, override: str, message: str) -> None:
    assert_error(message, expanded, f"model={mine} {override.format(mine.parent)}")


def test_a_model_may_have_further_keys(expanded, mine: Path) -> None:
    data = "data: {prepare: a.package.of.mine:prepare}"
    change(
        mine, f"{data}\noptimizer: {{name: Adam, learning_rate: 1}}\ndepth: 3\nbatch: ${{repeat}}"
    )
    (point,) = expanded(f"model={mine} repeat=7")
    assert (point.config["model"]["batch"], point.config["model"]["depth"]) == (7, 3)


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
    grid = f"model=digits_rnn,mnist_mlp cell=lstm,gru rnn={kernel}/mine.yaml,keras"
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
    grid = f"rnn={kernel}/mine.yaml rnn.implementation=other.py"
    (point,) = expanded(grid)
    assert point.config["rnn"]["implementation"] == f"{kernel}/other.py"
    message = "missing.py: .*/anywhere/missing.py does not exist"
    assert_error(message, expanded, grid.replace("other", "missing"))


def test_options_that_a_kernel_does_not_list(expanded, kernel: Path) -> None:
    grid = f"model=imdb_lstm rnn={kernel}/mine.yaml"
    (point,) = expanded(grid)
    assert point.skip == "rnn=mine has no dropout: its file does not list it in options"
    message = (
        "rnn=mine .*does not honour rnn.options.unrol; it honours unroll.*mean rnn.options.unroll"
    )
    assert_error(message, expanded, f"rnn={kernel}/mine.yaml +rnn.options.unrol=3")
    (kernel / "mine.yaml").write_text(YAML.replace("unroll: 4", "dropout: 0, recurrent_dropout: 0"))
    (point,) = expanded(grid)
    assert point.skip is None


def test_the_key_cells_is_not_part_of_the_identity(expanded, kernel: Path) -> None:
    def digest() -> str:
        (point,) = expanded(f"rnn={kernel}/mine.yaml")
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
            "about: mine",
            "rnn has no impl.* add implementation .mine.py.* keras",
        ),
        ("mine.py", "nine.py", "nine.py: .*nine.py does not exist.*relative to the YAML"),
        ("mine.py", "kears", "rnn.implementation is 'kears'.*did you mean keras"),
        ("[lstm]", "[lsmt]", "cells has the unknown name 'lsmt'.*mean lstm.*are gru, "),
        ("[lstm]", "lstm", "cells is 'lstm'; it must be a list.*write cells: .lstm.*null for"),
        ("kernels", "kernel", "unknown key 'kernel'.*did you mean kernels"),
        ("[while]", "[whlie]", "rnn.kernels has the value 'whlie'; .* one of .*mean while"),
        (
            "[while]",
            "{cpu: {lstm: [whlie]}}",
            "rnn.kernels.cpu.lstm has the value 'whlie'.*mean while",
        ),
        ("[while]", "[]", r"rnn.kernels is \[\]; .*null for any kernel"),
        ("{unroll: 4}", "[unroll]", r"rnn.options is \['unroll'\].*write options: {NAME: DEF"),
    ],
)
def test_an_invalid_yaml_file_of_a_kernel_is_an_error(
    expanded, kernel: Path, old: str, new: str, message: str
) -> None:
    (kernel / "mine.yaml").write_text(YAML.replace(old, new))
    assert_error(f"mine.yaml: .*{message}", expanded, f"rnn={kernel}/mine.yaml")


@pytest.mark.parametrize(
    "text",
    [
        PYTHON.replace("def make", "try:\n  import a\nexcept ImportError: ...\nelse:\n def make"),
        "class Kernel:\n    def inner_loop(self, *arguments): ...",
        "from elsewhere import Kernel",
        "from elsewhere import *",
        "import other\nmake = other.make\nto_canonical, from_canonical = other.both",
        "import other\nmake: Callable = other.make\n(to_canonical, *from_canonical) = other.all",
        "with open('x') as make, open('y') as (to_canonical, from_canonical): ...",
        "for make in (1,):\n  for to_canonical, from_canonical in (): ...",
        "try: ...\nexcept ImportError:\n  def make(*all): ...\nfinally:\n"
        "  while True:\n    to_canonical = from_canonical = make",
        "match x:\n  case [make, *to_canonical]:\n    if (from_canonical := 3): ...",
        "make = [(from_canonical := n) for n in 'x']\nimport to_canonical.of",
    ],
)
def test_functions_may_be_imported(expanded, kernel: Path, text: str) -> None:
    (kernel / "mine.py").write_text(text)
    assert expanded(f"rnn={kernel}/mine.yaml")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("def make", "def mkae", "mine.py: has no class Kernel and no function make. .*docs/own_"),
        ("import from_canonical", "import x", "no function from_canonical"),
        ("def make(keras, cell, units, options): ...", "make: int", "no function make"),
        ("def make(keras, cell, units, options): ...", "x = [make for make in y]", "function make"),
        ("def make(", "def make(:", "mine.py: cannot be read as Python .*line 3"),
        ("units, options", "units", "mine.py, line 3: make cannot be called with 4 arguments"),
        (", values=None", "", "mine.py, line 4: to_canonical cannot be called with 2 arguments"),
        ("options)", "options, *, x)", "mine.py, line 3: make cannot be called with 4 arguments"),
    ],
)
def test_an_invalid_python_file_of_a_kernel_is_an_error(
    expanded, kernel: Path, old: str, new: str, message: str
) -> None:
    (kernel / "mine.py").write_text(PYTHON.replace(old, new))
    assert_error(message, expanded, f"rnn={kernel}/mine.yaml")
