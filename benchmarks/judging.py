"""Judges the sentences of a page about simulated machines (`simulated.py`) by their text.

A sentence is wrong if what it claims is not true, if its numbers are not those of its table, or if
it ranks by another number than the time table shows.
"""

from __future__ import annotations

import math
import re
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "src")]

from benchmarks.simulated import EPOCHS, Member, Simulated  # noqa: E402
from rnnbench.axes import GROUP  # noqa: E402
from rnnbench.records.record import Record  # noqa: E402
from rnnbench.report.answer import answers, headline  # noqa: E402
from rnnbench.report.cost import recommendations  # noqa: E402
from rnnbench.report.sections import builds_section  # noqa: E402
from rnnbench.report.tables import ReportInputs, Tables  # noqa: E402
from rnnbench.tables import estimates  # noqa: E402
from rnnbench.tables.comparison import builds  # noqa: E402
from rnnbench.tables.contests import Contest, contests, device_choices  # noqa: E402
from rnnbench.tables.cost import cost  # noqa: E402
from rnnbench.tables.frame import tidy  # noqa: E402
from rnnbench.tables.learning import find_accuracy_outliers, learning  # noqa: E402
from rnnbench.tables.time import time as time_table  # noqa: E402
from tests.factory import STEPS  # noqa: E402

REFERENCE = {"rnn": "keras"}
FASTER, FASTEST, NO_DIFFERENCE = "faster than the reference", "fastest", "no difference shown"
ROW_KINDS = ("row: faster", "row: slower", f"row: {NO_DIFFERENCE}")
SENTENCE_KINDS = (FASTER, FASTEST, NO_DIFFERENCE)
ALL_ROWS, HEADLINE = "all rows", "headline of 40 models"
MORE_ACCURATE, OUTLIER = "more or less accurate", "differs by more than the seeds"
CHEAPEST, FASTEST_UNDER = "cheapest within a deadline", "fastest within a budget"
COST, BREAK_EVEN, REGRESSION = "relative cost", "break-even price", "regression"


@dataclass
class Tally:
    """`cases`: pages that could have made the sentence; `made`: those that did; `wrong` ones;
    `unlike`: those that differ from their table, which are also wrong; `intervals` and how many
    `covered` the truth; `errors`: pairs of log truth and log estimate."""

    cases: int = 0
    made: int = 0
    wrong: int = 0
    unlike: int = 0
    intervals: int = 0
    covered: int = 0
    errors: list[tuple[float, float]] = field(default_factory=list)

    def interval(self, low: Any, high: Any, truth: float) -> bool:
        """Counts an interval; whether it contains the truth. A missing one is not counted."""
        if not (pd.notna(low) and pd.notna(high)):
            return True
        contains = bool(low <= truth <= high)
        self.intervals += 1
        self.covered += contains
        return contains

    @property
    def shrinkage(self) -> float:
        """By which share true log ratios are estimated too small (least squares)."""
        true, found = np.array(self.errors).T
        return float(1 - (true * found).sum() / (true**2).sum())

    @property
    def wrong_share(self) -> float:
        return self.wrong / max(1, self.cases)

    @property
    def coverage(self) -> float:
        return self.covered / self.intervals if self.intervals else math.nan


Tallies = dict[Any, Tally]


def new_tallies() -> Tallies:
    return defaultdict(Tally)


class Claim(NamedTuple):
    """`a` is `ratio` times as fast as `b`, with an interval, as text; `kind` of sentence."""

    kind: str
    a: str
    b: str
    ratio: str = ""
    low: str = ""
    high: str = ""


RATIO = r"(?P<ratio>\d[\d.]*) times"
INTERVAL = r"\((?P<low>[\d.]+) to (?P<high>[\d.]+)\)"
REFERENCE_WORDS = "Keras's own layer"  # which is `keras`
A, B = (rf"(?P<{name}>`[^`]+`|{REFERENCE_WORDS})" for name in "ab")
NETWORK = r"(?: this \w+)?"
FORMS = (
    (FASTEST, rf"[Nn]othing trains{NETWORK} faster than {A}: {RATIO} as fast as {B} {INTERVAL}"),
    (NO_DIFFERENCE, rf"{A} is not shown to be faster than {B}: {RATIO} as fast {INTERVAL}"),
    (FASTER, rf"{A} trains{NETWORK} {RATIO} as fast as {B} {INTERVAL}"
     rf"(?P<tie>, and (?:`[^`]+`|{REFERENCE_WORDS}|\d+ others) may be as fast)?"),
)  # fmt: skip
WITHOUT_CLAIM = ("nothing to compare", "(one run)", "shortest epochs", "no run has",
                 "o fastest is shown", "cannot be compared")  # fmt: skip


