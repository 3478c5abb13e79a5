"""Certificates and probes travel with the runs, are checked on arrival, and replace none of another
machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rnnbench.records.store import write_json
from tests.exchange.test_exchange_import import (
    EXPERIMENT,
    everything,
    exported,
    lay_down,
    packed_by_hand,
    run,
)
from tests.factory import make_probe, make_record

CERTIFICATE = {
    "schema": 1,
    "key": "digits_rnn-lstm-current",
    "machine": "away",
    "digest": "d",
    "implementations": {},
    "pairs": [],
    "portability": [],
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "here"
    lay_down(folder / "results", make_record(machine="home", experiment=EXPERIMENT))
    monkeypatch.chdir(folder)
    return folder


def laid(results: Path, machine: str, **changes: Any) -> tuple[Path, Path]:
    """A certificate and a probe at a machine's site."""
    site = results / machine / EXPERIMENT
    made = {
        "certificates": {**CERTIFICATE, "machine": machine, **changes},
        "probes": {**make_probe(machine=machine), **changes},
    }
    files = {kind: site / kind / f"{one['key']}.json" for kind, one in made.items()}
    for kind, file in files.items():
        write_json(file, made[kind])
    return files["certificates"], files["probes"]


def test_they_come_with_the_runs_and_a_later_import_replaces_them(
    here: Path, tmp_path: Path
) -> None:
    record = make_record(machine="away", experiment=EXPERIMENT)
    for digest in ("first", "second"):
        laid(tmp_path / "away" / "results", "away", digest=digest)
        assert run("import", str(exported(tmp_path / "away", record))) == 0
        files = [here / "results/away" / EXPERIMENT / kind for kind in ("certificates", "probes")]
        found = [json.loads(path.read_text()) for one in files for path in one.glob("*.json")]
        assert [one["digest"] for one in found] == [digest, digest]


def test_what_was_planned_here_stays(here: Path, tmp_path: Path) -> None:
    mine = laid(here / "results", "home", digest="planned")
    for file in mine:
        write_json(file.parent.with_suffix(".json"), {file.stem: {"digest": "planned"}})
    before = [file.read_bytes() for file in mine]
    record = make_record(machine="home", experiment=EXPERIMENT)
    laid(tmp_path / "old" / "results", "home", digest="old")
    assert run("import", str(exported(tmp_path / "old", record))) == 0
    assert [file.read_bytes() for file in mine] == before


@pytest.mark.parametrize("kind", [0, 1])
def test_another_machines_is_not_replaced(here: Path, tmp_path: Path, kind: int, capsys) -> None:
    mine = laid(here / "results", "home")[kind]
    theirs = json.dumps({**json.loads(mine.read_text()), "machine": "away"}).encode()
    name = mine.relative_to(here / "results").as_posix()
    before = everything(here)
    assert run("import", str(packed_by_hand(tmp_path / "x.tar.gz", {name: theirs}))) == 1
    assert everything(here) == before
    assert "of another machine; nothing was imported" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("probes/cpu_1-current.json", {"schema": 2}),
        ("probes/cpu_1-current.json", {"peak_gflops": "fast"}),
        ("probes/cpu_1-current.json", {"peak_gflops": float("nan")}),
        ("probes/cpu_1-current.json", {"peak_gflops": 10**400}),
        ("probes/cpu_1-other.json", {}),
        ("probes/cpu_1-current.txt", {}),
        ("probes/work/cpu_1-current.json", {}),
        ("certificates/x.json", {}),
        ("certificates/digits_rnn-lstm-current.json", {"pairs": [1]}),
    ],
)
def test_a_broken_one_is_refused(
    here: Path, tmp_path: Path, name: str, change: dict, capsys
) -> None:
    made = make_probe() if name.startswith("probes") else CERTIFICATE
    files = {f"away/{EXPERIMENT}/{name}": json.dumps({**made, **change}).encode()}
    before = everything(here)
    assert run("import", str(packed_by_hand(tmp_path / "x.tar.gz", files))) == 1
    assert everything(here) == before
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and "nothing was imported" in told
