"""A bundle looks which cards are there before it trains, and gives each run one of them."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from rnnworker import bundle_machine, bundle_session
from rnnworker.bundle_session import Session
from tests.worker.test_worker_cards import SLICED, TWO

JUST_PYTHON = {"name": "b", "framework": "fake"}


def config(gpu: str | None, **environment: str) -> dict:
    build = {**JUST_PYTHON, "environment": environment}
    return {"device": {"kind": "gpu", "gpu": gpu}, "build": build}


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    (tmp_path / "bundle.json").write_text(json.dumps({"packages": {}, "own": {}}))
    (tmp_path / "experiment.json").write_text("{}")

    def on(gpus: list[dict]) -> Session:
        monkeypatch.setattr(bundle_machine.machine, "fingerprint", lambda: {"gpus": gpus})
        return Session(str(tmp_path), SimpleNamespace(out=None, limit=None, python=[], parts=[]))

    return on


def test_a_run_for_another_card_is_skipped(session) -> None:
    there = session(TWO)
    assert there.machine.obstacle(config("H100")) is None
    assert there.machine.obstacle(config(None)) is None
    told = there.machine.obstacle(config("H200"))
    assert told == "no H200 on this machine, which has NVIDIA H100 PCIe, NVIDIA H100 80GB HBM3"
    told = there.machine.obstacle(config("H100", CUDA_VISIBLE_DEVICES="0"))
    assert told == "no H100 on this machine, which has NVIDIA H100 PCIe"
    told = there.machine.obstacle(config(None, CUDA_VISIBLE_DEVICES=""))
    assert told == "no GPU on this machine, which has no visible one (CUDA_VISIBLE_DEVICES)"
    assert session([]).machine.obstacle(config(None)) == "no NVIDIA GPU on this machine"
    assert session(SLICED).machine.obstacle(config("A100 SXM4")) is None


def test_a_worker_sees_the_card_of_its_run_alone(session, monkeypatch, tmp_path: Path) -> None:
    started = []

    def supervise(members, end):
        started.extend(members)
        return {one.name: None for one in members}

    monkeypatch.setattr(bundle_session, "supervise", supervise)
    monkeypatch.setattr(bundle_session, "TIMING_LOCK", str(tmp_path / "lock"))
    place = tmp_path / "place"
    place.mkdir()
    session(TWO)._run_workers([("run", str(place), {"config": config("H100")})], {"run": {}})
    (member,) = started
    assert member.environment["CUDA_VISIBLE_DEVICES"] == "GPU-a1"
    assert json.loads((place / "job.json").read_text())["card"]["uuid"] == "GPU-a1"
