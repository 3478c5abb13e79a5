"""Compares the worker's training time with that of a plain script that trains the same model.

    .venv/bin/python benchmarks/by_script.py [--pairs 15] [--build tf_2_21] [--epochs 70]
    .venv/bin/python benchmarks/by_script.py --small [--build tf_1_15]

For each build, it measures pairs of two new processes: the worker, as the workflow starts it, and a
script of `plain/`, as a user would write it, with the same layers, data, batch, epochs, seed,
threads and cores. On a shared machine, two runs within one minute differ by more than the effect in
question. So the two train in turns, one epoch each in random order, while the other sleeps
(`plain/turns.py`); the worker gets its turns from a user-supplied model. A pair's ratio is the
median of the ratios of its epochs from the second on: the script has no warm-up, so its first epoch
includes tracing and compilation. The number of pairs is fixed in advance, and all are included.
Interval: Student's t on the log ratios of the pairs.

On 2.21 the script feeds ``fit`` as the worker does, with a tf.data pipeline. The row `arrays` uses
``fit(x, y)`` instead; it shows the cost of that feed, not of the worker.

In the row `tf_1_2 as_published` a second worker, with ``build.as_published: true``, replaces the
script: the ratio is the cost of computing all gradients before the first update.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import select
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from benchmarks import where  # noqa: E402
from benchmarks.small import add_small  # noqa: E402
from rnnbench.builds.environments import prepare  # noqa: E402
from rnnbench.builds.launcher import launcher  # noqa: E402
from rnnbench.builds.pins import build_of  # noqa: E402
from rnnbench.datasets.provide import provide, read_dataset  # noqa: E402
from rnnbench.planning.plan import Run  # noqa: E402
from rnnbench.planning.planner import make_plan  # noqa: E402
from rnnbench.records.record import Record  # noqa: E402
from rnnbench.records.store import Place  # noqa: E402
from rnnbench.running.round import measure  # noqa: E402
from rnnbench.tables.stats import mean_interval  # noqa: E402
from rnnworker import processors  # noqa: E402
from rnnworker.shared_file import timing_lock  # noqa: E402
from rnnworker.workers import environment_of  # noqa: E402

SCRIPTS: dict[str, tuple[str, str]] = {
    "tf_2_21": ("keras3.py", "pipeline"),
    "tf_2_21 arrays": ("keras3.py", "arrays"),
    "tf_1_15": ("tensorflow1.py", "arrays"),
    "tf_1_2": ("tensorflow1.py", "arrays"),
}
AS_PUBLISHED = "tf_1_2 as_published"
MARGIN = (0.97, 1.03)
TIMEOUT_SECONDS = 300  # for an epoch or a start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--build", action="append", choices=[*SCRIPTS, AS_PUBLISHED])
    parser.add_argument("--epochs", type=int, default=70)
    parser.add_argument("--order-seed", type=int, default=0)
    parser.add_argument(
        "--root", type=Path, default=ROOT, help="the project with data/ and results/envs/"
    )
    add_small(parser)
    options = parser.parse_args()
    if options.small:
        options.pairs, options.epochs = 1, 4
        options.build = options.build or ["tf_1_15"]
    print(where.heading(), flush=True)
    os.chdir(options.root)
    rows = options.build or [*SCRIPTS, AS_PUBLISHED]
    print("| build | pairs | worker, s | script, s | worker / script | 95 % | took |")
    print("|:--|--:|--:|--:|--:|:--|--:|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        runs = planned(rows, options, Path(folder))
        for row in rows:
            start = time.monotonic()
            stream = random.Random(options.order_seed)
            row_runs = runs[row.partition(" ")[0]]
            others = runs[AS_PUBLISHED] if row == AS_PUBLISHED else [None] * len(row_runs)
            pairs = [
                measure_pair(row, run, other, options.root, Path(folder), stream)
                for run, other in zip(row_runs, others, strict=True)
            ]
            print(line(row, pairs, time.monotonic() - start), flush=True)
    return 0


def line(row: str, pairs: Sequence[Pair], duration: float) -> str:
    ratio = mean_interval([pair.ratio for pair in pairs])
    span = f"{ratio.low:.3f}–{ratio.high:.3f}" if ratio.low and ratio.high else "one pair"
    inside = bool(ratio.low and ratio.high and MARGIN[0] < ratio.low <= ratio.high < MARGIN[1])
    span += f", {'inside' if inside else 'not inside'} {MARGIN[0]}–{MARGIN[1]}"
    means = [statistics.geometric_mean(side) for side in zip(*pairs, strict=True)][:2]
    return (
        f"| {row} | {len(pairs)} | {means[0]:.3f} | {means[1]:.3f} | {ratio.estimate:.3f} | {span} "
        f"| {duration:.0f} s |"
    )


def planned(rows: list[str], options: argparse.Namespace, folder: Path) -> dict[str, list[Run]]:
    """Build or `AS_PUBLISHED` → one planned run of the worker per pair."""
    builds = sorted({row.partition(" ")[0] for row in rows})
    common = (
        f"model={HERE}/plain/digits.yaml cell=lstm rnn=keras device=cpu_1 "
        f"model.epochs={options.epochs} repeat=range({options.pairs})"
    )
    grids = [f"{common} build={','.join(builds)}"]
    if AS_PUBLISHED in rows:
        grids.append(f"{common} build=tf_1_2 build.as_published=true")
    (folder / "experiment").mkdir()
    (folder / "experiment/by_script.yaml").write_text(json.dumps({"grids": grids}))
    plan = make_plan("by_script", [ROOT / "conf", folder], options.root)
    for why in {why for _, why in plan.skipped}:
        raise SystemExit(why)
    runs = sorted(plan.runs.values(), key=lambda run: run.repeat)
    provide(read_dataset(runs[0].config["dataset"]["name"], options.root), options.root)
    by_build: dict[str, list[Run]] = {}
    for run in runs:
        published = run.config["build"].get("as_published")
        by_build.setdefault(AS_PUBLISHED if published else run.choices["build"], []).append(run)
    for members in by_build.values():
        prepare(build_of(members[0].config["build"]), options.root, print)
    return by_build


class Pair(NamedTuple):
    """The median seconds of an epoch of each process, and the median ratio of the epochs."""

    worker: float
    script: float
    ratio: float


class Training:
    """Starts a run of the worker that takes its turns from the FIFOs `turns`."""

    def __init__(self, run: Run, place: Place, turns: Path) -> None:
        os.environ["BY_SCRIPT_TURNS"] = str(turns)
        self.name, self.records = run.name, list[Record]()
        self.thread = threading.Thread(
            target=lambda: self.records.extend(measure([run], place, label=run.name).values())
        )
        self.thread.start()

    def seconds(self) -> list[float]:
        """Waits for the end of the run. Returns the seconds of its epochs from the second on."""
        self.thread.join(TIMEOUT_SECONDS)
        if not self.records:
            raise SystemExit(f"{self.name}: no record, see above")
        if self.records[0].verdict.status == "void":
            raise SystemExit(f"{self.name}: {self.records[0].verdict.reasons[0].text}")
        return [epoch.seconds for epoch in self.records[0].epochs[1:]]


def measure_pair(
    row: str, run: Run, other_run: Run | None, root: Path, folder: Path, stream: random.Random
) -> Pair:
    """Runs a worker in turns with the script, or with a second worker if there is an
    `other_run`."""
    results = folder / row / "results"
    place = Place(root, results, "here", "by_script", timing_lock())
    # The first worker holds the host's lock while both train.
    second = Place(root, results, "here", "by_script", folder / "second.lock")
    with fifos(folder / "worker") as worker, fifos(folder / "script") as script:
        training = Training(run, place, folder / "worker")
        if other_run is None:
            process = start_script(row, run.config, root, str(folder / "script"))
            worker.wait_until_ready()
        else:
            # A worker reads the path of its turns when it starts, so they start one by one.
            worker.wait_until_ready()
            other_training = Training(other_run, second, folder / "script")
        script.wait_until_ready()
        for _ in range(run.config["model"]["epochs"]):
            for side in stream.sample([worker, script], 2):
                side.go()
                side.wait_until_ready()
        own = training.seconds()
        if other_run is None:
            out, _ = process.communicate(timeout=TIMEOUT_SECONDS)
            other = json.loads(out.splitlines()[-1])[1:]
        else:
            other = other_training.seconds()
    ratios = [a / b for a, b in zip(own, other, strict=True)]
    result = Pair(*map(statistics.median, (own, other, ratios)))
    print(
        f"{row} {run.repeat + 1:2}  worker {result.worker:.3f} s  script {result.script:.3f} s  "
        f"ratio {result.ratio:.3f}",
        file=sys.stderr,
        flush=True,
    )
    return result


class Side(NamedTuple):
    """This process's ends of the FIFOs of a process that takes turns."""

    input: int
    output: int

    def wait_until_ready(self) -> None:
        """Returns when the process waits for its turn or has ended."""
        if not select.select([self.input], [], [], TIMEOUT_SECONDS)[0]:
            raise SystemExit(f"no turn finished within {TIMEOUT_SECONDS} s")
        os.read(self.input, 1)

    def go(self) -> None:
        os.write(self.output, b"g")


