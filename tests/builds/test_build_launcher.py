from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from rnnbench.builds import launcher as starting
from rnnbench.builds.launcher import environment, launcher, lock_of, missing, versions
from rnnbench.builds.pins import build_of
from rnnbench.errors import BuildError, ConfigError
from rnnbench.grid.choices import Build

PYTHON = Path(sys.executable)
CURRENT = Build(name="current", framework="keras3_tensorflow")


def test_the_command_that_starts_the_python_of_a_build(tmp_path: Path) -> None:
    assert launcher(CURRENT, tmp_path) == (sys.executable,)
    # A path is not resolved: it may be the link of an environment.
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "python").symlink_to(PYTHON.resolve())
    expected = (str(tmp_path / "env" / "python"),)
    assert launcher(replace(CURRENT, python=expected[0]), Path("/")) == expected
    assert launcher(replace(CURRENT, python="env/python"), tmp_path) == expected
    # A command is split as by a shell.
    command = launcher(replace(CURRENT, command=f"{PYTHON} -X 'a b'"), tmp_path)
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
        launcher(Build(name="mine", framework="fake", **build), tmp_path)
    assert str(caught.value).startswith("conf/build/mine.yaml: ")
    assert "Fix: " in str(caught.value)


def test_environment_values_are_strings() -> None:
    variables = {"TF_ENABLE_ONEDNN_OPTS": 0, "A": True, "B": None, "C": "x"}
    assert environment(replace(CURRENT, environment=variables)) == {
        "TF_ENABLE_ONEDNN_OPTS": "0",
        "A": "1",
        "B": "",
        "C": "x",
    }
    assert environment(CURRENT) == environment(replace(CURRENT, environment={})) == {}


@pytest.mark.parametrize("variables", [["A=1"], {"A": [1]}])
def test_environment_must_be_a_mapping_of_values(variables: object) -> None:
    with pytest.raises(ConfigError, match="environment"):
        build_of({"name": "mine", "framework": "fake", "environment": variables})


@pytest.fixture(autouse=True)
def _clear_cache() -> None:
    starting._foreign.cache_clear()


def fake_build(folder: Path, script: str) -> Build:
    """A build whose Python is a shell script; it logs each call to the file ``calls``."""
    program = folder / "python"
    program.write_text(f"#!/bin/sh\necho called >>{folder}/calls\n{script}\n")
    program.chmod(0o755)
    return Build(name="fake", framework="keras3_tensorflow", python=str(program))


def with_distributions(folder: Path, **versions: str) -> Build:
    pairs = ", ".join(f'"{name.replace("_", "-")}": "{v}"' for name, v in versions.items())
    return fake_build(
        folder, f"""echo noise; echo '{{"python": "3.7.9", "distributions": {{{pairs}}}}}'"""
    )


def test_the_running_interpreter_is_described_without_importing_a_framework() -> None:
    code = (
        "import sys; from rnnbench.builds.launcher import versions\n"
        "from rnnbench.grid.choices import Build\n"
        "print('numpy' in versions(Build(framework='fake')).distributions,"
        " {'tensorflow', 'keras', 'numpy', 'torch', 'jax'} & set(sys.modules))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "True set()", result.stderr


def test_a_subprocess_reports_the_same_versions() -> None:
    subprocess_build = replace(CURRENT, environment={"PYTHONDONTWRITEBYTECODE": 1})
    assert versions(subprocess_build) == versions(CURRENT)
    assert lock_of(subprocess_build) == lock_of(CURRENT)
    assert starting._foreign.cache_info().misses == 1


def test_a_lock_depends_on_versions_not_on_the_location_and_runs_a_python_once(
    tmp_path: Path,
) -> None:
    builds = []
    for name, version in (("first", "3.1"), ("same", "3.1"), ("newer", "3.2")):
        (tmp_path / name).mkdir()
        builds.append(with_distributions(tmp_path / name, keras=version))
    first, same, newer = builds
    assert lock_of(first) == lock_of(first) == lock_of(same) != lock_of(newer)
    assert (tmp_path / "first/calls").read_text() == "called\n"


@pytest.mark.parametrize("script", ["exit 3", "echo nonsense", "true"])
def test_a_python_that_reports_no_versions(script: str, tmp_path: Path) -> None:
    build = fake_build(tmp_path, script)
    with pytest.raises(BuildError, match="does not report its versions"):
        lock_of(build)
    assert "does not report its versions" in str(missing(build))


def test_an_old_python_reports_its_version() -> None:
    python = Path.home() / ".pyenv/versions/3.6.15/bin/python"
    if not python.exists():
        pytest.skip(f"no Python 3.6 at {python}")
    assert versions(replace(CURRENT, python=str(python))).python == "3.6.15"


def test_nothing_is_missing(tmp_path: Path) -> None:
    assert missing(CURRENT) is None
    assert missing(Build(name="fake", framework="fake")) is None
    # TensorFlow has two names.
    assert missing(with_distributions(tmp_path, keras="3.1", tensorflow_cpu="2.21.0")) is None


def test_a_missing_package_has_an_install_hint(tmp_path: Path) -> None:
    build = with_distributions(tmp_path, keras="2.6.0", tensorflow="2.21.0")
    python = build.python
    assert missing(build) == (
        f"keras3_tensorflow needs keras 3.x in {python} (it has keras 2.6.0). "
        f"Install 'keras==3.*' there: uv pip install --python {python} 'keras==3.*'"
    )
    why = str(missing(replace(CURRENT, python="/nowhere/python")))
    assert "is not an executable program" in why and "Fix: " not in why


def test_an_unknown_framework_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match=r"mine.yaml: .*'keras9'.*fake, .*keras3_tensorflow"):
        build_of({"name": "mine", "framework": "keras9"})
