"""A bundle that lost an outcome measures the run again, in turns with the reference."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from rnnbench.records.store import read_record
from rnnbench.tables.effects import effects_of
from tests.conftest import make_project
from tests.exchange.bundles import bundle, run


def test_a_missing_run_of_a_round_takes_turns_with_the_reference(tmp_path: Path) -> None:
    """The outcome is missing as after an interrupted bundle."""
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
    assert len(list(folder.glob("out/*/*/outcome.json"))) == 5, "all runs have an outcome"

    imported = project.rnnbench("import", str(folder), "--restore")
    assert imported.returncode == 0, imported.stderr
    records = {path: read_record(path) for path in project.records()}
    (companion,) = (path for path, record in records.items() if record.is_companion)
    assert records[companion].run.choices["rnn"] == "fake_middle"
    (late,) = (
        record
        for record in records.values()
        if not record.is_companion and record.round.id == records[companion].round.id
    )
    effects = effects_of([records[companion], late])
    difference = effects[records[companion].key].log - effects[late.key].log
    assert difference == pytest.approx(math.log(2), abs=0.3)
    files = (tmp_path / "home/results").glob("*/small/*-r1.json")
    pointers = [json.loads(path.read_text()) for path in files]
    companions = {Path(data["record"]).parent.name: data.get("companions") for data in pointers}
    assert len(companions) == 2, "the pointer of the reference names its first run"
    assert companions.pop(late.name) == [f"records/{records[companion].key}.json"]
    assert list(companions.values()) == [None]
