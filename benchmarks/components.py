"""How much of a ratio's variance lies between processes, between trainings of one process, and
between cycles; therefore, how often a process should train for the narrowest interval per minute.

    .venv/bin/python benchmarks/components.py [--processes 30] [--turns 0.85] [--device cpu_1]
    .venv/bin/python benchmarks/components.py --small

`keras` and `block` train in rounds of the workflow, each in fresh processes, which train again from
the same weights (``repeats.turns``). The log ratio of a training is the median over its cycles that
count. From its variance within and between processes follows the half-width of the interval after a
minute of rounds in which each process trains once, twice, … An interrupted benchmark continues with
the same command.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import stats

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "src")]

from benchmarks import where  # noqa: E402
from benchmarks.experiment import ROOT, measure_experiment, this_project  # noqa: E402
from benchmarks.small import add_small  # noqa: E402
from rnnbench.records.record import Record  # noqa: E402
from rnnbench.tables.effects import Round, examined  # noqa: E402
from tests.conftest import Project, make_project  # noqa: E402

MODELS = {
    "digits": "model=digits_rnn",
    "short": "model=shape_short model.epochs=2",
    "long": "model=shape_long model.epochs=2",
}
RNNS = ("keras", "block")
FAKE = "model=fake model.epochs=10 build=fake rnn.fake.epoch_seconds=0.02"
TRAININGS = (1, 2, 3, 4, 6, 8, 12)
MINUTE = 60.0
NORMAL = math.pi / 2  # variance of a median relative to that of a mean
DRAWS = 1000


@dataclass(frozen=True)
class Process:
    """What a round says about the ratio of its two members.

    - `trainings`: the median log ratio of each training.
    - `cycle`, `cycles`: variance of the log ratio of a cycle, and the number of cycles, of a
      training.
    - `before`: seconds of the round that are not training; `training`: of one training of both.
    """

    trainings: np.ndarray
    cycle: float
    cycles: float
    before: float
    training: float


@dataclass(frozen=True)
class Components:
    """Variances of a log ratio: between processes, between trainings of a process (beyond what
    their cycles explain), and between cycles of a training."""

    process: float
    training: float
    cycle: float
    of_one: float  # of the median of one training within its process

    def of_process(self, trainings: int) -> float:
        """The variance of what a process says that trains so often."""
        return self.process + self.of_one / trainings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--processes", type=int, default=30)
    parser.add_argument("--turns", type=float, default=0.85, help="their share of a round's time")
    parser.add_argument("--device", default="cpu_1")
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS)
    parser.add_argument("--folder", type=Path, default=ROOT / "results/cache/components")
    add_small(parser)
    options = parser.parse_args()
    print(where.heading(), flush=True)
    if not options.small:
        for model in options.models:
            measure(options, this_project(options.folder), model, MODELS[model], RNNS)
        return 0
    options.processes, options.turns = 3, 0.9
    with tempfile.TemporaryDirectory() as folder:
        project = make_project(Path(folder))
        measure(options, project, "fake", FAKE, ("fake_middle", "fake_fast"))
    return 0


def measure(
    options: argparse.Namespace,
    project: Project,
    name: str,
    model: str,
    rnns: Sequence[str],
) -> None:
    """Measures the rounds of a network and prints what they show. `model`: its overrides."""
    count = options.processes
    text = (
        f"title: Components of the variance\n"
        f"grids:\n  - {model} device={options.device} rnn={','.join(rnns)}\n"
        f"reference: {{rnn: {rnns[0]}}}\n"
        f"repeats: {{least: {count}, most: {count}, budget_s: 1.0e+9, turns: {options.turns}}}\n"
    )
    records = measure_experiment(project, f"components_{name}_{options.device}", text)
    rounds = examined(records)
    processes = []
    for own in rounds:
        processes += processes_of(own, rnns, with_disturbed=options.small)
    quiet = sum(own.state == 0 for own in rounds)
    print(f"\n## {name}, {options.device}: {len(processes)} processes, {quiet} in a quiet hour\n")
    report(processes)


def processes_of(own: Round, rnns: Sequence[str], with_disturbed: bool = False) -> list[Process]:
    """The `Process` of a round, or none if a member has failed or trained in too few cycles.

    `with_disturbed`: for the small form, which has to work on a busy machine."""
    by_rnn = {record.run.choices["rnn"]: place for place, record in enumerate(own.members.values())}
    if set(by_rnn) != set(rnns):
        return []
    records = list(own.members.values())
    first, second = (by_rnn[rnn] for rnn in rnns)
    logs = own.logs[second] - own.logs[first]
    if not with_disturbed:
        logs[~own.counts] = math.nan

    medians = []
    variances = []
    parts = [part[~np.isnan(part)] for part in split(logs, records[first])]
    for part in parts:
        if len(part) > 3:
            medians.append(np.median(part))
            variances.append(stats.median_abs_deviation(part, scale="normal") ** 2)
    if len(medians) < 2:
        return []
    took = [seconds_of(record) for record in records]
    return [
        Process(
            trainings=np.array(medians),
            cycle=float(np.mean(variances)),
            cycles=float(np.mean([len(part) for part in parts])),
            before=max(whole - trained for whole, trained, _ in took),
            training=max(trained / count for _, trained, count in took),
        )
    ]


def split(logs: np.ndarray, record: Record) -> list[np.ndarray]:
    """The log ratios of the cycles of each training. The first has `train`; the others, in
    `train_again`, are of equal length."""
    phases = {phase.name: phase for phase in record.phases}
    again = phases.get("train_again")
    if again is None:
        return [logs]
    begun = sum(start <= phases["train"].end for start in record.turns["start"])
    return [logs[:begun], *np.array_split(logs[begun:], again.facts["trainings"])]


def seconds_of(record: Record) -> tuple[float, float, int]:
    """Seconds of the run, those of its trainings with the turns of the others, and their number."""
    phases = {phase.name: phase for phase in record.phases}
    whole = record.phases[-1].end - record.phases[0].start
    trained = phases["train"].seconds
    count = 1
    if "train_again" in phases:
        trained += phases["train_again"].seconds
        count += phases["train_again"].facts["trainings"]
    return whole, trained, count


def components_of(processes: Sequence[Process]) -> Components:
    """The components by the method of moments."""
    within = np.concatenate([each.trainings - each.trainings.mean() for each in processes])
    freedom = sum(len(each.trainings) - 1 for each in processes)
    of_one = float((within**2).sum() / freedom)
    means = [each.trainings.mean() for each in processes]
    inverse = np.mean([1 / len(each.trainings) for each in processes])
    between = float(np.var(means, ddof=1) - of_one * inverse)
    cycle = float(np.mean([each.cycle for each in processes]))
    cycles = float(np.mean([each.cycles for each in processes]))
    return Components(
        process=max(between, 0.0),
        training=max(of_one - NORMAL * cycle / cycles, 0.0),
        cycle=cycle,
        of_one=of_one,
    )


def report(processes: Sequence[Process]) -> None:
    if not processes:
        print("No round has enough cycles.")
        return
    found = components_of(processes)
    intervals = bootstrapped(processes)
    print("| standard deviation of the log ratio | % | 95 % |")
    print("|:--|--:|:--|")
    for name, several in (("process", "processes"), ("training", "trainings"), ("cycle", "cycles")):
        low, high = intervals[name]
        value = math.sqrt(getattr(found, name))
        print(f"| between {several} | {100 * value:.2f} | {100 * low:.2f}–{100 * high:.2f} |")

    before = float(np.median([each.before for each in processes]))
    training = float(np.median([each.training for each in processes]))
    print(
        f"\nBesides its trainings, a round takes {before:.2f} s; one training {training:.2f} s.\n"
    )
    print("| trainings of a process | share of turns | rounds in a minute | interval |")
    print("|--:|--:|--:|--:|")
    for trainings in TRAININGS:
        seconds = before + trainings * training
        rounds = int(MINUTE / seconds)
        share = trainings * training / seconds
        width = "–"
        if rounds >= 3:
            width = f"± {100 * halfwidth(found, trainings, rounds):.2f} %"
        print(f"| {trainings} | {share:.0%} | {rounds} | {width} |")


def halfwidth(found: Components, trainings: int, rounds: int) -> float:
    """Half the 95 % interval of a log ratio from so many `rounds`."""
    quantile = float(stats.t.ppf(0.975, rounds - 1))
    return quantile * math.sqrt(found.of_process(trainings) / rounds)


def bootstrapped(processes: Sequence[Process]) -> Mapping[str, tuple[float, float]]:
    """Component → the 95 % interval of its standard deviation, over draws of processes."""
    generator = np.random.default_rng(0)
    drawn: dict[str, list[float]] = {"process": [], "training": [], "cycle": []}
    for _ in range(DRAWS):
        chosen = generator.integers(0, len(processes), len(processes))
        found = components_of([processes[place] for place in chosen])
        for name, values in drawn.items():
            values.append(math.sqrt(getattr(found, name)))
    intervals = {}
    for name, values in drawn.items():
        low, high = np.quantile(values, [0.025, 0.975])
        intervals[name] = (float(low), float(high))
    return intervals


if __name__ == "__main__":
    sys.exit(main())