def claims(sentence: str) -> list[Claim]:
    """What a sentence about speed claims. Raises a `ValueError` for a sentence of unknown form."""
    for kind, form in FORMS:
        if match := re.search(form, sentence):
            part = match.groupdict()
            a, b = (
                part[side].strip("`").replace(REFERENCE_WORDS, REFERENCE["rnn"]) for side in "ab"
            )
            first = Claim(kind, a, b, part["ratio"], part["low"], part["high"])
            if kind != FASTER or part["tie"]:
                return [first]
            return [first, Claim(FASTEST, a, b)]
    if any(text in sentence for text in WITHOUT_CLAIM):
        return []
    raise ValueError(f"a sentence of unknown form: {sentence}")


def reads(text: str, value: Any) -> bool:
    """Whether `value`, rounded to the digits of `text`, is `text`."""
    if not text:
        return True
    unit = 10.0 ** -len(text.partition(".")[2])
    return bool(pd.notna(value)) and abs(float(text) - value) <= 0.501 * unit


def measured(records: Sequence[Record], reference: Mapping[str, str]) -> estimates.Measurements:
    return estimates.Measurements(tidy(records), reference)


def judge_rows(
    batch: Sequence[Simulated], tallies: Tallies
) -> tuple[estimates.Measurements, pd.DataFrame]:
    """Judges the rows of the time table for each experiment in `batch`, which are different models.
    Returns the measurements and the time table."""
    every = measured([record for each in batch for record in each.records], REFERENCE)
    speed = time_table(every)
    rows = dict(iter(speed.groupby("model", sort=False)))
    for each in batch:
        _judge_rows(rows[each.model], _by_name(each.truth), tallies)
    return every, speed


def _only(**tables: Any) -> Tables:
    """A report with these tables only."""
    axes = [name for name in GROUP if name not in REFERENCE]
    return cast(Tables, SimpleNamespace(reference=REFERENCE, group_axes=axes, **tables))


def judge_speed(batch: Sequence[Simulated], tallies: Tallies) -> None:
    """Judges the rows of the time table and the sentences of the answers."""
    every, speed = judge_rows(batch, tallies)
    found, nothing = contests(every, speed), measured([], REFERENCE)
    m = _only(contests=found, device_choices=device_choices(every, found), about_rnn={},
              learning=learning(nothing), alike=find_accuracy_outliers(nothing.frame))  # fmt: skip
    texts = answers(m)
    _judge_headline(headline(m).speed_sentence, found, speed, tallies)
    by_model = {contest.configuration["model"]: contest for contest in found}
    sentences = dict(zip(by_model, texts, strict=True))
    rows = dict(iter(speed.groupby("model", sort=False)))
    for each in batch:
        contest = by_model[each.model]
        truth = _by_name(each.truth)
        if len(contest.contestants) > 1:
            sentence = sentences[each.model].speed_sentence
            _judge_sentence(sentence, contest, rows[each.model], truth, tallies)


HEADLINE_FORM = r"`([^`]+)` in (\d+)(?: \(([\d.]+)(?: to ([\d.]+))? times as fast as)?"


def _judge_headline(
    sentence: str, found: Sequence[Contest], speed: pd.DataFrame, tallies: Tallies
) -> None:
    """Counts the headline of a page with many models as wrong if it has other counts or speed-ups
    than follow from the time table."""
    models = {}
    for contest in found:
        if len(contest.contestants) > 1:
            models[contest.configuration["model"]] = contest.is_faster
    shown = speed[speed["model"].isin(models)].dropna(subset=["speedup"])
    best = shown.loc[shown.groupby("model")["speedup"].idxmax()].set_index("model")
    faster = [model for model, is_faster in models.items() if is_faster]
    unlike = False
    for name, count, low, high in re.findall(HEADLINE_FORM, sentence):
        won = best[best["rnn"] == name]
        ratios = won.loc[won.index.isin(faster), "speedup"]
        unlike |= int(count) != len(won)
        unlike |= bool(low) and not (reads(low, ratios.min()) and reads(high or low, ratios.max()))
    tallies[HEADLINE].cases += 1
    tallies[HEADLINE].made += sentence.startswith("Shortest epochs")
    tallies[HEADLINE].unlike += unlike
    tallies[HEADLINE].wrong += unlike


