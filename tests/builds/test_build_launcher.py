import sys
from pathlib import Path

import pytest

from rnnbench.builds.launcher import environment, launcher
from rnnbench.errors import ConfigError

PYTHON = Path(sys.executable)


def test_without_a_python_it_is_the_running_one(tmp_path: Path) -> None:
    assert launcher({"name": "current", "python": None}, tmp_path) == (sys.executable,)


def test_a_path_is_not_resolved(tmp_path: Path) -> None:
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "python").symlink_to(PYTHON.resolve())
    expected = (str(tmp_path / "env" / "python"),)
    assert launcher({"python": expected[0]}, Path("/")) == expected
    assert launcher({"python": "env/python"}, tmp_path) == expected


def test_a_command_is_split_as_by_a_shell(tmp_path: Path) -> None:
    command = launcher({"command": f"{PYTHON} -X 'a b'"}, tmp_path)
    assert command == (str(PYTHON), "-X", "a b")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        ({"python": "/nowhere/python"}, "/nowhere/python is not an executable"),
        ({"python": "no-such-python-9"}, "no-such-python-9 is not an executable"),
        ({"command": "no-such-container exec python"}, "no-such-container is not an executable"),
        ({"command": "'open"}, "cannot be split"),
        ({"command": "  "}, "blank"),
        ({"python": "python3", "command": "python3"}, "both"),
    ],
)
def test_a_program_that_cannot_start_is_an_error(build: dict, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        launcher({"name": "mine", **build}, tmp_path)
    assert str(caught.value).startswith("conf/build/mine.yaml: ")
    assert "Fix: " in str(caught.value)


def test_environment_values_are_strings() -> None:
    build = {"environment": {"TF_ENABLE_ONEDNN_OPTS": 0, "A": True, "B": None, "C": "x"}}
    assert environment(build) == {"TF_ENABLE_ONEDNN_OPTS": "0", "A": "1", "B": "", "C": "x"}
    assert environment({}) == environment({"environment": None}) == {}


@pytest.mark.parametrize("variables", [["A=1"], {"A": [1]}])
def test_environment_must_be_a_mapping_of_values(variables: object) -> None:
    with pytest.raises(ConfigError, match="environment"):
        environment({"name": "mine", "environment": variables})
