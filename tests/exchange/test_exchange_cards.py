"""A bundle checks the machine's GPUs before it trains and assigns one to each run."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from rnnworker import bundle, machine
from tests.worker.test_worker_cards import ONE, TWO


def config(gpu: str | None, **environment: str) -> dict:
    build = {"name": "b", "framework": "fake", "environment": environment}
    return {"device": {"kind": "gpu", "gpu": gpu}, "build": build}


def run(of: dict) -> dict:
    return {"config": of}


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    (tmp_path / "bundle.json").write_text(json.dumps({"packages": {}, "own": {}}))
    (tmp_path / "experiment.json").write_text("{}")
    (tmp_path / "plan.jsonl").touch()
    options = {"out": str(tmp_path), "limit": None, "python": [], "site": []}
    options["no_certificates"] = True

    def session_on(gpus: list[dict]) -> bundle.Session:
        monkeypatch.setattr(machine, "fingerprint", lambda: {"gpus": gpus})
        monkeypatch.setattr(machine, "gpus", lambda: gpus)
        return bundle.Session(str(tmp_path), SimpleNamespace(**options), 0.0)

    return session_on


def test_a_run_for_another_gpu_is_skipped(session) -> None:
    obstacle = session(TWO).obstacle
    assert obstacle(run(config("H100"))) is None
    assert obstacle(run(config(None))) is None
    reason = obstacle(run(config("H200")))
    assert reason == "no H200 on this machine, which has NVIDIA H100 PCIe, NVIDIA H100 80GB HBM3"
    reason = obstacle(run(config("H100", CUDA_VISIBLE_DEVICES="0")))
    assert reason == "no H100 on this machine, which has NVIDIA H100 PCIe"
    reason = obstacle(run(config(None, CUDA_VISIBLE_DEVICES="")))
    assert reason == "no GPU on this machine, which has no visible one (CUDA_VISIBLE_DEVICES)"
    assert session([]).obstacle(run(config(None))) == "no NVIDIA GPU on this machine"


def test_replicas_need_as_many_gpus_of_one_model(session) -> None:
    two = {**config(None), "device": {"kind": "gpu", "gpu": None, "replicas": 2}}
    assert session([ONE[0], {**ONE[0], "uuid": "GPU-b"}]).obstacle(run(two)) is None
    reason = session(TWO).obstacle(run(two))
    assert reason == (
        "needs 2 visible GPUs of one model, found 1 NVIDIA H100 80GB HBM3, 1 NVIDIA H100 PCIe; "
        "choose device=gpu for one card"
    )


def test_a_worker_sees_only_the_gpu_of_its_run(session, tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    job = {"config": config("H100")}
    member = session(TWO)._member({"name": "run"}, str(place), job, limits={})
    assert member.environment["CUDA_VISIBLE_DEVICES"] == "GPU-a1"
    assert json.loads((place / "job.json").read_text())["card"]["uuid"] == "GPU-a1"
