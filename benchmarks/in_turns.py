"""Our ratios of runtimes beside those of a hand-written loop, ``runtimes/in_turns.py`` of the
folder RNNBENCH_SHARED: an LSTM and a GRU of 128 units, 100 steps, 1 and 32 samples, one thread.

    RNNBENCH_SHARED=FOLDER python benchmarks/in_turns.py

The loop calls all runtimes in one process and says the 10 to 90 % range of its turns. It is started
three times, because such a range has nothing of what differs between processes: it goes from the
lowest to the highest of the three. Ours has the 95 % interval of its rounds. They agree if the two
intervals overlap.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from benchmarks.where import heading  # noqa: E402
from rnnbench.builds.environments import prepare  # noqa: E402
from rnnbench.builds.launcher import launcher  # noqa: E402
from rnnbench.commands.prediction import job_of  # noqa: E402
from rnnbench.prediction.measure import Job  # noqa: E402
from rnnbench.prediction.results import measured  # noqa: E402

# What the loop calls each runtime → ours; the first one is the reference of both.
RUNTIMES = {
    "predict_on_batch": "framework",
    "predict": "keras_predict",
    "tf.function": "tf_function",
    "jit": "tf_function_xla",
    "onnxruntime": "onnxruntime",
    "litert": "litert",
    "torch.nn": "torch_eager",
}
BATCHES = (1, 32)
MODELS = """
import keras


def model(layer):
    inputs = keras.Input((100, 32))
    return keras.Model(inputs, keras.layers.Dense(10)(layer(128)(inputs)))


def LSTM():
    return model(keras.layers.LSTM)


def GRU():
    return model(keras.layers.GRU)
"""
LINE = re.compile(r"(\w+) B=(\d+) (\S+) +[\d.]+ ms +([\d.]+)x \(([\d.]+)-([\d.]+)\)")


class Ratio(NamedTuple):
    """Times as fast as the reference, with an interval."""

    estimate: float
    low: float
    high: float

    def overlaps(self, other: Ratio) -> bool:
        return self.low <= other.high and other.low <= self.high

    def __str__(self) -> str:
        return f"{self.estimate:.2f} ({self.low:.2f} to {self.high:.2f})"


Cell = tuple[str, int, str]  # layer, size of batch, our name of the runtime


def ratios_in(text: str) -> dict[Cell, Ratio]:
    """The ratios in what all starts of the loop print."""
    found = defaultdict(list)
    for layer, batch, name, *numbers in LINE.findall(text):
        if RUNTIMES[name] != "framework":
            found[layer, int(batch), RUNTIMES[name]].append(Ratio(*map(float, numbers)))
    of_all = {}
    for cell, ratios in found.items():
        estimate = median(ratio.estimate for ratio in ratios)
        low, high = min(ratio.low for ratio in ratios), max(ratio.high for ratio in ratios)
        of_all[cell] = Ratio(estimate, low, high)
    return of_all


def ours(job: Job, layer: str) -> dict[Cell, Ratio]:
    """Our ratios; none of a runtime that was not timed."""
    found = {}
    for runtime in measured(job, layer, print).runtimes:
        for batch in runtime.batches:
            ratio = batch.ratio
            if ratio is not None and ratio.low is not None and ratio.high is not None:
                found[layer, batch.batch, runtime.name] = Ratio(
                    ratio.estimate, ratio.low, ratio.high
                )
    return found


def table(by_hand: dict[Cell, Ratio], by_us: dict[Cell, Ratio]) -> list[str]:
    """The lines of a Markdown table, and how many cells agree."""
    lines = ["| layer | samples | runtime | by hand | ours | agree |", "|---|--:|---|---|---|---|"]
    agreed = 0
    for cell, ratio in by_hand.items():
        measured_by_us = by_us.get(cell)
        agrees = "not timed"
        if measured_by_us:
            agrees = "yes" if ratio.overlaps(measured_by_us) else "**no**"
        agreed += agrees == "yes"
        layer, batch, runtime = cell
        lines.append(f"| {layer} | {batch} | `{runtime}` | {ratio} | {measured_by_us} | {agrees} |")
    return [*lines, "", f"{agreed} of {len(by_hand)} ratios agree."]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--starts", type=int, default=3, help="of the loop (default: 3)")
    options = parser.parse_args()
    shared = os.environ.get("RNNBENCH_SHARED")
    if not shared:
        parser.error("set RNNBENCH_SHARED to the folder that has runtimes/in_turns.py")
    os.chdir(ROOT)
    first = heading()
    by_us: dict[Cell, Ratio] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "models.py"
        file.write_text(MODELS)
        data = folder / "data.npz"
        stream = numpy.random.default_rng(0)
        numpy.savez(data, x=stream.normal(size=(32, 100, 32)).astype("float32"))
        jobs = {}
        for layer in ("LSTM", "GRU"):
            place = folder / layer
            place.mkdir()
            runtimes = list(RUNTIMES.values())
            model = f"{file}:{layer}"
            jobs[layer] = job_of(
                model, str(data), runtimes, BATCHES, place, threads=1, rounds=options.rounds
            )
        build = jobs["LSTM"].build
        prepare(build, ROOT, print)
        command = [*launcher(build, ROOT), str(Path(shared, "runtimes/in_turns.py").absolute())]
        environment = os.environ | {"CUDA_VISIBLE_DEVICES": "-1", "OMP_NUM_THREADS": "1"}
        printed = ""
        for start in range(options.starts):
            printed += subprocess.check_output(command, env=environment, cwd=folder, text=True)
            if start == 0:
                for layer, job in jobs.items():
                    by_us |= ours(job, layer)
    print(first)
    print("\n".join(table(ratios_in(printed), by_us)))


if __name__ == "__main__":
    main()
