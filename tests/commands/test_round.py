"""The checks of `rnnbench round` before it measures."""

from __future__ import annotations

from pathlib import Path

import pytest

from rnnbench.commands import preflights
from rnnbench.commands import round as command
from rnnbench.datasets.pins import pinned
from rnnbench.records.store import Place
from tests.conftest import ROOT
from tests.factory import as_run
from tests.running.test_running_train import planned


def test_each_dataset_is_verified_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, pin = next(iter(pinned(ROOT).items()))
    verified, calls = [], []
    monkeypatch.setattr(preflights, "verify", lambda *arguments: verified.append(arguments))
    monkeypatch.setattr(
        command, "measure", lambda runs, place, **options: calls.append(options) or {}
    )
    runs = [planned(f"fake-lstm-{rnn}-cpu_1-fake-s0-r0") for rnn in ("a", "b", "c")]
    for run in runs[:2]:
        run["config"]["dataset"] = {"name": "mine", "path": path}
    preflights._data_md5.cache_clear()
    monkeypatch.setattr(preflights, "INPUTS", {})
    monkeypatch.setattr(command, "worker_digest", lambda config: "w")
    place = Place(ROOT, tmp_path, "here", "selftest", tmp_path / "timing.lock")
    monkeypatch.setattr(command, "_reference", lambda planned, place: None)
    planned_runs = [as_run(run) for run in runs]
    command._measure(planned_runs, planned_runs, place, "[1/1]", "a_round")
    assert verified == [(ROOT / path, pin, "mine")]
    assert list(calls[0]["pinned_md5"].values()) == [pin.md5, pin.md5, None]
