"""What could only be void on a GPU is skipped, with the reason, and nothing else is.

Each reason was read in the source of the locked packages: Keras 3.15's
``keras/src/backend/{jax,tensorflow,torch}/rnn.py``, ``keras/src/layers/rnn/{lstm,gru}.py``
(``supports_jit``) and ``keras/src/trainers/trainer.py`` (``model_supports_jit``), and jaxlib's
``jaxlib/gpu_rnn.py`` (``Unknown output type``)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rnnbench.grid.expand import expand
from rnnbench.grid.experiment import Experiment, load_experiment

Ask = Callable[..., Experiment]
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
        ("rnn=cudnn cell=gru build=tf_2_21_carried precision=mixed_bfloat16", None),
        ("rnn=cudnn cell=gru build=tf_2_21_carried_xla", XLA),
        ("rnn=cudnn cell=lstm build=keras3_torch_cuda +build.jit_compile=true", XLA),
        ("rnn=auto cell=lstm build=tf_2_21_carried_xla", "then trains without XLA"),
        ("rnn=auto cell=rnn_tanh build=tf_2_21_carried_xla", None),
        ("rnn=keras cell=lstm build=tf_2_21_carried_xla", None),
        ("rnn=cudnn_raw cell=lstm build=tf_2_21_carried_xla", "XLA has no CudnnRNN op"),
        ("rnn=legacy_cudnn cell=lstm build=tf_2_21_carried_keras2", None),
        (
            "rnn=legacy_cudnn cell=gru build=tf_2_21_carried_keras2 +build.jit_compile=true",
            "XLA has no CudnnRNN op",
        ),
    ],
)
def test_a_cell_on_a_gpu(grid: str, why: str | None, ask: Ask, conf: list[Path]) -> None:
    (cell,) = expand(ask(ON + grid), conf)
    assert cell.skip is None if why is None else why in (cell.skip or "")


def test_the_gpu_experiment_asks_for_no_cell_that_could_only_be_void(conf: list[Path]) -> None:
    skipped = {
        (cell.choices["rnn"], cell.choices["build"], cell.skip)
        for cell in expand(load_experiment("gpu", conf), conf)
        if cell.skip and "torch's own layer or a scan in jax" not in cell.skip
    }
    told = {words for _, _, words in skipped}
    assert {GRU_IN_JAX, HALVES_IN_JAX} <= told
    assert any(words.startswith(XLA) for words in told)
