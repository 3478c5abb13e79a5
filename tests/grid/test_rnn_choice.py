"""A user-supplied kernel: errors in its two files are reported when a grid is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from rnnbench.errors import ConfigError
from rnnbench.grid.own_code import user_files
from rnnbench.grid.point import digest_of, identity_of

PYTHON = """
from somewhere import from_canonical
def make(keras, cell, units, options): ...
def to_canonical(layer, values=None): ...
"""
YAML = "implementation: mine.py\ncells: [lstm]\nkernels: [while]\noptions: {unroll: 4}\n"


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    folder = tmp_path / "anywhere"
    folder.mkdir()
    (folder / "mine.yaml").write_text(YAML)
    (folder / "mine.py").write_text(PYTHON)
    return folder


def test_a_kernel_is_two_files_in_any_folder(expanded, mine: Path) -> None:
    grid = f"model=digits_rnn,mnist_mlp cell=lstm,gru rnn={mine}/mine.yaml,keras device=cpu_1"
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
    assert points[0].config["rnn"]["implementation"] == f"{mine}/mine.py"
    assert user_files(points[0].config) == {mine / "mine.py"}


def test_a_path_in_a_grid_is_relative_to_the_choice(expanded, mine: Path) -> None:
    (mine / "other.py").write_text(PYTHON)
    grid = f"rnn={mine}/mine.yaml device=cpu_1 rnn.implementation=other.py"
    (point,) = expanded(grid)
    assert point.config["rnn"]["implementation"] == f"{mine}/other.py"
    with pytest.raises(ConfigError, match=r"missing.py: .*/anywhere/missing.py does not exist"):
        expanded(grid.replace("other", "missing"))


def test_dropout_that_is_not_in_options_skips_the_grid_point(expanded, mine: Path) -> None:
    grid = f"model=imdb_lstm rnn={mine}/mine.yaml device=cpu_1"
    (point,) = expanded(grid)
    assert point.skip == "rnn=mine has no dropout: its file does not list it in options"
    (mine / "mine.yaml").write_text(YAML.replace("unroll: 4", "dropout: 0, recurrent_dropout: 0"))
    (point,) = expanded(grid)
    assert point.skip is None


def test_the_key_cells_is_not_part_of_the_identity(expanded, mine: Path) -> None:
    def digest() -> str:
        (point,) = expanded(f"rnn={mine}/mine.yaml device=cpu_1")
        return digest_of(identity_of(point.config, None, None, ""))

    before = digest()
    (mine / "mine.yaml").write_text(YAML.replace("[lstm]", "[lstm, gru]"))
    assert digest() == before
    (mine / "mine.yaml").write_text(YAML.replace("[while]", "null"))
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
    expanded, mine: Path, old: str, new: str, message: str
) -> None:
    grid = f"rnn={mine}/mine.yaml device=cpu_1"
    if old:
        (mine / "mine.yaml").write_text(YAML.replace(old, new))
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
def test_functions_may_be_imported(expanded, mine: Path, text: str) -> None:
    (mine / "mine.py").write_text(text)
    assert expanded(f"rnn={mine}/mine.yaml device=cpu_1")


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
def test_an_invalid_python_file_is_a_one_line_error(
    expanded, mine: Path, old: str, new: str, message: str
) -> None:
    (mine / "mine.py").write_text(PYTHON.replace(old, new))
    with pytest.raises(ConfigError, match=message) as caught:
        expanded(f"rnn={mine}/mine.yaml device=cpu_1")
    assert "\n" not in str(caught.value)
