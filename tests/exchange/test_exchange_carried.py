"""Carried packages: parts with checksums that are joined on the target machine, and a whole bundle
with a carried Keras that measures, certifies and skips on a machine without Keras."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

from rnnbench.builds import carried_packages as archives
from rnnbench.builds.carried_packages import carried_of
from rnnbench.builds.uv import run_uv
from rnnbench.errors import BuildError, ConfigError
from rnnbench.records.store import read_record
from rnnworker import carried_packages
from tests.conftest import ROOT, make_project

BUILD = {"name": "b", "carry": "keras3_carried", "carried_python": "3.12"}
JAX = {
    "name": "carrying",
    "framework": "keras3_jax",
    "python": sys.executable,
    "carried_python": "3.11",
    "jit_compile": True,
    "environment": {},
}
SMALL = (
    "model=shape_short model.units=8 model.sequence=6 model.features=4 model.train_samples=64"
    " model.val_samples=32 model.batch=16 model.epochs=3 measure.warmup_steps=2 build=carrying"
)
AWAY = {
    "title": "away",
    "grid_order": "sequential",
    "grids": [
        f"{SMALL} device=cpu_1 precision=mixed_bfloat16",
        f"{SMALL} device=gpu precision=tf32",
    ],
}


def bare_jax(folder: Path) -> Path:
    """The Python of a new environment with the locked jax, NumPy and h5py, without Keras."""
    lock = (ROOT / "workflow" / "envs" / "keras3_jax.lock").read_text()
    folder.mkdir()
    requirements = folder / "requirements.txt"
    requirements.write_text(re.sub(r"(?m)^keras==.*\n(    --hash.*\n)+", "", lock))
    python = folder / "venv" / "bin" / "python"
    where = {"where": str(folder), "remedy": "reach the package registry."}
    run_uv(["venv", "--quiet", "--python", sys.executable, str(folder / "venv")], **where)
    install = ["pip", "install", "--quiet", "--no-deps", "--require-hashes"]
    run_uv([*install, "--python", str(python), "-r", str(requirements)], **where)
    return python


def run_isolated(python: Path, *arguments: str) -> subprocess.CompletedProcess:
    """Runs `python` in an environment without this project."""
    variables = {"PATH": "/usr/bin:/bin", "TMPDIR": str(python.parents[2])}
    variables["RNNBENCH_TIMING_LOCK"] = str(python.parents[2] / "timing.lock")
    return subprocess.run(
        [str(python), "-I", *arguments], capture_output=True, text=True, cwd="/", env=variables
    )


def packed(folder: Path, part_bytes: int) -> dict:
    """Writes an archive of two files in parts of `part_bytes`. Returns its entry in
    ``bundle.json``."""
    site = folder / "site"
    (site / "pack" / "bin").mkdir(parents=True)
    (site / "pack" / "__init__.py").write_text("HERE = 1\n" * 500)
    (site / "pack" / "bin" / "tool").write_text("#!/bin/sh\n")
    (site / "pack" / "bin" / "tool").chmod(0o755)
    archive = folder / "site.tar.xz"
    with tarfile.open(archive, "w:xz") as tar:
        for path in sorted(site.rglob("*")):
            if path.is_file():
                tar.add(path, path.relative_to(site).as_posix())
    data, hashes = archive.read_bytes(), {}
    (folder / "parts" / "tree").mkdir(parents=True)
    for number, start in enumerate(range(0, len(data), part_bytes)):
        part = data[start : start + part_bytes]
        (folder / "parts" / "tree" / f"part-{number:02}").write_bytes(part)
        hashes[f"part-{number:02}"] = hashlib.sha256(part).hexdigest()
    return {"name": "tree", "digest": "d" * 64, "parts": hashes}


def test_parts_are_joined_once_and_a_damaged_part_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carried_packages.tempfile, "tempdir", str(tmp_path))
    entry, parts = packed(tmp_path, 100), str(tmp_path / "parts")
    assert len(entry["parts"]) > 2
    second = tmp_path / "parts" / "tree" / "part-01"
    whole = second.read_bytes()
    second.write_bytes(b"x" + whole[1:])
    with pytest.raises(carried_packages.Missing, match="tree: missing or damaged: part-01"):
        carried_packages.provide(entry, [parts])
    second.write_bytes(whole)
    site = Path(carried_packages.provide(entry, [str(tmp_path / "nowhere"), parts]))
    assert (site / "pack" / "__init__.py").read_text() == "HERE = 1\n" * 500
    assert (site / "pack" / "bin" / "tool").stat().st_mode & 0o100
    second.unlink()
    assert Path(carried_packages.provide(entry, [parts])) == site


def test_a_carried_path_precedes_the_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/theirs")
    build = {"environment": {"LD_LIBRARY_PATH": "{packages}/lib", "XLA_FLAGS": "-d={packages}"}}
    assert carried_packages.variables(build, "/site") == {
        "LD_LIBRARY_PATH": "/site/lib:/theirs",
        "XLA_FLAGS": "-d=/site",
        "PYTHONPATH": "/site",
    }


def test_carried_packages_need_a_lock_and_a_python() -> None:
    carried = carried_of(BUILD, ROOT)
    assert carried is not None and carried.name == "keras3_carried"
    assert carried_of({"name": "plain"}, ROOT) is None
    other = carried_of({**BUILD, "carried_python": "3.11"}, ROOT)
    assert other is not None and other.digest != carried.digest
    with pytest.raises(ConfigError, match="carries keras3_carried"):
        carried_of({**BUILD, "carried_python": None}, ROOT)


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the locked jax is for Python 3.11")
def test_a_bundle_with_a_carried_keras_measures_without_an_installed_one(tmp_path: Path) -> None:
    """The machine has jax, NumPy and h5py but lacks Keras and the requested GPU."""
    project = make_project(tmp_path / "home")
    (project.conf / "build" / "carrying.yaml").write_text(yaml.safe_dump({**BUILD, **JAX}))
    (project.conf / "experiment" / "away.yaml").write_text(yaml.safe_dump(AWAY))
    shutil.copytree(ROOT / "workflow" / "envs", project.folder / "workflow" / "envs")
    bundle, python = tmp_path / "bundle", bare_jax(tmp_path / "target")
    result = project.rnnbench("bundle", "away", "-o", str(bundle), "--conf", str(project.conf))
    assert result.returncode == 0, result.stderr
    assert run_isolated(python, "-c", "import keras").returncode != 0
    result = run_isolated(python, str(bundle / "run.py"), "--pack", str(tmp_path / "back.tar.gz"))
    assert result.returncode == 0, result.stdout + result.stderr

    shutil.rmtree(bundle / "out")
    with tarfile.open(tmp_path / "back.tar.gz") as archive:
        archive.extractall(bundle, filter="data")
    imported = project.rnnbench("import", str(bundle))
    assert imported.returncode == 0, imported.stderr
    (record,) = [read_record(path) for path in project.records()]
    assert record.verdict.status in ("clean", "suspect"), record.verdict
    assert record.measured["precision"]["layers"] == ["bfloat16"]
    (site,) = {path.parent for path in project.pointers("away")}
    facts = json.loads((site / "experiment.json").read_text())
    assert [run["why"] for run in facts["skipped"]] == ["no NVIDIA GPU on this machine"]
    (certificate,) = [json.loads(path.read_text()) for path in site.glob("certificates/*.json")]
    assert certificate["precision"] == "mixed_bfloat16"
    assert certificate["implementations"]["keras"]["status"] == "certified"
    (probe,) = [json.loads(path.read_text()) for path in site.glob("probes/*.json")]
    assert (probe["key"], probe["error"]) == ("cpu_1-carrying", None)
    assert probe["peak_gflops"] > 0 and len(probe["models"]) == 1
    report = project.rnnbench("report", "away")
    assert report.returncode == 0, report.stderr
    text = (project.folder / "reports" / "away" / "report.md").read_text()
    efficiency = text[text.index("Time per timestep, and share of the measured peak") :]
    assert re.search(r"\d %", efficiency.partition("\n## ")[0]), efficiency[:2000]
    assert "No share of the peak: the peak is measured in float32" in text


def test_an_archive_that_cannot_be_packed_is_one_line(tmp_path, monkeypatch):
    def install(carried, site):
        site.mkdir(parents=True)
        (site / "module.py").write_text("HERE = 1")

    failing = tmp_path / "bin" / "xz"
    failing.parent.mkdir()
    failing.write_text("#!/bin/sh\ncat > /dev/null\nexit 3\n")
    failing.chmod(0o755)
    monkeypatch.setenv("PATH", f"{failing.parent}:/usr/bin:/bin")
    monkeypatch.setattr(archives, "_install", install)
    carried = archives.Carried("small", tmp_path / "small.lock", "3.12", "0" * 64, (), ())
    with pytest.raises(
        BuildError, match=r"site\.tar\.xz: cannot be written \(xz exited with status 3"
    ):
        archives.parts_of(carried, tmp_path)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    (part,) = archives.parts_of(carried, tmp_path)
    with tarfile.open(part) as archive:
        assert archive.getnames() == ["module.py"]
