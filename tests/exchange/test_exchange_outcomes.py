"""A bundle makes a certificate on each device, and the import combines them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rnnbench.exchange.outcomes import certificates_in
from rnnworker import bundle, machine, workers
from tests.running.test_running_certificates import ON_TWO, PER_DEVICE, cpu


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.setenv("PLACE", str(tmp_path))
    monkeypatch.setenv("RNNBENCH_TIMING_LOCK", "$PLACE/timing.lock")
    monkeypatch.setattr(workers, "WORKER", str(tmp_path / "rnnworker"))
    certificate = {
        **{**ON_TWO, "key": "m-lstm-b", "identity": {}},
        "config": {
            **{"device": cpu(1)["device"], "build": {"name": "b", "framework": "fake"}},
            **{"dataset": {}, "limits": {}},
        },
        "devices": [cpu(1, "block", "keras"), cpu(2, "keras"), cpu(3, "keras", threads=4096)],
    }
    run = {"name": "r", "digest": "r", "block": 0, "certificate": "m-lstm-b"}
    run["config"] = certificate["config"]
    files = {
        "bundle.json": {"files": {}, "packages": {}, "own": {}},
        "experiment.json": {},
        "plan.jsonl": run,
        "certificates.json": {"m-lstm-b": certificate},
    }
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content))
    (tmp_path / "rnnworker").mkdir()
    (tmp_path / "rnnworker/__main__.py").write_text(PER_DEVICE)
    return tmp_path


def test_each_available_device_has_its_steps(folder: Path, capsys) -> None:
    bundle.main(str(folder), [])
    assert "certificates/m-lstm-b  exit code 0" in capsys.readouterr().out
    (certificate,) = certificates_in(folder)
    block, keras = (certificate["implementations"][name] for name in ("block", "keras"))
    assert (block["status"], list(block["applied"])) == ("certified", ["cpu_1"])
    assert list(keras["applied"]) == ["cpu_1", "cpu_2", "cpu_3"]
    assert keras["applied"]["cpu_2"]["off"] == 0
    assert [batch["rows"] for batch in keras["probed"]["cpu_2"]["batches"]] == [16]
    assert keras["probed"]["cpu_3"]["why"] == "it was not tried"
    assert keras["applied"]["cpu_3"]["off"] is None
    assert keras["applied"]["cpu_3"]["why"] == "it was not tried"
    # Not made again because of the device that was not available.
    bundle.main(str(folder), [])
    assert len(list(certificates_in(folder))) == 1


def outcome_on(folder: Path, **hardware: object) -> None:
    """Rewrites the certificate's outcome as one of other hardware."""
    (path,) = folder.glob("out/certificates/*/*/outcome.json")
    outcome = json.loads(path.read_text())
    path.write_text(json.dumps({**outcome, "hardware": {**outcome["hardware"], **hardware}}))


def test_a_certificate_holds_on_the_next_machine_of_the_same_kind(folder: Path, capsys) -> None:
    """A bundle that is continued on a fresh virtual machine, which differs in its machine-id."""
    bundle.main(str(folder), [])
    outcome_on(folder, machine="first")
    bundle.main(str(folder), [])
    assert len(list(folder.glob("out/certificates/*/*/outcome.json"))) == 1
    here = machine.fingerprint()
    larger = {**here, "machine": "larger", "cores": 1000}
    machines = {"here": {**here, "machine": "here"}, "larger": larger}
    made = list(certificates_in(folder, machines))
    assert [each["machine"] for each in made] == ["here", "first"]
    assert {**made[0], "machine": "first"} == made[1]


def test_a_machine_of_another_kind_makes_its_own_certificate(folder: Path, capsys) -> None:
    bundle.main(str(folder), [])
    outcome_on(folder, machine="other", gpu_models=["NVIDIA H200"])
    bundle.main(str(folder), [])
    here = machine.fingerprint()
    made = list(certificates_in(folder, {here["machine"]: here}))
    assert {each["machine"] for each in made} == {"other", here["machine"]} and len(made) == 2
    bundle.main(str(folder), [])
    assert len(list(folder.glob("out/certificates/*/*/outcome.json"))) == 2
