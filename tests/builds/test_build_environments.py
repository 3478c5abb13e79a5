"""Environments: made once, looked at, remade where damaged. The wheels here are made up."""

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
from rnnbench.builds.interpreters import find
from rnnbench.builds.launcher import launcher
from rnnbench.builds.pins import LOCKS, Pins, pins
from rnnbench.errors import BuildError
from tests.conftest import ROOT
from tests.worker.building import made_or_skipped

PYTHON = "{}.{}".format(*sys.version_info)


def write_wheel(folder: Path, name: str, version: str) -> Path:
    """A wheel with one module that says its version."""
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
def made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pins:
    """Pins of one made-up package, which uv finds in a folder and on no index."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    wheel = write_wheel(wheels, "made_up_package", "1.0")
    lock = tmp_path / "some.lock"
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    lock.write_text(f"made-up-package==1.0 \\\n    --hash=sha256:{digest}\n")
    monkeypatch.setenv("UV_FIND_LINKS", str(wheels))
    monkeypatch.setenv("UV_NO_INDEX", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    return pins(lock, PYTHON, None)


def says(folder: Path) -> str:
    code = "import made_up_package as p; print(p.VERSION, p.__cached__)"
    answer = subprocess.run(
        [folder / "bin" / "python", "-c", code], capture_output=True, text=True, check=True
    )
    return answer.stdout


def test_made_once_with_its_bytecode(made_up: Pins, tmp_path: Path) -> None:
    marker = make(made_up, tmp_path)
    folder = made_up.folder(tmp_path)
    assert marker["versions"] == {"made-up-package": "1.0"}
    version, cached = says(folder).split()
    assert version == "1.0"
    assert Path(cached).exists()
    before = (folder / "pyvenv.cfg").stat().st_mtime_ns
    assert make(made_up, tmp_path) == marker
    assert (folder / "pyvenv.cfg").stat().st_mtime_ns == before
    assert damage(folder) is None


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (lambda module, folder: module.write_text(""), "made_up_package.py has 0 bytes, not 16"),
        (lambda module, folder: module.unlink(), "made_up_package.py is gone"),
        (lambda module, folder: (folder / "bin" / "python").unlink(), "python is gone"),
        (lambda module, folder: (folder / "rnnbench.json").unlink(), "not finished"),
        (lambda module, folder: (folder / "rnnbench.json").write_text("{"), "not finished"),
    ],
)
@pytest.mark.fault(
    "files of a build environment are damaged or gone",
    "noticed before the run, the environment is made anew",
    "none",
)
def test_damage_is_noticed_and_mended(made_up: Pins, tmp_path: Path, harm, told: str) -> None:
    make(made_up, tmp_path)
    folder = made_up.folder(tmp_path)
    harm(next(folder.glob("lib/*/site-packages/made_up_package.py")), folder)
    assert told in str(damage(folder))
    make(made_up, tmp_path)
    assert damage(folder) is None
    assert says(folder).startswith("1.0")


def test_two_at_once_make_it_once(
    made_up: Pins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, original = [], environments._make
    monkeypatch.setattr(environments, "_make", lambda *a: made.append(1) or original(*a))
    threads = [threading.Thread(target=make, args=(made_up, tmp_path)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [1]


def test_a_hash_that_differs_is_refused(made_up: Pins, tmp_path: Path) -> None:
    made_up.lock.write_text("made-up-package==1.0 --hash=sha256:" + 64 * "0" + "\n")
    with pytest.raises(BuildError, match=r"(?i)hash"):
        make(pins(made_up.lock, PYTHON, None), tmp_path)
    assert not list(tmp_path.glob("results/envs/*/rnnbench.json"))


def test_a_wheel_of_ones_own(made_up: Pins, tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, "made_up_package", "1.0+mine")
    lock = tmp_path / LOCKS / "some.lock"
    lock.parent.mkdir(parents=True)
    lock.write_text(made_up.lock.read_text())
    build = {"name": "mine", "lock": "some", "python": PYTHON, "wheel": wheel.name}
    marker = prepare(build, tmp_path)
    assert marker is not None
    assert marker["wheel"] == wheel.name
    (python,) = launcher(build, tmp_path)
    assert says(Path(python).parents[1]).startswith("1.0+mine")


def test_a_build_without_a_lock_needs_nothing(tmp_path: Path) -> None:
    assert prepare({"name": "current", "python": None}, tmp_path) is None


def test_tensorflow_1_15_trains_from_its_lock(tmp_path: Path) -> None:
    """The real thing, from the package registry or uv's cache: an environment with Python 3.7,
    and two epochs of the digits in it."""
    if find("3.7") is None:
        pytest.skip("no Python 3.7 on this machine: pyenv install 3.7")
    wanted = pins(ROOT / LOCKS / "tf_1_15.lock", "3.7", None)
    made_or_skipped(wanted, tmp_path)
    config = json.loads((Path(__file__).parent / "tf_1_15.json").read_text())
    digits = tmp_path / "digits.npz"
    subprocess.run(
        [sys.executable, "-c", DIGITS, str(digits)], check=True, capture_output=True, text=True
    )
    job = tmp_path / "job.json"
    job.write_text(
        json.dumps({"config": config, "threads": 1, "cores": [0], "dataset": str(digits)})
    )
    answer = subprocess.run(
        [wanted.folder(tmp_path) / "bin" / "python", ROOT / "src" / "rnnworker", job],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": ""},
    )
    assert answer.returncode == 0, answer.stderr[-2000:]
    events = [json.loads(line) for line in answer.stdout.splitlines() if line.startswith("{")]
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
