"""Certificates and probes are exported with the runs, checked on import, and do not replace those
of another machine."""

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
    packed,
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
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "here"
    lay_down(folder / "results", make_record(machine="home", experiment=EXPERIMENT))
    monkeypatch.chdir(folder)
    return folder


def write_preflights(results: Path, machine: str, **changes: Any) -> tuple[Path, Path]:
    """Writes a certificate and a probe at a machine's site."""
    site = results / machine / EXPERIMENT
    preflights = {
        "certificates": {**CERTIFICATE, "machine": machine, **changes},
        "probes": {**make_probe(machine=machine), **changes},
    }
    files = {kind: site / kind / f"{data['key']}.json" for kind, data in preflights.items()}
    for kind, file in files.items():
        write_json(file, preflights[kind])
    return files["certificates"], files["probes"]


def test_they_are_imported_with_the_runs_and_replaced_if_planned_differently(
    here: Path, tmp_path: Path
) -> None:
    record = make_record(machine="away", experiment=EXPERIMENT)
    for digest, precision in (("first", None), ("second", "float32"), ("second", "tf32")):
        write_preflights(tmp_path / "away" / "results", "away", digest=digest, precision=precision)
        assert run("import", str(exported(tmp_path / "away", record))) == 0
    site = here / "results/imported/away" / EXPERIMENT
    (certificate,) = site.glob("certificates/*.json")
    (probe,) = site.glob("probes/*.json")
    assert [json.loads(file.read_text())["digest"] for file in (certificate, probe)] == [
        "second"
    ] * 2
    assert json.loads(certificate.read_text())["precision"] == "float32"


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
def test_an_invalid_one_is_refused(
    here: Path, tmp_path: Path, name: str, change: dict, capsys
) -> None:
    data = make_probe() if name.startswith("probes") else CERTIFICATE
    files = {f"away/{EXPERIMENT}/{name}": json.dumps({**data, **change}).encode()}
    before = everything(here)
    assert run("import", str(packed(tmp_path / "x.tar.gz", files))) == 1
    assert everything(here) == before
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "nothing was imported" in error
