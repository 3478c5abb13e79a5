"""Which grid points cannot run, and which options would have no effect."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from rnnbench.grid.point import canonical
from rnnbench.grid.requirements import cores, unmet, unmet_here
from rnnbench.planning.digests import worker_digest
from rnnbench.planning.plan import certificates_of
from rnnbench.running.verdict import judge
from rnnworker import precision
from rnnworker.cards import unmet_device
from tests.factory import measured_of
from tests.grid.conftest import assert_error

GPU = {"key": "device.kind", "in": ["gpu"], "why": "cuDNN runs on NVIDIA GPUs only"}
NO_DROPOUT = {"key": "model.recurrent_dropout", "in": [0.0, None], "why": "has none"}
ON_A_GPU = {"device": {"kind": "gpu"}}
OLD_KERAS = {"build": {"framework": "keras2_tensorflow1"}}
NO_POLICY = "this Keras has no dtype policy"


def config(*requires: Any, **changes: Any) -> dict[str, Any]:
    """A config whose rnn choice has these `requires`; `changes` replace its sections and keys."""
    return {
        **{group: {"name": "x"} for group in ("model", "cell", "dataset", "device")},
        "build": {"name": "x", "framework": "keras3_torch"},
        "rnn": {"name": "cudnn", "implementation": "keras", "requires": list(requires)},
        "device": {"kind": "cpu"},
        **changes,
    }


@pytest.mark.parametrize(
    ("requires", "changes", "why"),
    [
        ([GPU], {}, GPU["why"]),
        ([GPU], ON_A_GPU, None),
        ([], {}, None),
        ([{**GPU, "why": "first"}, GPU], {}, "first"),
        # With null in the list, the key may be absent.
        ([NO_DROPOUT], {}, None),
        ([NO_DROPOUT], {"model": {"recurrent_dropout": 0.0}}, None),
        ([NO_DROPOUT], {"model": {"recurrent_dropout": 0.2}}, "has none"),
        ([{**GPU, "when": {"build.name": ["x"]}}], {}, GPU["why"]),
        ([{**GPU, "when": {"build.name": ["y"]}}], {}, None),
        ([], {"precision": "tf32"}, "TF32 exists on NVIDIA GPUs only"),
        ([], {"precision": "tf32", **ON_A_GPU}, None),
        ([], {"precision": "mixed_float16", **OLD_KERAS}, f"{NO_POLICY} mixed_float16"),
    ],
)
def test_an_unmet_requirement_gives_its_reason(
    requires: list[Any], changes: dict[str, Any], why: str | None
) -> None:
    assert unmet(config(*requires, **changes)) == why


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"key": "device.kind", "in": ["gpu"]}, ".0.: Object missing required field `why`"),
        ({**GPU, "when": ["build.name"]}, ".0..when: Expected `object"),
        ({**GPU, "when": {"build.lock": ["x"]}}, "build=x does not set it"),
        ({**GPU, "key": "model.recurrent"}, "model=x does not set it.*add recurrent to model=x"),
    ],
)
def test_an_invalid_requirement_is_an_error(entry: Any, message: str) -> None:
    assert_error(f"rnn=cudnn: requires: .*{message}", unmet, config(entry))


K80, P100, T4, SMALL = "Tesla K80", "Tesla P100-PCIE-16GB", "Tesla T4", "Quadro P1000"
ONE_MODEL = "needs 2 visible GPUs of one model"


@pytest.mark.parametrize(
    ("device", "cards", "why"),
    [
        ({"kind": "cpu", "threads": 2}, (), None),
        ({"kind": "cpu", "threads": 4}, (), "this machine offers 2 cores"),
        ({"kind": "cpu", "threads": None}, (), None),
        ({"kind": "gpu", "threads": None}, (), "no NVIDIA GPU on this machine"),
        ({"kind": "gpu", "threads": None}, (P100,), None),
        ({"kind": "gpu", "gpu": "P100 PCIE"}, (P100,), None),
        ({"kind": "gpu", "gpu": "K80"}, (SMALL,), f"no K80 on this machine, which has {SMALL}"),
        ({"kind": "gpu", "gpu": "P100"}, (SMALL,), f"no P100 on this machine, which has {SMALL}"),
        ({"kind": "gpu", "replicas": 2}, (K80, K80), None),
        ({"kind": "gpu", "replicas": 2}, (), "no NVIDIA GPU on this machine"),
        (
            {"kind": "gpu", "replicas": 2},
            (K80, T4),
            f"{ONE_MODEL}, found 1 {K80}, 1 {T4}; choose device=gpu for one card",
        ),
        (
            {"kind": "gpu", "replicas": 2, "gpu": "T4"},
            (K80, K80, T4),
            f"{ONE_MODEL} (T4), found 1 {T4}; choose device=gpu for one card",
        ),
        ({"kind": "cpu", "threads": 2, "replicas": 2}, (), None),
    ],
)
def test_on_a_machine_with_two_cores(
    device: dict[str, Any], cards: tuple[str, ...], why: str | None
) -> None:
    assert unmet_device(device, 2, cards) == why


def test_on_this_machine() -> None:
    assert unmet_here({"kind": "cpu", "threads": cores()}) is None
    assert unmet_here({"kind": "cpu", "threads": cores() + 1}) is not None


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
    reasons = judge((), (), measured_of(facts)).reasons
    assert ("wrong_precision" in {reason.code for reason in reasons}) is not as_requested


REPLICAS = "device=cpu_2_replicas device.threads=1 "


@pytest.mark.parametrize(
    ("grid", "why"),
    [
        ("build=tf_2_21", None),
        ("build=keras3_torch", "keras3_torch trains on one device here; choose a build of TensorF"),
        ("build=keras3_jax", "keras3_jax trains on one device here"),
        ("build=tf_1_15", "keras2_tensorflow1 trains on one device here"),
        ("build=tf_2_21_xla", "XLA compiles a step for one device; choose a build without"),
        ("model.batch=17", "a batch of 17 cannot be split.*choose model.batch=16 or 18"),
        ("model.batch=1", "choose model.batch=2$"),
    ],
)
def test_only_tensorflow_2_trains_on_replicas(expanded, grid: str, why: str | None) -> None:
    (point,) = expanded(REPLICAS + grid)
    assert point.config["device"]["replicas"] == 2
    assert point.skip is None if why is None else re.search(why, point.skip)


@pytest.mark.parametrize(
    ("grid", "why"),
    [
        ("+device.turns=false", "device.turns is for GPUs; on CPUs, measure.turns decides"),
        ("+device.gpu=T4", "device.gpu is for GPUs; choose device=gpu"),
        ("device=gpu +device.gpu=T4 +device.turns=false", None),
        ("+build.as_published=true", "for Keras 2.0.6; choose build=tf_1_2"),
        ("build=tf_1_2 rnn=cell build.as_published=true", None),
        ("build=keras3_jax build.jit_compile=false", "without XLA, Keras on jax computes op by op"),
        ("build=keras3_jax", None),
        ("build=tf_1_15 +build.jit_compile=true", "TensorFlow 1 trains without XLA here"),
        ("build=tf_2_21 +build.jit_compile=true", None),
    ],
)
def test_a_key_that_nothing_would_read_is_not_measured(
    expanded, grid: str, why: str | None
) -> None:
    (point,) = expanded(grid)
    assert point.skip is None if why is None else why in (point.skip or "")


def test_a_feed_on_the_device_is_an_error(expanded) -> None:
    message = r"device.replicas is 2.*write \+device.feed=host"
    assert_error(message, expanded, f"{REPLICAS} +device.feed=device")


def test_other_devices_have_no_new_key_and_no_new_code(expanded) -> None:
    alone, replicated = expanded("device=cpu_1", REPLICAS)
    assert "replicas" not in canonical(alone.config["device"])
    assert worker_digest(alone.config) != worker_digest(replicated.config)


def test_one_certificate_checks_the_steps_of_replicas(expanded) -> None:
    both = expanded("device=cpu_1,cpu_2_replicas device.threads=1")
    (certificate,) = certificates_of(both, lambda config: None, lambda build: None).values()
    first, second = certificate.devices
    assert first.name.startswith("cpu_1")
    assert second.device["replicas"] == 2


RELU = " +rnn.options.activation=relu"


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        (
            "rnn=keras,block" + RELU,
            r"from_grids.yaml, grid .*, grid point digits_rnn-lstm-block-.*-activationrelu-s0-r0: "
            r"rnn=block does not honour rnn.options.activation; it honours activity_regularizer, .*"
            r"Fix: remove rnn.options.activation, or give rnn=block a grid of its own",
        ),
        (
            "rnn=keras +rnn.options.activaton=relu",
            "does not honour rnn.options.activaton; it honours activation, .*mean rnn.options.act",
        ),
        ("rnn=keras cell=rnn_tanh +rnn.options.recurrent_activation=relu", "does not honour"),
        ("rnn=cudnn device=gpu +rnn.options={use_bias:false}", "rnn.options.use_bias"),
        ("rnn=unrolled +rnn.options.unroll=true", "rnn.options.unroll"),
        ("rnn=keras rnn.implementation=block" + RELU, r"rnn=keras \(rnn.implementation block\)"),
        ("rnn=keras +rnn.options=relu", r"is 'relu'.*set by \+rnn.options.NAME"),
        (
            "rnn=keras +rnn.activation=relu",
            "unknown key 'rnn.activation'. Fix: write .rnn.options.activation=VALUE",
        ),
        (
            "rnn=keras +rnn.opions.activation=relu",
            r"unknown key 'rnn.opions.* mean \+rnn.options.activation=VALUE",
        ),
    ],
)
def test_an_option_without_effect_is_an_error(expanded, grid: str, message: str) -> None:
    assert_error(message, expanded, grid)


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
    assert expanded(grid)


def test_an_override_of_the_cells_names_known_ones(expanded) -> None:
    message = r"grid .*: rnn.cells has the unknown name 'lsmt'. Fix: did you mean lstm. .* are gru"
    assert_error(message, expanded, "rnn=keras +rnn.cells=[lsmt]")


def test_a_user_supplied_choice_may_set_options(expanded, extra: Path) -> None:
    file = extra / "rnn" / "my_relu.yaml"
    requires = "requires: []\nabout: mine\n"
    file.write_text(f"implementation: keras\noptions: {{activation: relu}}\n{requires}")
    (point,) = expanded("rnn=my_relu +rnn.cells=[lstm]")
    assert point.config["rnn"]["options"] == {"activation": "relu"}
    file.write_text(f"implementation: block\noptions: {{activation: relu}}\n{requires}")
    assert_error("rnn=my_relu .*remove activation from the file of rnn=", expanded, "rnn=my_relu")
