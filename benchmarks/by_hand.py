"""A hand-written training script that times each epoch and logs to MLflow; for `launchers.py`.

python by_hand.py UNITS SEED EPOCHS
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
    metrics = []
    for _ in range(epochs):
        start = time.monotonic()
        history = model.fit(x, y, batch_size=32, verbose=0).history
        seconds = time.monotonic() - start
        loss, acc = history["loss"][0], history["accuracy"][0]
        metrics.append({"seconds": seconds, "loss": loss, "acc": acc})
    return metrics


def log(name: str, params: dict, epochs: list[dict[str, float]]) -> None:
    import mlflow

    mlflow.set_experiment("by_hand")
    with mlflow.start_run(run_name=name):
        mlflow.log_params(params)
        for step, metrics in enumerate(epochs, start=1):
            mlflow.log_metrics(metrics, step=step)


if __name__ == "__main__":
    units, seed, epochs = map(int, sys.argv[1:4])
    results = train(units, seed, epochs, Path("data/digits.npz"))
    log(f"lstm-{units}-{seed}", {"units": units, "seed": seed}, results)
    print(units, seed, *(f"{result['seconds']:.3f}" for result in results))
