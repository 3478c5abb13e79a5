"""Naming the kernel that ran, from lists of executed ops."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from rnnworker import attest
from rnnworker.frameworks.keras3_jax import primitives
from rnnworker.frameworks.tensorflow_facts import _ops

STEPS = 8
DENSE = [("dense/MatMul", "_MklMatMul", 1), ("gradient_tape/dense/MatMul", "MatMul", 1)]
WHILE = [
    ("lstm/while/body/_24/cell/MatMul", "MatMul", STEPS),
    ("gradient_tape/lstm/while/while_grad/body/_9/MatMul_1", "MatMul", STEPS),
    ("lstm/while/cond/_23/Less", "Less", STEPS + 1),
]
BLOCK_CELL = [
    ("lstm/while/body/_24/LSTMBlockCell", "LSTMBlockCell", STEPS),
    ("gradient_tape/lstm/while/while_grad/body/_9/LSTMBlockCellGrad", "LSTMBlockCellGrad", STEPS),
    ("gradient_tape/lstm/while/while_grad/body/_9/MatMul", "MatMul", STEPS),
]
UNROLLED = [(f"lstm/cell_{step}/MatMul", "MatMul", 1) for step in range(STEPS)]
CUDNN = [("lstm/CudnnRNNV3", "CudnnRNNV3", 1), ("gradients/x", "CudnnRNNBackpropV3", 1)]


@pytest.mark.parametrize(
    ("ops", "kernels"),
    [
        (DENSE, []),
        (DENSE + WHILE, ["while"]),
        (DENSE + BLOCK_CELL, ["block_cell"]),
        (DENSE + [("gru/while/body/_2/GRUBlockCell", "GRUBlockCell", STEPS)], ["block_cell"]),
        (DENSE + [("l/BlockLSTMV2", "BlockLSTMV2", 1)], ["block"]),
        (DENSE + UNROLLED, ["unrolled"]),
        (DENSE + UNROLLED[:-2], []),
        (DENSE + CUDNN, ["cudnn"]),
        (DENSE + CUDNN + WHILE, ["cudnn", "while"]),
        ([("ThunkExecutor::Execute", "XlaLaunch", 3)], ["xla"]),
        ([], []),
    ],
)
def test_kernels_are_named_from_what_was_executed(ops: list, kernels: list[str]) -> None:
    assert attest.kernels_in_tensorflow(ops, STEPS) == kernels


def test_unrolled_needs_time_steps() -> None:
    assert attest.kernels_in_tensorflow(DENSE + UNROLLED, None) == []
    assert attest.kernels_in_tensorflow(DENSE, 1) == []


@pytest.mark.parametrize(
    ("counts", "kernels"),
    [
        ({"aten::matmul": 2 * STEPS + 1, "aten::mm": 6 * STEPS}, ["torch:loop"]),
        ({"aten::linear": STEPS + 2}, ["torch:loop"]),
        ({"aten::matmul": 2}, []),
        ({"aten::lstm": 1, "aten::matmul": 2 * STEPS}, ["torch:native"]),
        ({"aten::lstm": 1, "aten::mkldnn_rnn_layer": 1}, ["torch:onednn"]),
        ({"aten::gru": 1, "aten::_cudnn_rnn": 1, "aten::matmul": 1}, ["torch:cudnn"]),
        ({}, []),
    ],
)
def test_kernels_in_torch(counts: dict, kernels: list[str]) -> None:
    assert attest.kernels_in_torch(counts, STEPS) == kernels


DENSE_IN_JAX = [((), "dot_general")] * 3
SCAN = [((), "scan"), (("scan",), "dot_general"), (("scan",), "tanh")]


@pytest.mark.parametrize(
    ("primitives", "kernels"),
    [
        (DENSE_IN_JAX, []),
        (DENSE_IN_JAX + SCAN, ["jax:scan"]),
        (DENSE_IN_JAX + [((), "while"), (("while",), "add")], []),
        (DENSE_IN_JAX + [((), "dot_general")] * (5 * STEPS - 1), ["unrolled"]),
        (DENSE_IN_JAX + [((), "rnn_fwd"), ((), "rnn_bwd")], ["jax:cudnn"]),
        (DENSE_IN_JAX + [((), "rnn_fwd")] + SCAN, ["jax:cudnn", "jax:scan"]),
    ],
)
def test_kernels_in_jax(primitives: list, kernels: list[str]) -> None:
    assert attest.kernels_in_jax(primitives, STEPS) == kernels


def test_primitives_are_found_inside_loops_and_calls() -> None:
    def equation(name: str, **params) -> SimpleNamespace:
        return SimpleNamespace(primitive=SimpleNamespace(name=name), params=params)

    def jaxpr(*equations) -> SimpleNamespace:
        return SimpleNamespace(eqns=equations)

    body = SimpleNamespace(jaxpr=jaxpr(equation("dot_general")))
    called = jaxpr(equation("scan", jaxpr=body, length=8), equation("add"))
    outer = jaxpr(equation("pjit", jaxpr=called), equation("cond", branches=(body, body)))
    assert list(primitives(outer)) == [
        ((), "pjit"),
        ((), "scan"),
        (("scan",), "dot_general"),
        ((), "add"),
        ((), "cond"),
        ((), "dot_general"),
        ((), "dot_general"),
    ]


def config(kernels, kind: str = "cpu", **build) -> dict:
    return {"rnn": {"kernels": kernels}, "device": {"kind": kind}, "build": build}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (config(["while"]), ["while"]),
        (config(None), None),
        ({**config(None), "rnn": {}}, None),
        (config({"cpu": ["while"], "gpu": ["cudnn"]}, "gpu"), ["cudnn"]),
        (config({"gpu": ["cudnn"]}), None),
        (config(["while"], jit_compile=True), ["xla"]),
        (config(None, jit_compile=True), None),
        (config(["while"], framework="keras3_torch"), ["torch:loop"]),
        (config(["unrolled"], framework="keras3_torch"), ["torch:loop"]),
        (config(["cudnn"], "gpu", framework="keras3_torch"), ["torch:cudnn"]),
        (config(["while"], framework="keras3_torch", jit_compile=True), None),
        (config(["while"], framework="keras3_jax", jit_compile=True), ["jax:scan"]),
        (config(["unrolled"], framework="keras3_jax", jit_compile=True), ["unrolled"]),
        (config(["cudnn"], "gpu", framework="keras3_jax"), ["jax:cudnn"]),
        (
            config({"keras3_jax": ["a"], "f": {"cpu": {"gru": ["b"]}}}, framework="keras3_jax"),
            ["a"],
        ),
        ({**config({"f": {"cpu": {"gru": ["b"]}}}, framework="f"), "cell": {"name": "gru"}}, ["b"]),
        ({**config({"f": {"cpu": {"gru": ["b"]}}}, framework="f"), "cell": {"name": "lstm"}}, None),
        ({**config({"lstm": ["block"]}), "cell": {"name": "lstm"}}, ["block"]),
        (
            {
                **config(None),
                "cell": {"name": "lstm"},
                "rnn": {"kernels": {"lstm": ["block"], "A": ["while"]}, "options": {"class": "A"}},
            },
            ["while"],
        ),
    ],
)
def test_expected_kernels(given: dict, expected: list[str] | None) -> None:
    assert attest.expected(given) == expected


def test_contradiction_needs_found_and_expected_kernels() -> None:
    assert not attest.contradicts({"found": ["while"], "expected": ["while"]})
    assert not attest.contradicts({"found": ["while"], "expected": None})
    assert attest.contradicts({"found": ["cudnn", "while"], "expected": ["cudnn"]})
    assert not attest.contradicts({"found": [], "expected": ["while"]})


GOOD = {
    "cell": "lstm",
    "device": "gpu",
    "gpus": 1,
    "cuda_build": True,
    "use_cudnn": "auto",
    "activation": "tanh",
    "recurrent_activation": "sigmoid",
    "recurrent_dropout": 0.0,
    "unroll": False,
    "use_bias": True,
    "reset_after": None,
    "mask": False,
}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"device": "cpu"}, "the device is a CPU"),
        ({"gpus": 0}, "sees no GPU"),
        ({"cuda_build": False}, "no CUDA support"),
        ({"use_cudnn": False}, "use_cudnn=False"),
        ({"cell": "rnn_relu", "activation": "relu"}, "simple recurrent layer"),
        ({"activation": "relu"}, "activation is relu"),
        ({"recurrent_activation": "hard_sigmoid"}, "recurrent_activation is hard_sigmoid"),
        ({"recurrent_dropout": 0.2}, "recurrent dropout"),
        ({"unroll": True}, "unrolled"),
        ({"use_bias": False}, "no bias"),
        ({"reset_after": False}, "reset_after=False"),
        ({"mask": True}, "masked"),
    ],
)
def test_each_obstacle_to_cudnn_gives_one_reason(change: dict, reason: str) -> None:
    (reported,) = attest.why_not_cudnn({**GOOD, **change})
    assert reason in reported


def test_no_reason_without_an_obstacle_to_cudnn() -> None:
    assert attest.why_not_cudnn(GOOD) == []
    assert attest.why_not_cudnn({}) == []


def test_layer_facts_include_those_of_the_cell() -> None:
    cell = SimpleNamespace(recurrent_dropout=0.2, use_bias=True)
    layer = SimpleNamespace(cell=cell, unroll=True, activation=len)
    facts = attest.layer_facts(layer)
    assert (facts["recurrent_dropout"], facts["unroll"], facts["activation"]) == (0.2, True, "len")
    assert facts["recurrent_activation"] is None


def test_ops_are_counted_in_the_host_plane() -> None:
    def plane(name: str, events: list[str]) -> SimpleNamespace:
        metadata = {i: SimpleNamespace(name=event) for i, event in enumerate(events)}
        line = SimpleNamespace(events=[SimpleNamespace(metadata_id=i) for i in metadata])
        return SimpleNamespace(name=name, lines=[line], event_metadata=metadata)

    names = ["a/MatMul:MatMul", "a/MatMul:MatMul", "EagerExecute", "ExecutorState::Process"]
    names += ["end: copy.2", "ThunkExecutor::Execute", "a_step_42.7:XLA GPU module"]
    space = SimpleNamespace(planes=[plane("/host:CPU", names), plane("/device:GPU:0", ["k:K"])])
    assert _ops(space) == [
        ("ThunkExecutor::Execute", "XlaLaunch", 1),
        ("a/MatMul", "MatMul", 2),
        ("a_step_42.7:XLA GPU module", "XlaLaunch", 1),
    ]
