"""`unrolled` compiles one copy of the cell for each time step, so that long sequences are
refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.worker.building import answer_of, certificate_job, settings_of, write

MODEL = """
from keras import Sequential, layers


def build():
    return Sequential([layers.Input((1001, 3)), layers.{}, layers.Dense(1)])
"""
BUILT = """
import json, sys
from rnnworker import frameworks
from rnnworker.arguments import Refusal

config = json.loads(sys.argv[1])
said = []
for options in json.loads(sys.argv[2]):
    rnn = {"name": "unrolled", "implementation": "unrolled", "options": options}
    session = frameworks.open_session(dict(config, rnn=rnn), 1)
    session.prepare_training = lambda: None
    try:
        session.build()
        said.append(None)
    except Refusal as error:
        said.append(str(error))
print(json.dumps(said))
"""


def said_of(layer: str, build: str, folder: Path, temporary: Any, *options: dict) -> list:
    write(folder, {"mine.py": MODEL.format(layer)})
    config = certificate_job(settings_of(build)["framework"], "of_model", {})["config"]
    model = {"function": f"{folder}/mine.py:build", "loss": "mse", "optimizer": {"name": "sgd"}}
    config["model"] = {**model, "batch": 4, "data": {}}
    arguments = json.dumps(config), json.dumps(options)
    return answer_of(build, BUILT, *arguments, temporary=temporary)


@pytest.mark.parametrize("layer", ["LSTM(2)", "Bidirectional(layers.LSTM(2))"])
def test_a_long_sequence_is_refused_with_its_cost_and_the_option(
    layer: str, tmp_path: Path, tmp_path_factory
) -> None:
    refused, shorter = said_of(layer, "current", tmp_path, tmp_path_factory, {}, {"longest": 1000})

    assert refused == shorter
    said = "mine.py, line 6: rnn=unrolled would compile 1001 time steps for about 1 min"
    assert said in refused
    assert refused.endswith("write +rnn.options.longest=1001")


def test_the_option_allows_it_and_torch_compiles_nothing(tmp_path: Path, tmp_path_factory) -> None:
    folder = tmp_path, tmp_path_factory
    assert said_of("LSTM(2)", "current", *folder, {"longest": 1001}) == [None]
    assert said_of("LSTM(2)", "keras3_torch", *folder, {}) == [None]
