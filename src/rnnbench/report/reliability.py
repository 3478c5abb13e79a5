"""What the trust section says in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rnnbench.grid.point import cell_of
from rnnbench.report import numbers as n
from rnnbench.tables.measuring_order import as_planned
from rnnbench.tables.rank_test import BOOTSTRAP_FROM, RANKS_FROM

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

SHOWN_CELLS = 12


def verdict_words(every: pd.DataFrame) -> str:
    count = every["verdict"].value_counts()
    clean, suspect, void = (int(count.get(name, 0)) for name in ("clean", "suspect", "void"))
    words = [f"{n.counted(len(every), 'run')}: {clean} clean"]
    words.append(f"{suspect} suspect (used, and marked {n.DAGGER} wherever they count)")
    words.append(f"{void} void (used in no number)")
    return ", ".join(words) + "."


def ratio_words(count: int) -> str:
    if count == 0:
        return "No ratio with an interval is shown."
    by_chance = f"{0.05 * count:.2g}"
    return (
        f"Of the {n.counted(count, 'ratio')} looked at on this page, about {by_chance} would look "
        "different from 1 by chance if nothing differed: each has a 95 % interval of its own. What "
        "is said of the fastest is a choice among several and has wider ones, which hold together "
        "for all that is compared with the reference on a device (Dunnett): of such answers at "
        "most 1 in 20 names a difference where there is none."
    )


def order_words(places: pd.DataFrame) -> str:
    if places.empty:
        return ""
    blocks = n.counted(int(places["block"].nunique()), "block")
    kept = "in the planned order" if as_planned(places) else "not quite in the planned order"
    rounds = int((places.groupby("together")["name"].count() > 1).sum())
    turns = f", in {n.counted(rounds, 'round')} of runs that took turns," if rounds else ""
    return (
        f"Runs were interleaved in {blocks}, each holding every cell once in a random order, and "
        f"measured{turns} {kept}. A drift of the machine would show as a slope."
    )


def warmup_words(table: pd.DataFrame) -> str:
    """Whether timed epochs still look like warm-up; ``""`` where runs are too short to tell."""
    looked = int(table["runs"].sum())
    if not looked:
        return ""
    late = table[table["still_warm"] > 0]
    if late.empty:
        return (
            f"Warm-up: in none of {n.counted(looked, 'run')} of five epochs or more are the first "
            "timed epochs slower than the rest, so the configured warm-up was long enough."
        )
    where = ", ".join(
        f"`{row['implementation'] or row['model']}` on {row['device']}"
        for row in late.head(4).to_dict("records")
    )
    more = f" and {len(late) - 4} more" if len(late) > 4 else ""
    return (
        f"Warm-up: in {int(late['still_warm'].sum())} of {n.counted(looked, 'run')} the first "
        f"timed epochs (up to {int(late['epochs'].max())}) are slower than the rest ({where}"
        f"{more}): raise `measure.warmup_seconds`. A run counts with the median of its epochs, "
        "which a few slow ones hardly move."
    )


def stopping_words(unneeded: Mapping[str, str]) -> list[str]:
    """How it was decided that runs were not needed, and of which cells; [] where none was."""
    if not unneeded:
        return []
    cells: dict[str, str] = {}
    for name, why in unneeded.items():
        cells.setdefault(cell_of(name), why)
    listed = "; ".join(f"{cell}: {why}" for cell, why in list(cells.items())[:SHOWN_CELLS])
    more = f"; and {len(cells) - SHOWN_CELLS} more cells" if len(cells) > SHOWN_CELLS else ""
    return [
        f"Not needed: {n.counted(len(unneeded), 'planned repeat')}, because a cell was known as "
        "well as asked or the budget was used up. Decided by the width of a cell's interval, never "
        "by whether a difference showed, so the intervals mean what they say (simulated: 94 % "
        "or more of them hold the true value, 93 % where a cell is alone on its device). "
        f"{listed}{more}."
    ]


def caveats(speed: pd.DataFrame, learnt: pd.DataFrame) -> list[str]:
    """What must not be compared, and where a second method disagrees with the interval."""
    found = []
    task = ["model", "cell", "dataset"]
    for _, cells in learnt.groupby(task, sort=False):
        epochs = sorted(cells["epochs"].dropna().unique())
        if len(epochs) > 1:
            found.append(
                f"Accuracies of {cells['model'].iloc[0]} are after different numbers of epochs "
                f"({n.plain(epochs[0])} to {n.plain(epochs[-1])}): do not compare them."
            )
    if speed["variant"].nunique() > 1:
        found.append(
            "Rows with different overrides train different networks or batches: speed-ups are "
            "formed inside one of them, never between."
        )
    if speed["machine"].nunique() > 1:
        found.append("Runs of different machines are never pooled.")
    other = _disagreements(speed, "boot")
    ranked = speed[speed["rank_p"].notna() & speed["speedup_low"].notna()]
    against = int(((ranked["rank_p"] < 0.05) != ranked["shown_different"].astype(bool)).sum())
    if len(ranked):
        found.append(
            f"Second opinions: of {n.counted(len(ranked), 'ratio')} with {RANKS_FROM} runs or more "
            f"a side, Mann and Whitney's rank test disagrees with the interval on {against}"
            + (f"; of those with {BOOTSTRAP_FROM} or more, the bootstrap on {other}" if speed[
                "boot_low"].notna().any() else "")
            + "."
        )  # fmt: skip
    return found


def _disagreements(speed: pd.DataFrame, name: str) -> int:
    has = speed[speed[f"{name}_low"].notna()]
    out = (has[f"{name}_low"].astype(float) > 1) | (has[f"{name}_high"].astype(float) < 1)
    return int((out != has["shown_different"].astype(bool)).sum())
