"""Finds the record that an earlier attempt left without a pointer."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from rnnbench.errors import RecordError
from rnnbench.records.record import Record
from rnnbench.records.run import Run
from rnnbench.records.store import read_record, record_files
from rnnbench.running.progress import print_progress

if TYPE_CHECKING:
    from rnnbench.running.train import Place


def existing_record(planned: Run, place: Place, folder: Path) -> Record | None:
    """The record of the planned run that was written without a pointer, unless ``rnnbench retry``
    has requested since that the run be measured again.

    It is in `folder`, which is this machine's, or in the folder of another machine of the same
    site.
    """
    retry = place.folder / "retry" / planned.name
    since = retry.read_text().strip() if retry.exists() else ""
    files = record_files(place.results, name=glob.escape(planned.name))
    for path in sorted(files, key=lambda path: (path.parent == folder, path.name), reverse=True):
        is_own = path.parent == folder
        if path.stem <= since:
            continue
        try:
            record = read_record(path)
        except RecordError as error:
            if is_own:  # otherwise it is left to the machine that owns the folder
                aside = path.rename(path.with_suffix(".unreadable"))
                print_progress(f"rnnbench: {error} It was set aside as {aside.name}.")
            continue
        if _is_of(record, planned, place) and (is_own or record.site == place.site):
            return replace(record, run=planned)
    return None


def _is_of(record: Record, planned: Run, place: Place) -> bool:
    if record.is_companion:
        return False  # it belongs to another run's round
    return (record.experiment, record.run.digest) == (place.experiment, planned.digest)
