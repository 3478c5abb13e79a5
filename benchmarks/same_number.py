"""Compares all ratios that a page, its Markdown and CSV tables, MLflow, the terminal and the
stopping rule give for the same pair of configurations: each must be the number of the time table.
"""

from __future__ import annotations

import contextlib
import html
import io
import itertools
import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from msgspec import structs

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "src")]

from benchmarks.judging import claims, reads  # noqa: E402
from benchmarks.simulated import Machine, Member, simulate  # noqa: E402
from rnnbench.planning.finished import finished  # noqa: E402
from rnnbench.planning.repeats import known_of, ratios_of  # noqa: E402
from rnnbench.records import timestamps  # noqa: E402
from rnnbench.records.plan_file import Experiment  # noqa: E402
from rnnbench.records.record import Record  # noqa: E402
from rnnbench.report import terminal  # noqa: E402
from rnnbench.report.content import Content  # noqa: E402
from rnnbench.report.page import to_page, to_readme  # noqa: E402
from rnnbench.tables.comparison import versus  # noqa: E402
from rnnbench.tables.estimates import Measurements  # noqa: E402
from rnnbench.tables.frame import tidy  # noqa: E402
from tests.factory import replace  # noqa: E402

STEP = math.log(0.005)  # log seconds per step
NAMES = {
    "rnn": ("keras", "m1", "m2", "m3", "m4"),
    "build": ("old", "new", "newer"),
    "device": ("cpu_1", "cpu_2", "cpu_4"),
}
TIME, COMPARE = "Speed-up and seconds per epoch", "rnnbench compare"
SO_FAR, RULE = "so far", "stopping rule"
Titled = tuple[str, list[list[str]]]  # title and rows of a table
RATIO_SENTENCE = re.compile(
    r"([\d.]+) times as\s+fast[^(]*\((?:one\s+run|([\d.]+)\s+to\s+([\d.]+))\)"
)
RATIO_TEXT = re.compile(r"([\d.]+)×(?: \(([\d.]+)–([\d.]+)\))?")
# Title of a Markdown table → columns of the name, the ratio and its interval, and whether the ratio
# is that of the reference over the named configuration.
TABLES = {
    "Comparison of builds": ("build", "relative time", True),
    "One training by device": ("device", "one training relative time", True),
    "Thread scaling": ("threads", "speed-up", False),
}


class Given(NamedTuple):
    """`place` says that `a` is `ratio` times as fast as `b` for `model`, with an interval or
    without. Values are numbers, or text with fewer digits."""

    place: str
    model: str
    a: str
    b: str
    ratio: Any
    low: Any = ""
    high: Any = ""


def random_grids(random: np.random.Generator, grids: int) -> tuple[list[Record], dict[str, str]]:
    """The records of random grids, which differ in their models, on a machine with bursts where
    members die; and their reference. A grid's configurations differ in the axis that it names. Half
    of the grids extend over several sessions, and in some, one configuration was added later with
    the reference as its companion."""
    axis = str(random.choice(list(NAMES)))
    machine, records = Machine(missing=0.2, bursts=0.05), []
    for number in range(grids):
        count = int(random.integers(2, len(NAMES[axis]), endpoint=True))
        times = {
            Member(**{axis: name}): STEP + random.normal(0, 0.2) for name in NAMES[axis][:count]
        }
        rounds, model = int(random.integers(2, 6)), f"net{number}"
        own = simulate(random, machine, times, rounds, model).records
        if random.random() < 1 / 3:
            late = Member(**{axis: NAMES[axis][-1]})
            base = Member(**{axis: NAMES[axis][0]})
            if late not in times:
                pair = {base: times[base], late: STEP + random.normal(0, 0.2)}
                added = simulate(random, machine, pair, int(random.integers(2, 6)), model).records
                own += [_later(record, axis, NAMES[axis][0]) for record in added]
        if random.random() < 1 / 2:
            own = [_in_sessions(record) for record in own]
        records += own
    return records, {axis: NAMES[axis][0]}


