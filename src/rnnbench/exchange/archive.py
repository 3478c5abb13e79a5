"""Archives for the exchange of records between machines: zip files of the plain files of an
experiment at a site.

Equal content gives an equal archive. Reading one trusts nothing: names and sizes are checked before
anything is unpacked, and zip's checksums find damage.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from rnnbench.errors import RecordError
from rnnbench.plain_text import is_name
from rnnbench.records.predictions import PLAN, planned_files
from rnnbench.records.rounds import read_results, round_files

MAX_FILES = 200_000
MAX_BYTES = 4 * 2**30  # of all files
MAX_FILE = 64 * 2**20
DEEPEST = 3  # folders above a file
# Others are decompressed without a limit.
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def write(path: Path, files: Mapping[str, Path]) -> None:
    """Writes an archive, which replaces the one at `path` when it is complete.

    `files`: name in the archive → file.

    Raises `RecordError` if a name cannot be imported, and `OSError` if a file cannot be read or
    the archive cannot be written.
    """
    for name in files:
        if not safe_name(name):
            raise RecordError(f"{name!r} is not a safe name.", where=str(path))

    partial = path.with_name(f".{path.name}.new")
    try:
        with zipfile.ZipFile(partial, "w") as archive:
            for name, file in files.items():
                entry = zipfile.ZipInfo(name)  # without the time of the file
                archive.writestr(entry, file.read_bytes(), zipfile.ZIP_DEFLATED)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def unpack(path: Path, folder: Path) -> None:
    """Writes the files of an archive.

    - `path`: of the archive.
    - `folder`: an empty one.

    Raises `RecordError` unless each file has a safe, unique name, and their number and sizes are
    within the limits; `OSError` if a file cannot be written.
    """
    for name, content in _contents(path):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


def _contents(path: Path) -> Iterator[tuple[str, bytes]]:
    """Name and content of each file of the archive. Raises `RecordError` as `unpack`."""
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            _check(entries)
            for entry in entries:
                yield entry.filename, archive.read(entry)
    except (
        OSError,
        EOFError,
        ValueError,
        RuntimeError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        raise RecordError(f"is not an export ({error}).", where=str(path)) from None


def safe_name(name: str) -> bool:
    """Whether `name` is a relative path of plain characters.

    Its parts begin with none of ``.-``.
    """
    return all(map(is_name, name.split("/")))


def _check(entries: list[zipfile.ZipInfo]) -> None:
    """Raises `ValueError` unless the entries of an archive may be unpacked.

    No more than the announced size of an entry is ever unpacked.
    """
    names = {entry.filename for entry in entries}
    folders: set[str] = set()
    for name in names:
        folders.update(map(str, PurePosixPath(name).parents))
    is_ambiguous = len(names) < len(entries) or names & folders
    if is_ambiguous or len(entries) > MAX_FILES:
        raise ValueError(f"a name is there twice, or there are more than {MAX_FILES} files")

    total = 0
    for entry in entries:
        name = entry.filename
        is_safe = safe_name(name) and name.count("/") <= DEEPEST
        if not is_safe or entry.compress_type not in METHODS:
            raise ValueError(f"{name!r} is not a plain file with a safe name")

        if entry.file_size > MAX_FILE:
            raise ValueError(f"{name} has more than {MAX_FILE >> 20} MiB")
        total += entry.file_size

    if total > MAX_BYTES:
        raise ValueError(f"more than {MAX_BYTES >> 30} GiB")


def files_of(folder: Path) -> dict[str, Path]:
    """Name in an archive → file, for what an experiment has at a site:

    - its plan, facts and certificates,
    - the plan and results of its predictions, without the exported models,
    - the files of rounds that were not needed,
    - all records that the files of the other rounds name, companions included, with their events.

    Logs are left out: they name users, folders and hosts.

    `folder`: the experiment's at the site. Raises `RecordError` if the file of a round cannot be
    read.
    """
    root = folder.parents[1]
    files = [folder / "plan.jsonl", folder / "experiment.json", folder / PLAN]
    files += sorted(folder.glob("certificates/*.json"))
    files += planned_files(folder)

    records: set[Path] = set()
    for file in round_files(folder):
        results = read_results(file).values()
        if any(result.not_needed for result in results):
            files.append(file)
        for result in results:
            records.update(root / path for path in result.paths)
    for record in sorted(records):
        files.append(record)
        files.append(record.with_suffix(".events.jsonl"))

    existing = {}
    for file in files:
        if file.is_file():
            existing[file.relative_to(root).as_posix()] = file
    return existing
