"""A bundle makes a certificate on each device, and the import combines them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rnnbench.exchange.outcomes import preflights_in
from rnnworker import bundle, workers

# Replaces the worker: reports the requested device and number of threads.
WORKER = """
import json, os, sys
with open(sys.argv[1]) as file:
    job = json.load(file)
steps = {"threads": job["threads"], "steps": 30, "off": 0, "worst": 0.0, "why": None}
errors = {"outputs": 1e-7, "gradients": 1e-6}
batches = [dict(errors, rows=batch["batch"], training=True) for batch in job["batches"]]
layers = {"batches": batches, "wrong": None, "why": None}
result = {"applied": {job["device"]: steps}, "probed": {job["device"]: layers}}
if not job["further_device"]:
    result.update(status="certified", why=None, outputs=1e-7, function=None)
names = [entry["name"] for entry in job["implementations"]]
certificate = {"precision": "float32", "implementations": {name: result for name in names}}
event = {"event": "facts", "t": 1.0, "certificate": certificate}
os.write(int(os.environ["RNNWORKER_EVENTS"]), (json.dumps(event) + "\\n").encode())
"""


def device(name: str, threads: int) -> dict:
    return {"name": name, "kind": "cpu", "threads": threads}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.setattr(bundle, "TIMING_LOCK", str(tmp_path / "timing.lock"))
    monkeypatch.setattr(workers, "WORKER", str(tmp_path / "rnnworker"))
    config = {
        "device": device("cpu_1", 1),
        "build": {"name": "b", "framework": "fake"},
        "dataset": {},
        "limits": {},
    }
    certificate = {
        "key": "m-lstm-b", "digest": "d", "choices": {}, "overrides": {}, "config": config,
        "implementations": [{"name": n, "rnn": {}, "skip": None} for n in ("block", "keras")],
        "devices": [
            {"name": name, "device": device(name, threads), "implementations": names,
             "batches": [{"batch": threads}]}
            for name, threads, names in (
                ("cpu_1", 1, ["block", "keras"]), ("here", 1, ["keras"]), ("large", 4096, ["keras"])
            )
        ],
    }  # fmt: skip
    run = {"name": "r", "digest": "r", "block": 0, "config": config, "certificate": "m-lstm-b"}
    files = {
        "bundle.json": {"files": {}, "packages": {}, "own": {}},
        "experiment.json": {},
        "plan.jsonl": run,
        "certificates.json": {"m-lstm-b": certificate},
        "probes.json": {},
    }
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content))
    (tmp_path / "rnnworker").mkdir()
    (tmp_path / "rnnworker/__main__.py").write_text(WORKER)
    return tmp_path


def test_each_available_device_has_its_steps(folder: Path, capsys) -> None:
    bundle.main(str(folder), [])
    assert "certificates/m-lstm-b  exit code 0" in capsys.readouterr().out
    (certificate,) = preflights_in(folder, "certificates")
    block, keras = (certificate["implementations"][name] for name in ("block", "keras"))
    assert (block["status"], list(block["applied"])) == ("certified", ["cpu_1"])
    assert list(keras["applied"]) == ["cpu_1", "here", "large"]
    assert keras["applied"]["here"]["off"] == 0
    assert [batch["rows"] for batch in keras["probed"]["here"]["batches"]] == [1]
    assert keras["probed"]["large"]["why"] == "it was not tried"
    assert keras["applied"]["large"]["off"] is None
    assert keras["applied"]["large"]["why"] == "it was not tried"
    # Not made again because of the device that was not available.
    bundle.main(str(folder), [])
    assert len(list(preflights_in(folder, "certificates"))) == 1
