"""When do two equal implementations part in training, and by how much?

    .venv/bin/python benchmarks/parting.py [--steps 1000] [--pairs 200] [--small]

Keras's loop and the unrolled layer, which round differently, train from the same weights on the
same batches. A *twin* is the loop again, with the weights of one array moved by one unit in their
last place. The first table has the largest difference of a weight after some steps, for the pair
and for the twin; its growth from a tenth of the steps to the last, as a power of the number of
steps and as a rate per step; and the largest relative difference of the losses.

The second table judges loss curves of 20 steps as certificates do, of equal pairs and of pairs with
a known fault: how many are called different by a fixed tolerance, and how many by the law, which is
30 times what a twin differs by whose weights all move by one unit in their last place. Half of the
pairs have each learning rate.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
os.environ["KERAS_BACKEND"] = "tensorflow"

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

import rnnlayers  # noqa: E402
from benchmarks import where  # noqa: E402
from benchmarks.small import add_small  # noqa: E402
from rnnworker.certify import STEPS  # noqa: E402
from rnnworker.differences import relative_error  # noqa: E402
from rnnworker.models import adding  # noqa: E402
from rnnworker.precision import LAST_PLACE, TOLERANCE, allowed_apart  # noqa: E402
from rnnworker.weights import disturbed  # noqa: E402

BATCH, WORDS = 32, 20
RATES = (0.001, 0.01)
SMALL_STEPS, SMALL_PAIRS = 20, 2


class Task:
    """A network, its data, and the trainings of one implementation of its layers."""

    def __init__(
        self,
        name: str,
        kernel: str = "keras",
        faster: float = 1.0,
        jit_compile: bool = False,
        **optimizer: float,
    ) -> None:
        """`kernel`: of `rnnlayers`, for the layers; `faster`: what each learning rate is multiplied
        by; `optimizer`: arguments of Adam."""
        import keras

        layers, steps = keras.layers, {"adding": 30, "text": 24, "classes": 12}[name]
        stream = np.random.RandomState(0)
        self.x, self.y = DATA[name](stream, steps)
        inputs = keras.Input(self.x.shape[1:])
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        if name == "adding":
            outputs = layers.Dense(1)(layers.LSTM(32, use_cudnn=False)(inputs))
            loss = keras.losses.MeanSquaredError()
        elif name == "text":
            hidden = layers.Embedding(WORDS, 16)(inputs)
            hidden = layers.GRU(32, return_sequences=True, use_cudnn=False)(hidden)
            outputs = layers.Dense(WORDS)(hidden)
        else:
            layer = layers.LSTM(16, use_cudnn=False)
            outputs = layers.Dense(4)(layers.Bidirectional(layer)(inputs))
        self.model = keras.Model(inputs, outputs)
        rnnlayers.use(self.model, kernel)
        self.faster = faster
        self.optimizer = keras.optimizers.Adam(**optimizer)
        self.model.compile(self.optimizer, loss, jit_compile=jit_compile)

    def train(
        self,
        seed: int,
        steps: int,
        rate: float,
        twin: bool = False,
        disturb: bool = False,
    ) -> tuple[np.ndarray, np.ndarray]:
        """All weights (steps × weights, float32) and the losses after each step, from the weights
        and batches of `seed`. A `twin` begins with one array one unit in the last place higher;
        with `disturb`, all weights are moved, as in the twin of a certificate."""
        stream = np.random.default_rng(seed)
        values = []
        for variable in self.model.trainable_variables:
            limit = 0.5 / np.sqrt(variable.shape[-1])
            values.append(stream.uniform(-limit, limit, variable.shape).astype("float32"))
        if twin:
            values[1] = np.nextafter(values[1], np.float32(9))
        if disturb:
            named = {str(number): value for number, value in enumerate(values)}
            (moved,) = disturbed([named], seed, LAST_PLACE["float32"])
            values = [moved[name] for name in named]
        self.model.set_weights(values)
        self.optimizer.learning_rate = rate * self.faster
        for variable in self.optimizer.variables:
            if "learning_rate" not in variable.path:
                variable.assign(np.zeros(variable.shape, variable.dtype))
        weights, losses = [], []
        for _ in range(steps):
            chosen = stream.integers(0, len(self.x), BATCH)
            self.model.reset_metrics()
            losses.append(self.model.train_on_batch(self.x[chosen], self.y[chosen]))
            flat = [value.ravel() for value in self.model.get_weights()]
            weights.append(np.concatenate(flat))
        return np.array(weights), np.array(losses, "float64")


def text(stream: np.random.RandomState, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Words of which each depends on the two before it, and the next words."""
    chances = stream.dirichlet(np.full(WORDS, 0.15), size=(WORDS, WORDS)).cumsum(-1)
    words = stream.randint(0, WORDS, (1024, steps + 1))
    for step in range(2, steps + 1):
        known = chances[words[:, step - 2], words[:, step - 1]]
        drawn = (known < stream.random_sample((1024, 1))).sum(1)
        words[:, step] = np.minimum(drawn, WORDS - 1)
    return words[:, :-1], words[:, 1:]


