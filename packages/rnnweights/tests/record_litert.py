"""Writes ``litert.npz`` beside it: models that TensorFlow 2.15 has converted to LiteRT, and what
LiteRT's interpreter computes with them. Run by the build ``tf_2_15``."""

import re
from pathlib import Path

import numpy as np
import tensorflow as tf

INPUTS, UNITS, STEPS = 5, 6, 7
X = np.random.default_rng(0).normal(size=(1, STEPS, INPUTS)).astype("float32")
layers = tf.keras.layers


def recorded(*own, **settings):
    """The file of a model of these layers, and its outputs."""
    model = tf.keras.Sequential([tf.keras.Input((STEPS, INPUTS), batch_size=1), *own])
    stream = np.random.default_rng(1)
    for weight in model.weights:
        weight.assign(stream.normal(size=weight.shape) * 0.5)
    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    for name, value in settings.items():
        setattr(converter, name, value)
    content = converter.convert()
    interpreter = tf.lite.Interpreter(model_content=content)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], X)
    interpreter.invoke()
    y = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    return np.frombuffer(content, "uint8"), y


MODELS = {
    "lstm": lambda: recorded(layers.LSTM(UNITS, return_sequences=True)),
    "bidirectional": lambda: recorded(
        layers.Bidirectional(layers.LSTM(UNITS, return_sequences=True))
    ),
    "dense": lambda: recorded(layers.LSTM(UNITS, return_sequences=True), layers.Dense(3)),
    "gru": lambda: recorded(layers.GRU(2)),
    "unrolled": lambda: recorded(layers.LSTM(2, unroll=True)),
    "quantized": lambda: recorded(
        layers.LSTM(32), layers.Dense(64), optimizations=[tf.lite.Optimize.DEFAULT]
    ),
}
if __name__ == "__main__":
    found = {"x": X}
    for name, record in MODELS.items():
        found[f"{name}|tflite"], found[f"{name}|y"] = record()
    path = Path(re.sub(r"record_litert.py$", "litert.npz", __file__))
    np.savez_compressed(path, **found)
