"""The script one writes by hand: trains, times each epoch, says so. Two of the launchers use it.

python by_hand.py UNITS SEED EPOCHS [--mlflow]
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np


def train(units: int, seed: int, epochs: int, data: Path) -> list[dict[str, float]]:
    import keras

    with np.load(data) as file:
        arrays = {name: file[name] for name in file.files}
    x, y = arrays["x_train"].astype("float32"), arrays["y_train"]
    keras.utils.set_random_seed(seed)
    model = keras.Sequential(
        [
            keras.layers.Input(x.shape[1:]),
            keras.layers.LSTM(units),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    told = []
    for _ in range(epochs):
        start = time.monotonic()
        history = model.fit(x, y, batch_size=32, verbose=0).history
        seconds = time.monotonic() - start
        told.append({"seconds": seconds, "loss": history["loss"][0], "acc": history["accuracy"][0]})
    return told


def log(name: str, params: dict, told: list[dict[str, float]]) -> None:
    import mlflow

    mlflow.set_experiment("by_hand")
    with mlflow.start_run(run_name=name):
        mlflow.log_params(params)
        for step, metrics in enumerate(told, start=1):
            mlflow.log_metrics(metrics, step=step)


if __name__ == "__main__":
    units, seed, epochs = map(int, sys.argv[1:4])
    told = train(units, seed, epochs, Path("data/digits.npz"))
    log(f"lstm-{units}-{seed}", {"units": units, "seed": seed}, told)
    print(units, seed, *(f"{entry['seconds']:.3f}" for entry in told))
