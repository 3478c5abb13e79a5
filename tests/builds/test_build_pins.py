"""Pins of locked builds, and checks of the lock files in this repository."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from msgspec.structs import replace

from rnnbench.builds import launcher as starting
from rnnbench.builds.launcher import FRAMEWORKS, launcher, lock_of, missing, versions
from rnnbench.builds.pins import (
    LOCKS,
    build_named,
    lock_without,
    locked_versions,
    pins,
    pins_of,
    python_versions,
)
from rnnbench.errors import ConfigError
from rnnbench.grid.choices import Build
from tests.conftest import ROOT

LOCK = """\
# a comment
numpy==1.18.5 \\
    --hash=sha256:00
tensorflow-cpu==2.21.0 ; sys_platform == "linux" \\
    --hash=sha256:01 \\
    --hash=sha256:02
tf-keras==2.21.0 \\
    --hash=sha256:03
"""
BUILD = Build(name="old", framework="keras2_tensorflow2", lock="old", python="3.7")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / LOCKS).mkdir(parents=True)
    (tmp_path / LOCKS / "old.lock").write_text(LOCK)
    return tmp_path


def test_the_lock_is_known_before_anything_is_installed(root: Path) -> None:
    pins = pins_of(BUILD, root)
    assert pins is not None
    flags = replace(BUILD, name="flags", environment={"TF_ENABLE_ONEDNN_OPTS": 0})
    assert pins_of(flags, root) == pins, "builds that differ in flags share an environment"
    assert lock_of(BUILD, root) == pins.digest
    assert pins.key == f"old-{pins.digest[:8]}"
    assert launcher(BUILD, root) == (f"{root}/results/envs/{pins.key}/bin/python",)
    assert versions(BUILD, root) == starting.Versions(
        "3.7", {"numpy": "1.18.5", "tensorflow-cpu": "2.21.0", "tf_keras": "2.21.0"}
    )


def test_the_digest_covers_packages_python_and_wheel(root: Path, tmp_path_factory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    digest = pins(root / LOCKS / "old.lock", "3.7", None).digest
    (elsewhere / "old.lock").write_text(LOCK.replace("# a comment", "# another"))
    assert pins(elsewhere / "old.lock", "3.7", None).digest == digest
    (elsewhere / "new.lock").write_text(LOCK.replace("1.18.5", "1.18.4"))
    assert pins(elsewhere / "new.lock", "3.7", None).digest != digest
    assert pins(root / LOCKS / "old.lock", "3.8", None).digest != digest
    mine = root / "mine-1-py3-none-any.whl"
    mine.write_bytes(b"1")
    assert pins(root / LOCKS / "old.lock", "3.7", mine).digest != digest


def test_a_wheel_replaces_distributions_with_its_import_name(root: Path) -> None:
    name = "tensorflow-2.21.0+mine-cp311-cp311-linux_x86_64.whl"
    (root / name).write_bytes(b"1")
    pins = pins_of(replace(BUILD, wheel=name), root)
    assert pins is not None
    assert locked_versions(pins) == {
        "numpy": "1.18.5",
        "tf-keras": "2.21.0",
        "tensorflow": "2.21.0+mine",
    }
    text = lock_without(pins)
    assert "tensorflow-cpu" not in text and "sha256:02" not in text and "sha256:03" in text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lock": "none"}, "none.lock does not exist. Fix: run `make lock-builds`"),
        ({"python": "python3.7"}, "a Python version"),
        ({"python": None}, "a Python version"),
        ({"command": "apptainer exec x"}, "no `command`"),
        ({"wheel": "no.whl"}, "is not a .whl file"),
        ({"lock": None, "wheel": "a.whl"}, "no `lock`"),
    ],
)
def test_invalid_pins_are_config_errors(root: Path, change: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        pins_of(replace(BUILD, **change), root)


def test_a_missing_python_skips_the_build(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starting, "find", lambda version: None)
    assert missing(BUILD, root) == "no Python 3.7 on this machine: pyenv install 3.7"
    monkeypatch.setattr(starting, "find", lambda version: Path("/usr/bin/python3.7"))
    assert missing(BUILD, root) is None
    assert "needs keras 3.x" in str(missing(replace(BUILD, framework="keras3_torch"), root))


# -- files of this repository -----------------------------------------------------------

CHOICES = sorted((ROOT / "conf" / "build").glob("*.yaml"))


def test_every_lock_belongs_to_a_build_and_every_build_to_a_framework() -> None:
    locks = {file.stem for file in (ROOT / LOCKS).glob("*.lock")}
    assert locks == set(python_versions(ROOT / "conf"))
    assert locks == {file.stem for file in (ROOT / LOCKS).glob("*.in")}
    for choice in CHOICES:
        data = yaml.safe_load(choice.read_text())
        assert data["about"]
        assert "defaults" in data or data["framework"] in FRAMEWORKS


@pytest.mark.parametrize("name", sorted(file.stem for file in (ROOT / LOCKS).glob("*.lock")))
def test_a_lock_has_hashes_and_no_locations(name: str) -> None:
    text = (ROOT / LOCKS / f"{name}.lock").read_text()
    assert "://" not in text and " @ " not in text
    assert not [token for token in text.split() if token.startswith("/")]
    lines = text.replace("\\\n", "").splitlines()
    assert lines
    for line in lines:
        assert "==" in line and "--hash=sha256:" in line, line
        assert not line.lstrip().startswith("-"), line


def test_a_build_that_extends_another_one_has_its_keys() -> None:
    build = build_named("tf_2_21_xla", [ROOT / "conf"], "--build")
    assert (build.framework, build.jit_compile) == ("keras3_tensorflow", True)