def _by_name(truth: Mapping[Member, float]) -> dict[str, float]:
    return {member.rnn: value for member, value in truth.items()}


def _judge_rows(rows: pd.DataFrame, truth: Mapping[str, float], tallies: Tallies) -> None:
    for row in rows[rows["rnn"] != REFERENCE["rnn"]].to_dict("records"):
        log_ratio = truth[REFERENCE["rnn"]] - truth[row["rnn"]]
        kind, interval = f"row: {row['words']}", (row["speedup_low"], row["speedup_high"])
        if kind not in ROW_KINDS:  # no reference, or one run
            continue
        for possible in ROW_KINDS:
            tallies[possible].cases += 1
        contains = tallies[kind].interval(*interval, math.exp(log_ratio))
        is_true = dict(zip(ROW_KINDS, (log_ratio > 0, log_ratio < 0, contains), strict=True))
        tallies[kind].made += 1
        tallies[kind].wrong += not is_true[kind]
        tallies[ALL_ROWS].interval(*interval, math.exp(log_ratio))
        tallies[ALL_ROWS].errors.append((log_ratio, math.log(row["speedup"])))


def _judge_sentence(
    sentence: str,
    contest: Contest,
    rows: pd.DataFrame,
    truth: Mapping[str, float],
    tallies: Tallies,
) -> None:
    shown = dict(zip(rows["rnn"], rows["speedup"], strict=True))
    facts = {contest.contestants[1].name: contest.leads[0]}
    if contest.speedup:
        facts[REFERENCE["rnn"]] = contest.speedup
    for possible in SENTENCE_KINDS:
        tallies[possible].cases += 1
    for claim in claims(sentence):
        tally, fact = tallies[claim.kind], facts[claim.b]
        ratio, low, high = fact.estimate, fact.low, fact.high
        unlike = claim.a != max(shown, key=lambda name: shown[name])
        unlike |= not all(map(reads, (claim.ratio, claim.low, claim.high), (ratio, low, high)))
        if REFERENCE["rnn"] in (claim.a, claim.b):
            unlike |= not reads(claim.ratio, shown[claim.a] / shown[claim.b])
        log_ratio = truth[claim.b] - truth[claim.a]
        has_interval = claim.low or claim.kind == NO_DIFFERENCE
        contains = not has_interval or tally.interval(low, high, math.exp(log_ratio))
        others = [value for name, value in truth.items() if name in shown and name != claim.a]
        is_true = {
            FASTER: log_ratio > 0,
            FASTEST: min(others) > truth[claim.a],
            NO_DIFFERENCE: contains,
        }
        tally.made += 1
        tally.unlike += unlike
        tally.wrong += unlike or not is_true[claim.kind]


ACCURACY_FORM = (
    r"A difference in accuracy is shown: `(?P<a>[^`]+)` ends [\d.]+ (?P<side>below|above)"
)
OUTLIER_FORM = r"Accuracy differs by more than [^:]*: `(?P<a>[^`]+)`"
NO_ACCURACY_CLAIM = ("no difference in accuracy shown", "cannot show whether", "loss curves")


def judge_accuracy(
    records: Sequence[Record], shifts: Mapping[str, Mapping[str, float]], tallies: Tallies
) -> None:
    """Judges what the answer says about accuracy. `shifts`: model → implementation → its true
    difference of accuracy from the reference."""
    every = measured(records, REFERENCE)
    differences, alike = learning(every), find_accuracy_outliers(every.frame)
    found = contests(every, time_table(every))
    devices = device_choices(every, found)
    tables = _only(
        contests=found,
        device_choices=devices,
        about_rnn={},
        learning=differences,
        alike=alike,
    )
    texts = answers(tables)
    models = dict.fromkeys(contest.configuration["model"] for contest in found)
    for model, answer in zip(models, texts, strict=True):
        shift, sentence = shifts[model], answer.accuracy_sentence
        named, outlier = re.search(ACCURACY_FORM, sentence), re.search(OUTLIER_FORM, sentence)
        if not named and not any(text in sentence for text in NO_ACCURACY_CLAIM):
            raise ValueError(f"a sentence of unknown form: {sentence}")
        if named:
            tallies[MORE_ACCURATE].made += 1
            is_true = shift[named["a"]] * (1 if named["side"] == "above" else -1) > 0
            tallies[MORE_ACCURATE].wrong += not is_true
        if outlier:
            tallies[OUTLIER].made += 1
            tallies[OUTLIER].wrong += not shift[
                outlier["a"].partition(", ")[0]
            ]  # without its build
        for kind in (MORE_ACCURATE, OUTLIER):
            tallies[kind].cases += 1
    for row in differences[~differences["is_reference"].astype(bool)].to_dict("records"):
        true = shifts[row["model"]][row["implementation"]]
        tallies[MORE_ACCURATE].interval(row["val_acc_low"], row["val_acc_high"], true)


