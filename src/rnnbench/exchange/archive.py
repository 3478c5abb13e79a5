"""Archives for the exchange of records between machines; reading one trusts nothing.

An archive is a gzipped tar of plain files with a manifest of their SHA-256. Equal content gives an
equal archive. All names, sizes and hashes are checked before any file is used.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import shutil
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from rnnbench.errors import RecordError
from rnnbench.plain_text import is_name
from rnnbench.records import strict_json

MANIFEST = "manifest.json"
SCHEMA = 1
KIND = "rnnbench experiment"
MAX_FILES = 200_000
MAX_BYTES = 4 * 2**30  # of all files and headers
MAX_FILE = 64 * 2**20


class Manifest(msgspec.Struct):
    schema: Literal[1]
    kind: Literal["rnnbench experiment"]
    experiment: str
    files: dict[str, str]


def write(path: Path, experiment: str, files: Mapping[str, Path]) -> None:
    """Writes `files` (name in the archive → file) with a manifest. Raises `RecordError` if a name
    cannot be imported."""
    if unsafe := [name for name in files if not safe_name(name)]:
        raise RecordError(f"{unsafe[0]!r} is not a safe name.", where=str(path))
    digests = {name: _digest(file) for name, file in files.items()}
    manifest = {"schema": SCHEMA, "kind": KIND, "experiment": experiment, "files": digests}
    path.parent.mkdir(parents=True, exist_ok=True)
    with (
        path.open("wb") as raw,
        gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        content = json.dumps(manifest, indent=1, sort_keys=True).encode()
        archive.addfile(_entry(MANIFEST, len(content)), io.BytesIO(content))
        for name, file in files.items():
            with file.open("rb") as source:
                archive.addfile(_entry(name, file.stat().st_size), source)


def unpack(path: Path, folder: Path) -> str:
    """Writes the files of the archive into the empty `folder`. Returns the experiment's name.
    Raises `RecordError` unless each is a plain file with a safe name and the manifest's hash."""
    try:
        names = _extract(path, folder) - {MANIFEST}
        manifest = msgspec.convert(strict_json.loads((folder / MANIFEST).read_bytes()), Manifest)
    except (OSError, tarfile.TarError, EOFError, ValueError, OverflowError) as error:
        why = "has no manifest.json" if isinstance(error, FileNotFoundError) else str(error)
        raise RecordError(f"is not an export ({why}).", where=str(path)) from None
    (folder / MANIFEST).unlink()
    for name in sorted(names ^ set(manifest.files)):
        raise RecordError(f"{name} is in the archive or its manifest, not both.", where=str(path))
    for name in names:
        if _digest(folder / name) != manifest.files[name]:
            raise RecordError(f"{name} has changed: its hash differs.", where=str(path))
    if not is_name(manifest.experiment):
        raise RecordError(f"its experiment is {manifest.experiment!r}.", where=str(path))
    return manifest.experiment


def safe_name(name: str) -> bool:
    """Whether `name` is a relative path of plain characters, whose parts begin with none of
    ``.-``."""
    return all(map(is_name, name.split("/")))


class _Limited:
    """The decompressed bytes of an archive. More than `MAX_BYTES`, or `MAX_FILE` at once, as
    headers may claim, are a `ValueError`."""

    def __init__(self, packed: Any):
        self._packed, self.tell = packed, packed.tell

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= MAX_FILE:
            raise ValueError(f"a header of more than {MAX_FILE >> 20} MiB")
        _check_size(self.tell() + size)
        return bytes(self._packed.read(size))

    def seek(self, position: int, whence: int = 0) -> int:
        _check_size(position)
        return int(self._packed.seek(position, whence))


def _check_size(read: int) -> None:
    if read > MAX_BYTES:
        raise ValueError(f"more than {MAX_BYTES >> 30} GiB")


def _extract(path: Path, folder: Path) -> set[str]:
    """Writes the files of the archive into `folder`. Returns their names."""
    names: set[str] = set()
    with gzip.open(path) as packed:
        limited: Any = _Limited(packed)
        with tarfile.open(fileobj=limited, mode="r:") as archive:
            for entry in archive:
                is_plain = entry.isreg() and not entry.issparse()
                if not is_plain or not safe_name(entry.name) or entry.name in names:
                    raise ValueError(f"{entry.name!r} is not a plain file with a safe, unique name")
                if entry.size > MAX_FILE:
                    raise ValueError(f"{entry.name} has more than {MAX_FILE >> 20} MiB")
                if len(names) >= MAX_FILES:
                    raise ValueError(f"more than {MAX_FILES} files")
                names.add(entry.name)
                target = folder / entry.name
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("xb") as file:
                    shutil.copyfileobj(archive.extractfile(entry) or io.BytesIO(), file)
        while packed.read(2**20):  # reading to the end verifies gzip's checksum
            _check_size(packed.tell())
    return names


def _entry(name: str, size: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, 0o644
    return entry


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