def _later(record: Record, axis: str, base: str) -> Record:
    """The record of a round that was measured six hours later, in which the reference, the choice
    `base` of `axis`, was the companion."""
    is_companion = record.run.choices[axis] == base
    facts = structs.replace(record.round, id=f"{record.round.id}-late", companion=is_companion)
    started = timestamps.read(record.started) + timedelta(hours=6)
    return replace(record, round=facts, started=timestamps.written(started))


def _in_sessions(record: Record) -> Record:
    """Every round begins three quarters of an hour later than planned."""
    started = timestamps.read(record.started) + timedelta(minutes=45 * record.run.repeat)
    return replace(record, started=timestamps.written(started))


def differing_numbers(
    records: Sequence[Record], reference: Mapping[str, str]
) -> tuple[list[tuple[str, str]], list[str]]:
    """(place, explanation) of each ratio that is not the one of the CSV table of times, and the
    places of all ratios. `reference` names the only axis besides the model in which runs differ."""
    ((axis, base),) = reference.items()
    page = Content(records, Experiment("quick", "Quick", "", reference))
    markdown = list(_markdown_tables(to_readme(page)))
    table = pd.read_csv(io.StringIO(page.csv["time"].to_csv(index=False)))
    expected = {}
    for row in table[table["speedup"].notna() & (table[axis] != base)].to_dict("records"):
        ratio, low, high = (row[f"speedup{end}"] for end in ("", "_low", "_high"))
        expected[row["model"], row[axis], base] = ratio, low, high
        expected[row["model"], base, row[axis]] = 1 / ratio, 1 / high, 1 / low
    given = [*_of_tables(page, axis, base), *_of_mlflow(page, records, axis, base)]
    given += [*_of_markdown(markdown, axis, base), *_of_answers(page)]
    given += _of_rounds(records, axis, base)
    measured = Measurements(tidy(records))
    for a, b in dict.fromkeys((each.a, each.b) for each in given):
        of_terminal = _of_terminal(versus(measured, [a], [b]), a, b)
        if base not in (a, b):
            for each in of_terminal:
                if each.place == COMPARE:
                    ratio, low, high = each[4:]
                    expected[each.model, a, b] = (ratio, low, high)
                    expected[each.model, b, a] = tuple(
                        None if value is None else 1 / value for value in (ratio, high, low)
                    )
        given += of_terminal
    found = [
        (each.place, f"{each}, but the table has {expected[each[1:4]]}")
        for each in given
        if not all(map(_agree, each[4:], expected[each[1:4]]))
    ]
    found += [("page", f"no row {row}") for row in _rows_not_on_page(page, markdown)]
    return found, [*(each.place for each in given), "page"]


def _agree(given: Any, expected: float) -> bool:
    if isinstance(given, str):
        return reads(given, expected)
    both_missing = pd.isna(given) and pd.isna(expected)
    return bool(both_missing or math.isclose(given, expected, rel_tol=1e-9))


def _of_tables(page: Content, axis: str, base: str) -> Iterator[Given]:
    """The ratios of other CSV tables than that of times."""
    tables = {"build": ("builds", "cost"), "device": ("cost", "threads")}.get(axis, ())
    for table in tables:
        name = {"builds": "change", "cost": "relative", "threads": "speedup"}[table]
        for row in page.csv[table].to_dict("records"):
            if row[axis] != base and pd.notna(row[name]):
                pair = (row[axis], base) if table == "threads" else (base, row[axis])
                numbers = (row[f"{name}{end}"] for end in ("", "_low", "_high"))
                yield Given(f"{table}.csv", row["model"], *pair, *numbers)


def _of_mlflow(page: Content, records: Sequence[Record], axis: str, base: str) -> Iterator[Given]:
    for record in records:
        name = record.run.choices[axis]
        compared = page.compared.get(record.key)
        if name != base and compared and compared.speedup:
            yield Given("MLflow", record.run.choices["model"], name, base,
                        compared.speedup["speedup"])  # fmt: skip


