"""Compares the speed-up that a program of one's own gets from `rnnlayers.use` with the one that
``rnnbench compare`` promises for the same model.

    .venv/bin/python benchmarks/in_a_program.py [--programs 8] [--turns 10] [--kernel block]
    .venv/bin/python benchmarks/in_a_program.py --small

For each of three models of `plain/authors.py`, `plain/used.py` is started several times: plain
Keras and 40 lines, which know nothing of rnnbench. It feeds ``fit`` with arrays and with a dataset,
and calls the training steps without ``fit``. Its ratio is the median over turns, and the interval
is Student's t over the programs. Then ``rnnbench compare keras KERNEL`` measures the model for a
minute, in a folder of its own.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from benchmarks import where  # noqa: E402
from benchmarks.plain import authors  # noqa: E402
from benchmarks.small import add_small  # noqa: E402
from rnnbench.records.interval import Interval  # noqa: E402
from rnnbench.tables.stats import mean_interval  # noqa: E402

MODELS = ("frozen", "directions", "translation")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--programs", type=int, default=8)
    parser.add_argument("--turns", type=int, default=10, help="of three epochs")
    parser.add_argument("--kernel", default="block")
    parser.add_argument("--budget", type=float, default=1, help="minutes of each compare")
    parser.add_argument("--models", nargs="+", default=MODELS, choices=MODELS)
    add_small(parser)
    options = parser.parse_args()
    models = options.models
    if options.small:
        options.programs, options.turns, models = 2, 1, MODELS[:1]
    print(where.heading(), flush=True)
    ways = "fit with arrays | fit with a dataset | steps"
    print(f"| keras / {options.kernel} | {ways} | rnnbench compare |")
    print("|:--|:--|:--|:--|:--|", flush=True)
    for name in models:
        starts = [program(name, options) for _ in range(options.programs)]
        cells = [name]
        for way in starts[0]:
            cells.append(text(mean_interval([start[way] for start in starts])))
        cells.append("not run" if options.small else text(compare(name, options)))
        print(f"| {' | '.join(cells)} |", flush=True)
    return 0


def program(name: str, options: argparse.Namespace) -> dict[str, float]:
    """Way of training → ratio of the seconds, keras / kernel, in one start of `plain/used.py`."""
    variables = {
        "PYTHONPATH": str(ROOT / "src"),
        "TF_NUM_INTRAOP_THREADS": "1",
        "TF_NUM_INTEROP_THREADS": "1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "KERAS_BACKEND": "tensorflow",
    }
    command = [sys.executable, str(HERE / "plain/used.py"), name, options.kernel]
    command += [str(options.turns), *(["4"] if options.small else [])]
    done = subprocess.run(
        command, env={**os.environ, **variables}, stdout=subprocess.PIPE, text=True, check=True
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def compare(name: str, options: argparse.Namespace) -> Interval:
    """The ratio of ``rnnbench compare`` for the model, in this project."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder, f"{name}.npz")
        numpy.savez(data, **authors.arrays(name))
        command = ["rnnbench", "compare", "keras", options.kernel]
        command += ["--model", f"{HERE}/plain/authors.py:{name}", "--data", str(data)]
        command += ["--budget", str(options.budget)]
        known = set(ROOT.glob("reports/*/tables/time.csv"))
        subprocess.run(
            [sys.executable, "-m", *command], cwd=ROOT, stdout=subprocess.DEVNULL, check=True
        )
    (table,) = set(ROOT.glob("reports/*/tables/time.csv")) - known
    with table.open() as file:
        for row in csv.DictReader(file):
            if row["rnn"] == options.kernel:
                return Interval(*(float(row[f"speedup{end}"]) for end in ("", "_low", "_high")))
    raise LookupError(f"{table} has no row of {options.kernel}")


def text(ratio: Interval) -> str:
    return f"{ratio.estimate:.2f} ({ratio.low:.2f}–{ratio.high:.2f})"


if __name__ == "__main__":
    sys.exit(main())
