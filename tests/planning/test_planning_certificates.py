"""The certificates that an experiment needs, and which changes invalidate them."""

from __future__ import annotations

from typing import Any

from rnnbench.grid.point import GridPoint, name_of
from rnnbench.planning.plan import Certificate
from rnnbench.planning.preflight import certificates_of
from rnnbench.records.keys import certificate_key, function_overrides
from rnnworker.workers import certificate_jobs

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
