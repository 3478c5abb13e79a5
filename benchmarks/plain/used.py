"""A program of one's own, without rnnbench: trains one model with Keras's loop and with a kernel of
rnnlayers, in turns of a few epochs in random order: ``fit`` with arrays, ``fit`` with a dataset,
and the training steps alone, which ``fit`` calls. Prints the ratio of their seconds for each.

    python used.py MODEL KERNEL TURNS [BATCHES]

BATCHES: of an epoch, by default all that the data have.
"""

import itertools
import json
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

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
    steps = len(y) // BATCH

    def by_hand(model: keras.Model) -> None:
        model.make_train_function()
        batches = iter(dataset)
        for _ in range(EPOCHS * steps):
            model.train_function(batches)

    def fit(**feed: Any) -> Callable[[keras.Model], object]:
        return lambda model: model.fit(**feed, epochs=EPOCHS, verbose=0)

    ways = {
        "arrays": fit(x=x, y=y, batch_size=BATCH),
        "dataset": fit(x=dataset, steps_per_epoch=steps),
        "steps": by_hand,
    }
    models = {}
    for each in ("keras", kernel):
        keras.utils.set_random_seed(0)
        models[each] = use(getattr(authors, name)(), each)
    cases = list(itertools.product(models, ways))
    seconds: dict[tuple, list[float]] = {case: [] for case in cases}
    for _ in range(1 + turns):  # the first one compiles
        for each, way in random.sample(cases, len(cases)):
            start = time.perf_counter()
            ways[way](models[each])
            seconds[each, way].append(time.perf_counter() - start)
    found = {}
    for way in ways:
        pairs = zip(seconds["keras", way][1:], seconds[kernel, way][1:], strict=True)
        found[way] = statistics.median(slow / fast for slow, fast in pairs)
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
