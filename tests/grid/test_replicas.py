"""Which configurations can train on several devices at once."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from rnnbench.errors import ConfigError
from rnnbench.grid.expand import expand
from rnnbench.grid.experiment import Experiment
from rnnbench.grid.point import canonical
from rnnbench.planning.digests import worker_digest
from rnnbench.planning.preflight import certificates_of, probes_of
from tests.conftest import ROOT

FILE = ROOT / "conf/experiment/replicas.yaml"


def points(*overrides: str, device: str = "cpu_2_replicas"):
    grid = ("model=digits_rnn", "rnn=keras", f"device={device}", *overrides)
    return expand(Experiment("replicas", "", "", (grid,), file=FILE), [ROOT / "conf"])


def skips(*grid: str) -> Iterable[str | None]:
    return [point.skip for point in points(*grid)]


def test_tensorflow_2_trains_on_replicas() -> None:
    (point,) = points("build=tf_2_21", "device.threads=1")
    assert point.skip is None
    assert point.config["device"]["replicas"] == 2


@pytest.mark.parametrize(
    ("grid", "why"),
    [
        ("build=keras3_torch", "keras3_torch trains on one device here; choose a build of TensorF"),
        ("build=keras3_jax", "keras3_jax trains on one device here"),
        ("build=tf_1_15", "keras2_tensorflow1 trains on one device here"),
        ("build=tf_2_21_xla", "XLA compiles a step for one device; choose a build without"),
        ("model.batch=17", "a batch of 17 cannot be split.*choose model.batch=16 or 18"),
        ("model.batch=1", "choose model.batch=2$"),
    ],
)
def test_what_cannot_train_on_replicas_is_skipped(grid: str, why: str) -> None:
    (skip,) = skips(grid, "device.threads=1")
    with pytest.raises(AssertionError, match=why):
        raise AssertionError(skip)


def test_a_feed_on_the_device_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"device.replicas is 2.*write device.feed=host"):
        points("+device.feed=device")


def test_the_number_of_replicas_is_at_least_1() -> None:
    with pytest.raises(ConfigError, match=r"device.replicas is 0; it must be an integer ≥ 1"):
        points("device.replicas=0")


def test_other_devices_have_no_new_key_and_no_new_code() -> None:
    (replicated,) = points("device.threads=1")
    (alone,) = points(device="cpu_1")
    assert "replicas" not in canonical(alone.config["device"])
    assert worker_digest(alone.config) != worker_digest(replicated.config)


def test_one_certificate_checks_the_steps_of_replicas_and_no_probe_is_made() -> None:
    both = points("device.threads=1", device="cpu_1,cpu_2_replicas")
    (certificate,) = certificates_of(both, lambda config: None, lambda build: None).values()
    first, second = certificate.devices
    assert first["name"].startswith("cpu_1")
    assert second["device"]["replicas"] == 2
    (probe,) = probes_of(both, lambda build: None).values()
    assert probe.choices["device"] == "cpu_1"
