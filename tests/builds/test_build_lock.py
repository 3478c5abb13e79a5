import subprocess
import sys
from pathlib import Path

import pytest

from rnnbench.builds import lock
from rnnbench.builds.lock import lock_of, versions
from rnnbench.builds.missing import missing
from rnnbench.errors import BuildError, ConfigError

CURRENT = {"name": "current", "framework": "keras3_tensorflow", "python": None}


@pytest.fixture(autouse=True)
def _forget() -> None:
    lock._foreign.cache_clear()


def answering(folder: Path, answer: str) -> dict:
    """A build whose Python answers every question with `answer` and counts them in a file."""
    program = folder / "python"
    program.write_text(f"#!/bin/sh\necho asked >>{folder}/asked\n{answer}\n")
    program.chmod(0o755)
    return {"name": "pretended", "framework": "keras3_tensorflow", "python": str(program)}


def with_distributions(folder: Path, **found: str) -> dict:
    pairs = ", ".join(f'"{name.replace("_", "-")}": "{version}"' for name, version in found.items())
    return answering(
        folder, f"""echo noise; echo '{{"python": "3.7.9", "distributions": {{{pairs}}}}}'"""
    )


def test_the_running_interpreter_is_described_without_importing_a_framework() -> None:
    code = (
        "import sys; from rnnbench.builds.lock import versions\n"
        "print('numpy' in versions({})['distributions'],"
        " {'tensorflow', 'keras', 'numpy', 'torch', 'jax'} & set(sys.modules))"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert answer.stdout.strip() == "True set()", answer.stderr


def test_asked_from_outside_it_says_the_same() -> None:
    outside = {**CURRENT, "environment": {"PYTHONDONTWRITEBYTECODE": 1}}
    assert versions(outside) == versions(CURRENT)
    assert lock_of(outside) == lock_of(CURRENT)
    assert lock._foreign.cache_info().misses == 1


def test_a_lock_changes_with_a_version_and_not_with_the_place(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "two", "three")]
    for folder in folders:
        folder.mkdir()
    one, two, three = (
        with_distributions(folder, keras=version)
        for folder, version in zip(folders, ("3.1", "3.1", "3.2"), strict=True)
    )
    assert lock_of(one) == lock_of(two) != lock_of(three)


def test_a_foreign_python_is_asked_once(tmp_path: Path) -> None:
    build = with_distributions(tmp_path, keras="3.1")
    assert lock_of(build) == lock_of(build)
    assert (tmp_path / "asked").read_text() == "asked\n"


def test_paths_into_what_a_bundle_carries_are_not_taken_here(tmp_path: Path) -> None:
    build = with_distributions(tmp_path, keras="3.1")
    build["environment"] = {"PATH": "{packages}/bin"}
    program = Path(build["python"])
    program.write_text(program.read_text().replace("#!/bin/sh", "#!/usr/bin/env sh"))
    assert versions(build)["distributions"] == {"keras": "3.1"}


@pytest.mark.parametrize("answer", ["exit 3", "echo nonsense", "true"])
def test_a_python_that_cannot_answer(answer: str, tmp_path: Path) -> None:
    build = answering(tmp_path, answer)
    with pytest.raises(BuildError, match="says nothing about itself") as caught:
        lock_of(build)
    assert "\n" not in str(caught.value)
    assert "says nothing about itself" in str(missing(build))


def test_old_pythons_can_be_asked() -> None:
    old = Path.home() / ".pyenv/versions/3.6.15/bin/python"
    if not old.exists():
        pytest.skip(f"no Python 3.6 at {old}")
    assert versions({"python": str(old)})["python"] == "3.6.15"


def test_nothing_is_missing() -> None:
    assert missing(CURRENT) is None
    assert missing({"name": "fake", "framework": "fake"}) is None


def test_tensorflow_may_come_under_either_name(tmp_path: Path) -> None:
    assert missing(with_distributions(tmp_path, keras="3.1", tensorflow_cpu="2.21.0")) is None


def test_what_is_missing_is_told_with_what_to_install(tmp_path: Path) -> None:
    build = with_distributions(tmp_path, keras="2.6.0", tensorflow="2.21.0")
    python = build["python"]
    assert missing(build) == (
        f"keras3_tensorflow needs keras 3.x in {python} (it has keras 2.6.0). "
        f"Install 'keras==3.*' there: uv pip install --python {python} 'keras==3.*'"
    )
    assert "is not a program" in str(missing({**CURRENT, "python": "/nowhere/python"}))


def test_an_unknown_framework_is_a_mistake() -> None:
    with pytest.raises(ConfigError, match=r"'keras9'.*keras3_tensorflow, .*fake"):
        missing({"name": "mine", "framework": "keras9"})
