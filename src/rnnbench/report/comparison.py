"""What a comparison says, for a program: the numbers of the page and its sentences."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from rnnbench.axes import KEY
from rnnbench.errors import ConfigError, suggestion
from rnnbench.records.interval import Interval
from rnnbench.records.overrides import reference_label
from rnnbench.report import numbers as n
from rnnbench.report.answer import answers, headline
from rnnbench.report.page import as_text, rendered
from rnnbench.report.sentences import as_fast
from rnnbench.report.speed import time_view
from rnnbench.report.tables import Tables
from rnnbench.tables.contests import Contest
from rnnbench.tables.estimates import Key
from rnnbench.tables.outcome import COMPARED, Equality, Outcome
from rnnbench.tables.time import compared

VOID = "no usable run"


@dataclass(frozen=True)
class Speedup:
    """How many times as fast an implementation trains as another one.

    - `name`, `base`: the two implementations.
    - `value`: seconds of `base` / seconds of `name`; above 1, `name` is faster. NaN if there is no
      speed-up, such as between two that do not compute the same function.
    - `low`, `high`: its 95 % confidence interval; NaN if one run shows no spread. A comparison with
      NaN is false, so that an assertion such as ``ratio.low > 1.2`` fails then.
    - `verdict`: ``faster`` or ``slower`` if the interval excludes 1, ``no difference shown`` if it
      does not; otherwise why there is no speed-up.
    - `is_suspect`: whether it includes suspect runs, which the page marks with †.
    """

    name: str
    base: str
    value: float
    low: float
    high: float
    verdict: str
    is_suspect: bool = False

    def __str__(self) -> str:
        """The speed-up in words: 1.48 times as fast as `keras` (1.44 to 1.53), faster."""
        if math.isnan(self.value):
            return f"{self.name} against {self.base}: {self.verdict}"
        interval = Interval(self.value, None, None)
        if not math.isnan(self.low):
            interval = Interval(self.value, self.low, self.high)
        text = f"{n.daggered(self.name, self.is_suspect)}: {as_fast(interval, f'`{self.base}`')}"
        return f"{text}, {self.verdict}"


@dataclass(frozen=True)
class Certificate:
    """Whether the implementations compute the same function.

    - `holds`: whether all of them are shown to; also its truth value.
    - `text`: this in words; if it does not hold, of which implementations, and why.
    """

    holds: bool
    text: str

    def __bool__(self) -> bool:
        return self.holds

    def __str__(self) -> str:
        return self.text


class Comparison:
    """What was measured, as the page shows it.

    In a notebook, its last expression shows the answer and the table.

    - `page`: the path of the report, an HTML file; None if none was written.
    """

    def __init__(self, tables: Tables, page: Path | None) -> None:
        self.page = page
        self._tables = tables

    @property
    def implementations(self) -> list[str]:
        """The names of what is compared, the fastest first; those without a speed-up last."""
        names: dict[str, None] = {}
        for contest in self._tables.contests:
            names |= dict.fromkeys(each.name for each in contest.contestants)
        for contest in self._tables.contests:
            names |= dict.fromkeys(contest.keys)
        return list(names)

    @property
    def fastest(self) -> str | None:
        """The implementation that is shown to be faster than every other one; None if none is.

        Raises `RnnbenchError` if there are several comparisons: choose one with `at`.
        """
        contest = self._only()
        if not contest.leads or contest.rivals or contest.is_slowed_apart:
            return None
        return contest.contestants[0].name

    @property
    def certificate(self) -> Certificate:
        """Whether the implementations compute the same function, by float64 outputs, gradients and
        training steps that were compared before anything was timed."""
        wrong = {}
        for row in self._rows().to_dict("records"):
            if row["words"] != Outcome.REFERENCE and row["equal"] != Equality.CERTIFIED:
                wrong[row["implementation"]] = f"{row['equal'] or 'not certified'}"
                if row["equal_why"]:
                    wrong[row["implementation"]] += f": {row['equal_why']}"
        for contest in self._tables.contests:
            for left_out in contest.void:
                for name in left_out.names:
                    wrong[name] = f"{VOID}: {left_out.why}"
        if wrong:
            texts = [f"{name}: {why}" for name, why in wrong.items()]
            return Certificate(False, "; ".join(texts))
        count = len(self.implementations)
        if count < 2:
            return Certificate(False, "there are no two implementations with results")
        return Certificate(True, f"{count} implementations compute the same function")

    def at(self, **choices: str) -> Comparison:
        """The comparisons with these choices, such as ``at(device="cpu_1", model="digits_rnn")``.

        `choices`: axis → its choice; also ``machine`` and ``variant``, as in the columns of
        `frame`. Raises `RnnbenchError` if there is none.
        """
        left = []
        for contest in self._tables.contests:
            row = contest.configuration
            own = {axis: str(row[axis]) for axis in self._axes()}
            if own == {**own, **choices}:
                left.append(contest)
        if not left:
            asked = ", ".join(f"{axis}={choice}" for axis, choice in choices.items())
            raise ConfigError(
                f"there is no comparison with {asked}.",
                where=self._tables.experiment.name,
                remedy=f"choose by {self._differences() or ', '.join(self._axes())}.",
            )
        narrowed = copy.copy(self._tables)
        narrowed.contests = left
        narrowed.device_choices = [
            each for each in self._tables.device_choices if each.best in left and each.other in left
        ]
        groups = {contest.values(narrowed.group_axes) for contest in left}
        narrowed.is_long = self._tables.is_long and len(groups) > 1
        return Comparison(narrowed, self.page)

    def ratio(self, name: str, base: str | None = None) -> Speedup:
        """How many times as fast `name` trains as `base`.

        - `name`: one of the `implementations`.
        - `base`: another one; without it, the reference, which is the first one of `compare`.

        Raises `RnnbenchError` for an unknown name, and if there are several comparisons: choose one
        with `at`.
        """
        contest = self._only()
        for each in (name, name if base is None else base):
            if each not in list(contest.keys):
                raise ConfigError(
                    f"there is no implementation {each!r}.",
                    where=self._tables.experiment.name,
                    remedy=f"{suggestion(str(each), contest.keys)}use {', '.join(contest.keys)}.",
                )
        measured = self._tables.measured
        own_key = contest.keys[name]
        if base is None:
            base_key = measured.against[own_key]
            names = {key: each for each, key in contest.keys.items()}
            base = names.get(base_key) or reference_label(measured.reference) or "nothing"
        else:
            base_key = contest.keys[base]
        if own_key not in measured.groups:
            return Speedup(name, base, math.nan, math.nan, math.nan, VOID)

        result = compared(measured, own_key, base_key)
        value = low = high = math.nan
        if result.outcome == Outcome.REFERENCE:
            value = low = high = 1.0
        elif result.speedup and result.outcome in COMPARED:
            value = result.speedup.estimate
            if result.speedup.low is not None and result.speedup.high is not None:
                low = result.speedup.low
                high = result.speedup.high
        is_suspect = self._has_suspect(own_key) or self._has_suspect(base_key)
        return Speedup(name, base, value, low, high, result.outcome, is_suspect)

    def frame(self) -> pd.DataFrame:
        """The table ``time`` of the page: a row for each configuration with its seconds per epoch
        and its speed-up over the reference, with intervals. The page on tables describes its
        columns."""
        return as_text(self._rows()).reset_index(drop=True)

    def __str__(self) -> str:
        texts = [str(answer) for answer in self._answers()]
        if self.page:
            texts.append(f"The page: {self.page}")
        return "\n".join(texts)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """The answer and the table, for a notebook."""
        return rendered(
            "comparison.html.j2",
            answers=[str(answer) for answer in self._answers()],
            certificate=self.certificate,
            view=time_view(self._tables.regroup(self._rows())),
            page=self.page,
        )

    def _answers(self) -> list[object]:
        """What the first lines of the page say."""
        if self._tables.is_long:
            return [headline(self._tables)]
        return list(answers(self._tables))

    def _rows(self) -> pd.DataFrame:
        """The rows of the time table of the comparisons."""
        keys = set()
        for contest in self._tables.contests:
            keys |= set(contest.keys.values())
        table = self._tables.time
        chosen = [key in keys for key in table[KEY].itertuples(index=False, name=None)]
        return table[chosen]

    def _has_suspect(self, key: Key) -> bool:
        """Whether a configuration has suspect runs."""
        return any(self._tables.measured.groups.get(key, {}).get("suspect", ()))

    def _axes(self) -> list[str]:
        """The axes of a comparison: those that are not compared."""
        compared = {"rnn", "options", "alias", *self._tables.reference}
        return [axis for axis in KEY if axis not in compared]

    def _differing(self) -> list[str]:
        """The axes by which the comparisons differ."""
        rows: list[Mapping[str, object]] = [each.configuration for each in self._tables.contests]
        if len(rows) < 2:
            return []
        return [axis for axis in self._axes() if len({str(row[axis]) for row in rows}) > 1]

    def _differences(self) -> str:
        """``device="cpu_1" or "cpu_2"``: what `at` can choose."""
        texts = []
        for axis in self._differing():
            values = {str(each.configuration[axis]): None for each in self._tables.contests}
            texts.append(f"{axis}={n.few([repr(value) for value in values], 4, ' or ')}")
        return ", ".join(texts)

    def _only(self) -> Contest:
        """The only comparison. Raises `ConfigError` if there are several, or none."""
        contests = self._tables.contests
        where = self._tables.experiment.name
        if not contests:
            remedy = f"measure it: `rnnbench run {where}`."
            raise ConfigError("has no results.", where=where, remedy=remedy)
        if len(contests) > 1:
            raise ConfigError(
                f"has {len(contests)} comparisons.",
                where=where,
                remedy=f"choose one: at({self._differences()}).",
            )
        return contests[0]
