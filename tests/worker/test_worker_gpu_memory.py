"""Frameworks allocate a card's memory as needed. TensorFlow accepts this setting only before it
opens the card (``Physical devices cannot be modified after being initialized``,
tensorflow/python/eager/context.py, ``set_memory_growth``)."""

from __future__ import annotations

import json
import sys

import pytest

from tests.worker.building import answer, build_python

CONFIG = {"device": {"kind": "gpu"}, "build": {"name": "b"}}
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


def output(python, script: str, framework: str) -> object:
    config = {**CONFIG, "build": {"name": "b", "framework": framework}}
    return answer(python, script, json.dumps(config))


@pytest.mark.parametrize("framework", ["keras3_tensorflow", "keras2_tensorflow2"])
def test_tensorflow_2(framework: str, tmp_path_factory, monkeypatch) -> None:
    python = sys.executable
    if framework == "keras2_tensorflow2":
        python = build_python("tf_2_21_keras2", "3.11", tmp_path_factory)
        monkeypatch.setenv("TF_USE_LEGACY_KERAS", "1")
    result = output(python, TENSORFLOW, framework)
    assert result == {"calls": [["card", True, False]], "cards": ["card"]}


def test_jax(tmp_path_factory, monkeypatch) -> None:
    monkeypatch.delenv("XLA_PYTHON_CLIENT_PREALLOCATE", raising=False)
    python = build_python("keras3_jax", "3.11", tmp_path_factory)
    assert output(python, JAX, "keras3_jax") == "false"
