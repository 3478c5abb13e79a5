"""The worker's training time beside that of a plain script which trains the same.

    .venv/bin/python benchmarks/by_script.py [--pairs 15] [--build tf_2_21] [--epochs 30]

For each build, pairs of two fresh processes in random order: the worker, as the workflow starts
it, and a script of `plain/` as a person would write it: the same layers, data, batch, epochs,
seed, threads and cores. Compared is the median of epochs 2 to the last inside ``fit``, as
everywhere here: the first traces and compiles in the script, which has no warm-up. The number of
pairs is fixed beforehand and all are printed. Interval: Student's t on the pairs' log ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "src"))

from rnnbench import locks  # noqa: E402
from rnnbench.builds.environments import prepare  # noqa: E402
from rnnbench.builds.launcher import launcher  # noqa: E402
from rnnbench.datasets.provide import provide  # noqa: E402
from rnnbench.planning import Run, make_plan  # noqa: E402
from rnnbench.running import affinity  # noqa: E402
from rnnbench.running.train import Place, timing_lock, train  # noqa: E402
from rnnbench.running.worker import worker_environment  # noqa: E402
from rnnbench.tables.stats import ratio_interval, run_value  # noqa: E402

SCRIPTS = {"tf_2_21": "keras3.py", "tf_1_15": "tensorflow1.py", "tf_1_2": "tensorflow1.py"}
MARGIN = (0.97, 1.03)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--build", action="append", choices=list(SCRIPTS))
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--order-seed", type=int, default=0)
    options = parser.parse_args()
    os.chdir(ROOT)
    builds = options.build or list(SCRIPTS)
    summary = []
    with tempfile.TemporaryDirectory() as folder:
        for build, runs in planned(builds, options, Path(folder)).items():
            began = time.monotonic()
            pairs = measure(build, runs, Path(folder), random.Random(options.order_seed))
            summary.append((build, pairs, time.monotonic() - began))
    print("\n| build | pairs | worker, s | script, s | worker / script | 95 % | took |")
    print("|:--|--:|--:|--:|--:|:--|--:|")
    inside = True
    for build, pairs, took in summary:
        ratio = ratio_interval(*zip(*pairs, strict=True), range(len(pairs)), range(len(pairs)))
        inside &= bool(ratio.low and ratio.high and MARGIN[0] < ratio.low <= ratio.high < MARGIN[1])
        means = [statistics.geometric_mean(side) for side in zip(*pairs, strict=True)]
        bounds = f"{ratio.low:.3f}–{ratio.high:.3f}" if ratio.low else "-"
        print(
            f"| {build} | {len(pairs)} | {means[0]:.3f} | {means[1]:.3f} | {ratio.estimate:.3f} "
            f"| {bounds} | {took:.0f} s |"
        )
    print(f"\nAll intervals inside {MARGIN[0]}–{MARGIN[1]}: {'yes' if inside else 'no'}.")
    return 0


def planned(builds: list[str], options: argparse.Namespace, folder: Path) -> dict[str, list[Run]]:
    """Build → one planned run of the worker per pair."""
    (folder / "experiment").mkdir()
    (folder / "experiment/by_script.yaml").write_text(
        "grids: ['model=digits_rnn cell=lstm rnn=keras device=cpu_1 "
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


def measure(
    build: str, runs: list[Run], folder: Path, stream: random.Random
) -> list[tuple[float, float]]:
    """(worker, script) seconds of each pair; every one is printed as it comes."""
    place = Place(ROOT, folder / "results", "here", "by_script", timing_lock())
    pairs = []
    for number, run in enumerate(runs, start=1):
        first = stream.choice(["worker", "script"])
        found = {}
        for side in (first, "script" if first == "worker" else "worker"):
            found[side] = (
                by_worker(run, place) if side == "worker" else by_script(build, run.config)
            )
        pairs.append((found["worker"], found["script"]))
        print(
            f"{build} {number:2}/{len(runs)}  worker {pairs[-1][0]:.3f} s  script "
            f"{pairs[-1][1]:.3f} s  ratio {pairs[-1][0] / pairs[-1][1]:.3f}  ({first} first)",
            flush=True,
        )
    return pairs


def by_worker(run: Run, place: Place) -> float:
    record = train(run.as_dict(), place, label=run.name)
    if record.verdict.status == "void":
        raise SystemExit(f"{run.name}: {record.verdict.reasons[0].text}")
    return run_value([epoch.seconds for epoch in record.epochs[1:]])


def by_script(build: str, config: Mapping[str, Any]) -> float:
    model, threads = config["model"], config["device"]["threads"]
    cores = affinity.choose(affinity.read_topology(), threads)
    arguments = [model["units"], model["batch"], model["epochs"], config["seed"], threads]
    with locks.locked(timing_lock(), "benchmarks/by_script.py"):
        done = subprocess.run(
            [
                *launcher(config["build"], ROOT),
                str(ROOT / "benchmarks/plain" / SCRIPTS[build]),
                config["dataset"]["path"],
                *map(str, arguments),
            ],
            env={
                **worker_environment(os.environ, config, len(cores)),
                "CUDA_VISIBLE_DEVICES": "-1",
            },
            preexec_fn=lambda: os.sched_setaffinity(0, cores),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=True,
        )
    return run_value(json.loads(done.stdout.splitlines()[-1])[1:])


if __name__ == "__main__":
    sys.exit(main())
