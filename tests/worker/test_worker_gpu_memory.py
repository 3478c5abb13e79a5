"""Frameworks allocate a card's memory as needed. TensorFlow accepts this setting only before it
opens the card (``Physical devices cannot be modified after being initialized``,
tensorflow/python/eager/context.py, ``set_memory_growth``)."""

from __future__ import annotations

import json

import pytest

from tests.worker.building import answer_of, settings_of

TENSORFLOW = """
import json, sys
import tensorflow
from tensorflow.python.eager import context

config, calls = tensorflow.config, []
cards = config.list_physical_devices
config.list_physical_devices = lambda kind=None: ["card"] if kind == "GPU" else cards(kind)
config.experimental.get_device_details = lambda card: {"device_name": card}
config.experimental.set_memory_growth = lambda card, on: calls.append(
    [card, on, context.context()._initialized]
)
from rnnworker import frameworks

session = frameworks.open_session(json.loads(sys.argv[1]), 1)
print(json.dumps({"calls": calls, "cards": session.device_facts()["framework_cards"]}))
"""
JAX = """
import json, os, sys
from rnnworker import frameworks

session = frameworks.open_session(json.loads(sys.argv[1]), 1)
print(json.dumps(os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"]))
"""


@pytest.mark.parametrize("build", ["current", "tf_2_21_keras2"])
def test_tensorflow_2(build: str, tmp_path_factory) -> None:
    result = output(build, TENSORFLOW, tmp_path_factory)
    assert result == {"calls": [["card", True, False]], "cards": ["card"]}


def test_jax(tmp_path_factory, monkeypatch) -> None:
    monkeypatch.delenv("XLA_PYTHON_CLIENT_PREALLOCATE", raising=False)
    assert output("keras3_jax", JAX, tmp_path_factory) == "false"


def output(build: str, script: str, temporary: pytest.TempPathFactory) -> object:
    config = {"device": {"kind": "gpu"}, "build": settings_of(build)}
    return answer_of(build, script, json.dumps(config), temporary=temporary)
