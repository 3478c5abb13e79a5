import sys
from pathlib import Path

import pytest

from rnnbench.builds.launcher import environment, launcher
from rnnbench.errors import ConfigError

HERE = Path(sys.executable)


def test_no_python_means_the_running_one(tmp_path: Path) -> None:
    assert launcher({"name": "current", "python": None}, tmp_path) == (sys.executable,)


def test_a_path_is_taken_as_it_is_written_links_included(tmp_path: Path) -> None:
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "python").symlink_to(HERE.resolve())
    expected = (str(tmp_path / "env" / "python"),)
    assert launcher({"python": expected[0]}, Path("/")) == expected
    assert launcher({"python": "env/python"}, tmp_path) == expected


def test_a_command_is_split_like_a_shell_does(tmp_path: Path) -> None:
    start = launcher({"command": f"{HERE} -X 'a b'"}, tmp_path)
    assert start == (str(HERE), "-X", "a b")


@pytest.mark.parametrize(
    ("build", "told"),
    [
        ({"python": "/nowhere/python"}, "/nowhere/python is not a program"),
        ({"python": "no-such-python-9"}, "no-such-python-9 is not a program"),
        ({"command": "no-such-container exec python"}, "no-such-container is not a program"),
        ({"command": "'open"}, "cannot be split"),
        ({"command": "  "}, "blank"),
        ({"python": "python3", "command": "python3"}, "both"),
    ],
)
def test_what_cannot_start_is_told_with_its_file(build: dict, told: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=told) as caught:
        launcher({"name": "mine", **build}, tmp_path)
    assert str(caught.value).startswith("conf/build/mine.yaml: ")
    assert "Fix: " in str(caught.value)


def test_environment_is_text() -> None:
    build = {"environment": {"TF_ENABLE_ONEDNN_OPTS": 0, "A": True, "B": None, "C": "x"}}
    assert environment(build) == {"TF_ENABLE_ONEDNN_OPTS": "0", "A": "1", "B": "", "C": "x"}
    assert environment({}) == environment({"environment": None}) == {}


@pytest.mark.parametrize("variables", [["A=1"], {"A": [1]}])
def test_environment_that_is_no_mapping_of_values(variables: object) -> None:
    with pytest.raises(ConfigError, match="environment"):
        environment({"name": "mine", "environment": variables})
