"""Time per epoch and speed-up of each configuration, the same for ``evaluate()`` and ``predict()``,
and the fastest implementation of each contest.

Picking the fastest of several configurations finds differences by chance. Statements about the
fastest therefore use Dunnett's comparison with the reference, whose intervals hold simultaneously
for all contestants. The lead over the runner-up uses the same quantile, which makes it Hsu's
comparison with the best (Annals of Statistics 9, 1981). Simulated in ``benchmarks/headline.py``.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from rnnbench.axes import CONFIGURATION, KEY
from rnnbench.sources.certificates import NOT_LEARNING
from rnnbench.tables.certificates import UNEQUAL, Judgement
from rnnbench.tables.effects import Effect
from rnnbench.tables.estimates import Key, Measurements, estimates_of, key_of
from rnnbench.tables.frame import CALLS, COUNTED, ends, identified, phase_of, split
from rnnbench.tables.ratios import Estimates, Ratio, Unequal
from rnnbench.tables.stats import ONE_RUN, mean_interval

NO_DIFFERENCE = "no difference shown"
IS_REFERENCE = "reference"
NO_REFERENCE = "no reference run"
NOT_EQUAL = "not the same function"
WRONG_REFERENCE = f"the reference {NOT_LEARNING}"
FASTER, SLOWER = "faster", "slower"
COMPARED = (FASTER, SLOWER, NO_DIFFERENCE, ONE_RUN)
TIME_COLUMNS = [
    *COUNTED, "epoch_seconds", "epoch_low", "epoch_high", "ms_per_step", "us_per_sample", "samples",
    "evaluate_seconds", "predict_seconds", *ends("speedup"), "method", "shown_different", "words",
    "speedup_suspect", "equal", "equal_why", "is_another_function", "unequal", "difference",
    "not_learning",
]  # fmt: skip
CALL_COLUMNS = [
    *CONFIGURATION, "call", "runs", "suspect", "samples", "batch", "seconds", "low", "high",
    "ms_per_batch", "samples_per_second", *ends("speedup"), "words", "unequal", "difference",
]  # fmt: skip
IMPLEMENTATION_AXES = {"rnn", "options", "alias"}
FASTEST_COLUMNS = [
    *CONFIGURATION, "implementations", "contestants", "suspect", "reference_suspect",
    "runner_up_suspect", "seconds", "speedup", "low", "high", "words", "runner_up", "lead",
    "lead_low", "lead_high", "lead_shown", "lead_is_speedup", "left_out", "void", "reference_void",
    "equal", "unequal", "slowed",
]  # fmt: skip
NO_CONTESTANT = {
    "name": "", "contestants": 0, "suspect": False, "slowed": False, "reference_suspect": False,
    "runner_up_suspect": False, "words": "", "runner_up": "", "equal": "",
}  # fmt: skip


def compared(
    measured: Measurements, own: Key, base: Key, estimates: Estimates | None = None
) -> dict[str, Any]:
    """The result of comparing two configurations, as columns.

    - `speedup` = seconds of `base` / seconds of `own`, with its interval and `method`;
      `shown_different` (bool: the interval excludes 1); `words`: the result as text.
    - `equal`: whether both compute the same function (``certified``, ``not certified``,
      ``not equal``, ``""``), and `equal_why`: the reason.
    - `unequal`: the ratio of the times (`Unequal`, marked with ≠) if they do not, which excludes a
      speed-up (else ``""``); `difference`: how the functions differ.

    If one of them applies wrong gradients, there is neither `speedup` nor `unequal`. `estimates`:
    from other seconds than those of an epoch.
    """
    estimates = estimates or measured.estimates
    exists = base in estimates
    judged = measured.judge(own, base) if exists and own != base else Judgement()
    row: dict[str, Any] = {
        "method": None,
        "shown_different": False,
        "equal": judged.equal,
        "equal_why": judged.why,
        "is_another_function": bool(judged.differences),
        "unequal": "",
        "difference": "",
    }
    if measured.why_not_learning(own):
        return {**row, "words": NOT_LEARNING}
    if exists and measured.why_not_learning(base):
        return {**row, "words": WRONG_REFERENCE}
    if own == base:
        return {**row, "speedup": 1.0, "words": IS_REFERENCE}
    if not exists:
        return {**row, "words": NO_REFERENCE}
    ratio = estimates.ratio(own, base)
    row["method"] = ratio.method
    if judged.equal == UNEQUAL:
        unequal = Unequal(ratio.estimate, ratio.low, ratio.high)
        difference = judged.differences or judged.why
        return {**row, "words": NOT_EQUAL, "unequal": unequal, "difference": difference}
    shown = {"shown_different": ratio.shown_different, "words": ratio_text(ratio)}
    return {**row, **ratio.columns("speedup"), **shown}


def ratio_text(ratio: Ratio) -> str:
    """The result of a comparison as text: one of `COMPARED`."""
    if ratio.low is None:
        return ONE_RUN
    if not ratio.shown_different:
        return NO_DIFFERENCE
    return FASTER if ratio.estimate > 1 else SLOWER


def time(measured: Measurements) -> pd.DataFrame:
    """One row per configuration and machine, from runs that are not void.

    Columns:

    - the configuration; `runs`, `suspect`; `epoch_seconds` of the `Estimates` with the 95 %
      interval `epoch_low`, `epoch_high`;
      `ms_per_step`, `us_per_sample`; `samples` per epoch; `evaluate_seconds`, `predict_seconds`:
      seconds per call (median later call, geometric mean over runs).
    - those of `compared` with its reference on the same machine; `speedup_suspect` (bool: own or
      reference runs are suspect).
    - `not_learning`: why the training steps apply a gradient other than the computed one (``""`` if
      no certificate shows this).

    Source: the epochs of the records.
    """
    groups, rows = measured.groups, []
    for key, runs in groups.items():
        base, configuration = measured.against[key], identified(key, runs)
        seconds, result = measured.estimates.seconds(key), compared(measured, key, base)
        sides = [runs, groups[base]] if result["words"] in (*COMPARED, NOT_EQUAL) else [runs]
        steps, samples = (statistics.median(runs[name].tolist()) for name in ("steps", "samples"))
        rows.append(
            {
                **configuration,
                **seconds.columns("epoch_seconds", "epoch_low", "epoch_high"),
                "ms_per_step": 1e3 * seconds.estimate / steps,
                "us_per_sample": 1e6 * seconds.estimate / samples,
                "samples": int(samples),
                **{f"{call}_seconds": _mean(runs[call]) for call in CALLS},
                **result,
                "speedup_suspect": any(bool(side["suspect"].any()) for side in sides),
                "not_learning": measured.why_not_learning(key) or "",
            }
        )
    return pd.DataFrame(rows, columns=TIME_COLUMNS)


def _mean(seconds: np.ndarray) -> float | None:
    timed = seconds[seconds > 0].tolist()  # also excludes NaN
    return mean_interval(timed).estimate if timed else None


def ratios_shown(table: pd.DataFrame) -> int:
    """The number of ratios with an interval in a table of training times or calls."""
    unequal = sum(isinstance(x, Unequal) and x.low is not None for x in table["unequal"])
    return int(table["speedup_low"].notna().sum()) + unequal


def by_run(frame: pd.DataFrame, configurations: pd.DataFrame) -> dict[str, dict[Any, Any]]:
    """Record key → the row of its configuration in `configurations`, for each run of the tidy
    `frame` that is not void and has one."""
    rows = {key_of(row): row for row in configurations.to_dict("records")}
    runs = frame[(frame["phase"] == "run") & (frame["verdict"] != "void")]
    keys = zip(runs["record"], runs[KEY].itertuples(index=False, name=None), strict=True)
    return {record: rows[key] for record, key in keys if key in rows}


def calls(measured: Measurements) -> pd.DataFrame:
    """One row per configuration and kind of `call` (``evaluate``, ``predict``) that was timed.

    Columns: the configuration; `runs`, `suspect`; `samples` per call and `batch` size; `seconds`
    per call (the median later call of each run, geometric mean over runs) with the 95 % interval
    `low`, `high`; `ms_per_batch` (the latency, for a call of one batch) and `samples_per_second`
    (the throughput); `speedup`, `words`, `unequal` and `difference` of `compared`, from the seconds
    of the calls alone (calls are not timed in turns). Source: the phases of runs that are not void.
    """
    rows: list[dict[str, Any]] = []
    runs = measured.runs
    for call in CALLS:
        samples_of = phase_of(measured.frame, call, ["samples"])["samples"]
        # Effects are measured for training only, so calls are compared by their seconds.
        values = runs.assign(
            call_samples=samples_of.reindex(runs["record"]).to_numpy(),
            seconds=runs[call],
            pairing=runs["block"],
            **Effect()._asdict(),
        )
        values = values[values["seconds"] > 0]
        estimates = estimates_of(values)
        columns = ["suspect", "implementation", "call_samples", "batch"]
        for key, own in split(values, KEY, columns).items():
            samples, batch = float(own["call_samples"][0]), float(own["batch"][0])
            batches = -(-samples // batch) if batch > 0 else math.nan
            seconds = estimates.seconds(key)
            rows.append(
                {
                    **identified(key, own),
                    **compared(measured, key, measured.against[key], estimates),
                    "call": call,
                    "samples": samples,
                    "batch": batch,
                    **seconds.columns("seconds", "low", "high"),
                    "ms_per_batch": 1e3 * seconds.estimate / batches,
                    "samples_per_second": samples / seconds.estimate,
                }
            )
    return pd.DataFrame(rows, columns=CALL_COLUMNS)


def fastest(measured: Measurements, time_table: pd.DataFrame) -> pd.DataFrame:
    """One row per contest: configurations that differ only in the implementation or in the axes
    that the reference names.

    Columns: the fastest configuration; `name` (its distinguishing axes as text); `implementations`
    (their number, void ones included; a name leaves out a single one, unless it would be empty);
    `contestants` (their number; 0 if no run gave a comparable number); `suspect`,
    `reference_suspect`, `runner_up_suspect` (bool: it has suspect runs); `seconds` per epoch;
    `speedup` over the reference with its interval `low`, `high` and the result as text (`words`),
    which hold simultaneously for all contestants; `runner_up` (its name, ``""`` for none); `lead` =
    seconds of the runner-up / own seconds, with its interval, `lead_shown` (bool: it excludes 1)
    and `lead_is_speedup` (bool: the lead is the ratio to the reference); `left_out`: the
    configurations (`LeftOut`) that are not contestants, because they do not compute the reference's
    function or apply wrong gradients; `void`: those without a usable run; `reference_void`: the
    reason if the reference is one of them; `equal` as in `compared`; `unequal`: if there is one
    contestant, (name, whether it has suspect runs, `Unequal`) of each configuration that computes
    another function, whose intervals hold simultaneously; `slowed`: whether too few rounds of the
    fastest are undisturbed, so that slowed ones count.
    """
    void = _void_configurations(measured)
    reference_axes = {axis for axis in measured.reference if axis in KEY} - IMPLEMENTATION_AXES
    contest_axes = [axis for axis in KEY if axis not in reference_axes | IMPLEMENTATION_AXES]
    contests: dict[Key, list[dict[Any, Any]]] = {}
    for row in [*time_table.to_dict("records"), *void]:
        contests.setdefault(tuple(row[axis] for axis in contest_axes), []).append(row)
    rows = []
    for members in contests.values():
        voided = [row for row in members if "why" in row]
        timed = [row for row in members if "why" not in row]
        ordered = sorted(timed, key=lambda row: row["epoch_seconds"])
        ranked = [row for row in ordered if row["words"] != NOT_EQUAL and not row["not_learning"]]
        axes = sorted(axis for axis in reference_axes if len({row[axis] for row in members}) > 1)
        implementations = len({row["implementation"] for row in members})
        if implementations > 1 or not axes:
            axes = ["implementation", *axes]
        excluded = [row for row in ordered if row not in ranked]
        whys = [row["not_learning"] or row["equal_why"] for row in excluded]
        shown = (ranked or members)[0]
        base = measured.against[key_of(shown)]
        rows.append(
            {
                **{name: shown[name] for name in CONFIGURATION},
                **NO_CONTESTANT,
                **(_winner(measured, ranked, base, axes) if ranked else {}),
                "implementations": implementations,
                "left_out": _left_out(excluded, whys, axes),
                "unequal": _unequal(measured, base, ordered, axes) if len(ranked) == 1 else [],
                "void": _left_out(voided, [row["why"] for row in voided], axes),
                "reference_void": {key_of(row): row["why"] for row in voided}.get(base, ""),
            }
        )
    return pd.DataFrame(rows, columns=["name", *FASTEST_COLUMNS])


class LeftOut(NamedTuple):
    """The `names` of configurations that are not compared, and why; whether they compute another
    function by design."""

    names: tuple[str, ...]
    why: str
    is_another_function: bool = False


def _left_out(rows: list[dict[Any, Any]], whys: list[str], axes: list[str]) -> tuple[LeftOut, ...]:
    """The `rows` by their `whys`."""
    found: dict[str, LeftOut] = {}
    for row, why in zip(rows, whys, strict=True):
        before = found[why].names if why in found else ()
        is_another = bool(row.get("is_another_function"))
        found[why] = LeftOut((*before, _name(row, axes)), why, is_another)
    return tuple(found.values())


def _unequal(
    measured: Measurements, base: Key, rows: list[dict[Any, Any]], axes: list[str]
) -> list[tuple[str, bool, Unequal]]:
    others = [row for row in rows if row["is_another_function"]]
    ratios = [measured.estimates.ratio(key_of(row), base, len(others)) for row in others]
    return [
        (_name(row, axes), bool(row["suspect"]), Unequal(ratio.estimate, ratio.low, ratio.high))
        for row, ratio in zip(others, ratios, strict=True)
    ]


def _void_configurations(measured: Measurements) -> list[dict[Any, Any]]:
    """The configurations without a usable run, with `why`: the shortest reason among their runs."""
    runs, void = measured.frame[measured.frame["phase"] == "run"], []
    for key, own in split(runs, KEY, ["reasons", "implementation"]).items():
        if key not in measured.groups:
            reasons = filter(None, own["reasons"].tolist())
            why = min(reasons, key=len, default="no epoch was finished").rstrip(".")
            void.append({**dict(zip(KEY, key, strict=True)),
                         "implementation": own["implementation"][0], "why": why})  # fmt: skip
    return void


def _winner(
    measured: Measurements, ranked: list[dict[Any, Any]], base: Key, axes: list[str]
) -> dict[str, Any]:
    first, comparisons, estimates = ranked[0], len(ranked) - 1, measured.estimates
    key, base_runs = key_of(first), measured.groups.get(base)
    row = {
        **{name: first[name] for name in ("speedup", "words", "equal")},
        "name": _name(first, axes),
        "contestants": len(ranked),
        "suspect": bool(first["suspect"]),
        "slowed": estimates.is_slowed(key),
        "reference_suspect": base_runs is not None and bool(base_runs["suspect"].any()),
        "seconds": first["epoch_seconds"],
    }
    if not comparisons:
        return {**row, "low": first["speedup_low"], "high": first["speedup_high"]}
    second = ranked[1]
    if first["words"] in COMPARED:
        ratio = estimates.ratio(key, base, comparisons)
        row |= {**ratio.columns("speedup", "low", "high"), "words": ratio_text(ratio)}
    lead = estimates.ratio(key, key_of(second), comparisons)
    return {
        **row,
        "runner_up_suspect": bool(second["suspect"]),
        "runner_up": _name(second, axes),
        **lead.columns("lead"),
        "lead_shown": lead.shown_different,
        "lead_is_speedup": IS_REFERENCE in (first["words"], second["words"]),
    }


def extra_ratios(table: pd.DataFrame) -> int:
    """Number of leads over a runner-up that are not already a ratio in the time table."""
    return int((table["lead_low"].notna() & ~table["lead_is_speedup"].eq(True)).sum())


def _name(row: Mapping[Any, Any], axes: list[str]) -> str:
    return ", ".join(str(row[axis]) for axis in axes if row[axis]) or str(row["model"])
