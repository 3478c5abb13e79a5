"""Packages that a bundle carries: a lock file → a tree → one archive in parts.

A build with ``carry: NAME`` (``workflow/envs/NAME.lock``, for the Python ``carried_python``) runs
in the target machine's interpreter, with these packages ahead of that machine's own.
``NAME.trim`` lists files to omit from the tree, one glob per line; ``NAME.standins`` lists
libraries that the loader must find but nothing calls, for which gcc creates empty stubs.
"""

from __future__ import annotations

import hashlib
import lzma
import shutil
import subprocess
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rnnbench.builds.pins import LOCKS, build_file, pins
from rnnbench.builds.relock import PLATFORM
from rnnbench.builds.uv import run, run_uv
from rnnbench.errors import BuildError, ConfigError

PART_BYTES = 56_000_000
CARRIED = Path("results/carried")


@dataclass(frozen=True)
class Carried:
    """Packages of the lock `name`; `digest` covers lock, Python version, `trim` and `standins`."""

    name: str
    lock: Path
    python: str
    digest: str
    trim: tuple[str, ...]
    standins: tuple[str, ...]

    def folder(self, root: Path) -> Path:
        return root / CARRIED / f"{self.name}-{self.digest[:8]}"


def carried_of(build: Mapping[str, Any], root: Path) -> Carried | None:
    """The packages that the build carries, or None. Raises `ConfigError`."""
    name = build.get("carry")
    if not name:
        return None
    lock, python = root / LOCKS / f"{name}.lock", str(build.get("carried_python") or "")
    if not lock.is_file() or not python or build.get("lock"):
        raise ConfigError(
            f"carries {name}, but lacks a `carried_python` or a lock file, or has a `lock` too.",
            where=build_file(build),
            remedy=f"set `carried_python`, remove `lock`, and create {LOCKS}/{name}.lock"
            " (make lock-builds).",
        )
    trim, standins = (_lines(lock.with_suffix(suffix)) for suffix in (".trim", ".standins"))
    text = "\n".join((pins(lock, python, None).digest, *trim, "", *standins))
    return Carried(
        str(name), lock, python, hashlib.sha256(text.encode()).hexdigest(), trim, standins
    )


def parts_of(carried: Carried, root: Path) -> list[Path]:
    """The parts of the archive, which is created only once. Raises `BuildError` if the packages
    cannot be installed or the archive cannot be written."""
    folder = carried.folder(root)
    if not (folder / "parts" / ".whole").exists():
        shutil.rmtree(folder, ignore_errors=True)
        site = folder / "site"
        _install(carried, site)
        _trim(site, carried.trim)
        _add_stubs(site, carried.standins, str(carried.lock))
        archive = folder / "site.tar.xz"
        try:
            _pack(site, archive)
            _split(archive, folder / "parts")
        except OSError as error:
            raise BuildError(
                f"cannot be written ({error}).",
                where=str(archive),
                remedy="free disk space, and check that `xz` works.",
            ) from error
        archive.unlink()
        shutil.rmtree(site)
    return sorted((folder / "parts").glob("part-*"))


def _lines(file: Path) -> tuple[str, ...]:
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    return tuple(line for line in map(str.strip, text.splitlines()) if line and line[0] != "#")


def _install(carried: Carried, site: Path) -> None:
    arguments = ["pip", "install", "--quiet", "--no-config", "--no-deps", "--require-hashes"]
    arguments += ["--only-binary", ":all:", "--python-version", carried.python]
    arguments += ["--python-platform", PLATFORM, "--target", str(site), "-r", str(carried.lock)]
    run_uv(arguments, where=str(carried.lock), remedy="check the access to the package registry.")


def _trim(site: Path, globs: tuple[str, ...]) -> None:
    for glob in (*globs, "bin", "**/__pycache__", ".lock"):
        for path in list(site.glob(glob)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _add_stubs(site: Path, libraries: tuple[str, ...], where: str) -> None:
    for name in libraries:
        path = site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        source = path.with_suffix(".c")
        source.write_text("int rnnbench_standin;\n")
        run(
            ["gcc", "-shared", "-fPIC", str(source), f"-Wl,-soname,{path.name}", "-o", str(path)],
            where=where,
            remedy="install gcc.",
        )
        source.unlink()


def _pack(site: Path, archive: Path) -> None:
    """Writes a reproducible archive; uses the program xz, on all cores, if it is installed."""
    with archive.open("wb") as raw:
        if shutil.which("xz") is None:
            with lzma.open(raw, "wb") as packed:
                _tar(site, packed)
            return
        command = ["xz", "-T0", "-6", "-c"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=raw) as process:
            assert process.stdin is not None
            _tar(site, process.stdin)
            process.stdin.close()
            if process.wait():
                raise OSError(f"xz exited with status {process.returncode}")


def _tar(site: Path, stream: Any) -> None:
    with tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(site.rglob("*")):
            if path.is_file():
                entry = tarfile.TarInfo(path.relative_to(site).as_posix())
                entry.size = path.stat().st_size
                entry.mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
                with path.open("rb") as file:
                    tar.addfile(entry, file)


def _split(archive: Path, parts: Path) -> None:
    parts.mkdir()
    with archive.open("rb") as whole:
        for number, part in enumerate(iter(lambda: whole.read(PART_BYTES), b"")):
            (parts / f"part-{number:02}").write_bytes(part)
    (parts / ".whole").touch()
