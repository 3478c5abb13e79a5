"""A bundle that lost an outcome measures it anew, beside the reference."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from rnnbench.records.store import read_record
from tests.conftest import make_project
from tests.exchange.bundles import bundle, run


def test_what_is_missing_of_a_round_is_measured_beside_the_reference(tmp_path: Path) -> None:
    """As where a start of the bundle was cut short: its outcome is not there."""
    project = make_project(tmp_path / "home")
    folder = tmp_path / "bundle"
    bundle(project, "small", folder)
    assert run(folder).returncode == 0
    (lost,) = folder.glob("out/*fake_fast*-r1/*/outcome.json")
    lost.unlink()
    again = run(folder)
    assert again.returncode == 0, again.stdout + again.stderr
    assert len(list(folder.glob("out/*/*/outcome.json"))) == 5, "the reference once more"
    assert run(folder).returncode == 0
    assert len(list(folder.glob("out/*/*/outcome.json"))) == 5, "all is there"

    taken = project.rnnbench("import", str(folder))
    assert taken.returncode == 0, taken.stderr
    records = {path: read_record(path) for path in project.records()}
    (companion,) = (path for path, record in records.items() if record.is_companion)
    assert records[companion].choices["rnn"] == "fake_middle"
    (late,) = (
        record
        for record in records.values()
        if not record.is_companion and record.round["id"] == records[companion].round["id"]
    )
    effects = (records[companion].round["effect"], late.round["effect"])
    assert effects[0] - effects[1] == pytest.approx(math.log(2), abs=0.3)
    found = (tmp_path / "home/results").glob("*/small/*-r1.json")
    pointers = [json.loads(path.read_text()) for path in found]
    named = {Path(one["record"]).parent.name: one.get("companions") for one in pointers}
    assert len(named) == 2, "the reference has the run of its own"
    assert named.pop(late.name) == [f"records/{records[companion].key}.json"]
    assert list(named.values()) == [None]
