"""Environments are created once, checked, and recreated if damaged. The wheels are synthetic."""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rnnbench.builds import environments
from rnnbench.builds.environments import damage, make, prepare
from rnnbench.builds.launcher import launcher
from rnnbench.builds.pins import LOCKS, Pins, pins
from rnnbench.errors import BuildError
from rnnbench.grid.choices import Build

PYTHON = "{}.{}".format(*sys.version_info)


def write_wheel(folder: Path, name: str, version: str) -> Path:
    """A wheel with one module that contains its version."""
    facts = f"{name}-{version}.dist-info"
    record = f"{facts}/RECORD"
    files = {
        f"{name}.py": f"VERSION = {version!r}\n",
        f"{facts}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{facts}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
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
    """Version of the package, as reported by the environment's Python."""
    code = "import synthetic_package as p; print(p.VERSION)"
    result = subprocess.run(
        [folder / "bin" / "python", "-c", code], capture_output=True, text=True, check=True
    )
    return result.stdout


def test_created_once_with_bytecode(synthetic: Pins, tmp_path: Path) -> None:
    marker = make(synthetic, tmp_path)
    folder = synthetic.folder(tmp_path)
    assert marker.versions == {"synthetic-package": "1.0"}
    (module,) = folder.glob("lib/*/site-packages/synthetic_package.py")
    assert list(module.parent.glob("__pycache__/synthetic_package.*.pyc"))
    # A copy: damage would spread through a link to uv's cache.
    assert module.stat().st_nlink == 1
    assert installed(folder) == "1.0\n"
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
    with ThreadPoolExecutor() as pool:
        markers = list(pool.map(make, [synthetic] * 2, [tmp_path] * 2))
    assert markers[0] == markers[1]
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
    prepare(Build(name="no lock", framework="fake"), tmp_path)
    build = Build(name="mine", framework="fake", lock="some", python=PYTHON, wheel=wheel.name)
    prepare(build, tmp_path)
    (python,) = launcher(build, tmp_path)
    assert installed(Path(python).parents[1]).startswith("1.0+mine")
