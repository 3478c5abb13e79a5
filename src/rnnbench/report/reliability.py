"""The text of the section on reliability."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pandas as pd

from rnnbench.axes import TASK
from rnnbench.grid.point import configuration_of
from rnnbench.records import timestamps
from rnnbench.records.record import Record
from rnnbench.report import numbers as n
from rnnbench.tables.effects import conditions_of
from rnnbench.tables.estimates import LEAST_SESSIONS, sessions
from rnnbench.tables.measuring_order import in_planned_order

UNSTEADY = 0.05  # relative spread of a run's epochs (benchmarks/README.md)
SHOWN = 12  # configurations whose repeats were not needed


def verdict_text(every: pd.DataFrame) -> str:
    count = every["verdict"].value_counts()
    clean, suspect, void = (int(count.get(name, 0)) for name in ("clean", "suspect", "void"))
    return (
        f"{n.counted(len(every), 'run')}: {clean} clean, {suspect} suspect (included; results that "
        f"use them are marked {n.DAGGER}), {void} void (excluded from all results)."
    )


def ratio_text(count: int) -> str:
    if count == 0:
        return "No ratio with a confidence interval is shown."
    return (
        f"This page shows {n.counted(count, 'ratio')} with individual 95 % confidence intervals: "
        f"even if nothing differed, about {0.05 * count:.2g} would appear to differ from 1 by "
        "chance. The fastest implementation is selected from several, so the intervals in the "
        "answer are wider: they are simultaneous for all comparisons with the reference on a "
        "device (Dunnett), and at most 1 in 20 such answers claims a difference that does not "
        "exist."
    )


def order_text(places: pd.DataFrame) -> str:
    if places.empty:
        return ""
    blocks = n.counted(int(places["block"].nunique()), "block")
    order = (
        "in the planned order" if in_planned_order(places) else "not exactly in the planned order"
    )
    rounds = int((places.groupby("together")["name"].count() > 1).sum())
    turns = f" in {n.counted(rounds, 'round')} of runs that took turns," if rounds else ""
    return (
        f"The runs were interleaved in {blocks}, each with every configuration once in random "
        f"order, and measured{turns} {order}. A drift of the machine would appear as a slope."
    )


def warmup_text(table: pd.DataFrame) -> str:
    """Whether timed epochs still show warm-up; ``""`` if all runs are too short to tell."""
    checked = int(table["runs"].sum())
    if not checked:
        return ""
    late = table[table["still_warm"] > 0]
    if late.empty:
        return (
            f"Warm-up: in none of the {n.counted(checked, 'run')} with five or more epochs are the "
            "first timed epochs slower than the rest, so the configured warm-up was long enough."
        )
    configurations = [
        f"`{row['implementation'] or row['model']}` on {row['device']}"
        for row in late.to_dict("records")
    ]
    return (
        f"Warm-up: in {int(late['still_warm'].sum())} of {n.counted(checked, 'run')}, the first "
        f"timed epochs (up to {int(late['epochs'].max())}) are slower than the rest "
        f"({n.few(configurations, 4, ', ')}): raise `measure.warmup_seconds`. The result of a run "
        "is the median of its epochs, on which a few slow epochs have little effect."
    )


def stopping_text(unneeded: Mapping[str, str]) -> list[str]:
    """Which repeats were not needed, and by which rule; [] if all were measured."""
    if not unneeded:
        return []
    reasons: dict[str, str] = {}
    for name, why in unneeded.items():
        reasons.setdefault(configuration_of(name), why)
    listed = "; ".join(f"{name}: {why}" for name, why in list(reasons.items())[:SHOWN])
    more = f"; and {len(reasons) - SHOWN} more configurations" if len(reasons) > SHOWN else ""
    return [
        f"Not needed: {n.counted(len(unneeded), 'planned repeat')}, because a configuration had "
        "reached the requested precision or the budget was used up. The stopping rule depends on "
        "the width of the configuration's interval, never on whether it shows a difference, so "
        "the coverage of the intervals is nearly nominal (simulated: at least 94 %, or 93 % if a "
        f"configuration is the only one on its device). {listed}{more}."
    ]


def turns_text(usable: pd.DataFrame) -> list[str]:
    """Which runs were meant to be compared in turns, but had too few of them. `usable`: from
    `run_values`."""
    without = usable[usable["round"].ne("") & usable["effect"].isna()]
    if without.empty:
        return []
    models = n.few(sorted(without["model"].unique()), SHOWN, ", ")
    return [
        f"{n.counted(len(without), 'run')} of {models} shared too few undisturbed turns with other "
        "runs. Their ratios compare seconds, so the intervals are wider; more epochs or samples "
        "give more turns."
    ]


def disturbed_text(records: Sequence[Record]) -> list[str]:
    """How many cycles of the rounds were disturbed or slowed, and which numbers contain them; []
    for none."""
    conditions = conditions_of(records)
    cycles = sum(len(state.cycles) for state in conditions)
    disturbed = sum(len(state.disturbed) for state in conditions)
    left_out = sum(len(state.left_out) for state in conditions)
    slowed = sum(len(state.slowed) for state in conditions)
    texts = []
    if disturbed:
        which = "these" if left_out == disturbed else f"{left_out} of these {disturbed}"
        texts.append(
            f"Other processes used the cores in {n.percent(disturbed / cycles)} of the cycles. "
            f"Ratios and seconds leave {which} cycles out; the learning curves over time contain "
            "them."
        )
    if slowed:
        texts.append(
            f"The machine was slowed down in {n.percent(slowed / cycles)} of the cycles, for "
            "instance by neighbours, heat or a power limit. Ratios and seconds are those of the "
            "undisturbed machine, by analysis of covariance."
        )
    return texts


def session_text(usable: pd.DataFrame) -> list[str]:
    """What the intervals hold for, on each machine with fewer than `LEAST_SESSIONS` sessions.
    `usable`: from `run_values`."""
    texts = []
    machines = usable.assign(session=sessions(usable)).groupby("machine", sort=False)
    for machine, runs in machines:
        count = runs["session"].nunique()
        if count >= LEAST_SESSIONS or len(runs) < 2:
            continue
        where = f"on {machine} " if len(machines) > 1 else ""
        first, last = (timestamps.read(runs["started"].agg(end)) for end in ("min", "max"))
        minutes = max(1, math.ceil((last - first).total_seconds() / 60))
        when = f"within {n.counted(minutes, 'minute')}" if count == 1 else f"in {count} sessions"
        texts.append(
            f"Measured {where}{when}: the intervals hold for the state of the machine at that "
            "time, and another hour can differ by more."
        )
    return texts


def unsteady_text(spreads: pd.Series) -> list[str]:
    """The machines whose speed varied so much that the ratios may depend on the hour. `spreads`:
    from `steadiness`."""
    texts = []
    for machine, own in spreads.groupby("machine"):
        spread = own.median()
        if spread > UNSTEADY:
            runs = n.counted(len(own), "run")
            texts.append(
                f"{machine} was not steady: the seconds of the epochs of a run varied by "
                f"{n.percent(spread)} (median of {runs}; about 1 % on an idle machine). What slows "
                "a machine need not slow all implementations alike, so these ratios hold for the "
                "hour in which they were measured."
            )
    return texts


def caveats(speed: pd.DataFrame, accuracies: pd.DataFrame) -> list[str]:
    """What must not be compared."""
    texts = []
    for _, rows in accuracies.groupby(TASK[:-1], sort=False):
        epochs = sorted(rows["epochs"].dropna().unique())
        if len(epochs) > 1:
            texts.append(
                f"The accuracies of {rows['model'].iloc[0]} are from different numbers of epochs "
                f"({n.plain(epochs[0])} to {n.plain(epochs[-1])}): do not compare them."
            )
    if speed["variant"].nunique() > 1:
        texts.append(
            "Rows with different overrides train different networks or batch sizes: speed-ups "
            "compare rows with the same overrides only."
        )
    if speed["machine"].nunique() > 1:
        texts.append("Runs on different machines are never pooled.")
    return texts
