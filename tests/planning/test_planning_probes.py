"""The probes that an experiment needs, the changes that invalidate one, and failed probes."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from rnnbench.commands.rules import probe_summary as summary
from rnnbench.planning.plan import Probe
from rnnbench.planning.preflight import probes_of
from rnnbench.records.keys import model_digest
from rnnbench.running.preflights import assembled_probe as assembled
from rnnbench.sources.probes import probe_of
from rnnworker.members import Outcome
from tests.factory import make_probe
from tests.planning.test_planning_certificates import point

HARDWARE = {"machine": "box-1", "gpus": []}


def probes(*points: Any, lock: str = "l") -> dict[str, Probe]:
    return probes_of(points, lambda build: lock)


def test_one_for_each_device_and_build_with_each_model_once() -> None:
    by_key = probes(
        point("block"), point(), point(seed=3), point(device="cpu_2"), point(cell="gru"),
        point(device="cpu_4", skip="not here"), point(build={"name": "f", "framework": "fake"}),
    )  # fmt: skip
    assert sorted(by_key) == ["cpu_1-current", "cpu_2-current"]
    models = by_key["cpu_1-current"].models
    assert sorted(model["cell"] for model in models) == ["gru", "lstm"]
    (lstm,) = [model for model in models if model["cell"] == "lstm"]
    assert lstm["config"] == model_digest(point().config)
    assert lstm["settings"]["rnn"]["name"] == "keras"
    assert len(probes(point(), point(overrides={"model.units": 9}))["cpu_1-current"].models) == 2


def test_products_are_measured_in_float32_for_every_precision() -> None:
    (plain,) = probes(point()).values()
    (half,) = probes(point(precision="mixed_float16")).values()
    assert "precision" not in half.models[0]["settings"]
    assert half.digest == plain.digest


def test_an_override_of_the_build_needs_another_probe() -> None:
    by_key = probes(point(), point(overrides={"build.jit_compile": True}))
    assert sorted(by_key) == ["cpu_1-current", "cpu_1-current-jit_compiletrue"]
    assert by_key["cpu_1-current-jit_compiletrue"].overrides == {"build.jit_compile": True}


def test_changes_that_invalidate_a_probe() -> None:
    def digest(*points: Any, **pins: str) -> str:
        return probes(*points, **pins)["cpu_1-current"].digest

    first = digest(point())
    assert digest(point(), point("block"), point(seed=1)) == first
    others = [digest(point(), point(cell="gru")), digest(point(), lock="other"),
              digest(point(model={"units": 9}))]  # fmt: skip
    assert len({first, *others}) == 4


def test_limits_are_part_of_the_config_but_not_of_the_digest() -> None:
    (few,), (many,) = (probes(point(limits={"memory_bytes": n})).values() for n in (2**28, 2**30))
    assert few.config["limits"] == {"memory_bytes": 2**28}
    assert few.digest == many.digest


def test_the_probing_code_is_not_part_of_a_runs_digest(monkeypatch) -> None:
    from rnnbench.planning import digests

    config = point().config
    before = digests.worker_digest(config), digests.prober_digest([config])
    original = digests._tree
    probing = {"probe.py"}
    digests._digest.cache_clear()
    monkeypatch.setattr(
        digests, "_tree",
        lambda file: "edited" if file.name in probing else original(file),
    )  # fmt: skip
    assert digests.worker_digest(config) == before[0]
    assert digests.prober_digest([config]) != before[1]
    digests._digest.cache_clear()


def planned() -> dict[str, Any]:
    return json.loads(json.dumps(probes(point())["cpu_1-current"].as_dict()))


def facts_event(**parts: Any) -> dict[str, Any]:
    return {"event": "facts", "t": 1.0, "probe": parts}


def test_the_reader_accepts_what_the_worker_reports() -> None:
    expected = make_probe()
    names = ("large", "peak_gflops", "models")
    phase = {"event": "phase_end", "t": 1.0, "phase": "large", "start": 1.0, "end": 3.0,
             "timed": False, "details": {"load": {"foreign": 0.5}}}  # fmt: skip
    facts = facts_event(**{name: expected[name] for name in names})
    finished = {"event": "finished", "t": 9.0}
    probe = assembled(planned(), 1, HARDWARE, Outcome(events=[facts, phase, finished]))
    assert msgspec.to_builtins(probe_of(json.loads(json.dumps(probe)), "here")) == probe
    assert probe["error"] is None and probe["foreign_load"] == 0.25
    assert probe["models"] == expected["models"]
    assert (probe["key"], probe["machine"]) == ("cpu_1-current", "box-1")
    assert summary(probe) == "probe cpu_1-current: 50 GFLOP/s, 1 models"


def test_a_failed_probe_contains_the_measurements_so_far_and_the_error() -> None:
    facts = facts_event(large=[{"size": 8, "gflops": [3.0]}], peak_gflops=3.0)
    outcome = Outcome([facts], exit_code=-11, phase="model_digits_rnn-lstm")
    probe = assembled(planned(), 1, HARDWARE, outcome)
    assert "SIGSEGV" in probe["error"] and probe["peak_gflops"] == 3.0
    assert probe_of(json.loads(json.dumps(probe)), "here").models == []
    assert summary(probe).startswith("probe cpu_1-current failed: ")
    outcome.log_tail = "terminate called: std::bad_alloc"
    out_of_memory = assembled(planned(), 1, HARDWARE, outcome)
    assert "ran out of memory" in out_of_memory["error"]


def test_a_probe_with_the_wrong_number_of_threads_is_an_error() -> None:
    threads = {"asked": 1, "intra_op": 2, "pinned_to": [0]}
    measured = {"event": "facts", "t": 1.0, "measured": {"threads": threads}}
    finished = {"event": "finished", "t": 9.0}
    events = [facts_event(peak_gflops=3.0), measured, finished]
    probe = assembled(planned(), 1, HARDWARE, Outcome(events))
    assert "intra_op is 2" in probe["error"] and probe["peak_gflops"] is None
