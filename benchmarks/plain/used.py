"""A program of one's own, without rnnbench: trains one model with Keras's loop and with a kernel of
rnnlayers, in turns of a few epochs in random order, from arrays and from a dataset. Prints the
ratio of their seconds for each of the two feeds.

    python used.py MODEL KERNEL TURNS [BATCHES]

BATCHES: of an epoch, by default all that the data have.
"""

import itertools
import json
import random
import statistics
import sys
import time
from pathlib import Path

import keras
import tensorflow

from rnnlayers import use

sys.path.insert(0, str(Path(__file__).parent))
import authors

BATCH = 32
EPOCHS = 3  # of a turn


def main(name: str, kernel: str, turns: int, batches: int = 0) -> None:
    arrays = authors.arrays(name)
    if batches:
        arrays = {key: value[: batches * BATCH] for key, value in arrays.items()}
    x = tuple(value for key, value in sorted(arrays.items()) if key.startswith("x_train"))
    y = arrays["y_train"]
    if len(x) == 1:
        (x,) = x
    dataset = tensorflow.data.Dataset.from_tensor_slices((x, y))
    dataset = dataset.batch(BATCH, drop_remainder=True).cache().repeat()
    feeds = {
        "arrays": {"x": x, "y": y, "batch_size": BATCH},
        "dataset": {"x": dataset, "steps_per_epoch": len(y) // BATCH},
    }
    models = {}
    for each in ("keras", kernel):
        keras.utils.set_random_seed(0)
        models[each] = use(getattr(authors, name)(), each)
    cases = list(itertools.product(models, feeds))
    seconds: dict[tuple, list[float]] = {case: [] for case in cases}
    for _ in range(1 + turns):  # the first one compiles
        for each, feed in random.sample(cases, len(cases)):
            start = time.perf_counter()
            models[each].fit(**feeds[feed], epochs=EPOCHS, verbose=0)
            seconds[each, feed].append(time.perf_counter() - start)
    found = {}
    for feed in feeds:
        pairs = zip(seconds["keras", feed][1:], seconds[kernel, feed][1:], strict=True)
        found[feed] = statistics.median(slow / fast for slow, fast in pairs)
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
