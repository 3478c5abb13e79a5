"""A kernel of the user's own: what can be wrong with its two files is told when a grid is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from rnnbench.errors import ConfigError
from rnnbench.grid.expand import expand
from rnnbench.grid.functions import own_files
from rnnbench.grid.identity import digest_of, identity_of

PYTHON = """
from somewhere import from_canonical
def make(keras, cell, units, options): ...
def to_canonical(layer, values=None): ...
"""
YAML = "implementation: mine.py\ncells: [lstm]\nkernels: [while]\noptions: {unroll: 4}\n"


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    home = tmp_path / "anywhere"
    home.mkdir()
    (home / "mine.yaml").write_text(YAML)
    (home / "mine.py").write_text(PYTHON)
    return home


def test_a_kernel_is_two_files_anywhere(ask, conf, mine: Path) -> None:
    grid = f"model=digits_rnn,mnist_mlp cell=lstm,gru rnn={mine}/mine.yaml,keras device=cpu_1"
    own = [cell for cell in expand(ask(grid), conf) if cell.choices["rnn"] == "mine"]
    assert [(cell.name, cell.skip) for cell in own] == [
        ("digits_rnn-lstm-mine-cpu_1-current-s0-r0", None),
        ("digits_rnn-gru-mine-cpu_1-current-s0-r0", "rnn=mine is for cell=lstm only"),
        (
            "mnist_mlp-lstm-mine-cpu_1-current-s0-r0",
            "this model has no recurrent layer: it takes rnn=none",
        ),
        ("mnist_mlp-gru-mine-cpu_1-current-s0-r0", "rnn=mine is for cell=lstm only"),
    ]
    assert own[0].config["rnn"]["implementation"] == f"{mine}/mine.py"
    assert own_files(own[0].config) == {mine / "mine.py"}


def test_a_path_in_a_grid_is_relative_to_the_choice(ask, conf, mine: Path) -> None:
    (mine / "other.py").write_text(PYTHON)
    grid = f"rnn={mine}/mine.yaml device=cpu_1 rnn.implementation=other.py"
    (cell,) = expand(ask(grid), conf)
    assert cell.config["rnn"]["implementation"] == f"{mine}/other.py"
    with pytest.raises(ConfigError, match=r"missing.py: there is no /.*/anywhere/missing.py"):
        expand(ask(grid.replace("other", "missing")), conf)


def test_dropout_that_is_not_listed_skips_the_cell(ask, conf, mine: Path) -> None:
    grid = f"model=imdb_lstm rnn={mine}/mine.yaml device=cpu_1"
    (cell,) = expand(ask(grid), conf)
    assert cell.skip == "rnn=mine has no dropout: its file does not list it in options"
    (mine / "mine.yaml").write_text(YAML.replace("unroll: 4", "dropout: 0, recurrent_dropout: 0"))
    (cell,) = expand(ask(grid), conf)
    assert cell.skip is None


def test_which_cells_it_is_for_reruns_nothing(ask, conf, mine: Path) -> None:
    def digest() -> str:
        (cell,) = expand(ask(f"rnn={mine}/mine.yaml device=cpu_1"), conf)
        return digest_of(identity_of(cell.config, None, None, ""))

    before = digest()
    (mine / "mine.yaml").write_text(YAML.replace("[lstm]", "[lstm, gru]"))
    assert digest() == before
    (mine / "mine.yaml").write_text(YAML.replace("[while]", "null"))
    assert digest() != before


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("implementation: mine.py", "x: 1", "mine.yaml: has no implementation. .*add implementati"),
        ("mine.py", "nine.py", "mine.yaml: nine.py: there is no /.*nine.py.*relative to the YAML"),
        ("mine.py", "kears", "mine.yaml: rnn.implementation is 'kears'.*did you mean keras"),
        ("[lstm]", "[lsmt]", "mine.yaml: cells has 'lsmt'.*did you mean lstm.*one of gru, "),
        ("[lstm]", "lstm", r"mine.yaml: cells is 'lstm'.*write a list"),
        ("kernels", "kernel", "mine.yaml: nothing reads kernel.*did you mean kernels"),
        ("[while]", "[whlie]", "mine.yaml: kernels has 'whlie'.*did you mean while"),
        ("[while]", "{cpu: {lstm: [whlie]}}", "mine.yaml: kernels has 'whlie'"),
        ("[while]", "[]", r"mine.yaml: kernels is \[\].*or null for whatever is found"),
        ("{unroll: 4}", "[unroll]", r"mine.yaml: options is \['unroll'\].*write options:"),
        (
            "",
            "+rnn.options.unrol=3",
            "rnn=mine .*does not honour rnn.options.unrol; it honours unroll",
        ),
    ],
)
def test_a_bad_yaml_is_one_line(ask, conf, mine: Path, old: str, new: str, message: str) -> None:
    grid = f"rnn={mine}/mine.yaml device=cpu_1"
    if old:
        (mine / "mine.yaml").write_text(YAML.replace(old, new))
    else:
        grid += f" {new}"
    with pytest.raises(ConfigError, match=message) as caught:
        expand(ask(grid), conf)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        PYTHON.replace("def make", "try:\n  import a\nexcept ImportError: ...\nelse:\n def make"),
        "from elsewhere import *",
        "import other\nmake = other.make\nto_canonical, from_canonical = other.both",
    ],
)
def test_functions_may_come_from_elsewhere(ask, conf, mine: Path, text: str) -> None:
    (mine / "mine.py").write_text(text)
    assert expand(ask(f"rnn={mine}/mine.yaml device=cpu_1"), conf)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("def make", "def mkae", "mine.py: has no function make. .*docs/own_kernel.md"),
        ("import from_canonical", "import x", "mine.py: has no function from_canonical"),
        ("def make(", "def make(:", "mine.py: cannot be read as Python: .*line 3"),
        ("units, options", "units", "mine.py, line 3: make cannot be called with 4 arguments"),
        (", values=None", "", "mine.py, line 4: to_canonical cannot be called with 2 arguments"),
        ("options)", "options, *, x)", "mine.py, line 3: make cannot be called with 4 arguments"),
    ],
)
def test_a_bad_python_file_is_one_line(
    ask, conf, mine: Path, old: str, new: str, message: str
) -> None:
    (mine / "mine.py").write_text(PYTHON.replace(old, new))
    with pytest.raises(ConfigError, match=message) as caught:
        expand(ask(f"rnn={mine}/mine.yaml device=cpu_1"), conf)
    assert "\n" not in str(caught.value)
