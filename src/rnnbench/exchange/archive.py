"""Archives for the exchange of records between machines; reading one trusts nothing.

An archive is a gzipped tar of plain files with a manifest of their SHA-256. Equal content gives an
equal archive. All names and hashes are checked before any file is used.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from rnnbench.errors import RecordError

MANIFEST = "manifest.json"
SCHEMA = 1
MAX_FILES = 200_000
MAX_BYTES = 4 * 2**30
SAFE_PART = re.compile(r"[A-Za-z0-9_.+=@-]{1,255}")


class Manifest(msgspec.Struct):
    schema: Literal[1]
    kind: str
    files: dict[str, str]


def write(path: Path, kind: str, files: Mapping[str, bytes], facts: Mapping[str, Any]) -> None:
    """Writes `files` (name → content) with a manifest of `kind` and `facts`."""
    manifest = {
        "schema": SCHEMA,
        "kind": kind,
        **facts,
        "files": {name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
    }
    content = {MANIFEST: json.dumps(manifest, indent=1, sort_keys=True).encode(), **files}
    path.parent.mkdir(parents=True, exist_ok=True)
    with (
        path.open("wb") as raw,
        gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, data in content.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o644
            archive.addfile(entry, io.BytesIO(data))


def read(path: Path, kind: str) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The manifest and the files (name → content) of the archive. Raises `RecordError` unless each
    is a plain file with a safe name and the manifest's hash."""
    try:
        files = _files(path)
    except (OSError, tarfile.TarError, EOFError, ValueError, OverflowError) as error:
        raise _refused(path, f"cannot be read as an archive ({error})") from None
    manifest = _manifest(path, files.pop(MANIFEST, None), kind)
    expected = manifest["files"]
    for name in sorted({*files, *expected}):
        if name not in expected or name not in files:
            raise _refused(path, f"{name} is in the archive or in its manifest, but not in both")
        if hashlib.sha256(files[name]).hexdigest() != expected[name]:
            raise _refused(path, f"{name} has changed since it was packed: its hash differs")
    return manifest, files


def safe_name(name: str) -> bool:
    """Whether `name` is a relative path of plain characters, without ``.`` and ``..``."""
    parts = name.split("/")
    return all(SAFE_PART.fullmatch(part) and part not in (".", "..") for part in parts)


def _files(path: Path) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    size = 0
    with gzip.open(path) as packed, tarfile.open(fileobj=packed, mode="r:") as archive:
        for entry in archive:
            if not entry.isreg() or not safe_name(entry.name) or entry.name in files:
                raise ValueError(f"{entry.name!r} is not a plain file with a safe, unique name")
            size += entry.size
            if len(files) >= MAX_FILES or size > MAX_BYTES:
                raise ValueError(f"more than {MAX_FILES} files or {MAX_BYTES / 2**30:.0f} GiB")
            source = archive.extractfile(entry)
            files[entry.name] = source.read() if source else b""
        # Reading to the end verifies gzip's checksum.
        while packed.read(2**20):
            pass
    return files


def _manifest(path: Path, content: bytes | None, kind: str) -> dict[str, Any]:
    try:
        manifest: dict[str, Any] = msgspec.json.decode(content or b"")
        msgspec.convert(manifest, Manifest)
    except (ValueError, RecursionError) as error:
        raise _refused(path, f"has no valid manifest.json ({error})") from None
    if manifest["kind"] != kind:
        raise _refused(path, f"is not a {kind!r} archive but {manifest['kind']!r}")
    return manifest


def _refused(path: Path, why: str) -> RecordError:
    return RecordError(
        f"{why}; nothing was imported.",
        where=str(path),
        remedy="copy or export it again, with the same version of rnnbench.",
    )
