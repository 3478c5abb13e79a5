"""Naming the kernel that ran, from lists of executed ops."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from rnnworker import attest
from rnnworker.frameworks.keras3_jax import primitives
from rnnworker.frameworks.keras_session import KerasSession
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
    ("gradient_tape/lstm/while/while_grad/body/_9/MatMul", "MatMul", STEPS),
]
UNROLLED = [(f"lstm/cell_{step}/MatMul", "MatMul", 1) for step in range(STEPS)]
# A layer and direction each: the product of its inputs is outside of its loop.
INPUTS = [(f"lstm_{layer}/MatMul", "MatMul", 1) for layer in range(STEPS)]
LOOPS = [(f"lstm_{layer}/while/cell/MatMul", "MatMul", STEPS) for layer in range(STEPS)]
CUDNN = [("lstm/CudnnRNNV3", "CudnnRNNV3", 1), ("gradients/x", "CudnnRNNBackpropV3", 1)]
IN_TENSORFLOW = [
    (DENSE, []),
    (DENSE + WHILE, ["while"]),
    (DENSE + BLOCK_CELL, ["block_cell"]),
    (DENSE + [("gru/while/body/_2/GRUBlockCell", "GRUBlockCell", STEPS)], ["block_cell"]),
    (DENSE + [("l/BlockLSTMV2", "BlockLSTMV2", 1)], ["block"]),
    (DENSE + UNROLLED, ["unrolled"]),
    (DENSE + UNROLLED[:-2], []),
    (DENSE + INPUTS + LOOPS, ["while"]),
    (DENSE + UNROLLED + WHILE, ["unrolled", "while"]),
    (DENSE + CUDNN, ["cudnn"]),
    (DENSE + CUDNN + WHILE, ["cudnn", "while"]),
    ([("ThunkExecutor::Execute", "XlaLaunch", 3)], ["xla"]),
    ([], []),
]
IN_TORCH = [
    ({"aten::matmul": 2 * STEPS + 1, "aten::mm": 6 * STEPS}, ["torch:loop"]),
    ({"aten::linear": STEPS + 2}, ["torch:loop"]),
    ({"aten::matmul": 2}, []),
    ({"aten::lstm": 1, "aten::matmul": 2 * STEPS}, ["torch:native"]),
    ({"aten::lstm": 1, "aten::mkldnn_rnn_layer": 1}, ["torch:onednn"]),
    ({"aten::gru": 1, "aten::_cudnn_rnn": 1, "aten::matmul": 1}, ["torch:cudnn"]),
    (
        {"aten::lstm": 1, "aten::mkldnn_rnn_layer": 1, "aten::gru": 2},
        ["torch:native", "torch:onednn"],
    ),
    ({}, []),
]
DENSE_IN_JAX = [((), "dot_general")] * 3
SCAN = [((), "scan"), (("scan",), "dot_general"), (("scan",), "tanh")]
IN_JAX = [
    (DENSE_IN_JAX, []),
    (DENSE_IN_JAX + SCAN, ["jax:scan"]),
    (DENSE_IN_JAX + [((), "while"), (("while",), "add")], []),
    (DENSE_IN_JAX + [((), "dot_general")] * (5 * STEPS - 1), ["unrolled"]),
    (DENSE_IN_JAX + [((), "rnn_fwd"), ((), "rnn_bwd")], ["jax:cudnn"]),
    (DENSE_IN_JAX + [((), "rnn_fwd")] + SCAN, ["jax:cudnn", "jax:scan"]),
]


@pytest.mark.parametrize(
    ("kernels_in", "executed", "kernels"),
    [
        *((attest.kernels_in_tensorflow, *case) for case in IN_TENSORFLOW),
        *((attest.kernels_in_torch, *case) for case in IN_TORCH),
        *((attest.kernels_in_jax, *case) for case in IN_JAX),
    ],
)
def test_kernels_are_named_from_what_was_executed(kernels_in, executed, kernels) -> None:
    assert kernels_in(executed, STEPS) == kernels


def test_a_loop_around_a_layer_is_not_its_own() -> None:
    around = [(f"map/while/body/_2/map/while/{path}", kind, 2) for path, kind, _ in UNROLLED]
    own = [(f"map/while/body/_2/map/while/{path}", kind, 2 * n) for path, kind, n in WHILE]
    for ops, kernels in ((around, ["unrolled"]), (own, ["while"])):
        ops = attest.without_layers(ops, ["lstm"], ["map"])
        assert attest.kernels_in_tensorflow(ops, STEPS) == kernels


def test_unrolled_needs_time_steps() -> None:
    assert attest.kernels_in_tensorflow(DENSE + UNROLLED, None) == []
    assert attest.kernels_in_tensorflow(DENSE, 1) == []


def test_primitives_are_found_inside_loops_and_calls() -> None:
    def equations(**named: dict) -> SimpleNamespace:
        each = [(SimpleNamespace(name=name), params) for name, params in named.items()]
        return SimpleNamespace(eqns=[SimpleNamespace(primitive=p, params=q) for p, q in each])

    body = SimpleNamespace(jaxpr=equations(dot_general={}))
    called = equations(scan={"jaxpr": body, "length": 8}, add={})
    outer = equations(pjit={"jaxpr": called}, cond={"branches": (body, body)})
    product = ((), "dot_general")
    inside = [((), "scan"), (("scan",), "dot_general"), ((), "add")]
    assert list(primitives(outer)) == [((), "pjit"), *inside, ((), "cond"), product, product]


def test_a_frozen_layer_over_a_long_sequence_has_gradients_while_it_is_attested() -> None:
    layer = SimpleNamespace(trainable=False)
    observed = []
    session = SimpleNamespace(
        recurrent=SimpleNamespace(layers=[layer]),
        probe_shapes=lambda layer, steps: ((2000, 3), (2000, 4)),
        layer_gradients=lambda layer, x, upstream: observed.append((layer.trainable, x.shape)),
    )
    KerasSession._short_layers(session)
    assert observed == [(True, (1, attest.SHORT, 3))]
    assert layer.trainable is False


def test_primitives_of_other_layers_are_left_out() -> None:
    def equation(scopes: str, name: str = "dot_general", **params) -> SimpleNamespace:
        info = SimpleNamespace(name_stack=scopes)
        primitive = SimpleNamespace(name=name)
        return SimpleNamespace(primitive=primitive, params=params, source_info=info)

    body = SimpleNamespace(eqns=[equation("lstm_cell")])
    loop = equation("transpose(jvp(inner/lstm))", "scan", jaxpr=body)
    foreign = equation("jvp(inner/time_distributed)", "scan", jaxpr=body)
    in_both = equation("jvp(time_distributed/lstm)", "tanh")
    jaxpr = SimpleNamespace(eqns=[loop, foreign, equation("jvp(dense)"), in_both, equation("")])
    others = frozenset(["time_distributed", "dense", "lstm_cell"])
    found = list(primitives(jaxpr, frozenset(["lstm"]), others))
    kept = [((), "scan"), (("scan",), "dot_general"), ((), "tanh"), ((), "dot_general")]
    assert found == kept


TORCH, JAX, MADE_UP = ({"framework": name} for name in ("keras3_torch", "keras3_jax", "fake"))
COMPILED = {"jit_compile": True}
NESTED = {"fake": {"cpu": {"gru": ["b"]}}}
LSTM, GRU = ({"cell": {"name": name}} for name in ("lstm", "gru"))
CLASSES = {"kernels": {"lstm": ["block"], "A": ["while"]}, "options": {"class": "A"}}


@pytest.mark.parametrize(
    ("rnn", "kind", "build", "cell", "expected"),
    [
        ({"kernels": ["while"]}, "cpu", {}, {}, ["while"]),
        ({"kernels": None, "options": None}, "cpu", {}, LSTM, None),
        ({}, "cpu", {}, {}, None),
        ({"kernels": {"cpu": ["while"], "gpu": ["cudnn"]}}, "gpu", {}, {}, ["cudnn"]),
        ({"kernels": {"gpu": ["cudnn"]}}, "cpu", {}, {}, None),
        ({"kernels": ["while"]}, "cpu", COMPILED, {}, ["xla"]),
        ({}, "cpu", COMPILED, {}, None),
        ({"kernels": ["while"]}, "cpu", TORCH, {}, ["torch:loop"]),
        ({"kernels": ["unrolled"]}, "cpu", TORCH, {}, ["torch:loop"]),
        ({"kernels": ["cudnn"]}, "gpu", TORCH, {}, ["torch:cudnn"]),
        ({"kernels": ["while"]}, "cpu", {**TORCH, **COMPILED}, {}, None),
        ({"kernels": ["while"]}, "cpu", {**JAX, **COMPILED}, {}, ["jax:scan"]),
        ({"kernels": ["unrolled"]}, "cpu", {**JAX, **COMPILED}, {}, ["unrolled"]),
        ({"kernels": ["cudnn"]}, "gpu", JAX, {}, ["jax:cudnn"]),
        ({"kernels": {"keras3_jax": ["a"], **NESTED}}, "cpu", JAX, {}, ["a"]),
        ({"kernels": NESTED}, "cpu", MADE_UP, GRU, ["b"]),
        ({"kernels": NESTED}, "cpu", MADE_UP, LSTM, None),
        ({"kernels": {"lstm": ["block"]}}, "cpu", {}, LSTM, ["block"]),
        (CLASSES, "cpu", {}, LSTM, ["while"]),
    ],
)
def test_expected_kernels(rnn: dict, kind: str, build: dict, cell: dict, expected) -> None:
    config = {"rnn": rnn, "device": {"kind": kind}, "build": build, **cell}
    assert attest.expected(config) == expected


@pytest.mark.parametrize(
    ("found", "expected", "contradict"),
    [
        (["while"], ["while"], False),
        (["while"], None, False),
        ([], ["while"], False),
        (["cudnn", "while"], ["cudnn"], True),
    ],
)
def test_contradiction_needs_found_and_expected_kernels(found, expected, contradict) -> None:
    assert attest.contradicts({"found": found, "expected": expected}) is contradict


GOOD = {
    "cell": "lstm", "device": "gpu", "gpus": 1, "cuda_build": True, "use_cudnn": "auto",
    "activation": "tanh", "recurrent_activation": "sigmoid", "recurrent_dropout": 0.0,
    "unroll": False, "use_bias": True, "reset_after": None, "mask": False,
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, None),
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
def test_each_obstacle_to_cudnn_gives_one_reason(change: dict, reason: str | None) -> None:
    reported = attest.why_not_cudnn({**GOOD, **change})
    assert len(reported) == (reason is not None) and (reason or "") in "".join(reported)
    assert attest.why_not_cudnn({}) == [], "nothing is known"


def test_layer_facts_include_those_of_the_cell() -> None:
    cell = SimpleNamespace(recurrent_dropout=0.2, use_bias=True)
    layer = SimpleNamespace(cell=cell, unroll=True, activation=len)
    known = {"recurrent_dropout": 0.2, "use_bias": True, "unroll": True, "activation": "len"}
    unknown = dict.fromkeys(("reset_after", "use_cudnn", "recurrent_activation"))
    assert attest.layer_facts(layer) == {**known, **unknown}


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
