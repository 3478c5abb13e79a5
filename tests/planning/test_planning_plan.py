"""The certificates and probes that an experiment needs, and which changes invalidate them."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from rnnbench.commands.rules import probe_summary as summary
from rnnbench.grid.point import GridPoint, name_of
from rnnbench.planning.plan import Certificate, Probe, certificates_of, probes_of
from rnnbench.records.keys import certificate_key, function_overrides, model_digest
from rnnbench.running.preflights import assembled_probe as assembled
from rnnbench.sources.probes import probe_of
from rnnworker.members import Outcome
from rnnworker.workers import certificate_jobs
from tests.factory import make_probe

GPU = [{"key": "device.kind", "in": ["gpu"], "why": "cuDNN runs on NVIDIA GPUs only"}]


def point(
    rnn: str = "keras", device: str = "cpu_1", skip: str | None = None, **changes: Any
) -> GridPoint:
    choices = {"model": "m", "cell": changes.pop("cell", "lstm"), "rnn": rnn, "device": device}
    choices["build"] = "current"
    overrides = changes.pop("overrides", {})
    seed = changes.pop("seed", 0)
    model = {"name": "m", "recurrent": True, "units": 8, "function": "rnnworker.data:text"}
    model |= {"data": {"prepare": "rnnworker.data:text"}, **changes.pop("model", {})}
    config: dict[str, Any] = {
        "model": model,
        "cell": {"name": choices["cell"]},
        "rnn": {"name": rnn, "implementation": rnn, "requires": GPU if rnn == "cudnn" else []},
        "device": {"name": device, "kind": device.partition("_")[0], "threads": 1},
        "build": {"name": "current", "framework": "keras3_tensorflow"},
        "dataset": {"name": "d", "path": "data/d.npz"},
        "limits": {"train": 5},
        "measure": {},
        "seed": seed,
        "repeat": 0,
        "alias": None,
    }
    for key, value in overrides.items():
        section, _, last = key.partition(".")
        config[section] = {**config[section], last: value}
    config.update(changes)
    return GridPoint(
        name_of(choices, overrides, seed, 0, None), choices, overrides, seed, 0, None, config, skip
    )


def certificates(*points: GridPoint, md5: str = "m", lock: str = "l") -> dict[str, Certificate]:
    return certificates_of(points, lambda config: md5, lambda build: lock)


def test_one_for_each_model_cell_and_build() -> None:
    gru, lstm = certificates(
        point(), point("block"), point("cell", seed=3), point(device="cpu_2"), point(cell="gru")
    ).items()
    for (key, _), prefix in ((gru, "m-gru-current-"), (lstm, "m-lstm-current-")):
        assert key.startswith(prefix) and len(key.removeprefix(prefix)) == 12
    names = [entry["name"] for entry in lstm[1].implementations]
    assert names == ["block", "cell", "keras"]


def skips(certificate: Certificate) -> dict[str, str | None]:
    return {entry["name"]: entry["skip"] for entry in certificate.implementations}


def test_an_implementation_that_cannot_run_is_listed_with_its_reason() -> None:
    why = "cuDNN runs on NVIDIA GPUs only"
    (certificate,) = certificates(point(), point("cudnn", skip=why)).values()
    assert skips(certificate) == {"keras": None, "cudnn": why}


def test_a_certificate_is_made_on_a_gpu_if_there_is_one() -> None:
    points = point(), point("cudnn", skip="x"), point("cudnn", device="gpu_0")
    (certificate,) = certificates(*points).values()
    assert certificate.config["device"]["kind"] == "gpu"
    assert skips(certificate) == {"keras": None, "cudnn": None}


def test_the_fake_framework_and_skipped_points_need_no_certificate() -> None:
    assert certificates(point(build={"name": "fake", "framework": "fake"})) == {}
    assert certificates(point(skip="not here")) == {}


def test_overrides_that_change_the_function_need_another_certificate() -> None:
    plain, wide = sorted(
        certificates(
            point(),
            point(overrides={"model.units": 16}),
            point(overrides={"model.epochs": 2, "model.batch": 64}),
            point(overrides={"measure.warmup_steps": 1}),
        ).values(),
        key=lambda certificate: certificate.config["model"]["units"],
    )
    assert (plain.overrides, wide.overrides) == ({}, {"model.units": 16})
    assert plain.devices[0]["batches"] == [{"batch": 64}, {}]


def test_the_key_depends_on_the_values_of_the_function_and_on_nothing_else() -> None:
    def key(**changes: Any) -> str:
        made = point(**changes)
        return certificate_key(made.choices, made.config)

    plain = key()
    assert key(rnn="block", device="cpu_2", seed=3, alias="x", measure={"warmup_steps": 9}) == plain
    assert key(precision="float32") == plain
    for name in ("batch", "epochs", "optimizer", "train_samples", "val_samples", "data_seed"):
        assert key(model={name: 5}) == plain, name
        assert key(overrides={f"model.{name}": 5}) == plain, name
    # Neither keys that only begin alike, nor the same keys of other sections.
    changed = [key(model={name: 5}) for name in ("batchnorm", "epochs_of_cell", "batch.x", "units")]
    changed += [key(build={"name": "current", "framework": "x"}), key(precision="tf32")]
    changed += [key(build={"name": "current", "framework": "x", "as_published": True})]
    changed += [key(build={"name": "current", "framework": "x", "batch": 5})]
    changed += [key(dataset={"name": "d", "path": "data/e.npz"}), key(cell="gru")]
    assert len({plain, *changed}) == len(changed) + 1
    assert function_overrides(
        {"model.batch": 1, "model.batchnorm": 2, "~model.optimizer.decay": 3, "rnn.x": 4,
         "build.as_published": True, "precision": "tf32", "device.threads": 2}
    ) == {"model.batchnorm": 2, "build.as_published": True, "precision": "tf32"}  # fmt: skip


def test_each_device_has_the_batches_that_run_on_it() -> None:
    large = {"model.batch": 128, "model.train_samples": 300}
    unavailable = point(overrides={"model.batch": 512}, skip="no")
    points = point(model={"batch": 16}), point(device="cpu_2", overrides=large), unavailable
    (certificate,) = certificates(*points).values()
    assert {place["name"]: place["batches"] for place in certificate.devices} == {
        "cpu_1": [{"batch": 16}],
        "cpu_2": [{"batch": 128, "train_samples": 300}],
    }
    first, second = certificate_jobs(certificate.as_dict())
    assert (first["further_device"], second["further_device"]) == (False, True)
    assert (second["device"], second["config"]["device"]["name"]) == ("cpu_2", "cpu_2")
    assert second["batches"] == certificate.devices[1]["batches"]


def test_a_model_without_a_recurrent_layer_is_certified_too() -> None:
    (certificate,) = certificates(point("none", model={"recurrent": False})).values()
    assert list(skips(certificate)) == ["none"]


def test_overrides_of_rnn_make_another_implementation() -> None:
    v3 = {"rnn.op": "CudnnRNNV3"}
    (certificate,) = certificates(point("raw"), point("raw", overrides=v3), point()).values()
    ops = {entry["name"]: entry["rnn"].get("op") for entry in certificate.implementations}
    assert ops == {"keras": None, "raw": None, "raw op=CudnnRNNV3": "CudnnRNNV3"}


def test_other_devices_are_listed_with_the_implementations_that_run_on_them() -> None:
    unavailable = point("block", device="cpu_9", skip="no")
    points = point(), point("block"), point(device="cpu_2"), unavailable
    (certificate,) = certificates(*points).values()
    first, other = certificate.devices
    assert (first["name"], first["implementations"]) == ("cpu_1", ["block", "keras"])
    assert (other["name"], other["implementations"]) == ("cpu_2", ["keras"])
    assert other["device"]["name"] == "cpu_2"


def test_changes_that_invalidate_a_certificate() -> None:
    def digest(*points: GridPoint, **pins: str) -> str:
        (certificate,) = certificates(*points, **pins).values()
        return certificate.digest

    first = digest(point())
    assert digest(point(), point(seed=1)) == first
    assert digest(point(limits={"train": 9})) == first
    assert digest(point(), point(device="cpu_2", skip="no such machine")) == first
    others = [
        digest(point(), point("block")),
        digest(point(), point(device="cpu_2")),
        digest(point(), point(overrides={"rnn.x": 1})),
        digest(point(), md5="other"),
        digest(point(), lock="other"),
        digest(point(model={"units": 9})),
        digest(point(), point(overrides={"model.batch": 64})),
    ]
    assert len({first, *others}) == 8


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
