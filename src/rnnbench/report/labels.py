"""How configurations are named, coloured and linked on the page."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
from typing import Any

import pandas as pd

from rnnbench.axes import GROUP, NAMES
from rnnbench.records.overrides import Overrides, last_component
from rnnbench.report.numbers import marked
from rnnbench.tables.cost import threads_of
from rnnbench.tables.time import LeftOut

ANCHORED = (
    *("implementation" if name == "rnn" else name for name in NAMES), "variant", "machine",
)  # fmt: skip

NUMBERS = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve"),
)  # fmt: skip

# Okabe and Ito (2008), distinguishable with colour blindness; without yellow and black, which are
# invisible on a light or a dark page. Then grey, Tol's olive (2021) and a violet: no ten colours
# are distinguishable for everybody. These implementations have the same colour everywhere.
COLOURS = {
    "keras": "#0072B2", "block": "#D55E00", "cudnn": "#009E73", "unrolled": "#CC79A7",
    "cell": "#E69F00", "cudnn_raw": "#56B4E9", "auto": "#8A8A8A", "native": "#999933",
    "contrib": "#8172B3",
}  # fmt: skip


def joined(parts: Iterable[Any]) -> str:
    """The `parts` that are not empty: ``mnist_rnn · lstm``."""
    return " · ".join(str(part) for part in parts if part)


def short_group(row: Any, varied: Collection[str], variants: Mapping[Overrides, str]) -> str:
    """The group as named in a sentence: the model, and those other axes that are `varied`:
    ``digits_rnn (gru, units=512)``. `variants`: the `variant_labels` of all groups."""
    named = {**row, "variant": variants.get(row["variant"], row["variant"])}
    rest = ", ".join(str(named[name]) for name in GROUP[1:] if named[name] and name in varied)
    return f"{row['model']} ({rest})" if rest else str(row["model"])


def device_words(device: str, variant: Overrides) -> str:
    """A device as named in a sentence: ``one thread``, ``16 threads``, ```p100```."""
    threads = threads_of(device)
    if threads is None or variant.get("device.threads"):
        return f"`{device}`"
    number = NUMBERS[threads] if threads < len(NUMBERS) else str(threads)
    return f"{number} thread" if threads == 1 else f"{number} threads"


def variant_labels(variants: Iterable[Overrides]) -> dict[Overrides, str]:
    """Variant (``batch=8, epochs=2``) → its label among all `variants`: without the parts that all
    of them have and without values that follow from other keys (``${model.batch}``). A variant
    without any other part is named after the keys of the others: ``default batch``."""
    parts = {variant: variant.texts for variant in variants}
    if len(parts) < 2:
        return {variant: str(variant) for variant in parts}
    common = set.intersection(*map(set, parts.values()))
    own = {
        variant: [each for each in some if each not in common and "${" not in each]
        for variant, some in parts.items()
    }
    keys = {
        last_component(key)
        for variant, some in own.items()
        for (key, _), text in zip(variant.items, variant.texts, strict=True)
        if text in some
    }
    default = f"default {', '.join(sorted(keys))}"
    labels = {variant: ", ".join(some) or default for variant, some in own.items()}
    complete = {variant: str(variant) for variant in parts}
    for candidate in (labels, complete):
        if len(set(candidate.values())) == len(parts):
            return candidate
    return {variant: variant.complete for variant in parts}


def regrouping(
    time_table: pd.DataFrame, reference: Mapping[str, str]
) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """Returns a function that moves the axes of the `reference` that vary in `time_table` (for
    example the build) from the groups of a table to its implementations, sorted by speed, so that
    rows that are compared are in one group. For tables with the columns of a configuration; the
    column `anchor` keeps the links to its runs."""
    axes = [axis for axis in reference if axis in GROUP and time_table[axis].nunique() > 1]
    if not axes:
        return lambda table: table
    named = [*(["implementation"] if time_table["implementation"].nunique() > 1 else []), *axes]

    def names(table: pd.DataFrame) -> list[str]:
        return [", ".join(filter(None, row)) for row in zip(*map(table.get, named), strict=True)]

    medians = time_table["epoch_seconds"].groupby(names(time_table)).median()

    def regroup(table: pd.DataFrame) -> pd.DataFrame:
        moved = {"implementation": names(table), **dict.fromkeys(axes, "")}
        table = table.assign(anchor=configuration_anchors(table), **moved)
        return table.sort_values(
            "implementation", key=lambda column: column.map(medians), kind="stable"
        )

    return regroup


def with_labels(table: pd.DataFrame) -> pd.DataFrame:
    """`table` with the columns `group_name` (``digits_rnn · lstm · current · units=512``; if there
    are several groups, only the axes in which they differ), `column_name` (the device, with its
    machine if the device has several), `shown` (the implementation, with a dagger if a run is
    suspect), `series` (without), `block` (the group, if there are several) and `anchor` (the id of
    its runs on the page)."""
    varied = [name for name in GROUP if table[name].nunique() > 1] or GROUP
    labels = variant_labels(table["variant"])
    named = table.assign(variant=[labels[variant] for variant in table["variant"]])
    groups = list(map(joined, zip(*(named[name].tolist() for name in varied), strict=True)))
    machines = (table.groupby("device")["machine"].nunique() > 1).to_dict()
    devices = [
        (device or "unnamed device") + (f" on {machine}" if machines[device] else "")
        for device, machine in zip(table["device"].tolist(), table["machine"].tolist(), strict=True)
    ]
    series = [name or "model" for name in table["implementation"].tolist()]
    suspect = table["suspect"] if "suspect" in table else [False] * len(table)
    return table.assign(
        group_name=groups,
        block=groups if len(set(groups)) > 1 else "",
        column_name=devices,
        series=series,
        shown=list(map(marked, series, suspect)),
        anchor=table["anchor"] if "anchor" in table else configuration_anchors(table),
    )


def configuration_anchor(cell: Mapping[Any, Any]) -> str:
    """The id of a configuration on one machine: ``cell-digits_rnn-lstm-keras-cpu_1-…``. `cell` has
    the columns `ANCHORED`."""
    return element_id("cell", *(cell[name] for name in ANCHORED))


def configuration_anchors(table: pd.DataFrame) -> list[str]:
    """`configuration_anchor` of each row."""
    columns = (table[name].tolist() for name in ANCHORED)
    return [element_id("cell", *cell) for cell in zip(*columns, strict=True)]


def run_anchor(name: str, machine: str) -> str:
    """The id of a run on one machine."""
    return element_id("run", name, machine)


def element_id(*parts: str | Overrides) -> str:
    """An id, which is also a file name, of A-Z a-z 0-9 and ``_ . - + = , ~``. Different parts have
    different ids, because the encoding can be undone."""
    return "-".join(map(_encoded, parts))


# What labels are made of; another character is encoded by its number.
_SEPARATORS = {", ": ",", "=": "=", " ": "+"}
_PLAIN = re.compile(r", |[A-Za-z0-9_.]|.", re.DOTALL)


@lru_cache(maxsize=32768)  # every table needs the id of each configuration
def _encoded(part: str | Overrides) -> str:
    if isinstance(part, Overrides):
        # Two keys may have the same last component, which their text contains.
        items = [f"{_escaped(key)}={_escaped(value)}" for key, value in part.items]
        return ",".join(items)
    return "".join(_SEPARATORS.get(each) or _escaped(each) for each in _PLAIN.findall(part))


def _escaped(text: str) -> str:
    """`text` with ``~-`` for a hyphen, and the number of any other character that separates."""
    numbered = re.sub("[^A-Za-z0-9_.-]", lambda character: f"~{ord(character[0]):x}~", text)
    return numbered.replace("-", "~-")


def colours(implementations: Iterable[str]) -> Mapping[str, str]:
    """Implementation → colour. Names in `COLOURS` have the same colour in every experiment; the
    others get the free colours in alphabetical order. If there are none left, colours repeat, so
    every mark is also labelled."""
    names = {name or "model" for name in implementations}
    palette = {name: colour for name, colour in COLOURS.items() if name in names}
    every = list(COLOURS.values())
    free = [colour for colour in every if colour not in palette.values()] or every
    others = sorted(names - set(COLOURS), key=lambda name: "" if name == "model" else name)
    return palette | {name: free[number % len(free)] for number, name in enumerate(others)}


def of_these(palette: Mapping[str, str], names: Iterable[str]) -> Mapping[str, str]:
    """The colours of `names` only, so that a legend lists only what is drawn."""
    drawn = set(names)
    return {name: colour for name, colour in palette.items() if name in drawn}


def same_group(reference: Mapping[str, str]) -> list[str]:
    """The axes within which configurations are compared."""
    return [name for name in GROUP if name not in reference]


def left_out_text(left_out: LeftOut) -> str:
    """```block`, `cell` (why)``."""
    names = ", ".join(f"`{name}`" for name in left_out.names)
    return f"{names} ({left_out.why})"
