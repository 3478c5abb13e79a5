"""Environments are created once, checked, and recreated if damaged. The wheels are synthetic."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import pytest

from rnnbench.builds import environments
from rnnbench.builds.environments import damage, make, prepare
from rnnbench.builds.launcher import launcher
from rnnbench.builds.pins import LOCKS, Pins, pins
from rnnbench.builds.uv import find
from rnnbench.errors import BuildError
from tests.conftest import ROOT
from tests.worker.building import made_or_skipped

PYTHON = "{}.{}".format(*sys.version_info)


def write_wheel(folder: Path, name: str, version: str) -> Path:
    """A wheel with one module that contains its version."""
    files = {
        f"{name}.py": f"VERSION = {version!r}\n",
        f"{name}-{version}.dist-info/METADATA": (
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        ),
        f"{name}-{version}.dist-info/WHEEL": (
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        ),
    }
    record = f"{name}-{version}.dist-info/RECORD"
    rows = []
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
        rows.append(f"{path},sha256={digest.decode()},{len(text)}\n")
    files[record] = "".join(rows) + f"{record},,\n"
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return wheel


@pytest.fixture
def synthetic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pins:
    """Pins of one synthetic package, which uv finds in a folder and on no index."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    wheel = write_wheel(wheels, "synthetic_package", "1.0")
    lock = tmp_path / "some.lock"
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    lock.write_text(f"synthetic-package==1.0 \\\n    --hash=sha256:{digest}\n")
    monkeypatch.setenv("UV_FIND_LINKS", str(wheels))
    monkeypatch.setenv("UV_NO_INDEX", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    return pins(lock, PYTHON, None)


def installed(folder: Path) -> str:
    """Version and bytecode file of the package, as reported by the environment's Python."""
    code = "import synthetic_package as p; print(p.VERSION, p.__cached__)"
    result = subprocess.run(
        [folder / "bin" / "python", "-c", code], capture_output=True, text=True, check=True
    )
    return result.stdout


def test_created_once_with_bytecode(synthetic: Pins, tmp_path: Path) -> None:
    marker = make(synthetic, tmp_path)
    folder = synthetic.folder(tmp_path)
    assert marker["versions"] == {"synthetic-package": "1.0"}
    version, cached = installed(folder).split()
    assert version == "1.0"
    assert Path(cached).exists()
    before = (folder / "pyvenv.cfg").stat().st_mtime_ns
    assert make(synthetic, tmp_path) == marker
    assert (folder / "pyvenv.cfg").stat().st_mtime_ns == before
    assert damage(folder) is None


@pytest.mark.parametrize(
    ("harm", "fault"),
    [
        (lambda module, folder: module.write_text(""), "synthetic_package.py has 0 bytes, not 16"),
        (lambda module, folder: module.unlink(), "synthetic_package.py is missing"),
        (lambda module, folder: (folder / "bin" / "python").unlink(), "python is missing"),
        (lambda module, folder: (folder / "rnnbench.json").unlink(), "is incomplete"),
        (lambda module, folder: (folder / "rnnbench.json").write_text("{"), "is incomplete"),
    ],
)
@pytest.mark.fault(
    "files of a build environment are damaged or missing",
    "detected before the run; the environment is made again",
    "none",
)
def test_damage_is_detected_and_repaired(synthetic: Pins, tmp_path: Path, harm, fault: str) -> None:
    make(synthetic, tmp_path)
    folder = synthetic.folder(tmp_path)
    harm(next(folder.glob("lib/*/site-packages/synthetic_package.py")), folder)
    assert fault in str(damage(folder))
    make(synthetic, tmp_path)
    assert damage(folder) is None
    assert installed(folder).startswith("1.0")


def test_two_threads_create_it_once(
    synthetic: Pins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, original = [], environments._make
    monkeypatch.setattr(environments, "_make", lambda *a: calls.append(1) or original(*a))
    threads = [threading.Thread(target=make, args=(synthetic, tmp_path)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert calls == [1]


def test_a_wrong_hash_is_refused(synthetic: Pins, tmp_path: Path) -> None:
    synthetic.lock.write_text("synthetic-package==1.0 --hash=sha256:" + 64 * "0" + "\n")
    with pytest.raises(BuildError, match=r"(?i)hash"):
        make(pins(synthetic.lock, PYTHON, None), tmp_path)
    assert not list(tmp_path.glob("results/envs/*/rnnbench.json"))


def test_a_user_supplied_wheel(synthetic: Pins, tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, "synthetic_package", "1.0+mine")
    lock = tmp_path / LOCKS / "some.lock"
    lock.parent.mkdir(parents=True)
    lock.write_text(synthetic.lock.read_text())
    build = {"name": "mine", "lock": "some", "python": PYTHON, "wheel": wheel.name}
    marker = prepare(build, tmp_path)
    assert marker is not None
    assert marker["wheel"] == wheel.name
    (python,) = launcher(build, tmp_path)
    assert installed(Path(python).parents[1]).startswith("1.0+mine")


def test_a_build_without_a_lock_has_no_environment(tmp_path: Path) -> None:
    assert prepare({"name": "current", "python": None}, tmp_path) is None


def test_tensorflow_1_15_trains_from_its_lock(tmp_path: Path) -> None:
    """A real environment with Python 3.7, from the registry or uv's cache, trains two epochs
    on the digits."""
    if find("3.7") is None:
        pytest.skip("no Python 3.7 on this machine: pyenv install 3.7")
    tf_pins = pins(ROOT / LOCKS / "tf_1_15.lock", "3.7", None)
    made_or_skipped(tf_pins, tmp_path)
    config = json.loads((Path(__file__).parent / "tf_1_15.json").read_text())
    digits = tmp_path / "digits.npz"
    subprocess.run(
        [sys.executable, "-c", DIGITS, str(digits)], check=True, capture_output=True, text=True
    )
    job = tmp_path / "job.json"
    job.write_text(
        json.dumps({"config": config, "threads": 1, "cores": [0], "dataset": str(digits)})
    )
    result = subprocess.run(
        [tf_pins.folder(tmp_path) / "bin" / "python", ROOT / "src" / "rnnworker", job],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": ""},
    )
    assert result.returncode == 0, result.stderr[-2000:]
    events = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    losses = [event["loss"] for event in events if event["event"] == "epoch"]
    assert len(losses) == 2
    assert losses[1] < losses[0]
    (environment,) = (event["environment"] for event in events if "environment" in event)
    assert environment["tensorflow"] == "1.15.5"
    threads = next(e["measured"]["threads"] for e in events if "threads" in e.get("measured", {}))
    assert (threads["intra_op"], threads["inter_op"]) == (1, 1)


DIGITS = """
import sys
import numpy
from sklearn.datasets import load_digits
digits = load_digits()
x, y = (digits.images / 16).astype("float32"), digits.target.astype("int64")
numpy.savez(sys.argv[1], x_train=x[:320], y_train=y[:320], x_val=x[320:400], y_val=y[320:400])
"""