@contextmanager
def fifos(place: Path) -> Iterator[Side]:
    paths = [f"{place}.ready", f"{place}.go"]
    for path in paths:
        os.mkfifo(path)
    ends = [os.open(path, os.O_RDWR) for path in paths]
    try:
        yield Side(*ends)
    finally:
        for end, path in zip(ends, paths, strict=True):
            os.close(end)
            os.unlink(path)


def start_script(row: str, config: Mapping[str, Any], root: Path, turns: str) -> subprocess.Popen:
    """Starts the script on the cores and with the environment of the worker."""
    script, feed = SCRIPTS[row]
    model = config["model"]
    threads = config["device"]["threads"]
    cores = processors.choose(processors.read_topology(), threads)
    numbers = [model[name] for name in ("train_samples", "units", "batch", "epochs")]
    return subprocess.Popen(
        [
            *launcher(build_of(config["build"]), root),
            str(HERE / "plain" / script),
            config["dataset"]["path"],
            *map(str, [*numbers, config["seed"], threads]),
            turns,
            feed,
        ],
        env={
            **environment_of(config, len(cores)),
            "CUDA_VISIBLE_DEVICES": "-1",
        },
        preexec_fn=lambda: os.sched_setaffinity(0, cores),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


if __name__ == "__main__":
    sys.exit(main())
