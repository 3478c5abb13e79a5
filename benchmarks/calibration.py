"""Counts how often the sentences of a page are wrong and how often intervals contain the truth.

    .venv/bin/python benchmarks/calibration.py [--quick | --small] [--seed 0]

Turns of simulated machines with a known truth (`simulated.py`) pass through the tables to the
sentences of the page, which are judged by their text (`judging.py`). The share of wrong sentences
is relative to all pages that could have made one. The numbers of a page are also compared with each
other (`same_number.py`). Prints Markdown; deterministic for a seed; uses one core.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "src")]

from benchmarks import judging as j  # noqa: E402
from benchmarks import where  # noqa: E402
from benchmarks.judging import Tallies, Tally  # noqa: E402
from benchmarks.same_number import differing_numbers, random_grids  # noqa: E402
from benchmarks.simulated import Machine, Member, share_left_out, simulate  # noqa: E402
from benchmarks.small import add_small  # noqa: E402
from rnnbench.planning.finished import finished  # noqa: E402
from rnnbench.planning.forecast import repeats_for, spread_of  # noqa: E402
from rnnbench.records.record import Record  # noqa: E402
from rnnbench.report.tables import ReportInputs  # noqa: E402
from rnnbench.sources.prices import Price, PriceList  # noqa: E402
from rnnbench.tables.estimates import Measurements  # noqa: E402
from rnnbench.tables.frame import tidy  # noqa: E402
from rnnbench.tables.time import time as time_table  # noqa: E402
from tests.factory import make_record  # noqa: E402

REFERENCE = j.REFERENCE["rnn"]
STEP = math.log(0.005)  # log seconds per step
TRUTHS = (0.0, 0.01, 0.2)  # standard deviations of true log times: equal, close and apart
BATCH = 40  # experiments in one frame, as different models
FEW, ROWS = 2, 3  # experiments of each kind and rows of each table in the small form
GRIDS = 5  # on a page: it has one answer for each of up to six models
NOISES = (0.01, 0.03, 0.08, 0.15)
MEMBERS = (2, 3, 4, 5, 8, 14)
ROUNDS = (3, 4, 5, 10)
MACHINES = {
    "noise 3 %": Machine(),
    "noise 15 %": Machine(noise=0.15),
    "bursts in 5 % of the turns": Machine(bursts=0.05),
    "drift": Machine(drift=0.03),
    "members end early or die": Machine(missing=0.2),
    "64 cores": Machine(cores=64),
    "states": Machine(states=0.04),
    "states of a turn": Machine(flicker=0.4),
}
PRICES = PriceList(
    name="made_up",
    title="Made-up prices",
    date="2026-01-01",
    source="none",
    prices=tuple(
        Price(device, "on_demand", usd)
        for device, usd in (("cpu_1", 0.10), ("cpu_2", 0.17), ("cpu_4", 0.29))
    ),
)
SPEED_OF_DEVICE = {"cpu_1": 1.0, "cpu_2": 1.7, "cpu_4": 2.9}  # so that costs are similar


def true_times(random: np.random.Generator, count: int, spread: float) -> dict[Member, float]:
    names = [REFERENCE, *(f"m{number}" for number in range(1, count))]
    logs = STEP + random.normal(0, 1, count) * spread
    return {Member(name): float(log) for name, log in zip(names, logs, strict=True)}


def judged_experiments(
    random: np.random.Generator,
    machine: Machine,
    tries: int,
    members: Sequence[int] = (2, 3, 5, 8),
    rounds: Sequence[int] = ROUNDS,
    truths: Sequence[float] = TRUTHS,
    judge: Callable[..., object] = j.judge_speed,
) -> Tallies:
    """Judges `tries` experiments, which go through the combinations of the numbers of `members` and
    `rounds` and the spreads of the true times (`truths`)."""
    tallies: Tallies = defaultdict(Tally)
    combinations = itertools.cycle(itertools.product(members, rounds, truths))
    for batch in batches(tries):
        experiments = []
        for number in batch:
            count, repeats, spread = next(combinations)
            times = true_times(random, count, spread)
            experiments.append(simulate(random, machine, times, repeats, f"net{number}"))
        judge(experiments, tallies)
    return tallies


def batches(tries: int, size: int = BATCH) -> Iterator[range]:
    return (range(start, min(start + size, tries)) for start in range(0, tries, size))


def coverage_table(random: np.random.Generator, tries: int) -> Iterator[str]:
    yield "members | " + " | ".join(f"noise {noise:.0%}" for noise in NOISES)
    for members in MEMBERS:
        cells = []
        for noise in NOISES:
            machine, count = Machine(noise=noise), max(2, tries // 8, tries * 2 // members)
            judged = judged_experiments(random, machine, count, [members], judge=j.judge_rows)
            rows = judged[j.ALL_ROWS]
            cells.append(f"{rows.coverage:.1%}, {rows.shrinkage:+.1%}")
        yield " | ".join([str(members), *cells])


def rounds_table(random: np.random.Generator, tries: int) -> Iterator[str]:
    yield "rounds | intervals contain the truth"
    for rounds in (3, 4, 5, 10, 30):
        tallies = judged_experiments(
            random, Machine(), tries, (2, 4, 8), [rounds], judge=j.judge_rows
        )
        yield f"{rounds} | {tallies[j.ALL_ROWS].coverage:.1%}"


KINDS = "cases | made | wrong | of all cases | unlike the table | intervals contain the truth"


def tally_cells(tally: Tally) -> str:
    coverage = f"{tally.coverage:.1%}" if tally.intervals else "–"
    counts = f"{tally.cases} | {tally.made} | {tally.wrong} | {tally.wrong_share:.1%}"
    return f"{counts} | {tally.unlike} | {coverage}"


def speed_table(random: np.random.Generator, tries: int) -> Iterator[str]:
    yield f"machine | sentence | {KINDS}"
    for name, machine in MACHINES.items():
        tallies = judged_experiments(random, machine, tries)
        for kind in (*j.SENTENCE_KINDS, *j.ROW_KINDS, j.HEADLINE):
            yield f"{name} | {kind} | {tally_cells(tallies[kind])}"


def equal_table(random: np.random.Generator, tries: int) -> Iterator[str]:
    """All members are equal, so that every sentence which claims a difference is wrong."""
    yield "members | sentence | " + KINDS
    for members in (2, 3, 8, 14):
        count = max(tries, tries * 8 // members)
        tallies = judged_experiments(random, Machine(), count, [members], truths=[0.0])
        for kind in j.SENTENCE_KINDS:
            yield f"{members} | {kind} | {tally_cells(tallies[kind])}"


def judged_accuracies(
    random: np.random.Generator, tries: int, seeds: int, members: int, flips: float, shift: int
) -> Tallies:
    """An accuracy is a number of 359 samples: one that depends on the seed, and a difference of two
    Poisson variates with mean `flips`. `m1` classifies `shift` samples more correctly."""
    tallies: Tallies = defaultdict(Tally)
    names = [REFERENCE, *(f"m{number}" for number in range(1, members))]
    for batch in batches(tries):
        records, shifts = [], {}
        for model in (f"net{number}" for number in batch):
            shifts[model] = dict.fromkeys(names, 0.0) | {"m1": shift / 359}
            common = np.round(random.normal(340, 3, seeds))
            for name in names:
                own = random.poisson(flips, seeds) - random.poisson(flips, seeds)
                right = common + own + (shift if name == "m1" else 0)
                records += [
                    _record(model, name, seed, min(1.0, float(count) / 359))
                    for seed, count in enumerate(right)
                ]
        j.judge_accuracy(records, shifts, tallies)
    return tallies


def _record(model: str, rnn: str, seed: int, accuracy: float) -> Record:
    choices = {"model": model, "cell": "lstm", **Member(rnn)._asdict()}
    return make_record(rnn=rnn, seed=seed, acc=accuracy, epoch_seconds=[0.5, 0.5], choices=choices,
                       name=f"{model}-{rnn}-s{seed}-r0")  # fmt: skip


def accuracy_table(random: np.random.Generator, tries: int) -> Iterator[str]:
    yield f"seeds | members | samples that differ | m1 better by | sentence | {KINDS}"
    cases = [
        *((seeds, members, flips, 0)
          for seeds in (2, 3, 5, 10) for members, flips in ((2, 2.0), (8, 0.3), (8, 2.0))),
        (5, 8, 2.0, 4),
    ]  # fmt: skip
    for seeds, members, flips, shift in cases:
        tallies = judged_accuracies(random, tries, seeds, members, flips, shift)
        for kind in (j.MORE_ACCURATE, j.OUTLIER):
            what = f"{seeds} | {members} | ± {flips:g} | {shift} | {kind}"
            yield f"{what} | {tally_cells(tallies[kind])}"


def judged_costs(
    random: np.random.Generator, machine: Machine, tries: int, apart: float, hosts: int
) -> Tallies:
    """Devices of one machine, or (two `hosts`) one of them on another machine. `apart`: standard
    deviation of the devices' true log times."""
    tallies: Tallies = defaultdict(Tally)
    seconds = 3 * 45 * math.exp(STEP)
    inputs = ReportInputs(prices=PRICES, deadline=0.8 * seconds, budget=seconds / 3600 * 0.1)
    for batch in batches(tries):
        experiments = []
        for number in batch:
            model = f"net{number}"
            logs = {
                Member(device=name): STEP - math.log(speed) + float(random.normal(0, apart))
                for name, speed in SPEED_OF_DEVICE.items()
            }
            if hosts == 1:
                experiments.append(simulate(random, machine, logs, 5, model))
                continue
            away = {member: logs.pop(member) for member in list(logs)[-1:]}
            first = simulate(random, machine, logs, 5, model)
            second = simulate(random, machine, away, 5, model, host="another-0123abcd")
            experiments.append(first.with_(second))
        j.judge_costs(experiments, inputs, tallies)
    return tallies


