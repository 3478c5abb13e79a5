"""The certificates that an experiment needs, and which changes invalidate them."""

from __future__ import annotations

from typing import Any

import pytest

from rnnbench.errors import ConfigError
from rnnbench.grid.point import GridPoint, name_of
from rnnbench.planning.plan import Plan, certificates_of, code_of, facts_of
from rnnbench.planning.planner import make_plan
from rnnbench.records.keys import certificate_key, function_overrides
from rnnbench.records.plan_file import PlannedCertificate
from rnnworker.workers import certificate_jobs
from tests.conftest import Project
from tests.factory import make_config

WHY = "cuDNN runs on NVIDIA GPUs only"
GPU = [{"key": "device.kind", "in": ["gpu"], "why": WHY}]


def point(
    rnn: str = "keras",
    device: str = "cpu_1",
    *,
    cell: str = "lstm",
    seed: int = 0,
    skip: str | None = None,
    overrides: dict[str, Any] | None = None,
    model: dict[str, Any] | None = None,
    **changes: Any,
) -> GridPoint:
    """`model`: keys that replace those of the model; `changes`: sections that replace others."""
    choices = {"model": "digits_rnn", "cell": cell, "rnn": rnn, "device": device}
    choices["build"] = "current"
    overrides = overrides or {}
    config = make_config(choices, overrides, seed, 0, epochs=5)
    config["model"] |= model or {}
    config["rnn"]["requires"] = GPU if rnn == "cudnn" else []
    name = name_of(choices, overrides, seed, 0, None)
    return GridPoint(name, choices, overrides, seed, 0, None, {**config, **changes}, skip)


def certificates(
    *points: GridPoint, md5: str = "m", lock: str = "l"
) -> dict[str, PlannedCertificate]:
    return certificates_of(points, lambda config: md5, lambda build: lock)


def test_one_for_each_model_cell_and_build() -> None:
    gru, lstm = certificates(
        point(), point("block"), point("cell", seed=3), point(device="cpu_2"), point(cell="gru")
    ).items()
    for (key, _), prefix in ((gru, "digits_rnn-gru-current-"), (lstm, "digits_rnn-lstm-current-")):
        assert key.startswith(prefix) and len(key.removeprefix(prefix)) == 12
    names = [entry.name for entry in lstm[1].implementations]
    assert names == ["block", "cell", "keras"]


def skips(certificate: PlannedCertificate) -> dict[str, str | None]:
    return {entry.name: entry.skip for entry in certificate.implementations}


def test_a_certificate_has_the_limits_of_its_runs_and_nothing_of_one_alone() -> None:
    limits = {"train": 9}
    (certificate,) = certificates(point(limits=limits), point("block", seed=2)).values()
    assert certificate.config["limits"] == limits
    assert set(certificate.config) >= {"model", "cell", "device", "build", "dataset", "seed"}
    assert not {"rnn", "measure", "repeat", "alias"} & set(certificate.config)
    assert certificate.choices == {"model": "digits_rnn", "cell": "lstm", "build": "current"}
    assert certificate.identity["dataset_md5"] == "m" and certificate.identity["build_lock"] == "l"
    (certificate,) = certificates(point(limits=None)).values()
    assert certificate.config["limits"] == {}


def test_a_certificate_is_made_on_a_gpu_if_there_is_one() -> None:
    unavailable = point("cudnn", skip=WHY)
    (certificate,) = certificates(point(), unavailable).values()
    assert skips(certificate) == {"keras": None, "cudnn": WHY}
    (certificate,) = certificates(point(), unavailable, point("cudnn", device="gpu_0")).values()
    assert certificate.config["device"]["kind"] == "gpu"
    assert skips(certificate) == {"keras": None, "cudnn": None}


def test_the_fake_framework_and_skipped_points_need_no_certificate() -> None:
    assert certificates(point(build={"name": "fake", "framework": "fake"})) == {}
    assert certificates(point(skip="not here")) == {}


def test_overrides_that_change_the_function_need_another_certificate() -> None:
    made = certificates(
        point(),
        point(overrides={"model.units": 16}),
        point(overrides={"model.epochs": 2, "model.batch": 64}),
        point(overrides={"measure.warmup_steps": 1}),
    ).values()
    wide, plain = sorted(made, key=lambda certificate: certificate.config["model"]["units"])
    assert (plain.overrides, wide.overrides) == ({}, {"model.units": 16})
    assert plain.devices[0].batches == [{"batch": 32}, {"batch": 64}]


def test_each_optimizer_is_certified_on_its_own() -> None:
    """A certificate compares what the optimizer changes in each weight."""
    sgd = {"model.optimizer": {"name": "sgd", "learning_rate": 0.1}}
    points = [point(rnn, overrides=each) for rnn in ("keras", "block") for each in ({}, sgd)]
    made = certificates(*points).values()
    optimizers = sorted(str(each.config["model"]["optimizer"]) for each in made)
    assert optimizers == sorted(
        [str(sgd["model.optimizer"]), str(point().config["model"]["optimizer"])]
    )
    assert [len(each.implementations) for each in made] == [2, 2]


