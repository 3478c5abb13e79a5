"""Simulates how often the first sentence of a page names a wrong fastest implementation.

    .venv/bin/python benchmarks/fastest.py [TRIES | --small]

Experiments with a known truth: implementations of different speed and noise, one of which is the
reference, in rounds with a common drift. The sentence is made as on a page and read back
(`judging.py`). It is compared with two oracles. One has the same data, and is told from which laws
spreads are drawn (`SameData`). The other also knows the spread of every implementation.
Deterministic for a given TRIES (experiments of each row; default: 2,000).
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numpy as np

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "src")]

from benchmarks import judging as j  # noqa: E402
from benchmarks import where  # noqa: E402
from benchmarks.small import add_small  # noqa: E402
from rnnbench.report.sentences import ContestWords, first_sentence, layer  # noqa: E402
from rnnbench.tables.contests import Contest, Contestant, with_ratios  # noqa: E402
from rnnbench.tables.effects import RunValue  # noqa: E402
from rnnbench.tables.fit import PRIOR, effective_freedom  # noqa: E402
from rnnbench.tables.outcome import Outcome  # noqa: E402
from rnnbench.tables.ratios import Estimates  # noqa: E402
from rnnbench.tables.stats import student_quantile  # noqa: E402
from rnnbench.tables.time import outcome_of  # noqa: E402

DRIFT = 0.02  # standard deviation of log seconds, common to the configurations of a round
APART = (0.01, 0.05)  # of true log seconds between the implementations, half of the tries each
NEARLY_EQUAL = (1e-9,)  # whatever is named is most likely wrong
FAR = 0.7  # log seconds by which the others are slower, where only some are nearly equal
SPREADS = ("all 2 %", "1 to 3 %", "1 to 3 %, one thrice")
MEMBERS = (2, 3, 4, 8)
ROUNDS = (2, 3, 5)
NORMAL = 1.959964  # the quantile of an oracle that knows the spread
WRONG = 0.025  # of the experiments in which an oracle names a wrong fastest
WEIGHTS = (1, 2, 4, math.inf)  # of the common variance in that of a member
BASE = "keras"


def experiments(tries, members, rounds, spread, seed=0, apart=APART, near=None):
    """True log seconds (`tries` × `members`), true spreads, and measured log seconds (`tries` ×
    `members` × `rounds`). Member 0 is the reference. All but the first `near` members are `FAR`
    behind."""
    generator = np.random.default_rng([seed, members, rounds])
    spreads = np.full((tries, members), 0.02)
    if spread != "all 2 %":
        spreads = np.exp(generator.uniform(math.log(0.01), math.log(0.03), (tries, members)))
    if "thrice" in spread:
        spreads[np.arange(tries), generator.integers(0, members, tries)] *= 3
    scale = np.resize(apart, tries)
    truth = generator.normal(size=(tries, members)) * scale[:, None]
    if near:
        truth[:, near:] += FAR
    noise = generator.normal(size=(tries, members, rounds)) * spreads[:, :, None]
    drift = generator.normal(size=(tries, 1, rounds)) * DRIFT
    return truth, spreads, truth[:, :, None] + noise + drift


def estimates_of(logs, in_turns=True, minutes=1):
    """The `Estimates` from log seconds (tries × configurations × repeats, NaN for missing runs).
    Each try is a machine, and configuration n is the key ``("m", "d", try, n)``. Repeats start
    every so many `minutes`."""
    runs = []
    for number, configuration, repeat in np.argwhere(~np.isnan(logs)).tolist():
        runs.append(
            RunValue(
                key=("m", "d", number, configuration),
                device=("m", "d", number),
                log=float(logs[number, configuration, repeat]),
                unit=f"{number}, {repeat}",
                machine=str(number),
                started=60.0 * minutes * repeat,
                in_turns=in_turns,
            )
        )
    return Estimates(runs)


def contest_of(estimates, number, members):
    """The contest of one experiment, as a page has it."""
    keys = [("m", "d", number, member) for member in range(members)]
    own = []
    for key in sorted(keys, key=lambda key: estimates.seconds(key).estimate):
        name = f"m{key[-1]}" if key[-1] else BASE
        own.append(Contestant(key, name, estimates.seconds(key).estimate, is_suspect=False))
    words = Outcome.REFERENCE
    if own[0].key != keys[0]:
        words = outcome_of(estimates.ratio(own[0].key, keys[0]))
    contest = Contest({"words": words}, members, tuple(own), (), (), "")
    return with_ratios(SimpleNamespace(estimates=estimates), contest, keys[0], ())


def sentence_of(contest):
    names = [layer(contestant.name) for contestant in contest.contestants]
    return first_sentence(ContestWords(contest, "", "", names[0], layer(BASE), names[1]))


def judged(tries, members, rounds, spread, same_data, **options):
    """Counts of experiments: `named` and `wrong` fastest, `faster` than the reference and wrongly
    so, intervals in the sentence that `miss` the truth, sentences `against` the intervals of the
    page, and those in which the oracles name a fastest.

    `same_data`: the oracle for so many members and rounds.
    """
    truth, spreads, logs = experiments(tries, members, rounds, spread, **options)
    estimates = estimates_of(logs)
    counts = Counter()
    for number in range(tries):
        contest = contest_of(estimates, number, members)
        members_of = {contestant.name: contestant.key[-1] for contestant in contest.contestants}
        own_truth = truth[number]
        for claim in j.claims(sentence_of(contest)):
            a, b = members_of[claim.a], members_of[claim.b]
            ratio = estimates.ratio(("m", "d", number, a), ("m", "d", number, b))
            log_ratio = own_truth[b] - own_truth[a]
            if claim.kind == j.FASTEST:
                counts["named"] += 1
                counts["wrong"] += own_truth[a] > own_truth.min()
                counts["against"] += not all(lead.shown_different for lead in contest.leads)
            if claim.kind == j.FASTER:
                counts["faster"] += 1
                counts["not faster"] += log_ratio < 0
            if claim.low:
                counts["intervals"] += 1
                counts["miss"] += not ratio.low <= math.exp(log_ratio) <= ratio.high
                texts = (claim.ratio, claim.low, claim.high)
                numbers = (ratio.estimate, ratio.low, ratio.high)
                counts["against"] += not all(map(j.reads, texts, numbers))
                counts["against"] += (claim.kind == j.NO_DIFFERENCE) == ratio.shown_different
        counts["spreads"] += names_a_fastest(logs[number].mean(axis=1), spreads[number], rounds)
    counts["same data"] = same_data.names(logs)
    return counts


def names_a_fastest(means, spreads, rounds):
    """Whether an oracle does, which knows the `spreads`."""
    first = int(means.argmin())
    errors = np.sqrt((spreads**2 + spreads[first] ** 2) / rounds)
    behind = means - means[first] > NORMAL * errors
    return bool(np.delete(behind, first).all())


def first_and_lead(logs, weight):
    """The first member of each experiment, and by how many standard errors it leads at least.

    - `logs`: log seconds, experiments × members × rounds.
    - `weight`: of the common variance in that of each member, in degrees of freedom.
    """
    tries, members, rounds = logs.shape
    every = np.arange(tries)
    means = logs.mean(axis=2)
    first = means.argmin(axis=1)
    residuals = logs - means[:, :, None] - logs.mean(axis=1, keepdims=True)
    residuals += logs.mean(axis=(1, 2))[:, None, None]
    squares = (residuals**2).sum(axis=2)
    common = squares.sum(axis=1, keepdims=True) / (members - 1) / (rounds - 1)
    variances = np.repeat(common, members, axis=1)
    if members > 2 and weight < math.inf:
        own = (squares / (rounds - 1) - common / members) / (1 - 2 / members)
        weighted = weight * common + (rounds - 1) * np.maximum(0.0, own)
        variances = weighted / (weight + rounds - 1)
    errors = np.sqrt((variances + variances[every, first][:, None]) / rounds)
    leads = (means - means[every, first][:, None]) / errors
    leads[every, first] = math.inf
    return first, leads.min(axis=1)


def wrong_by_the_rule(tries, members, rounds, spread, near):
    """The share of experiments in which the rule of a page names a wrong fastest, without its
    sentences. All `near` members are nearly equal."""
    truth, _, logs = experiments(
        tries, members, rounds, spread, seed=2, apart=NEARLY_EQUAL, near=near
    )
    weight, freedom = math.inf, rounds - 1
    if members > 2:
        weight, freedom = PRIOR, effective_freedom(rounds - 1, members)
    first, lead = first_and_lead(logs, weight)
    is_wrong = truth[np.arange(tries), first] > truth.min(axis=1)
    return float((is_wrong & (lead > student_quantile(0.95, freedom))).mean())


class SameData:
    """An oracle that has the same data as a page, and is told from which laws spreads are drawn.

    It weighs the common spread in the best of several ways (`WEIGHTS`), and names a fastest if its
    lead is so large that a wrong one is named in 2.5 % with the hardest truth: all members, three
    or two of them are nearly equal. With two members, this is Student's t, whatever their spreads.
    """

    def __init__(self, members, rounds, tries=20_000):
        if members == 2:
            self.least = {math.inf: student_quantile(0.95, rounds - 1)}
            return
        self.least = dict.fromkeys(WEIGHTS, 0.0)
        for spread in SPREADS:
            for near in sorted({2, 3, members}):
                truth, _, logs = experiments(
                    tries, members, rounds, spread, seed=1, apart=NEARLY_EQUAL, near=near
                )
                for weight in WEIGHTS:
                    first, lead = first_and_lead(logs, weight)
                    is_wrong = truth[np.arange(tries), first] > truth.min(axis=1)
                    allowed = np.quantile(np.where(is_wrong, lead, 0.0), 1 - WRONG)
                    self.least[weight] = max(self.least[weight], float(allowed))

    def names(self, logs):
        """The number of experiments in which it names a fastest."""
        counts = []
        for weight, least in self.least.items():
            counts.append(int((first_and_lead(logs, weight)[1] > least).sum()))
        return max(counts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tries", type=int, nargs="?", default=2000)
    add_small(parser)
    options = parser.parse_args()
    tries = 20 if options.small else options.tries
    print(where.heading())
    print(f"{tries} experiments in each row, in percent")
    heads = (
        "truth,members,rounds,wrong fastest,fastest named,with the same data,knowing the spreads"
    )
    heads += ",wrongly faster than the reference,intervals that miss,against its page"
    names = heads.split(",")
    print(f"| {' | '.join(names)} |\n|---|{'--:|' * (len(names) - 1)}")
    settings = [("", {}, MEMBERS)]
    settings += [("all nearly equal, ", {"apart": NEARLY_EQUAL}, MEMBERS)]
    settings += [("two nearly equal, ", {"apart": NEARLY_EQUAL, "near": 2}, MEMBERS[1:])]
    oracles = {}
    for members in MEMBERS:
        for rounds in ROUNDS:
            calibrated = 200 if options.small else 20_000
            oracles[members, rounds] = SameData(members, rounds, calibrated)
    for text, truth, several in settings:
        for spread, members, rounds in product(SPREADS, several, ROUNDS):
            found = judged(tries, members, rounds, spread, oracles[members, rounds], **truth)
            counted = ("wrong", "named", "same data", "spreads", "not faster")
            shares = [f"{100 * found[name] / tries:.1f}" for name in counted]
            missed = 100 * found["miss"] / max(1, found["intervals"])
            cells = [text + spread, members, rounds, *shares, f"{missed:.1f}", found["against"]]
            print(f"| {' | '.join(map(str, cells))} |", flush=True)

    many = 200 if options.small else 100_000
    print(
        f"\nThe rule alone, {many} experiments: wrong fastest in percent, by nearly equal members"
    )
    print("| spread | members | rounds | two | three | all |\n|---|--:|--:|--:|--:|--:|")
    for spread, members, rounds in product(SPREADS, MEMBERS, ROUNDS):
        shares = []
        for near in (2, 3, members):
            share = wrong_by_the_rule(many, members, rounds, spread, min(near, members))
            shares.append(f"{100 * share:.2f}")
        print(f"| {spread} | {members} | {rounds} | {' | '.join(shares)} |", flush=True)


if __name__ == "__main__":
    main()
