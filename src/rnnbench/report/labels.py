"""How configurations are named, coloured and linked on the page."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import pandas as pd

from rnnbench.axes import GROUP, NAMES
from rnnbench.records.overrides import Overrides, last_component
from rnnbench.records.record import Record
from rnnbench.report.numbers import Row, marked
from rnnbench.tables.contests import LeftOut
from rnnbench.tables.frame import varying
from rnnbench.tables.scaling import threads_of

# The columns that identify a configuration on one machine.
ANCHORED = ["implementation" if name == "rnn" else name for name in NAMES] + ["variant", "machine"]
SEPARATOR = " · "
DRAWN = 12  # figures of a section; its tables have all rows
NUMBERS = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
]

# Okabe and Ito (2008), distinguishable with colour blindness; without yellow and black, which are
# invisible on a light or a dark page. Then grey, Tol's olive (2021) and a violet: no ten colours
# are distinguishable for everybody. These implementations have the same colour everywhere.
COLOURS = {
    "keras": "#0072B2",
    "block": "#D55E00",
    "cudnn": "#009E73",
    "unrolled": "#CC79A7",
    "cell": "#E69F00",
    "cudnn_raw": "#56B4E9",
    "auto": "#8A8A8A",
    "native": "#999933",
    "contrib": "#8172B3",
}


def joined(parts: Iterable[Any], separator: str = SEPARATOR) -> str:
    """The `parts` that are not empty: ``mnist_rnn · lstm``."""
    return separator.join(str(part) for part in parts if part)


def short_group(row: Any, varied: Collection[str], variants: Mapping[Overrides, str]) -> str:
    """The group as named in a sentence: the model, and those other axes that are `varied`:
    ``digits_rnn (gru, units=512)``.

    - `row`: has the columns of a group.
    - `variants`: the `variant_labels` of all groups.
    """
    rest = []
    for name in GROUP[1:]:
        if name in varied:
            rest.append(variants.get(row[name], row[name]))
    text = joined(rest, ", ")
    if text:
        return f"{row['model']} ({text})"
    return str(row["model"])


def threads_in_words(device: str, variant: Overrides) -> int | None:
    """The threads of a device that is named after them; None for another one.

    - `device`: its name, such as ``cpu_2``.
    - `variant`: its overrides, which may set another number of threads.
    """
    if variant.get("device.threads"):
        return None
    return threads_of(device)


def device_words(device: str, variant: Overrides) -> str:
    """A device as named in a sentence: ``one thread``, ``16 threads``, ```p100```.

    `device`, `variant`: see `threads_in_words`.
    """
    threads = threads_in_words(device, variant)
    if threads is None:
        return f"`{device}`"
    number = str(threads)
    if threads < len(NUMBERS):
        number = NUMBERS[threads]
    return f"{number} thread" if threads == 1 else f"{number} threads"


def variant_labels(variants: Iterable[Overrides]) -> dict[Overrides, str]:
    """Variant → its label among all `variants`: ``batch=8, epochs=2``.

    A label leaves out what all variants have, and values that follow from other keys
    (``${model.batch}``). A variant without any other part is named after the keys of the others:
    ``default batch``. If labels were the same, they have all parts.
    """
    distinct = list(dict.fromkeys(variants))
    complete = {variant: str(variant) for variant in distinct}
    if len(distinct) < 2:
        return complete
    common = set(distinct[0].texts)
    for variant in distinct:
        common &= set(variant.texts)

    labels = {}
    keys = set()
    for variant in distinct:
        own = []
        for (key, _), text in zip(variant.items, variant.texts, strict=True):
            if text not in common and "${" not in text:
                own.append(text)
                keys.add(last_component(key))
        labels[variant] = ", ".join(own)
    default = f"default {', '.join(sorted(keys))}"
    for variant in distinct:
        labels[variant] = labels[variant] or default
    for candidate in (labels, complete):
        if len(set(candidate.values())) == len(distinct):
            return candidate
    return {variant: variant.complete for variant in distinct}


def regrouped(
    table: pd.DataFrame,
    time_table: pd.DataFrame,
    reference: Mapping[str, str],
) -> pd.DataFrame:
    """`table` with the axes of the `reference` that vary, for example the build, among the
    implementations instead of the groups. Rows that are compared are then in one group.

    - `table`: has the columns of a configuration. The result is sorted by speed, and its column
      `anchor` keeps the links to the runs.
    - `time_table`: says which axes vary, and how fast each implementation is.
    """
    varied = varying(time_table, GROUP)
    axes = [axis for axis in reference if axis in varied]
    if not axes:
        return table
    named = list(axes)
    if time_table["implementation"].nunique() > 1:
        named.insert(0, "implementation")

    timed = _joined_columns(time_table, named)
    medians = time_table["epoch_seconds"].groupby(timed).median()
    moved = table.assign(
        anchor=[configuration_anchor(row) for row in table.to_dict("records")],
        implementation=_joined_columns(table, named),
    )
    moved[axes] = ""
    return moved.sort_values("implementation", key=lambda names: names.map(medians), kind="stable")


def _joined_columns(table: pd.DataFrame, names: Sequence[str]) -> list[str]:
    """The texts of the columns `names` of each row that are not empty: ``keras, tf_2_21``."""
    rows = table[list(names)].itertuples(index=False, name=None)
    return [joined(row, ", ") for row in rows]


def with_labels(table: pd.DataFrame) -> pd.DataFrame:
    """`table`, which has the columns of a configuration, with their labels:

    - `group_name`: ``digits_rnn · lstm · current · units=512``; if there are several groups, only
      the axes in which they differ. `block`: the same if there are several, else ``""``.
    - `column_name`: the device, with its machine if the device has several.
    - `series`: the implementation. `shown`: the same, with a dagger if a run is suspect.
    - `anchor`: the id of its runs on the page.
    """
    varied = varying(table, GROUP) or GROUP
    variants = variant_labels(table["variant"])
    machines = table.groupby("device")["machine"].nunique()
    series = table["implementation"].replace("", "model")

    groups = []
    devices = []
    shown = []
    anchors = []
    for row, name in zip(table.to_dict("records"), series, strict=True):
        anchors.append(row.get("anchor") or configuration_anchor(row))
        group = {**row, "variant": variants[row["variant"]]}
        groups.append(joined(group[axis] for axis in varied))
        device = row["device"] or "unnamed device"
        if machines[row["device"]] > 1:
            device += f" on {row['machine']}"
        devices.append(device)
        shown.append(marked(name, row.get("suspect", False)))

    return table.assign(
        group_name=groups,
        block=groups if len(set(groups)) > 1 else "",
        column_name=devices,
        series=series,
        shown=shown,
        anchor=anchors,
    )


def first_places(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of the first `DRAWN` pairs of `group_name` and `column_name`, which get a figure."""
    place = table.groupby(["group_name", "column_name"], sort=False).ngroup()
    return table[place < DRAWN]


