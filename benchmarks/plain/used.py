"""A program of one's own, without rnnbench: trains one model with Keras's loop and with a kernel of
rnnlayers, one epoch each in random order, and prints the ratio of the seconds of their epochs.

    python used.py MODEL KERNEL EPOCHS
"""

import json
import random
import statistics
import sys
import time
from pathlib import Path

import keras
import numpy

from rnnlayers import use

sys.path.insert(0, str(Path(__file__).parent))
import authors


def main(name: str, kernel: str, epochs: int) -> None:
    arrays = authors.arrays(name)
    x = {key: value for key, value in arrays.items() if key.startswith("x_train")}
    inputs = [x[key] for key in sorted(x)]
    models = {}
    for each in ("keras", kernel):
        keras.utils.set_random_seed(0)
        models[each] = use(getattr(authors, name)(), each)
    seconds: dict[str, list[float]] = {each: [] for each in models}
    for _ in range(1 + epochs):  # the first one compiles
        for each in random.sample(list(models), len(models)):
            start = time.perf_counter()
            models[each].fit(inputs, arrays["y_train"], batch_size=32, verbose=0)
            seconds[each].append(time.perf_counter() - start)
    slower, faster = (numpy.array(seconds[each][1:]) for each in models)
    print(json.dumps(statistics.median(slower / faster)))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
