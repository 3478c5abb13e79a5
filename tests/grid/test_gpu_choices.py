"""Grid points that could only be void on a GPU are skipped with a reason, and no others.

The source of each reason is the code of the locked packages: Keras 3.15's
``keras/src/backend/{jax,tensorflow,torch}/rnn.py``, ``keras/src/layers/rnn/{lstm,gru}.py``
(``supports_jit``) and ``keras/src/trainers/trainer.py`` (``model_supports_jit``), and jaxlib's
``jaxlib/gpu_rnn.py`` (``Unknown output type``)."""

from __future__ import annotations

from pathlib import Path

import pytest

from rnnbench.grid.expand import expand
from rnnbench.grid.experiment import load_experiment
from tests.grid.conftest import Expand

ON = "model=shape_short device=gpu "
GRU_IN_JAX = "jax has cuDNN's LSTM alone: Keras's GRU there is a scan"
HALVES_IN_JAX = "jax's cuDNN LSTM takes float32 only"
XLA = "cuDNN is not compiled"


@pytest.mark.parametrize(
    ("grid", "why"),
    [
        ("rnn=cudnn cell=gru build=keras3_jax_cuda", GRU_IN_JAX),
        ("rnn=cudnn cell=lstm build=keras3_jax_cuda", None),
        ("rnn=cudnn cell=lstm build=keras3_jax_cuda precision=tf32", None),
        ("rnn=cudnn cell=lstm build=keras3_jax_cuda precision=mixed_float16", HALVES_IN_JAX),
        ("rnn=cudnn cell=lstm build=keras3_jax_cuda precision=mixed_bfloat16", HALVES_IN_JAX),
        ("rnn=auto cell=lstm build=keras3_jax_cuda precision=mixed_float16", "takes float32 only"),
        ("rnn=auto cell=gru build=keras3_jax_cuda precision=mixed_float16", None),
        ("rnn=auto cell=lstm build=keras3_jax_cuda", None),
        ("rnn=cudnn cell=gru build=keras3_torch_cuda precision=mixed_float16", None),
        ("rnn=cudnn cell=gru build=tf_cuda precision=mixed_bfloat16", None),
        ("rnn=cudnn cell=gru build=tf_cuda_xla", XLA),
        ("rnn=cudnn cell=lstm build=keras3_torch_cuda +build.jit_compile=true", XLA),
        ("rnn=auto cell=lstm build=tf_cuda_xla", "then trains without XLA"),
        ("rnn=auto cell=rnn_tanh build=tf_cuda_xla", None),
        ("rnn=keras cell=lstm build=tf_cuda_xla", None),
        ("rnn=cudnn_raw cell=lstm build=tf_cuda_xla", "XLA has no CudnnRNN op"),
        ("rnn=legacy_cudnn cell=lstm build=tf_cuda_keras2", None),
        (
            "rnn=legacy_cudnn cell=gru build=tf_cuda_keras2 +build.jit_compile=true",
            "XLA has no CudnnRNN op",
        ),
    ],
)
def test_a_grid_point_on_a_gpu(grid: str, why: str | None, expanded: Expand) -> None:
    (point,) = expanded(ON + grid)
    assert point.skip is None if why is None else why in (point.skip or "")


def test_the_gpu_experiment_skips_grid_points_that_could_only_be_void(conf: list[Path]) -> None:
    reasons = {point.skip for point in expand(load_experiment("gpu", conf), conf) if point.skip}
    assert {GRU_IN_JAX, HALVES_IN_JAX} <= reasons
    assert any(reason.startswith(XLA) for reason in reasons)