COST_FORM = (
    r"(?P<what>Cheapest|Fastest) way to train (?P<model>\S+) .*: `[^`]+` on (?P<device>\w+), "
)


def judge_costs(batch: Sequence[Simulated], inputs: ReportInputs, tallies: Tallies) -> None:
    """Judges relative costs, break-even prices and recommendations. The members of an experiment
    are devices with a price; the reference is the first."""
    base = next(iter(batch[0].truth))
    reference = {"device": base.device}
    frame = tidy([record for each in batch for record in each.records])
    every = estimates.Measurements(frame, reference, prices=inputs.prices)
    table = cost(every, time_table(every))
    price = {member.device: inputs.prices.price_of(member.device).usd_per_hour
             for member in batch[0].truth}  # fmt: skip
    seconds, usd = {}, {}
    for each in batch:
        own = {m.device: STEPS * EPOCHS * math.exp(value) for m, value in each.truth.items()}
        seconds[each.model] = own
        usd[each.model] = {name: own[name] / 3600 * price[name] for name in own}
    for row in table[~table["reference"]].to_dict("records"):
        true = usd[row["model"]][row["device"]] / usd[row["model"]][base.device]
        tallies[COST].interval(row["relative_usd_low"], row["relative_usd_high"], true)
        relative = seconds[row["model"]][row["device"]] / seconds[row["model"]][base.device]
        low, high = (price[base.device] / row[f"relative_{end}"] for end in ("high", "low"))
        tallies[BREAK_EVEN].interval(low, high, price[base.device] / relative)
    for sentence in recommendations(table, inputs):
        kind = CHEAPEST if sentence.startswith("Cheapest") else FASTEST_UNDER
        tallies[kind].cases += 1
        if match := re.search(COST_FORM, sentence):
            measure, limited = seconds[match["model"]], usd[match["model"]]
            limit = inputs.budget
            if kind == CHEAPEST:
                measure, limited, limit = limited, measure, inputs.deadline
            allowed = [name for name in measure if limited[name] <= limit]
            chosen = match["device"]
            tallies[kind].made += 1
            better = {name for name in allowed if measure[name] < measure[chosen]}
            tied = set(re.findall(r"[\w.-]+", sentence.partition(" shown from ")[2]))
            tallies[kind].wrong += limited[chosen] > limit or not better <= tied


REGRESSION_FORM = (
    r"Regression: .* takes (?P<ratio>\d[\d.]*)× as long in `(?P<a>[^`]+)` as in `(?P<b>[^`]+)` "
    r"\(95 % CI (?P<low>[\d.]+)–(?P<high>[\d.]+)"
)


def judge_builds(each: Simulated, tallies: Tallies) -> None:
    """Judges the sentences on regressions. The members are builds; the reference is the first."""
    truth = {member.build: value for member, value in each.truth.items()}
    table = builds(measured(each.records, {"build": next(iter(truth))}))
    rows = table.set_index("build").to_dict("index")
    tallies[REGRESSION].cases += len(rows) - 1
    for sentence in builds_section(_only(builds=table, records=each.records)).paragraphs:
        if match := re.search(REGRESSION_FORM, sentence):
            row = rows[match["a"]]
            tallies[REGRESSION].made += 1
            given = (match["ratio"], match["low"], match["high"])
            unlike = not all(map(reads, given, (row[name] for name in CHANGE)))
            tallies[REGRESSION].unlike += unlike
            tallies[REGRESSION].wrong += unlike or truth[match["a"]] <= truth[match["b"]]
    for name, row in rows.items():
        if name != row["against"]:
            true = math.exp(truth[name] - truth[row["against"]])
            tallies[REGRESSION].interval(row["change_low"], row["change_high"], true)


CHANGE = ("change", "change_low", "change_high")
