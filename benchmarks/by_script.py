"""The worker's training time beside that of a plain script which trains the same.

    .venv/bin/python benchmarks/by_script.py [--pairs 15] [--build tf_2_21] [--epochs 70]

For each build, pairs of two fresh processes: the worker, as the workflow starts it, and a script
of `plain/` as a person would write it: the same layers, data, batch, epochs, seed, threads and
cores. On a shared machine two runs of one minute differ by more than what is looked for, so the
two train in turns, an epoch each in random order, the other asleep (`plain/turns.py`); the worker
gets its turns from a model of the user's own. A pair's ratio is the median of its epochs' ratios,
from the second on: the first traces and compiles in the script, which has no warm-up. The number
of pairs is fixed beforehand and all are printed. Interval: Student's t on the pairs' log ratios.

On 2.21 the script feeds ``fit`` as the worker does, with a tf.data pipeline; `arrays` is the same
with ``fit(x, y)``, which says what that feed costs and nothing of the worker.
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
sys.path.insert(0, str(ROOT / "src"))

from rnnbench.builds.environments import prepare  # noqa: E402
from rnnbench.builds.launcher import launcher  # noqa: E402
from rnnbench.datasets.provide import provide  # noqa: E402
from rnnbench.planning import Run, make_plan  # noqa: E402
from rnnbench.records.record import Record  # noqa: E402
from rnnbench.running import affinity  # noqa: E402
from rnnbench.running.train import Place, timing_lock, train  # noqa: E402
from rnnbench.running.worker import worker_environment  # noqa: E402
from rnnbench.tables.stats import mean_interval  # noqa: E402

SCRIPTS = {
    "tf_2_21": ("keras3.py", "pipeline"),
    "tf_2_21 arrays": ("keras3.py", "arrays"),
    "tf_1_15": ("tensorflow1.py", "arrays"),
    "tf_1_2": ("tensorflow1.py", "arrays"),
}
MARGIN = (0.97, 1.03)
PATIENCE = 300  # seconds for an epoch or a start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--build", action="append", choices=list(SCRIPTS))
    parser.add_argument("--epochs", type=int, default=70)
    parser.add_argument("--order-seed", type=int, default=0)
    options = parser.parse_args()
    os.chdir(ROOT)
    rows = options.build or list(SCRIPTS)
    print("| build | pairs | worker, s | script, s | worker / script | 95 % | took |")
    print("|:--|--:|--:|--:|--:|:--|--:|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        runs = planned(sorted({row.partition(" ")[0] for row in rows}), options, Path(folder))
        for row in rows:
            began = time.monotonic()
            stream = random.Random(options.order_seed)
            pairs = [pair(row, run, Path(folder), stream) for run in runs[row.partition(" ")[0]]]
            print(line(row, pairs, time.monotonic() - began), flush=True)
    return 0


def line(row: str, pairs: Sequence[Pair], took: float) -> str:
    ratio = mean_interval([one.ratio for one in pairs])
    span = f"{ratio.low:.3f}–{ratio.high:.3f}" if ratio.low and ratio.high else "one pair"
    inside = bool(ratio.low and ratio.high and MARGIN[0] < ratio.low <= ratio.high < MARGIN[1])
    span += f", {'inside' if inside else 'not inside'} {MARGIN[0]}–{MARGIN[1]}"
    means = [statistics.geometric_mean(side) for side in zip(*pairs, strict=True)][:2]
    return (
        f"| {row} | {len(pairs)} | {means[0]:.3f} | {means[1]:.3f} | {ratio.estimate:.3f} | {span} "
        f"| {took:.0f} s |"
    )


def planned(builds: list[str], options: argparse.Namespace, folder: Path) -> dict[str, list[Run]]:
    """Build → one planned run of the worker per pair."""
    (folder / "experiment").mkdir()
    (folder / "experiment/by_script.yaml").write_text(
        f"grids: ['model={HERE}/plain/digits.yaml cell=lstm rnn=keras device=cpu_1 "
        f"build={','.join(builds)} model.epochs={options.epochs} repeat=range({options.pairs})']\n"
    )
    plan = make_plan("by_script", [ROOT / "conf", folder], ROOT)
    for why in {why for _, why in plan.skipped}:
        raise SystemExit(why)
    runs = sorted(plan.runs.values(), key=lambda run: run.repeat)
    provide(runs[0].config["dataset"], ROOT)
    by_build = {build: [run for run in runs if run.choices["build"] == build] for build in builds}
    for members in by_build.values():
        prepare(members[0].config["build"], ROOT, print)
    return by_build


class Pair(NamedTuple):
    """Median seconds of an epoch on each side, and the median ratio of the epochs."""

    worker: float
    script: float
    ratio: float


def pair(row: str, run: Run, folder: Path, stream: random.Random) -> Pair:
    """One worker and one script in turns, from start to end."""
    place = Place(ROOT, folder / row / "results", "here", "by_script", timing_lock())
    records: list[Record] = []
    with fifos(folder / "worker") as worker, fifos(folder / "script") as script:
        os.environ["BY_SCRIPT_TURNS"] = str(folder / "worker")
        measuring = threading.Thread(
            target=lambda: records.append(train(run.as_dict(), place, label=run.name))
        )
        measuring.start()
        beside = plain(row, run.config, str(folder / "script"))
        turns = [worker, script]
        for side in turns:
            side.ready()
        for _ in range(run.config["model"]["epochs"]):
            for side in stream.sample(turns, 2):
                side.go()
                side.ready()
        out, _ = beside.communicate(timeout=PATIENCE)
        measuring.join(PATIENCE)
    if not records:
        raise SystemExit(f"{run.name}: no record, see above")
    if records[0].verdict.status == "void":
        raise SystemExit(f"{run.name}: {records[0].verdict.reasons[0].text}")
    own = [epoch.seconds for epoch in records[0].epochs[1:]]
    other = json.loads(out.splitlines()[-1])[1:]
    ratios = [a / b for a, b in zip(own, other, strict=True)]
    found = Pair(*map(statistics.median, (own, other, ratios)))
    print(
        f"{row} {run.repeat + 1:2}  worker {found.worker:.3f} s  script {found.script:.3f} s  "
        f"ratio {found.ratio:.3f}",
        file=sys.stderr,
        flush=True,
    )
    return found


class Side(NamedTuple):
    """One process that takes turns: the ends of its FIFOs that are held here."""

    told: int
    tells: int

    def ready(self) -> None:
        """Returns when it waits for its turn, or has ended."""
        if not select.select([self.told], [], [], PATIENCE)[0]:
            raise SystemExit(f"nothing heard for {PATIENCE} s")
        os.read(self.told, 1)

    def go(self) -> None:
        os.write(self.tells, b"g")


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


def plain(row: str, config: Mapping[str, Any], turns: str) -> subprocess.Popen:
    """The script, on the cores and with the environment that the worker has."""
    (script, feed), model = SCRIPTS[row], config["model"]
    threads = config["device"]["threads"]
    cores = affinity.choose(affinity.read_topology(), threads)
    numbers = [model[name] for name in ("train_samples", "units", "batch", "epochs")]
    return subprocess.Popen(
        [
            *launcher(config["build"], ROOT),
            str(HERE / "plain" / script),
            config["dataset"]["path"],
            *map(str, [*numbers, config["seed"], threads]),
            turns,
            feed,
        ],
        env={
            **worker_environment(os.environ, config, len(cores)),
            "CUDA_VISIBLE_DEVICES": "-1",
        },
        preexec_fn=lambda: os.sched_setaffinity(0, cores),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


if __name__ == "__main__":
    sys.exit(main())
