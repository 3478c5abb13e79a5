"""The kernel of a small model is found after any number of training steps. TensorFlow considers its
ops cheap after a while, and on a GPU from the beginning, and then reports them only at the
profiler's level 3."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.worker.building import answer_of, certificate_job, settings_of

SCRIPT = """
import json, sys
from rnnworker import canonical_weights, frameworks

session = frameworks.open_session(json.loads(sys.argv[1]), 1)
session.load_data(None)
session.build()
session.load_weights(canonical_weights.initial(session.layers(), 0))
kernels = []
for steps in (1, 60):
    session.train_steps(steps)
    kernels.append(session.attest())
shapes = session.layer_shapes(session.recurrent.layers[0])
print(json.dumps([kernels, [[int(size) for size in shape] for shape in shapes]]))
"""
LOOP = """
import json, tensorflow
from rnnworker.frameworks.tensorflow_facts import captured_stderr, executed_ops

@tensorflow.function
def loop(x):
    less = lambda i, x: i < 300
    return tensorflow.while_loop(less, lambda i, x: (i + 1, tensorflow.matmul(x, x)), (0, x))

x = tensorflow.zeros((4, 4))
loop(x)
counts = {}
with captured_stderr() as messages:
    ops = executed_ops(tensorflow, lambda: loop(x))
for _, kind, count in ops:
    counts[kind.replace("_Mkl", "")] = count
print(json.dumps([counts, messages[0]]))
"""
PADDED = {
    "function": "rnnworker.models.padded:build",
    "data": {"prepare": "rnnworker.models.padded:prepare"},
    **{"padding": "right", "words": 50, "embedding": 4, "loss": "binary_crossentropy"},
}


@pytest.mark.parametrize("build", ["current", "tf_2_15"])
def test_cheap_ops_are_reported(build: str, tmp_path_factory) -> None:
    logging = {"TF_CPP_MIN_LOG_LEVEL": "0", "TF_CPP_VMODULE": "session_manager=1"}
    counts, messages = answer_of(build, LOOP, temporary=tmp_path_factory, **logging)
    assert (counts.get("MatMul"), counts.get("Less")) == (300, 301)
    if build == "current":
        # TensorFlow 2.15 accepts the same option without a message.
        assert "device_tracer_level set to 0" in messages


def attested(build: str, rnn: str, temporary, **model: Any) -> tuple[list[dict], list]:
    """The attested kernels after 1 and 60 steps, and the shapes of the recurrent layer."""
    settings = settings_of(build)
    config = certificate_job("", "lstm", {}, sequence=20, units=16, **model)["config"]
    config.update(rnn={"implementation": rnn}, build=settings)
    return answer_of(build, SCRIPT, json.dumps(config), temporary=temporary)


@pytest.mark.parametrize(
    ("build", "kernel"), [("current", "while"), ("tf_2_15", "while"), ("tf_2_21_xla", "xla")]
)
def test_the_kernel_of_a_small_model_is_found(build: str, kernel: str, tmp_path_factory) -> None:
    kernels, _ = attested(build, "keras", tmp_path_factory)
    assert [each["found"] for each in kernels] == [[kernel], [kernel]]


@pytest.mark.parametrize("build", ["current", "tf_2_15", "tf_1_15"])
def test_a_mask_is_not_an_input_but_a_reason_against_cudnn(build: str, tmp_path_factory) -> None:
    (kernel, _), shapes = attested(build, "auto", tmp_path_factory, **PADDED)
    assert shapes == [[20, 4], [16]]
    assert kernel["found"] == ["while"]
    assert "the inputs are masked and may not be right-padded" in kernel["why_not_cudnn"]
