"""What a round's command does before anything is measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from rnnbench.commands import round as command
from rnnbench.datasets.pins import pinned
from rnnbench.running.train import Place
from tests.conftest import ROOT
from tests.running.test_running_train import planned


def test_each_dataset_is_looked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, pin = next(iter(pinned(ROOT).items()))
    seen, asked = [], []
    monkeypatch.setattr(command, "verify", lambda *looked: seen.append(looked))
    monkeypatch.setattr(
        command, "measure", lambda lines, place, **options: asked.append(options) or {}
    )
    lines = [planned(f"fake-lstm-{rnn}-cpu_1-fake-s0-r0") for rnn in ("a", "b", "c")]
    for line in lines[:2]:
        line["config"]["dataset"] = {"name": "mine", "path": path}
    place = Place(ROOT, tmp_path, "here", "selftest", tmp_path / "timing.lock")
    monkeypatch.setattr(command, "_reference", lambda planned, place: None)
    command._measure(lines, lines, place, "[1/1]", "a_round")
    assert seen == [(ROOT / path, pin, "mine")]
    assert list(asked[0]["pinned_md5"].values()) == [pin.md5, pin.md5, None]