def money_table(random: np.random.Generator, tries: int) -> Iterator[str]:
    yield f"devices | sentence | {KINDS}"
    machine = Machine(level=0.03)
    for apart, hosts in itertools.product((0.05, 0.3), (1, 2)):
        tallies = judged_costs(random, machine, tries, apart, hosts)
        for kind in (j.COST, j.BREAK_EVEN, j.CHEAPEST, j.FASTEST_UNDER):
            where = f"{'one machine' if hosts == 1 else 'two machines'}, costs ± {apart:.0%}"
            yield f"{where} | {kind} | {tally_cells(tallies[kind])}"


def builds_table(random: np.random.Generator, tries: int) -> Iterator[str]:
    yield f"true change | sentence | {KINDS}"
    for change in (0.0, 0.03):
        tallies: Tallies = defaultdict(Tally)
        for _ in range(tries):
            times = {Member(build=name): STEP for name in ("old", "new", "newer")}
            times[Member(build="new")] += math.log1p(change)
            j.judge_builds(simulate(random, Machine(), times, 5), tallies)
        yield f"{change:.0%} | {j.REGRESSION} | {tally_cells(tallies[j.REGRESSION])}"


def planned_repeats(
    random: np.random.Generator, members: int, difference: float, tries: int
) -> tuple[int, float]:
    """The number of rounds that the forecast asks for to show `difference`, and the share of
    experiments with so many rounds that show it."""
    machine, times = Machine(process=0.01), true_times(random, members, 0.0)
    pilot = simulate(random, machine, times, 60).records
    spread = spread_of(finished(pilot))
    rounds = repeats_for(difference, math.sqrt(spread.variance))
    times[Member("m1")] += math.log1p(difference)
    shown = []
    for batch in batches(tries):
        experiments = [simulate(random, machine, times, rounds, f"net{n}") for n in batch]
        frame = tidy([record for each in experiments for record in each.records])
        table = time_table(Measurements(frame, j.REFERENCE))
        shown += table.loc[table["rnn"] == "m1", "shown_different"].tolist()
    return rounds, float(np.mean(shown))


