"""What leaves this machine names no user, home, host or value of the environment."""

from __future__ import annotations

import os
import socket
import zipfile
from pathlib import Path

import pytest

from rnnbench.errors import ConfigError
from rnnbench.grid.expand import expand
from rnnbench.grid.experiment import load_experiment
from tests.conftest import ROOT, SECRETS, Project
from tests.exchange.bundles import bundle

# Values that describe the language, terminal or machine type, which documents may contain, and what
# TensorFlow sets HDF5_PLUGIN_PATH to in a process that imports it.
HARMLESS = {"C.UTF-8", "en_US.UTF-8", "xterm-256color", "screen-256color", "disable"}


def test_an_export_and_a_bundle_name_nobody(measured_small: Project, tmp_path: Path) -> None:
    project = measured_small
    assert SECRETS.items() <= project.environment.items()
    exported = project.rnnbench("export", "small", "-o", str(tmp_path / "x.zip"))
    assert exported.returncode == 0, exported.stderr
    folder = bundle(project, "small", tmp_path / "bundle")
    bundled = [path for path in folder.rglob("*") if path.is_file()]
    page = [path for path in (project.folder / "reports/small").rglob("*") if path.is_file()]
    with zipfile.ZipFile(tmp_path / "x.zip") as archive:
        contents = [archive.read(name) for name in archive.namelist()]
    contents += [path.read_bytes() for path in (*bundled, *page)]
    names = [*project.environment.values(), *os.environ.values(), socket.gethostname()]
    names += [str(Path.home()), str(project.folder), "alices_secret_project"]
    private = {name.encode() for name in names if len(name) > 6 and name not in HARMLESS}
    assert len(private) > 5
    assert [name for name in private if any(name in content for content in contents)] == []


def test_a_configuration_cannot_read_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_NUMBER", "17")
    secret = "${oc.env:SECRET_NUMBER}"
    conf = [ROOT / "conf", tmp_path]
    for group in ("device", "experiment"):
        (tmp_path / group).mkdir()
    (tmp_path / "device/mine.yaml").write_text(f"name: mine\nkind: cpu\nthreads: {secret}\n")
    (tmp_path / "experiment/mine.yaml").write_text(
        f"title: x\ngrids: ['device=cpu_1 model.units={secret}']\n"
    )
    for name, overrides, key in (
        ("quick", ["device=mine"], "device.threads"),
        ("quick", [f"model.units={secret}"], "model.units"),
        ("mine", [], "model.units"),
    ):
        with pytest.raises(ConfigError, match="cannot read the environment") as caught:
            expand(load_experiment(name, conf), conf, overrides)
        assert key in str(caught.value) and f"{name}.yaml" in str(caught.value)
