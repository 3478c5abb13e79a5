"""Certifies random ordinary Keras models, those of `tests/worker/random_models.py`: stacks, both
directions, masks, states, several inputs, nested models, layers of one's own, frozen layers,
penalties, and eight optimizers with clipping and decay.

    .venv/bin/python benchmarks/random_models.py [--models 500] [--build current] [--first 100]
    .venv/bin/python benchmarks/random_models.py --small

Each implementation must compute what Keras computes and train each weight alike, or be refused
with the line, the layer and what its kernel lacks; ``keras`` must compute what plain Keras does
without rnnbench. Anything else is a fault, which is printed with the number of its model, and lets
the script end with 1. A model takes about 12 CPU seconds in the build ``current``.
"""

from __future__ import annotations

import argparse
import collections
import re
import sys
import tempfile
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "src")]

from benchmarks import where  # noqa: E402
from benchmarks.small import add_small  # noqa: E402
from tests.worker.checked_models import IMPLEMENTATIONS, checked  # noqa: E402

CHUNK = 4  # models that one process certifies


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", type=int, default=500)
    parser.add_argument("--build", choices=sorted(IMPLEMENTATIONS), default="current")
    parser.add_argument("--first", type=int, default=100, help="the number of the first model")
    add_small(parser)
    options = parser.parse_args()
    if options.small:
        options.models = 1
    print(where.heading(), flush=True)
    certified: collections.Counter[str] = collections.Counter()
    refused: collections.Counter[tuple[str, str]] = collections.Counter()
    faulty = 0
    end = options.first + options.models
    for start in range(options.first, end, CHUNK):
        seeds = range(start, min(start + CHUNK, end))
        with tempfile.TemporaryDirectory() as folder:
            models = checked(options.build, seeds, Path(folder))
        for model in models:
            certified.update(model.certified)
            for rnn, why in model.refused.items():
                refused[rnn, re.sub(r"layer \w+: ", "", why)] += 1
            faulty += bool(model.faults)
            for fault in model.faults:
                print(f"model {model.seed}: {fault}\n", flush=True)
        print(f"{seeds.stop - options.first} models", file=sys.stderr, flush=True)
    print(f"{options.models} models in {options.build}, of which {faulty} have a fault.\n")
    print("| implementation | certified | refused |")
    print("|:--|--:|--:|")
    for rnn in IMPLEMENTATIONS[options.build]:
        of_it = sum(count for (name, _), count in refused.items() if name == rnn)
        print(f"| {rnn} | {certified[rnn]} | {of_it} |")
    for (_, why), count in refused.most_common():
        print(f"\n{count} times: {why}")
    return 1 if faulty else 0


if __name__ == "__main__":
    sys.exit(main())
