"""Small and read-only disks, which need root."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest


@contextmanager
def mounted(folder: Path, *arguments: str) -> Iterator[Path]:
    """`folder` while something is mounted there, with these arguments of mount(8)."""
    folder.mkdir(exist_ok=True)
    done = subprocess.run(["mount", *arguments, str(folder)], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"mounting requires root: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def small_disk(folder: Path, size: str) -> AbstractContextManager[Path]:
    return mounted(folder, "-t", "tmpfs", "-o", f"size={size}", "tmpfs")


@contextmanager
def filled(disk: Path, free: int) -> Iterator[None]:
    """Leaves `free` bytes of the disk."""
    ballast, state = disk / "ballast", os.statvfs(disk)
    ballast.write_bytes(b"x" * max(0, state.f_bavail * state.f_frsize - free))
    try:
        yield
    finally:
        ballast.unlink()