def classes(stream: np.random.RandomState, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Random walks, classified by the signs of two sums."""
    x = stream.normal(size=(2048, steps, 4)).astype("float32").cumsum(1)
    signs = (x[:, :, 0].sum(1) > 0) + 2 * (x[:, ::2, 1].sum(1) > 0)
    return x / np.sqrt(steps), signs.astype("int64")


DATA: dict[str, Callable[..., Any]] = {
    "adding": lambda stream, steps: adding.sequences(2048, steps, stream),
    "text": text,
    "classes": classes,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--pairs", type=int, default=200)
    add_small(parser)
    options = parser.parse_args()
    names = list(DATA)
    if options.small:
        options.steps, options.pairs, names = SMALL_STEPS, SMALL_PAIRS, ["classes"]
    print(where.heading())
    print_parting(names, RATES[1:] if options.small else RATES, options.steps)
    columns = ["model", "what differs", "pairs", "called different: 1e-3", "by the law"]
    columns += ["median difference", "median allowed", "difference / allowed"]
    print(f"\n| {' | '.join(columns)} |\n|---|---|{'--:|' * (len(columns) - 2)}")
    for name in names:
        print_judged(name, options.pairs, options.small)


def print_parting(names: list[str], rates: tuple[float, ...], steps: int) -> None:
    at = [steps // 100 or 1, steps // 10, steps]
    columns = [f"pair, step {step}" for step in at] + [f"twin, step {step}" for step in at]
    columns += ["pair / twin", "power", "rate per step", "losses"]
    print(f"| model | learning rate | {' | '.join(columns)} |\n|---|--:|{'--:|' * len(columns)}")
    for name in names:
        for rate in rates:
            loop = Task(name)
            weights, losses = loop.train(0, steps, rate)
            twin = np.abs(loop.train(0, steps, rate, twin=True)[0] - weights).max(1)
            other, other_losses = Task(name, kernel="unrolled").train(0, steps, rate)
            pair = np.abs(other - weights).max(1)
            ratio = np.median(pair[steps // 10 :] / twin[steps // 10 :])
            numbers = np.arange(steps // 10, steps + 1)
            logs = np.log(pair[numbers - 1])
            power = np.polyfit(np.log(numbers), logs, 1)[0]
            growth = np.polyfit(numbers, logs, 1)[0]
            cells = [f"{pair[step - 1]:.0e}" for step in at] + [
                f"{twin[step - 1]:.0e}" for step in at
            ]
            apart = float(np.abs(other_losses / losses - 1).max())
            cells += [f"{ratio:.2f}", f"{power:.2f}", f"{growth:.5f}", f"{apart:.0e}"]
            print(f"| {name} | {rate} | {' | '.join(cells)} |", flush=True)


def print_judged(name: str, pairs: int, small: bool) -> None:
    """How many of `pairs` pairs of trainings of a model are called different, by what differs."""
    tasks = {
        "nothing: unrolled": Task(name, kernel="unrolled"),
        "learning rate + 0.1 %": Task(name, faster=1.001),
    }
    if not small:
        tasks["nothing: XLA"] = Task(name, jit_compile=True)
        if name != "text":
            tasks["nothing: block"] = Task(name, kernel="block")
        tasks["learning rate + 0.01 %"] = Task(name, faster=1.0001)
        tasks["learning rate + 1 %"] = Task(name, faster=1.01)
        tasks["epsilon 1e-8 instead of 1e-7"] = Task(name, epsilon=1e-8)
        tasks["beta_2 0.998 instead of 0.999"] = Task(name, beta_2=0.998)
    loop = Task(name)
    curves, noises = [], []
    for seed in range(pairs):
        curve, noise = judged_curve(loop, seed)
        curves.append(curve)
        noises.append(noise)
    for what, task in sorted(tasks.items(), key=lambda item: not item[0].startswith("nothing")):
        apart, allowed = [], []
        for seed, (expected, noise) in enumerate(zip(curves, noises, strict=True)):
            curve, own_noise = judged_curve(task, seed)
            apart.append(relative_error(curve, expected))
            allowed.append(allowed_apart(max(noise, own_noise)))
        fixed = sum(each > TOLERANCE["float32"]["loss_curve"] for each in apart)
        by_law = sum(each > most for each, most in zip(apart, allowed, strict=True))
        nearest = np.array(apart) / np.array(allowed)
        cells = [name, what, str(pairs), str(fixed), str(by_law)]
        cells += [f"{np.median(apart):.0e}", f"{np.median(allowed):.0e}"]
        cells += [f"{nearest.min():.1g} to {nearest.max():.1g}"]
        print(f"| {' | '.join(cells)} |", flush=True)


def judged_curve(task: Task, seed: int) -> tuple[np.ndarray, float]:
    """The losses of the steps that a certificate compares, and what its twin differs by."""
    rate = RATES[seed % 2]
    losses = task.train(seed, STEPS, rate)[1]
    twin = task.train(seed, STEPS, rate, disturb=True)[1]
    return losses, relative_error(twin, losses)


if __name__ == "__main__":
    main()
