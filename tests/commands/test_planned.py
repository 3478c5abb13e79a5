"""What Snakemake asks of `rnnbench certify` and `rnnbench probe`, and a plan that has changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from rnnbench.commands.planned_item import requested_preflight, still_planned
from rnnbench.errors import RunError
from rnnbench.records.store import write_json

ENTRY = {"key": "cpu_1-current", "digest": "d"}


def test_it_is_found_where_the_file_is_to_be(tmp_path: Path) -> None:
    folder = tmp_path / "results" / "here" / "mine"
    write_json(folder / "probes.json", {"cpu_1-current": ENTRY})
    file = str(folder / "probes" / "cpu_1-current.json")
    words = [file, "--digest", "d", "--root", str(tmp_path)]
    planned, place = requested_preflight("probe", None, words, "probe")
    assert planned == ENTRY
    assert (place.root, place.results) == (tmp_path, tmp_path / "results")
    assert (place.site, place.experiment) == ("here", "mine")
    with pytest.raises(RunError, match="probe cpu_1-current: was planned again"):
        requested_preflight("probe", None, [file, "--digest", "other"], "probe")
    gone = str(folder / "probes" / "cpu_2-current.json")
    with pytest.raises(RunError, match="probe cpu_2-current: was planned again"):
        requested_preflight("probe", None, [gone, "--digest", "d"], "probe")


def test_a_run_that_is_still_planned() -> None:
    assert still_planned(ENTRY, "d", "run") is ENTRY