def repeats_table(random: np.random.Generator, tries: int) -> Iterator[str]:
    yield "members | difference | rounds needed | it is then shown in"
    for members, difference in itertools.product((2, 3, 8), (0.01, 0.02, 0.05)):
        rounds, shown = planned_repeats(random, members, difference, tries)
        yield f"{members} | {difference:.0%} | {rounds} | {shown:.0%}"


def alarm_table(random: np.random.Generator, tries: int) -> Iterator[str]:
    yield "cores | step | members | cycles left out without load"
    for cores, step, members in itertools.product((2, 8, 64), (0.005, 0.08), (2, 8)):
        times = {Member(name.rnn): math.log(step) for name in true_times(random, members, 0.0)}
        records = simulate(random, Machine(cores=cores), times, max(2, tries // 20)).records
        share = share_left_out(records)
        yield f"{cores} | {1000 * step:.0f} ms | {members} | {share:.2%}"


def same_number_table(random: np.random.Generator, tries: int) -> Iterator[str]:
    counts: Counter[str] = Counter()
    for grids in batches(tries, GRIDS):
        found, places = differing_numbers(*random_grids(random, len(grids)))
        counts.update(f"{place} | given" for place in places)
        counts.update(f"{place} | differs" for place, _ in found)
    yield "where a ratio is given | ratios | differ from the CSV table"
    for place in dict.fromkeys(key.partition(" | ")[0] for key in counts):
        yield f"{place} | {counts[f'{place} | given']} | {counts[f'{place} | differs']}"


SECTIONS = {
    "Intervals of the time table: coverage, and by how much ratios are shrunk": (
        coverage_table, 300),
    "Intervals by number of rounds": (rounds_table, 60),
    "Sentences about speed, by machine": (speed_table, 120),
    "Sentences about speed, all members equal": (equal_table, 120),
    "Sentences about accuracy": (accuracy_table, 60),
    "Time and money": (money_table, 80),
    "Regressions": (builds_table, 40),
    "Rounds needed": (repeats_table, 80),
    "Cycles left out": (alarm_table, 200),
    "The same number everywhere": (same_number_table, 200),
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the experiments")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="sections whose title contains this text")
    add_small(parser)
    options = parser.parse_args()
    print(where.heading())
    for number, (title, (section, tries)) in enumerate(SECTIONS.items()):
        if options.only.lower() not in title.lower():
            continue
        began = time.monotonic()
        random = np.random.default_rng([options.seed, number])
        print(f"\n## {title}\n")
        if options.quick:
            tries //= 10
        rows = section(random, tries)
        if options.small:
            rows = itertools.islice(section(random, FEW), 1 + ROWS)
        for line, text in enumerate(rows):
            print(f"| {text} |", flush=True)
            if not line:
                print("|" + ":--|" * (text.count("|") + 1))
        print(f"{title}: {time.monotonic() - began:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
