"""What an implementation would ignore is refused when the grid is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from rnnbench.errors import ConfigError
from rnnbench.grid.expand import expand

GRID = "model=digits_rnn device=cpu_1 "
RELU = " +rnn.options.activation=relu"


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        (
            "rnn=keras,block" + RELU,
            r"mine_to_ask.yaml, grid .*, cell digits_rnn-lstm-block-cpu_1-current-activationrelu"
            r"-s0-r0: rnn=block does not honour rnn.options.activation; it honours no options. "
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
        ("rnn=keras +rnn.options=relu", "rnn.options is 'relu'.*write rnn.options="),
        (
            "rnn=keras +rnn.activation=relu",
            "nothing reads rnn.activation. Fix: write .rnn.options.activation=VALUE",
        ),
        ("rnn=keras +rnn.opions.activation=relu", "nothing reads rnn.opions.* mean options"),
    ],
)
def test_an_option_without_effect_is_refused(conf, ask, grid: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        expand(ask((GRID if "device" not in grid else "model=digits_rnn ") + grid), conf)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "grid",
    [
        "rnn=keras,unrolled,cell" + RELU,
        "rnn=keras +rnn.options.implementation=1",
        "rnn=keras +rnn.options.use_bias=false",
        "rnn=keras cell=gru +rnn.options.recurrent_activation=hard_sigmoid",
        # Not of this cell: it is skipped, so nobody ignores the option.
        "rnn=keras,block cell=gru" + RELU,
        "rnn=cudnn_raw device=gpu rnn.options.op=CudnnRNNV3",
    ],
)
def test_an_honoured_option_is_taken(conf, ask, grid: str) -> None:
    assert expand(ask((GRID if "device" not in grid else "model=digits_rnn ") + grid), conf)


def test_a_file_of_ones_own_says_its_options(conf, ask, extra: Path) -> None:
    file = extra / "rnn" / "my_relu.yaml"
    requires = "requires: []\nnote: mine\n"
    file.write_text(f"implementation: keras\noptions: {{activation: relu}}\n{requires}")
    (cell,) = expand(ask(GRID + "rnn=my_relu rnn.note=yours"), conf)
    assert cell.config["rnn"]["options"] == {"activation": "relu"}
    file.write_text(f"implementation: block\noptions: {{activation: relu}}\n{requires}")
    with pytest.raises(ConfigError, match=r"rnn=my_relu .*take activation out of the file of rnn="):
        expand(ask(GRID + "rnn=my_relu"), conf)
