"""Compares the times and losses of workers forked from an importer with those started directly.

    .venv/bin/python benchmarks/forked.py [--rounds 15] [--build current] [--threads 1] [--unlisted]
    .venv/bin/python benchmarks/forked.py --small

In each round, two forked and two started members train the same run in turns. A round's ratio is
that of the effects of the two kinds. The difference between the two members of each kind is printed
next to it. The members of the small form sleep.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "src")]

from benchmarks import where  # noqa: E402
from benchmarks.experiment import ROOT  # noqa: E402
from benchmarks.small import add_small  # noqa: E402
from rnnbench.builds.environments import prepare  # noqa: E402
from rnnbench.builds.pins import build_of  # noqa: E402
from rnnbench.datasets.provide import provide, read_dataset  # noqa: E402
from rnnbench.planning.plan import Run  # noqa: E402
from rnnbench.planning.planner import make_plan  # noqa: E402
from rnnbench.running import worker  # noqa: E402
from rnnbench.running.assemble import turns  # noqa: E402
from rnnbench.running.worker import Outcome, supervise  # noqa: E402
from rnnbench.tables.effects import effects  # noqa: E402
from rnnbench.tables.stats import mean_interval  # noqa: E402
from rnnworker import forked_workers  # noqa: E402
from rnnworker.frameworks.names import FRAMEWORKS  # noqa: E402
from rnnworker.shared_file import timing_lock  # noqa: E402

KINDS = {"forked_0": True, "forked_1": True, "started_0": False, "started_1": False}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--build", default="current")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--unlisted", action="store_true", help="fork also a framework without `can_fork`"
    )
    add_small(parser)
    options = parser.parse_args()
    print(where.heading(), flush=True)
    os.chdir(ROOT)
    grid = "model=digits_rnn rnn=keras model.epochs=20"
    if options.small:
        options.rounds, options.build = 2, "fake"
        grid = "model=fake rnn=fake_fast model.epochs=6 +rnn.fake.epoch_steps=4"
    ratios, forked, started, equal_losses = [], [], [], 0
    with tempfile.TemporaryDirectory() as folder:
        run = planned(options, grid, Path(folder))
        for number in range(options.rounds):
            start = time.monotonic()
            outcomes = measure_round(run, Path(folder) / str(number), number)
            effect = effects_of(outcomes)
            for name, outcome in outcomes.items():
                if name not in effect:
                    sys.exit(f"round {number}: {name} has no turns that can be compared: {outcome}")
            a, b, c, d = (effect[name] for name in KINDS)
            ratios.append(math.exp((a + b - c - d) / 2))
            forked.append(a - b)
            started.append(c - d)
            losses = {json.dumps(losses_of(outcome)) for outcome in outcomes.values()}
            equal_losses += len(losses) == 1
            print(
                f"round {number}: forked / started {ratios[-1]:.4f}, within forked {a - b:+.4f}, "
                f"within started {c - d:+.4f}, {time.monotonic() - start:.1f} s",
                flush=True,
            )
    mean = mean_interval(ratios)
    span = f"({mean.low:.4f}–{mean.high:.4f})" if mean.low and mean.high else "(one round)"
    print(
        f"{options.build}, {options.threads} threads: forked / started {mean.estimate:.4f} {span}"
        f", {len(ratios)} rounds; two forked differ by "
        f"{rms(forked):.2%}, two started by {rms(started):.2%} (root mean square); the losses of "
        f"all four were equal in {equal_losses} rounds"
    )
    return 0


def planned(options: argparse.Namespace, grid: str, folder: Path) -> Run:
    (folder / "experiment").mkdir()
    grid += f" device=cpu_{options.threads} build={options.build}"
    text = json.dumps({"title": "Forked", "grids": [grid]})
    (folder / "experiment/forked.yaml").write_text(text)
    plan = make_plan("forked", [ROOT / "conf", ROOT / "tests/conf", folder], ROOT)
    run = next(iter(plan.runs.values()))
    framework = run.config["build"]["framework"]
    module = importlib.import_module(f"rnnworker.frameworks.{FRAMEWORKS[framework].module}")
    if not hasattr(module, "preload"):
        sys.exit(f"build={options.build}: {module.__name__} has no function preload: add it")
    if options.unlisted:
        FRAMEWORKS[framework] = FRAMEWORKS[framework]._replace(can_fork=True)
    if not forked_workers.may_fork(run.config):
        sys.exit(f"build={options.build}: the runs of its framework are not forked; see --unlisted")
    provide(read_dataset(run.config["dataset"]["name"], ROOT), ROOT)
    prepare(build_of(run.config["build"]), ROOT, print)
    return run


def measure_round(run: Run, folder: Path, seed: int) -> dict[str, Outcome]:
    folder.mkdir()
    with open(timing_lock(), "a") as lock:
        members = []
        for place, (name, forks) in enumerate(KINDS.items()):
            job = worker.job_of(run.config, ROOT, place=place)
            limits = run.config["limits"]
            member = worker.member(
                name, job, ROOT, folder / name, timing=lock.fileno(), limits=limits
            )
            members.append(member._replace(forks=forks))
        return supervise(members, seed)


def effects_of(outcomes: dict[str, Outcome]) -> dict[str, float]:
    return effects(
        {name: turns(outcome.events, outcome.turns) for name, outcome in outcomes.items()}
    )


def losses_of(outcome: Outcome) -> list[float]:
    return [event["loss"] for event in outcome.events if event["event"] == "epoch"]


def rms(values: list[float]) -> float:
    return math.sqrt(statistics.fmean(value * value for value in values))


if __name__ == "__main__":
    sys.exit(main())
