"""The notes of a page: what a result depends on, and what must not be concluded from it.

A note is a sentence made from the tables by a pure function; names are in backticks. The templates
show the notes of each section in one way.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pandas as pd

from rnnbench.axes import GROUP, TASK
from rnnbench.grid.point import configuration_of
from rnnbench.records import timestamps
from rnnbench.records.pointer import NotNeeded
from rnnbench.records.record import STATUSES, Record
from rnnbench.report import numbers as n
from rnnbench.report.labels import device_words, left_out_text, short_group, variant_labels
from rnnbench.report.rounds import unneeded_text
from rnnbench.tables.certificates import UNKNOWN
from rnnbench.tables.effects import examined
from rnnbench.tables.ratios import LEAST_SESSIONS, sessions
from rnnbench.tables.time import NOT_EQUAL

UNSTEADY = 0.05  # relative spread of a run's epochs (benchmarks/README.md)
LONG_MINUTES = 120  # above that, a duration is in hours
SHOWN = 12  # configurations whose repeats were not measured
# Where notes stand: with the answer, below the first table, under reliability, above the order of
# measurement.
ANSWER, LEAD, RELIABILITY, ORDER = "answer", "lead", "trust", "order"
NOT_CERTIFIED, NO_SPEEDUP = "Not certified", "No speed-up"
VOID = "Void, so excluded from the tables"
RATIO_OF_TIMES = "≠ is not a speed-up but a ratio of the times of two different functions"
IN_BRACKETS = "In brackets: 95 % confidence intervals"
INDIVIDUAL = "have individual intervals unless they say otherwise"
# The first words of a note → the section to which they link.
LINKS = {NOT_CERTIFIED: "ran", NO_SPEEDUP: "ran", RATIO_OF_TIMES: "ran", VOID: RELIABILITY}


def certificate_notes(speed: pd.DataFrame) -> Iterator[str]:
    """What certificates say about the speed-ups of the time table."""
    has_ratio = speed[speed["speedup"].notna()]
    unknown = has_ratio[has_ratio["equal"] == UNKNOWN]
    names = [
        f"`{name}`{_where(rows, has_ratio[has_ratio['implementation'] == name])}"
        for name, rows in unknown.groupby("implementation", sort=False)
    ]
    if names:
        yield (
            f"{NOT_CERTIFIED}: {', '.join(names)}. There is no certificate that they compute the "
            "same function as the reference; their speed-ups compare times only."
        )
    different = speed[speed["words"] == NOT_EQUAL]
    for head, rows, name in (
        (RATIO_OF_TIMES, different, "difference"), (NO_SPEEDUP, speed, "not_learning"),
    ):  # fmt: skip
        for why, those in rows[rows[name].fillna("") != ""].groupby(name, sort=False):
            named = speed[speed["implementation"].isin(those["implementation"])]
            yield f"{head}: {why}{_where(those, named)}."


def _where(rows: pd.DataFrame, every: pd.DataFrame) -> str:
    """The groups of `rows`, if `every` row of these implementations has others too: `` (for
    mnist_rnn)``."""
    groups = every[GROUP].drop_duplicates()
    own = rows[GROUP].drop_duplicates()
    if len(own) == len(groups):
        return ""
    varied = [name for name in GROUP if groups[name].nunique() > 1]
    labels = variant_labels(groups["variant"])
    listed = [short_group(row, varied, labels) for row in own.to_dict("records")]
    return f" (for {n.few(listed, 3, ', ')})"


def void_notes(fastest: pd.DataFrame) -> Iterator[str]:
    void = [left_out_text(each) for of_one in fastest["void"] for each in of_one]
    if void:
        yield f"{VOID}: {'; '.join(dict.fromkeys(void))}."


def session_notes(usable: pd.DataFrame, finished: Mapping[str, str]) -> Iterator[str]:
    """What the intervals hold for, on each machine with fewer than `LEAST_SESSIONS` sessions.
    `usable`: from `run_values`; `finished`: record → when it ended."""
    moments = [timestamps.read(started).timestamp() for started in usable["started"]]
    starts = list(zip(usable["machine"], moments, strict=True))
    numbers = sessions(starts)
    session = [numbers[start] for start in starts]
    machines = usable.assign(session=session).groupby("machine", sort=False)
    for machine, runs in machines:
        count = runs["session"].nunique()
        if count >= LEAST_SESSIONS or len(runs) < 2:
            continue
        where = f"on {machine} " if len(machines) > 1 else ""
        first = timestamps.read(runs["started"].min())
        last = timestamps.read(max(finished[record] for record in runs["record"]))
        minutes = max(1, math.ceil((last - first).total_seconds() / 60))
        took = n.counted(minutes, "minute")
        if minutes > LONG_MINUTES:
            took = f"{minutes // 60} h {minutes % 60} min"
        when = f"within {took}" if count == 1 else f"in {count} sessions"
        yield (
            f"Measured {where}{when}: at another hour, on another machine or for another network, "
            "results may differ by more than the intervals suggest."
        )


def slowed_notes(fastest: pd.DataFrame) -> Iterator[str]:
    """Where the fastest implementations were not measured on the undisturbed machine."""
    slowed = fastest[fastest["slowed"].astype(bool)].to_dict("records")
    places = dict.fromkeys(device_words(row["device"], row["variant"]) for row in slowed)
    if places:
        yield (
            f"On {' and '.join(places)}, the machine was slowed down from outside, and too few "
            "undisturbed rounds are left: the ratios of the undisturbed machine may differ."
        )


def interval_notes(fastest: pd.DataFrame, is_table: bool) -> Iterator[str]:
    """Which intervals the answer has: in its sentences, or if it is a table, in that."""
    bounds = [*fastest["low"], *fastest["lead_low"]]
    others = [ratio for of_one in fastest["unequal"] for _, _, ratio in of_one]
    bounds += [ratio.low for ratio in others]
    if not any(map(n.is_number, bounds)):
        return
    are_chosen = (fastest["contestants"] > 2).any() or fastest["unequal"].map(len).max() > 1
    choice = "that allow for choosing the fastest of several (Dunnett)"
    if is_table:
        if are_chosen:
            yield f"The first table has 95 % intervals {choice}; the others {INDIVIDUAL}."
    elif are_chosen:
        yield f"{IN_BRACKETS} {choice}; the tables {INDIVIDUAL}."
    else:
        yield f"{IN_BRACKETS}."


# Frameworks of the builds that differ from all others.
EPSILON_OUTSIDE_SQRT = ("keras206_tensorflow1", "keras2_tensorflow1")
SQUARES_PER_OCCURRENCE = ("keras3_tensorflow",)
SQUARE_AVERAGING = ("adam", "adamax", "nadam", "rmsprop", "adagrad", "adadelta")
EPSILON = (
    "is trained with RMSprop, which adds epsilon to the square root in {some} and inside it in "
    "{others}"
)
ROWS = (
    "has an embedding: if a batch contains a row of it several times, the optimizer adds the "
    "squares of the row's gradients in {some} and squares their sum in {others}"
)


def optimizer_notes(records: Iterable[Record]) -> Iterator[str]:
    """The models of `records` whose losses diverge between builds, because the update of their
    optimizer differs under the same name.

    - RMSprop divides by √v + ε in Keras 2.0.6 and in ``tf.keras`` of TensorFlow 1 (as torch does),
      but by √(v + ε) in Keras from 2.11 on, where an ε of 1e-8 has the effect of 1e-4.
    - If a batch contains a row of an embedding (``model.embedding``) several times, Keras 3 on
      TensorFlow adds the squares of its gradients; all others square the sum. This affects every
      optimizer that divides by a mean of squares.

    Adam uses the same update in all builds. They train with Keras's own optimizers, also on torch
    and jax: α·m / (√v + ε) with both bias corrections in α (ε̂ of Kingma & Ba 2015, section 2).
    ``tests/worker/test_worker_seeds.py`` checks all three in each build.

    Source: keras/optimizers.py of 2.0.6, optimizer_v2/{rmsprop,adam}.py of TensorFlow 1.15,
    keras/src/optimizers/{rmsprop,adam,optimizer}.py of 2.15 and 3 (2.15 adds up repeated rows in
    ``_deduplicate_sparse_grad``, 3 does not), keras/src/backend/torch/optimizers of 3.
    """
    found: dict[tuple[str, str], tuple[dict[str, None], dict[str, None]]] = {}
    for record in records:
        model, build = record.run.config.get("model", {}), record.run.config.get("build", {})
        optimizer = str((model.get("optimizer") or {}).get("name")).lower()
        has_embedding = "embedding" in model and optimizer in SQUARE_AVERAGING
        for applies, sentence, frameworks in (
            (optimizer == "rmsprop", EPSILON, EPSILON_OUTSIDE_SQRT),
            (has_embedding, ROWS, SQUARES_PER_OCCURRENCE),
        ):
            if applies:
                sides = found.setdefault((str(model.get("name")), sentence), ({}, {}))
                is_other = build.get("framework") not in frameworks
                sides[is_other][f"`{build.get('name')}`"] = None
    for (model_name, sentence), (some, others) in found.items():
        if some and others:
            difference = sentence.format(some=", ".join(some), others=", ".join(others))
            yield (
                f"`{model_name}` {difference}. Their losses therefore differ by more than rounding "
                "(`benchmarks/README.md`)."
            )


def verdict_text(every: pd.DataFrame) -> str:
    clean, suspect, void = (int(every["verdict"].eq(name).sum()) for name in STATUSES)
    return (
        f"{n.counted(len(every), 'run')}: {clean} clean, {suspect} suspect (included; results that "
        f"use them are marked {n.DAGGER}), {void} void (excluded from all results)."
    )


def ratio_note(count: int) -> str:
    if count == 0:
        return "No ratio with a confidence interval is shown."
    return (
        f"This page shows {n.counted(count, 'ratio')} with 95 % confidence intervals: even if "
        f"nothing differed, about {n.about(0.05 * count)} would appear to differ from 1 by chance. "
        "The answer chooses the fastest implementation from several and allows for that: at most "
        "1 in 20 answers claims a difference that does not exist."
    )


def turn_notes(usable: pd.DataFrame) -> Iterator[str]:
    """Which runs were meant to be compared in turns, but had too few of them. `usable`: from
    `run_values`."""
    without = usable[usable["round"].ne("") & usable["log"].isna()]
    if len(without):
        models = n.few(sorted(without["model"].unique()), SHOWN, ", ")
        yield (
            f"{n.counted(len(without), 'run')} of {models} shared too few undisturbed turns with "
            "other runs. Their ratios compare seconds, so the intervals are wider; more epochs or "
            "samples give more turns."
        )


def disturbance_notes(records: Sequence[Record]) -> Iterator[str]:
    """How many cycles of the rounds were disturbed or slowed, and which numbers contain them."""
    cycles = disturbed = used = slowed = 0
    for own in examined(records):
        cycles += int(own.seen.sum())
        disturbed += int(own.disturbed.sum())
        used += int((own.disturbed & own.counts).sum())
        slowed += int(own.slowed.sum())
    if disturbed:
        which = f"{disturbed - used} of these {disturbed}" if used else "these"
        yield (
            f"Other processes used the cores in {n.percent(disturbed / cycles)} of the cycles. "
            f"Ratios and seconds leave {which} cycles out; the learning curves over time contain "
            "them."
        )
    if slowed:
        yield (
            f"The machine was slowed down in {n.percent(slowed / cycles)} of the cycles, for "
            "instance by neighbours, heat or a power limit (a cycle is a turn of each run of a "
            "round). Ratios and seconds leave slowed cycles and slowed rounds out where enough "
            "others remain; where they do not, intervals are wider."
        )


def stopping_notes(unneeded: Mapping[str, NotNeeded]) -> Iterator[str]:
    """Which repeats were not measured, and by which rule."""
    if unneeded:
        reasons: dict[str, str] = {}
        for name, why in unneeded.items():
            reasons.setdefault(configuration_of(name), unneeded_text(why))
        listed = "; ".join(f"{name}: {why}" for name, why in list(reasons.items())[:SHOWN])
        more = f"; and {len(reasons) - SHOWN} more configurations" if len(reasons) > SHOWN else ""
        yield (
            f"Not measured: {n.counted(len(unneeded), 'planned repeat')}, because a configuration "
            "had reached the requested precision or the budget was used up. The stopping rule "
            "depends on the width of the configuration's interval, never on whether it shows a "
            "difference, so the coverage of the intervals is nearly nominal (simulated: at least "
            f"94 %, or 93 % if a configuration is the only one on its device). {listed}{more}."
        )


def comparison_notes(speed: pd.DataFrame, accuracies: pd.DataFrame) -> Iterator[str]:
    """What must not be compared."""
    for _, rows in accuracies.groupby(TASK[:-1], sort=False):
        epochs = sorted(rows["epochs"].dropna().unique())
        if len(epochs) > 1:
            yield (
                f"The accuracies of {rows['model'].iloc[0]} are from different numbers of epochs "
                f"({n.plain(epochs[0])} to {n.plain(epochs[-1])}): do not compare them."
            )
    if speed["variant"].nunique() > 1:
        yield (
            "Rows with different overrides train different networks or batch sizes: speed-ups "
            "compare rows with the same overrides only."
        )
    if speed["machine"].nunique() > 1:
        yield "Runs on different machines are never pooled."


def order_notes(places: pd.DataFrame) -> Iterator[str]:
    """Whether each machine measured its runs, or groups of runs in turns, in the planned order.
    `places`: from `order`."""
    if len(places):
        first = places.groupby(["machine", "together"], sort=False)["planned"].min()
        machines = first.groupby("machine", sort=False)
        planned = all(positions.is_monotonic_increasing for _, positions in machines)
        rounds = int((places.groupby("together")["name"].count() > 1).sum())
        turns = f" in {n.counted(rounds, 'round')} of runs that took turns," if rounds else ""
        blocks = n.counted(int(places["block"].nunique()), "block")
        yield (
            f"The runs were interleaved in {blocks}, each with every configuration once in random "
            f"order, and measured{turns} {'' if planned else 'not exactly '}in the planned order. "
            "A drift of the machine would appear as a slope."
        )
