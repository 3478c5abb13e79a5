"""The planned items that Snakemake requests from `rnnbench certify` and `rnnbench probe`."""

from __future__ import annotations

from pathlib import Path

import pytest

from rnnbench.commands.rules import probe, requested_preflight
from rnnbench.errors import RunError
from rnnbench.records.store import write_json

ENTRY = {"key": "cpu_1-current", "digest": "d"}


def test_the_path_names_the_planned_item(tmp_path: Path) -> None:
    folder = tmp_path / "results" / "here" / "mine"
    write_json(folder / "probes.json", {"cpu_1-current": ENTRY})
    file = str(folder / "probes" / "cpu_1-current.json")
    arguments = [file, "--digest", "d", "--root", str(tmp_path)]
    planned, place = requested_preflight(probe, arguments, "probe")
    assert planned == ENTRY
    assert (place.root, place.results) == (tmp_path, tmp_path / "results")
    assert (place.site, place.experiment) == ("here", "mine")
    with pytest.raises(RunError, match="probe cpu_1-current: was planned again"):
        requested_preflight(probe, [file, "--digest", "other"], "probe")
    unplanned = str(folder / "probes" / "cpu_2-current.json")
    with pytest.raises(RunError, match="probe cpu_2-current: was planned again"):
        requested_preflight(probe, [unplanned, "--digest", "d"], "probe")
