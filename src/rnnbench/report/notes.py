"""The notes of a page: what a result depends on, and what must not be concluded from it.

A note is a sentence made from the tables by a pure function; names are in backticks. The templates
show the notes of each section in one way.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pandas as pd

from rnnbench.axes import GROUP, TASK
from rnnbench.grid.point import configuration_of
from rnnbench.records import timestamps
from rnnbench.records.interval import Interval
from rnnbench.records.record import Record
from rnnbench.records.rounds import NotNeeded
from rnnbench.report import numbers as n
from rnnbench.report.cost import recommendations
from rnnbench.report.labels import device_words, left_out_text, short_group, variant_labels
from rnnbench.report.rounds import unneeded_text
from rnnbench.report.section import Note
from rnnbench.report.tables import Tables
from rnnbench.tables.contests import Contest
from rnnbench.tables.effects import examined
from rnnbench.tables.frame import varying
from rnnbench.tables.outcome import Equality, Outcome
from rnnbench.tables.ratios import LEAST_SESSIONS, sessions
from rnnworker.frameworks.names import FRAMEWORKS

LONG_MINUTES = 120  # above that, a duration is in hours
SHOWN = 12  # names in one sentence, and reasons


def answer_notes(m: Tables, lead: str = "speed") -> Iterator[str]:
    """What is said below the answer: which intervals it has, and what they hold for.

    `lead`: id of the section that leads.
    """
    bounds = []
    if lead == "calls":
        bounds = list(m.calls["speedup_low"])
    else:
        for contest in m.contests:
            ratios: list[Interval] = [*contest.leads, *(ratio for _, ratio in contest.unequal)]
            if contest.speedup:
                ratios.append(contest.speedup)
            bounds += [ratio.low for ratio in ratios]
    is_sentence = lead == "calls" or not m.is_long
    brackets = ""
    if is_sentence and any(map(n.is_number, bounds)):
        brackets = "In brackets: 95 % confidence intervals. "

    conditions = []
    if m.ratios_shown:
        finished = {record.key: record.finished for record in m.records}
        conditions = list(session_notes(m.run_values, finished))
    if brackets or conditions:
        yield (brackets + " ".join(conditions)).strip()

    slowed = []
    for contest in m.contests:
        if contest.is_slowed and (contest.leads or contest.unequal):
            slowed.append(contest.configuration)
    if slowed:
        places = dict.fromkeys(device_words(row["device"], row["variant"]) for row in slowed)
        yield (
            f"Other work slowed the machine down during most runs on {' and '.join(places)}; "
            "undisturbed, the ratios may differ."
        )
    if m.ratios_shown:
        yield from turn_notes(m.run_values)
    yield from recommendations(m.cost, m.inputs)


def uncertified_notes(speed: pd.DataFrame) -> Iterator[Note]:
    """Which speed-ups of the time table no certificate supports.

    `speed`: the time table.
    """
    has_ratio = speed[speed["speedup"].notna()]
    unknown = has_ratio[has_ratio["equal"] == Equality.UNKNOWN]
    names = []
    for name, rows in unknown.groupby("implementation", sort=False):
        names.append(f"`{name}`{_where(rows, has_ratio)}")
    if names:
        text = (
            f"{', '.join(names)}. There is no certificate that they compute the same function as "
            "the reference; their speed-ups compare times only."
        )
        yield Note("Not certified", text, "ran")


def exclusion_notes(speed: pd.DataFrame, contests: Iterable[Contest]) -> Iterator[Note]:
    """Why rows of the time table have no speed-up, and what is in no table.

    - `speed`: the time table.
    - `contests`: of the same measurements.
    """
    unequal = "≠ is not a speed-up but a ratio of the times of two different functions"
    for head, reason, rows_without in (
        (unequal, "difference", speed[speed["words"] == Outcome.ANOTHER_FUNCTION]),
        ("No speed-up", "not_learning", speed[speed["not_learning"] != ""]),
    ):
        for why, rows in rows_without.groupby(reason, sort=False):
            yield Note(head, f"{why!s}{_where(rows, speed)}.", "ran")
    void = []
    for contest in contests:
        void += [left_out_text(each) for each in contest.void]
    if void:
        text = f"{'; '.join(dict.fromkeys(void))}."
        yield Note("Void, so excluded from the tables", text, "trust")


def _where(rows: pd.DataFrame, table: pd.DataFrame) -> str:
    """The groups of `rows`, if the implementations of `rows` have others too in `table`:
    `` (for mnist_rnn)``."""
    every = table[table["implementation"].isin(rows["implementation"])]
    groups = every[GROUP].drop_duplicates()
    own = rows[GROUP].drop_duplicates()
    if len(own) == len(groups):
        return ""
    varied = varying(groups, GROUP)
    labels = variant_labels(groups["variant"])
    listed = [short_group(row, varied, labels) for row in own.to_dict("records")]
    return f" (for {n.few(listed, 3, ', ')})"


def session_notes(usable: pd.DataFrame, finished: Mapping[str, str]) -> Iterator[str]:
    """What the intervals hold for, on each machine with fewer than `LEAST_SESSIONS` sessions.

    - `usable`: from `run_values`.
    - `finished`: record → when it ended.
    """
    starts = []
    for machine, started in zip(usable["machine"], usable["started"], strict=True):
        seconds = timestamps.read(started).timestamp()
        starts.append((machine, seconds))

    numbers = sessions(starts)
    with_session = usable.assign(session=[numbers[start] for start in starts])
    machines = with_session.groupby("machine", sort=False)
    for machine, runs in machines:
        count = runs["session"].nunique()
        if count >= LEAST_SESSIONS or len(runs) < 2:
            continue
        where = ""
        if len(machines) > 1:
            where = f"on {machine!s} "
        when = f"in {count} sessions"
        if count == 1:
            first = timestamps.read(runs["started"].min())
            last = timestamps.read(max(finished[record] for record in runs["record"]))
            minutes = max(1, math.ceil((last - first).total_seconds() / 60))
            when = f"within {n.counted(minutes, 'minute')}"
            if minutes > LONG_MINUTES:
                when = f"within {minutes // 60} h {minutes % 60} min"
        yield (
            f"Measured {where}{when}: at another hour, on another machine or for another network, "
            "results may differ by more."
        )


# Optimizers that divide by a mean of squares.
SQUARE_AVERAGING = ("adam", "adamax", "nadam", "rmsprop", "adagrad", "adadelta")
EPSILON = (
    "is trained with RMSprop, which adds epsilon to the square root in {some} and inside it in "
    "{others}"
)
ROWS = (
    "has an embedding: if a batch contains a row of it several times, the optimizer adds the "
    "squares of the row's gradients in {some} and squares their sum in {others}"
)

# Each sentence and the field of a framework's description that says which ones differ.
DIFFERING = {EPSILON: "epsilon_outside_root", ROWS: "squares_per_occurrence"}


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
    builds: dict[tuple[str, str], dict[str, str]] = {}  # by model and sentence: framework of each
    for record in records:
        sections = record.run.sections
        model = sections.model
        optimizer = model.optimizer.name.lower() if model.optimizer else ""
        sentences = []
        if optimizer == "rmsprop":
            sentences.append(EPSILON)
        if model.embedding is not None and optimizer in SQUARE_AVERAGING:
            sentences.append(ROWS)
        for sentence in sentences:
            of_model = builds.setdefault((model.name, sentence), {})
            of_model[f"`{sections.build.name}`"] = sections.build.framework

    for (model_name, sentence), frameworks in builds.items():
        some = []
        others = []
        for name, framework in frameworks.items():
            if getattr(FRAMEWORKS.get(framework), DIFFERING[sentence], False):
                some.append(name)
            else:
                others.append(name)
        if some and others:
            difference = sentence.format(some=", ".join(some), others=", ".join(others))
            yield (
                f"`{model_name}` {difference}. Their losses therefore differ by more than rounding "
                "(`benchmarks/README.md`)."
            )


def verdict_text(every: pd.DataFrame) -> str:
    """How many runs there are of each verdict, and what it means.

    `every`: the table of runs.
    """
    counts = every["verdict"].value_counts()
    return (
        f"{n.counted(len(every), 'run')}: {counts.get('clean', 0)} clean, "
        f"{counts.get('suspect', 0)} suspect (included; results that use them are marked "
        f"{n.DAGGER}), {counts.get('void', 0)} void (excluded from all results)."
    )


def ratio_note(count: int) -> str:
    """How many ratios the page shows, and what is to be expected of so many.

    `count`: of all ratios with an interval.
    """
    if count == 0:
        return "No ratio with a confidence interval is shown."
    return (
        f"This page shows {n.counted(count, 'ratio')} with 95 % confidence intervals: even if "
        f"nothing differed, about {n.about(0.05 * count)} would appear to differ from 1 by chance. "
        "The answer calls an implementation the fastest only if it is shown to be faster than "
        "every other: in simulations, at most 1 in 40 answers names a wrong one."
    )


def turn_notes(usable: pd.DataFrame) -> Iterator[str]:
    """Which runs were meant to be compared in turns, but had too few of them.

    `usable`: from `run_values`.
    """
    without = usable[usable["round"].ne("") & ~usable["in_turns"]]
    if len(without):
        models = sorted(without["model"].unique())
        yield (
            f"{n.counted(len(without), 'run')} of {n.few(models, SHOWN, ', ')} shared too few "
            "undisturbed turns with other runs. Their ratios compare seconds, so the intervals "
            "are wider; more epochs or samples give more turns."
        )


def disturbance_notes(records: Sequence[Record]) -> Iterator[str]:
    """How many cycles of the rounds were disturbed or slowed, and which numbers contain them.

    A cycle is disturbed if other processes used the cores, and slowed if the machine was slower
    than in the other cycles.
    """
    cycles = disturbed = used = slowed = 0
    for own in examined(records):
        cycles += int(own.seen.sum())
        disturbed += int(own.disturbed.sum())
        used += int((own.disturbed & own.counts).sum())
        slowed += int(own.slowed.sum())

    if disturbed:
        which = "these"
        if used:
            which = f"{disturbed - used} of these {disturbed}"
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
    """Which repeats were not measured, and by which rule.

    `unneeded`: planned runs that the experiment's ``repeats`` skipped → reason.
    """
    if not unneeded:
        return
    reasons: dict[str, str] = {}
    for name, why in unneeded.items():
        reasons.setdefault(configuration_of(name), unneeded_text(why))
    with_reason = defaultdict(list)
    for configuration, reason in reasons.items():
        with_reason[reason].append(configuration)

    listed = []
    for reason, names in with_reason.items():
        listed.append(f"{n.few(names, SHOWN, ', ')}: {reason}.")
    further = ""
    if len(listed) > SHOWN:
        further = f" And {n.counted(len(listed) - SHOWN, 'more reason')}."
    yield (
        f"Not measured: {n.counted(len(unneeded), 'planned repeat')}, because a configuration "
        "had reached the requested precision or the budget was used up. The stopping rule "
        "depends on the width of the configuration's interval, never on whether it shows a "
        "difference. The coverage of the intervals is therefore nearly nominal: in simulations, "
        "at least 94 %, or 93 % if a configuration is the only one on its device. "
        f"{' '.join(listed[:SHOWN])}{further}"
    )


def comparison_notes(speed: pd.DataFrame, accuracies: pd.DataFrame) -> Iterator[str]:
    """What must not be compared.

    - `speed`: the time table.
    - `accuracies`: the table of accuracy.
    """
    for _, rows in accuracies.groupby(TASK[:-1], sort=False):
        epochs = rows["epochs"].dropna()
        if epochs.nunique() > 1:
            model = rows["model"].iloc[0]
            fewest = n.plain(epochs.min())
            most = n.plain(epochs.max())
            yield (
                f"The accuracies of {model} are from different numbers of epochs "
                f"({fewest} to {most}): do not compare them."
            )
    if speed["variant"].nunique() > 1:
        yield (
            "Rows with different overrides train different networks or batch sizes: speed-ups "
            "compare rows with the same overrides only."
        )
    if speed["machine"].nunique() > 1:
        yield "Runs on different machines are never pooled."


def random_note(records: Sequence[Record]) -> str:
    """Names the models with layers that draw random numbers, such as dropout; ``""`` for none.

    Source: ``measured.random_layers`` of the `records`.
    """
    layers = defaultdict(list)
    for record in records:
        for name in record.measured.random_layers:
            layers[record.run.choices["model"]].append(f"`{name}`")
    if not layers:
        return ""

    texts = []
    for model, names in layers.items():
        texts.append(f"{n.few(names, 3, ', ')} of {model}")
    return (
        f"In each training step, these layers draw random numbers: {n.few(texts, 3)}. "
        "Implementations may draw different ones, and their curves then differ by chance. The "
        "certificate compares them without dropout and noise."
    )


def order_notes(places: pd.DataFrame) -> Iterator[str]:
    """Whether each machine measured its runs, or groups of runs in turns, in the planned order.

    `places`: from `order`.
    """
    if places.empty:
        return
    first = places.groupby(["machine", "together"], sort=False)["planned"].min()
    exactly = ""
    for _, positions in first.groupby("machine", sort=False):
        if not positions.is_monotonic_increasing:
            exactly = "not exactly "
    rounds = int(places["together"].value_counts().gt(1).sum())
    turns = ""
    if rounds:
        turns = f" in {n.counted(rounds, 'round')} of runs that took turns,"
    blocks = n.counted(int(places["block"].nunique()), "block")
    yield (
        f"The runs were interleaved in {blocks}, each with every configuration once in random "
        f"order, and measured{turns} {exactly}in the planned order. A drift of the machine would "
        "appear as a slope."
    )