def _of_rounds(records: Sequence[Record], axis: str, base: str) -> Iterator[Given]:
    """The ratios of "so far" on the terminal, by which the stopping rule decides."""
    by_model: dict[str, list[Record]] = {}
    for record in records:
        by_model.setdefault(record.run.choices["model"], []).append(record)
    for model, own in by_model.items():
        planned = {record.run.configuration: record.run for record in own}
        reference = next(run for run in planned.values() if run.choices[axis] == base)
        runs = finished(own)
        ratios = ratios_of(list(planned.values()), runs, reference.name)
        known = known_of(list(planned.values()), runs, reference.name)
        for configuration, ratio in ratios.items():
            name = planned[configuration].choices[axis]
            yield Given(SO_FAR, model, name, base, ratio.estimate, ratio.low, ratio.high)
            # The ratio to the fastest decides if it is known less well.
            if ratio.low is not None and known[configuration].interval == ratio:
                high = ratio.estimate * (1 + known[configuration].halfwidth)
                yield Given(RULE, model, name, base, ratio.estimate, ratio.low, high)


def _of_markdown(markdown: Sequence[Titled], axis: str, base: str) -> Iterator[Given]:
    for title, (heads, *rows) in markdown:
        if title != TIME and title not in TABLES:
            continue
        of_name, of_ratio, inverted = TABLES.get(title, ("implementation", "speed-up", False))
        for row, (index, head) in itertools.product(rows, enumerate(heads)):
            name = row[heads.index(of_name)].rpartition(" · ")[2]
            if title == TIME and axis == "device":
                name = head.removesuffix(f" {of_ratio}")
            name = f"cpu_{name}" if name.isdigit() else name
            if head.endswith(of_ratio) and name != base and row[index].endswith("×"):
                pair = (base, name) if inverted else (name, base)
                span = re.match(r"([\d.]+)–([\d.]+)", row[index + 1])
                bounds = span.groups() if span else ("", "")
                model, ratio = row[0].partition(" · ")[0], row[index].rstrip("×")
                yield Given(f"Markdown, {title}", model, *pair, ratio, *bounds)


def _of_answers(page: Content) -> Iterator[Given]:
    for answer in page.answers:
        model = re.search(r"\bnet\d+\b", answer.speed_sentence)
        for claim in claims(answer.speed_sentence):
            if claim.ratio and model:
                yield Given("answer", model.group(), *claim[1:])


def _of_terminal(compared: pd.DataFrame, a: str, b: str) -> list[Given]:
    """The ratios of ``rnnbench compare``, as numbers and as printed."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        terminal.print_comparison(compared, [a, b])
        terminal.print_answers(compared)
    rows = compared[compared["ratio"].notna()].to_dict("records")
    pattern = RATIO_SENTENCE if terminal.is_told(compared) else RATIO_TEXT
    texts = pattern.findall(printed.getvalue())
    given = []
    for row, numbers in zip(rows, texts, strict=True):
        given.append(Given(COMPARE, row["same"], a, b, row["ratio"], row["low"], row["high"]))
        first, second = (a, b) if row["ratio"] >= 1 else (b, a)  # it names the faster one first
        given.append(Given("terminal", row["same"], first, second, *numbers))
    return given


def _markdown_tables(text: str) -> Iterator[Titled]:
    """(title, rows of cells) of each table; the first row is the heads."""
    title, rows = "", []
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            rows.append([cell.strip().replace("\\_", "_") for cell in line[1:-1].split(" | ")])
        else:
            if rows:
                yield title, [rows[0], *rows[2:]]
                rows = []
            title = line.lstrip("# ") if line.startswith("#") else title


def _rows_not_on_page(page: Content, markdown: Sequence[Titled]) -> list[list[str]]:
    """Rows of Markdown tables with ratios that the HTML page does not have."""
    on_page = set()
    for row in re.findall(r"<tr.*?</tr>", to_page(page), re.DOTALL):
        cells = re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)
        texts = (html.unescape(re.sub(r"<[^>]+>", "", cell)) for cell in cells)
        on_page.add(tuple(" ".join(text.split()) for text in texts))
    tables = [table for title, table in markdown if title == TIME or title in TABLES]
    rows = [row for _, *rows in tables for row in rows]
    return [row for row in rows if tuple(row) not in on_page and tuple(row[1:]) not in on_page]
