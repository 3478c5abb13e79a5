"""Which grid points cannot run, and which options would have no effect."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from rnnbench.errors import ConfigError
from rnnbench.grid.expand import expand
from rnnbench.grid.experiment import Experiment
from rnnbench.grid.point import canonical
from rnnbench.grid.requirements import cores, unmet, unmet_here
from rnnbench.planning.digests import worker_digest
from rnnbench.planning.plan import certificates_of, probes_of
from rnnbench.running.verdict import judge
from rnnworker import precision
from rnnworker.cards import unmet_device
from tests.conftest import ROOT

GPU = {"key": "device.kind", "in": ["gpu"], "why": "cuDNN runs on NVIDIA GPUs only"}


def config(kind: str, *requires: Any) -> dict[str, Any]:
    groups: dict[str, Any] = {group: {"name": "x"} for group in ("model", "cell", "build")}
    return {
        **groups,
        "dataset": {"name": "x"},
        "rnn": {"name": "cudnn", "requires": list(requires)},
        "device": {"name": "d", "kind": kind},
    }


def test_an_unmet_requirement_gives_its_reason() -> None:
    assert unmet(config("cpu", GPU)) == "cuDNN runs on NVIDIA GPUs only"
    assert unmet(config("gpu", GPU)) is None
    assert unmet(config("cpu")) is None


def test_the_first_of_two_reasons_is_given() -> None:
    assert unmet(config("cpu", {**GPU, "why": "first"}, GPU)) == "first"


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (
            {"key": "device.kind", "in": ["gpu"]},
            "rnn=cudnn: requires: .0.: Object missing required field `why`",
        ),
        ({**GPU, "when": ["build.name"]}, "rnn=cudnn: requires: .0..when: Expected `object"),
        ({**GPU, "when": {"build.lock": ["x"]}}, "build=x does not set it"),
        ({**GPU, "key": "model.recurrent"}, "model=x does not set it.*add recurrent to model=x"),
    ],
)
def test_an_invalid_requirement_is_an_error(entry: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        unmet(config("cpu", entry))


def test_with_null_in_the_list_the_key_may_be_absent() -> None:
    entry = {"key": "model.recurrent_dropout", "in": [0.0, None], "why": "has none"}
    assert unmet(config("cpu", entry)) is None
    for value, why in ((0.0, None), (0.2, "has none")):
        with_dropout = config("cpu", entry)
        with_dropout["model"]["recurrent_dropout"] = value
        assert unmet(with_dropout) == why


def test_when_limits_a_requirement_to_some_configs() -> None:
    for build, why in (("x", GPU["why"]), ("y", None)):
        assert unmet(config("cpu", {**GPU, "when": {"build.name": [build]}})) == why


@pytest.mark.parametrize(
    ("device", "cards", "why"),
    [
        ({"kind": "cpu", "threads": 2}, (), None),
        ({"kind": "cpu", "threads": 4}, (), "this machine offers 2 cores"),
        ({"kind": "cpu", "threads": None}, (), None),
        ({"kind": "gpu", "threads": None}, (), "no NVIDIA GPU on this machine"),
        ({"kind": "gpu", "threads": None}, ("Tesla P100-PCIE-16GB",), None),
        ({"kind": "gpu", "gpu": "P100 PCIE"}, ("Tesla P100-PCIE-16GB",), None),
        (
            {"kind": "gpu", "gpu": "K80"},
            ("Quadro P1000",),
            "no K80 on this machine, which has Quadro P1000",
        ),
        (
            {"kind": "gpu", "gpu": "P100"},
            ("Quadro P1000",),
            "no P100 on this machine, which has Quadro P1000",
        ),
        ({"kind": "gpu", "replicas": 2}, ("Tesla K80", "Tesla K80"), None),
        ({"kind": "gpu", "replicas": 2}, (), "no NVIDIA GPU on this machine"),
        (
            {"kind": "gpu", "replicas": 2},
            ("Tesla K80", "Tesla T4"),
            "needs 2 visible GPUs of one model, found 1 Tesla K80, 1 Tesla T4; "
            "choose device=gpu for one card",
        ),
        (
            {"kind": "gpu", "replicas": 2, "gpu": "T4"},
            ("Tesla K80", "Tesla K80", "Tesla T4"),
            "needs 2 visible GPUs of one model (T4), found 1 Tesla T4; "
            "choose device=gpu for one card",
        ),
        ({"kind": "cpu", "threads": 2, "replicas": 2}, (), None),
    ],
)
def test_on_a_machine_with_two_cores(
    device: dict[str, Any], cards: tuple[str, ...], why: str | None
) -> None:
    assert unmet_device(device, 2, cards) == why


def test_on_this_machine() -> None:
    assert unmet_here({"device": {"kind": "cpu", "threads": cores()}}) is None
    assert unmet_here({"device": {"kind": "cpu", "threads": cores() + 1}}) is not None


def with_precision(**changes: Any) -> dict[str, Any]:
    return {
        **{group: {"name": "x"} for group in ("model", "cell", "dataset")},
        "device": {"kind": "gpu"},
        "build": {"framework": "keras3_torch"},
        "rnn": {"implementation": "keras"},
        **changes,
    }


def test_an_unsupported_precision_is_skipped_with_its_reason() -> None:
    assert unmet(with_precision()) is None
    assert unmet(with_precision(precision="tf32")) is None
    cpu = with_precision(precision="tf32", device={"kind": "cpu"})
    assert unmet(cpu) == "TF32 exists on NVIDIA GPUs only"
    old = with_precision(precision="mixed_float16", build={"framework": "keras2_tensorflow1"})
    assert "no dtype policy mixed_float16" in str(unmet(old))


@pytest.mark.parametrize(
    ("requested", "policy", "layers", "tf32", "as_requested"),
    [
        ("float32", "float32", ["float32"], False, True),
        ("float32", "float32", ["float32"], True, False),
        ("float32", "float32", ["float32"], None, True),
        ("tf32", "float32", ["float32"], "in part", False),
        ("mixed_bfloat16", "mixed_bfloat16", ["bfloat16"], False, True),
        ("mixed_bfloat16", "mixed_bfloat16", ["float32"], False, False),
    ],
)
def test_the_precision_used_is_compared_with_the_request(
    requested, policy, layers, tf32, as_requested
) -> None:
    used = {"policy": policy, "layers": layers, "tf32": tf32}
    assert precision.as_expected({"precision": requested}, used) is as_requested
    facts = {"precision": {**used, "asked": requested, "as_asked": as_requested}}
    reasons = judge((), (), facts).reasons
    assert ("wrong_precision" in {reason.code for reason in reasons}) is not as_requested


FILE = ROOT / "conf/experiment/replicas.yaml"


def points(*overrides: str, device: str = "cpu_2_replicas"):
    grid = ("model=digits_rnn", "rnn=keras", f"device={device}", *overrides)
    return expand(Experiment(name="replicas", grids=(grid,), file=FILE), [ROOT / "conf"])


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


GRID = "model=digits_rnn device=cpu_1 "
RELU = " +rnn.options.activation=relu"


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        (
            "rnn=keras,block" + RELU,
            r"from_grids.yaml, grid .*, grid point digits_rnn-lstm-block-.*-activationrelu-s0-r0: "
            r"rnn=block does not honour rnn.options.activation; it honours no options. "
            r"Fix: give rnn=block a grid without activation",
        ),
        (
            "rnn=keras +rnn.options.activaton=relu",
            r"rnn=keras does not honour rnn.options.activaton; it honours activation, .*"
            r"did you mean activation",
        ),
        ("rnn=keras cell=rnn_tanh +rnn.options.recurrent_activation=relu", "does not honour"),
        ("rnn=cudnn device=gpu +rnn.options={use_bias:false}", "rnn.options.use_bias"),
        ("rnn=unrolled +rnn.options.unroll=true", "rnn.options.unroll"),
        ("rnn=keras rnn.implementation=block" + RELU, r"rnn=keras \(rnn.implementation block\)"),
        ("rnn=keras +rnn.options=relu", "rnn.options is 'relu'.*write options: {NAME: DEFAULT}"),
        (
            "rnn=keras +rnn.activation=relu",
            "unknown key 'rnn.activation'. Fix: write .rnn.options.activation=VALUE",
        ),
        ("rnn=keras +rnn.opions.activation=relu", "unknown key 'rnn.opions.* mean options"),
    ],
)
def test_an_option_without_effect_is_rejected(expanded, grid: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        expanded((GRID if "device" not in grid else "model=digits_rnn ") + grid)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "grid",
    [
        "rnn=keras,unrolled,cell" + RELU,
        "rnn=keras +rnn.options.implementation=1",
        "rnn=keras +rnn.options.use_bias=false",
        "rnn=keras cell=gru +rnn.options.recurrent_activation=hard_sigmoid",
        # The grid point of block is skipped, so no implementation ignores the option.
        "rnn=keras,block cell=gru" + RELU,
        "rnn=cudnn_raw device=gpu rnn.options.op=CudnnRNNV3",
    ],
)
def test_an_honoured_option_is_accepted(expanded, grid: str) -> None:
    assert expanded((GRID if "device" not in grid else "model=digits_rnn ") + grid)


def test_a_user_supplied_choice_may_set_options(expanded, extra: Path) -> None:
    file = extra / "rnn" / "my_relu.yaml"
    requires = "requires: []\nnote: mine\n"
    file.write_text(f"implementation: keras\noptions: {{activation: relu}}\n{requires}")
    (point,) = expanded(GRID + "rnn=my_relu rnn.note=yours")
    assert point.config["rnn"]["options"] == {"activation": "relu"}
    file.write_text(f"implementation: block\noptions: {{activation: relu}}\n{requires}")
    with pytest.raises(ConfigError, match=r"rnn=my_relu .*remove activation from the file of rnn="):
        expanded(GRID + "rnn=my_relu")