def test_the_key_depends_on_the_values_of_the_function_and_on_nothing_else() -> None:
    def key(**changes: Any) -> str:
        made = point(**changes)
        return certificate_key(made.choices, made.config)

    plain = key()
    assert key(rnn="block", device="cpu_2", seed=3, alias="x", measure={"warmup_steps": 9}) == plain
    assert key(precision="float32") == plain
    for name in ("batch", "epochs", "metrics", "train_samples", "val_samples", "data_seed"):
        assert key(model={name: 5}) == plain, name
        assert key(overrides={f"model.{name}": 5}) == plain, name
    # Neither keys that only begin alike, nor the same keys of other sections.
    names = ("batchnorm", "epochs_of_cell", "batch.x", "units", "optimizer", "loss")
    changed = [key(model={name: 5}) for name in names]
    changed += [key(build={"name": "current", "framework": "x"}), key(precision="tf32")]
    changed += [key(build={"name": "current", "framework": "x", "as_published": True})]
    changed += [key(build={"name": "current", "framework": "x", "batch": 5})]
    changed += [key(dataset={"name": "d", "path": "data/e.npz"}), key(cell="gru")]
    assert len({plain, *changed}) == len(changed) + 1
    assert function_overrides(
        {"model.batch": 1, "model.batchnorm": 2, "~model.metrics": 3, "rnn.x": 4,
         "build.as_published": True, "precision": "tf32", "device.threads": 2}
    ) == {"model.batchnorm": 2, "build.as_published": True, "precision": "tf32"}  # fmt: skip


def test_each_device_has_the_batches_that_run_on_it() -> None:
    large = {"model.batch": 128, "model.train_samples": 300}
    unavailable = point(overrides={"model.batch": 512}, skip="no")
    points = point(model={"batch": 16}), point(device="cpu_2", overrides=large), unavailable
    (certificate,) = certificates(*points).values()
    assert {place.name: place.batches for place in certificate.devices} == {
        "cpu_1": [{"batch": 16}],
        "cpu_2": [{"batch": 128, "train_samples": 300}],
    }
    first, second = certificate_jobs(certificate.as_dict())
    assert (first["further_device"], second["further_device"]) == (False, True)
    assert (second["device"], second["config"]["device"]["name"]) == ("cpu_2", "cpu_2")
    assert second["batches"] == certificate.devices[1].batches


def test_other_devices_are_listed_with_the_implementations_that_run_on_them() -> None:
    unavailable = point("block", device="cpu_9", skip="no")
    points = point(), point("block"), point(device="cpu_2"), unavailable
    (certificate,) = certificates(*points).values()
    first, other = certificate.devices
    assert (first.name, first.implementations) == ("cpu_1", ["block", "keras"])
    assert (other.name, other.implementations) == ("cpu_2", ["keras"])
    assert other.device["name"] == "cpu_2"


def test_devices_and_implementations_are_named_with_their_overrides() -> None:
    on_three = {"device.threads": 3}
    with_op = {"rnn.op": "CudnnRNNV3", **on_three}
    points = point(), point("raw", overrides=on_three), point("raw", overrides=with_op)
    (certificate,) = certificates(*points).values()
    listed = {place.name: place.implementations for place in certificate.devices}
    every = ["keras", "raw", "raw op=CudnnRNNV3"]
    assert listed == {"cpu_1": every, "cpu_1 threads=3": every[1:]}


def test_the_code_of_a_further_device_counts() -> None:
    """On several GPUs, a module gives each of them a part of the batch."""
    (certificate,) = certificates(point(), point(device="cpu_2")).values()
    before = code_of(certificate)
    certificate.devices[1].device["replicas"] = 2
    assert code_of(certificate) != before


def test_a_model_without_a_recurrent_layer_is_certified_too() -> None:
    (certificate,) = certificates(point("none", model={"recurrent": False})).values()
    assert list(skips(certificate)) == ["none"]


def test_overrides_of_rnn_make_another_implementation() -> None:
    v3 = {"rnn.op": "CudnnRNNV3"}
    (certificate,) = certificates(point("raw"), point("raw", overrides=v3), point()).values()
    ops = {entry.name: entry.rnn.get("op") for entry in certificate.implementations}
    assert ops == {"keras": None, "raw": None, "raw op=CudnnRNNV3": "CudnnRNNV3"}


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


def with_peak(project: Project, text: str) -> Plan:
    file = project.folder / "conf/device/cpu_1.yaml"
    file.write_text(file.read_text() + text)
    return make_plan("quick", [project.folder / "conf"], project.folder)


def test_the_peak_of_a_device_changes_no_run_and_reaches_the_report(project: Project) -> None:
    """It is a fact from a datasheet: nothing is measured again when it is added."""
    before = with_peak(project, "")
    after = with_peak(project, "peak_tflops: {float32: 0.1, tf32: 0.2}\n")
    assert {name: run.digest for name, run in before.runs.items()} == {
        name: run.digest for name, run in after.runs.items()
    }
    assert facts_of(before).peak_tflops == {}
    assert facts_of(after).peak_tflops == {"cpu_1": {"float32": 0.1, "tf32": 0.2}}


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ("19.5", r"device\.peak_tflops is 19\.5; .* peak_tflops: {float32: 19\.5, tf32: 156}"),
        ("{fp32: 19.5}", "unknown key 'fp32' in device.peak_tflops.*the keys are float32, tf32"),
        ("{float32: 0}", r"device\.peak_tflops\.float32 is 0; it must be a number > 0"),
        ("{float32: fast}", r"device\.peak_tflops\.float32 is 'fast'; it must be a number"),
        ("{float32: null}", r"device\.peak_tflops\.float32 is None; it must be a number"),
    ],
)
def test_a_peak_that_cannot_be_used_is_refused(project: Project, value: str, error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        with_peak(project, f"peak_tflops: {value}\n")