def configuration_anchor(cell: Row) -> str:
    """The id of a configuration on one machine: ``cell-digits_rnn-lstm-keras-cpu_1-…``.

    `cell`: has the columns `ANCHORED`.
    """
    return element_id("cell", *(cell[name] for name in ANCHORED))


def run_anchor(run: Record) -> str:
    """The id of a run on one machine."""
    return element_id("run", run.name, run.machine)


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
    encoded = ""
    for each in _PLAIN.findall(part):
        encoded += _SEPARATORS.get(each) or _escaped(each)
    return encoded


def _escaped(text: str) -> str:
    """`text` with ``~-`` for a hyphen, and the number of any other character that separates."""
    numbered = re.sub("[^A-Za-z0-9_.-]", lambda character: f"~{ord(character[0]):x}~", text)
    return numbered.replace("-", "~-")


def colours(implementations: Iterable[str]) -> dict[str, str]:
    """Implementation → colour, for all `implementations`; ``""`` is called ``model``.

    Names in `COLOURS` have the same colour in every experiment; the others get the free colours in
    alphabetical order. If there are none left, colours repeat, so every mark is also labelled.
    """
    names = {name or "model" for name in implementations}
    palette = {name: colour for name, colour in COLOURS.items() if name in names}
    free = [colour for name, colour in COLOURS.items() if name not in names]
    if not free:
        free = list(COLOURS.values())

    others = sorted(names - {*COLOURS, "model"})
    if "model" in names:
        others.insert(0, "model")
    for number, name in enumerate(others):
        palette[name] = free[number % len(free)]
    return palette


def left_out_text(left_out: LeftOut) -> str:
    """```block`, `cell` (why)``.

    `left_out`: the configurations that are not compared for one reason.
    """
    names = ", ".join(f"`{name}`" for name in left_out.names)
    return f"{names} ({left_out.why})"
