"""Options that an implementation would ignore are rejected when the grid is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from rnnbench.errors import ConfigError

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
