"""Which probes an experiment needs, what makes one anew, and what is written when one fails."""

from __future__ import annotations

import json
from typing import Any

from rnnbench.commands.probe import summary
from rnnbench.planning import probes as room
from rnnbench.records.probe_match import model_digest
from rnnbench.running.probe import assembled
from rnnbench.running.supervise import Outcome
from rnnbench.sources.probes import checked
from tests.factory import make_probe
from tests.planning.test_planning_certificates import cell

HARDWARE = {"machine": "box-1", "gpus": []}


def made(*cells: Any, lock: str = "l") -> dict[str, room.Probe]:
    return room.probes_of(cells, lambda build: lock)


def test_one_for_each_device_and_build_with_each_model_once() -> None:
    found = made(
        cell("block"), cell(), cell(seed=3), cell(device="cpu_2"), cell(cell="gru"),
        cell(device="cpu_4", skip="not here"), cell(build={"name": "f", "framework": "fake"}),
    )  # fmt: skip
    assert sorted(found) == ["cpu_1-current", "cpu_2-current"]
    models = found["cpu_1-current"].models
    assert sorted(one["cell"] for one in models) == ["gru", "lstm"]
    (lstm,) = [one for one in models if one["cell"] == "lstm"]
    assert lstm["config"] == model_digest(cell().config)
    assert lstm["settings"]["rnn"]["name"] == "keras"
    assert len(made(cell(), cell(overrides={"model.units": 9}))["cpu_1-current"].models) == 2


def test_products_are_measured_in_float32_whatever_the_runs_compute_in() -> None:
    (plain,), (half,) = made(cell()).values(), made(cell(precision="mixed_float16")).values()
    assert "precision" not in half.models[0]["settings"]
    assert half.digest == plain.digest


def test_another_device_by_override_is_another_probe() -> None:
    found = made(cell(), cell(overrides={"build.jit_compile": True}))
    assert sorted(found) == ["cpu_1-current", "cpu_1-current-jit_compiletrue"]
    assert found["cpu_1-current-jit_compiletrue"].overrides == {"build.jit_compile": True}


def test_what_makes_it_anew() -> None:
    def digest(*cells: Any, **pins: str) -> str:
        return made(*cells, **pins)["cpu_1-current"].digest

    first = digest(cell())
    assert digest(cell(), cell("block"), cell(seed=1)) == first
    others = [digest(cell(), cell(cell="gru")), digest(cell(), lock="other"),
              digest(cell(model={"units": 9}))]  # fmt: skip
    assert len({first, *others}) == 4


def test_limits_travel_with_it_and_make_none_anew() -> None:
    (few,), (many,) = (made(cell(limits={"memory_bytes": n})).values() for n in (2**28, 2**30))
    assert few.config["limits"] == {"memory_bytes": 2**28}
    assert few.digest == many.digest


def test_the_probes_own_code_is_no_part_of_a_run(monkeypatch) -> None:
    from rnnbench.planning import code_digest

    before = code_digest.worker_digest(cell().config), code_digest.prober_digest([cell().config])
    real = code_digest._tree
    probing = ("probe.py", "probing")
    code_digest._digest.cache_clear()
    monkeypatch.setattr(
        code_digest, "_tree",
        lambda file: "edited" if {file.name, file.parent.name} & set(probing) else real(file),
    )  # fmt: skip
    assert code_digest.worker_digest(cell().config) == before[0]
    assert code_digest.prober_digest([cell().config]) != before[1]
    code_digest._digest.cache_clear()


def planned() -> dict[str, Any]:
    return json.loads(json.dumps(made(cell())["cpu_1-current"].line()))


def told(**parts: Any) -> dict[str, Any]:
    return {"event": "facts", "t": 1.0, "probe": parts}


def test_what_the_worker_told_is_what_the_reader_takes() -> None:
    whole = make_probe()
    names = ("large", "peak_gflops", "bandwidth", "peak_gb_per_s", "models")
    phase = {"event": "phase_end", "t": 1.0, "phase": "large", "start": 1.0, "end": 3.0,
             "timed": False, "details": {"load": {"foreign": 0.5}}}  # fmt: skip
    facts = told(**{name: whole[name] for name in names})
    finished = {"event": "finished", "t": 9.0}
    found = assembled(planned(), 1, HARDWARE, Outcome(events=[facts, phase, finished]))
    assert checked(json.loads(json.dumps(found)), "here") == found
    assert found["error"] is None and found["foreign_load"] == 0.25
    assert found["models"] == whole["models"]
    assert (found["key"], found["machine"]) == ("cpu_1-current", "box-1")
    assert summary(found) == "probe cpu_1-current: 50 GFLOP/s, 12 GB/s, 1 models"


def test_a_worker_that_died_leaves_what_it_measured_and_why() -> None:
    facts = told(large=[{"size": 8, "gflops": [3.0]}], peak_gflops=3.0)
    died = Outcome([facts], exit_code=-11, phase="bandwidth")
    found = assembled(planned(), 1, HARDWARE, died)
    assert "SIGSEGV" in found["error"] and found["peak_gflops"] == 3.0
    assert checked(json.loads(json.dumps(found)), "here")["peak_gb_per_s"] is None
    assert summary(found).startswith("probe cpu_1-current failed: ")
    for_memory = assembled(planned(), 1, HARDWARE, died, "terminate called: std::bad_alloc")
    assert "ran out of memory" in for_memory["error"]


def test_a_probe_of_another_device_is_none() -> None:
    threads = {"asked": 1, "intra_op": 2, "pinned_to": [0]}
    measured = {"event": "facts", "t": 1.0, "measured": {"threads": threads}}
    finished = {"event": "finished", "t": 9.0}
    events = [told(peak_gflops=3.0), measured, finished]
    found = assembled(planned(), 1, HARDWARE, Outcome(events))
    assert "intra_op is 2" in found["error"] and found["peak_gflops"] is None
