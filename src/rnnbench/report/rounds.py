"""What the terminal says about the rounds of an experiment while it is measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rnnbench.records.record import Run, differing
from rnnbench.records.rounds import NotNeeded
from rnnbench.report import numbers as n
from rnnbench.tables.ratios import Basis, Method, Ratio


def so_far(
    planned: Sequence[Run],
    ratios: Mapping[str, Ratio],
    reference: str,
    measured: int,
) -> str:
    """What is known of the runs of a round, the fastest first:
    ``so far, speed relative to keras: block 1.51× (1.48–1.54) after 4 rounds, of which 3 count``.

    - `planned`: the runs of the round.
    - `ratios`: configuration → its speed-up, of those that are known.
    - `reference`: the name of the run in `planned` that speed-ups are relative to.
    - `measured`: the number of rounds, with those that do not count.

    The text is empty if nothing is known.
    """
    base = next(run for run in planned if run.name == reference)
    others = [run for run in planned if run.configuration in ratios]
    if not others:
        return ""
    others.sort(key=lambda run: ratios[run.configuration].estimate, reverse=True)

    shown = [base, *others]
    texts = []
    for run in others:
        ratio = ratios[run.configuration]
        text = f"{label_among(run, shown)} {n.ratio(ratio.estimate)}"
        if ratio.low is not None:
            text += f" ({n.ratio_interval(ratio)})"
        texts.append(text)

    label = label_among(base, shown)
    counting = max(ratios[run.configuration].method.units for run in others)
    after = n.counted(measured, "round")
    if counting < measured:
        after += f", of which {counting} {'counts' if counting == 1 else 'count'}"
    return f"so far, speed relative to {label}: {', '.join(texts)} after {after}"


def label_among(run: Run, runs: Sequence[Run]) -> str:
    """The choices and overrides of `run` in which the `runs` of its round differ:
    ``block units=512``."""
    return " ".join(run.texts(differing(runs))) or run.configuration


def unneeded_text(why: NotNeeded) -> str:
    """``it is known to ± 0.25 % after 3 runs; required is ± 2.50 %``.

    Or, if the experiment has a budget: ``the budget of 600 s is used up (612 s)``.

    `why`: the reason why a planned run was not measured.
    """
    if why.is_over_budget:
        return f"the budget of {why.budget:,.0f} s is used up ({why.spent:,.0f} s)"
    known = 100 * (why.halfwidth or 0)
    required = 100 * (why.until or 0)
    runs = n.counted(why.runs, "run")
    return f"it is known to ± {known:.2f} % after {runs}; required is ± {required:.2f} %"


# What an interval is from → its text, in which braces stand for the number of common units.
BASES = {
    Basis.IN_TURNS: "in turns, {} rounds",
    Basis.PAIRED: "paired",
    Basis.PARTLY_PAIRED: "paired on {} common blocks",
    Basis.BY_WAY_OF_OTHERS: "by way of others",
    Basis.SEPARATE: "welch",
    Basis.NONE: "one run: no interval",
}


def method_text(method: Method) -> str:
    """How an interval is made, for the tables.

    For example ``in turns, 3 rounds; pooled over configurations, 6 degrees of freedom``.

    A pair with one run on a side has no interval: ``one run: no interval``.
    """
    text = BASES[method.basis].format(method.units)
    if method.basis is Basis.NONE and method.in_turns:
        text = f"in turns, {text}"
    if method.pooled:
        text += f"; pooled over configurations, {method.pooled:.3g} degrees of freedom"
    return text
