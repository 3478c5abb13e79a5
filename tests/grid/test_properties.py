"""Grids as data: what holds for every grid. Pure Python: no file is read."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rnnbench.grid.compose import Library
from rnnbench.grid.expand import cells_of
from rnnbench.grid.grammar import parse_overrides
from rnnbench.grid.point import AXES, GROUPS, GridPoint, slug

CHOICES = {
    "model": ("a", "b"),
    "cell": ("lstm", "gru"),
    "rnn": ("keras", "cell", "block"),
    "device": ("cpu_1", "cpu_2"),
    "build": ("current",),
    "dataset": ("digits", "mnist"),
}
FIRST = {group: choices[0] for group, choices in CHOICES.items()}
VALUES: dict[str, tuple[Any, ...]] = {
    "model.units": (64, 128, 512),
    "model.optimizer.learning_rate": (0.001, 0.01),
    "measure.warmup_steps": (20, 0),
    "seed": (0, 1),
    "repeat": (0, 1, 2),
    "alias": (None, "again"),
}
DEFAULTS = {key: values[0] for key, values in VALUES.items()}
NEEDED: dict[str, dict[str, Any]] = {
    "model": {"function": "m:f", "data": {"prepare": "m:p"}, "batch": 32, "epochs": 1},
    "rnn": {"implementation": "keras"},
    "device": {"kind": "cpu"},
    "build": {"framework": "keras3_tensorflow"},
    "dataset": {"path": "data/x"},
}
LIBRARY = Library(
    base={"measure": {"warmup_steps": 20}, "seed": 0, "repeat": 0, "alias": None},
    sections={
        (group, choice): {
            **NEEDED.get(group, {}),
            "name": choice,
            "units": 64,
            "optimizer": {"name": "adam", "learning_rate": 0.001},
        }
        for group, choices in CHOICES.items()
        for choice in choices
    },
    defaults={"a": FIRST, "b": {**FIRST, "model": "b", "dataset": "mnist"}},
    model="a",
    files={(group, choice): Path() for group in ("model", "rnn") for choice in CHOICES[group]},
)

Grid = dict[str, list[Any]]


@st.composite
def grids(draw: st.DrawFn) -> Grid:
    everything = {**CHOICES, **VALUES}
    keys = draw(st.lists(st.sampled_from(sorted(everything)), unique=True, min_size=1, max_size=4))
    return {
        key: draw(st.lists(st.sampled_from(everything[key]), min_size=1, max_size=3))
        for key in keys
    }


def cells(*asked: Grid) -> tuple[GridPoint, ...]:
    texts = [
        [
            f"{key}={','.join('null' if v is None else str(v) for v in values)}"
            for key, values in grid.items()
        ]
        for grid in asked
    ]
    return cells_of([parse_overrides(text, "here", lambda _: []) for text in texts], LIBRARY)


def expected(grid: Grid) -> set[tuple[tuple[str, Any], ...]]:
    """The product, each with all defaults written out."""
    full = []
    for values in itertools.product(*grid.values()):
        named = dict(zip(grid, values, strict=True))
        model = named.get("model", "a")
        full.append({**DEFAULTS, **LIBRARY.defaults[model], **named})
    return {tuple(sorted(each.items(), key=lambda item: item[0])) for each in full}


def meant(cell: GridPoint) -> tuple[tuple[str, Any], ...]:
    """A cell written out the same way."""
    config = cell.config
    found: dict[str, Any] = {group: config[group]["name"] for group in GROUPS}
    for key in VALUES:
        value: Any = config
        for part in key.split("."):
            value = value[part]
        found[key] = value
    return tuple(sorted(found.items(), key=lambda item: item[0]))


@settings(max_examples=60, deadline=None)
@given(st.lists(grids(), min_size=1, max_size=3), st.randoms(use_true_random=False))
def test_names_do_not_depend_on_any_order(asked: list[Grid], random: Any) -> None:
    shuffled = []
    for grid in asked:
        items = [(key, random.sample(values, len(values))) for key, values in grid.items()]
        random.shuffle(items)
        shuffled.append(dict(items))
    random.shuffle(shuffled)
    one = {cell.name: cell for cell in cells(*asked)}
    other = {cell.name: cell for cell in cells(*shuffled)}
    assert one == other


@settings(max_examples=60, deadline=None)
@given(st.lists(grids(), min_size=1, max_size=3))
def test_cells_are_the_union_of_the_products_each_once(asked: list[Grid]) -> None:
    found = cells(*asked)
    assert len({cell.name for cell in found}) == len(found)
    assert sorted(map(repr, map(meant, found))) == sorted(
        map(repr, set().union(*map(expected, asked)))
    )


@settings(max_examples=60, deadline=None)
@given(grids())
def test_every_choice_and_override_shows_in_the_name(grid: Grid) -> None:
    for cell in cells(grid):
        parts = cell.name.split("-")
        told = dict(meant(cell))
        own = LIBRARY.defaults[told["model"]]["dataset"]
        assert parts[: len(AXES)] == [told[axis] for axis in AXES]
        assert (told["dataset"] == own) != ("dataset" in cell.choices)
        assert "dataset" not in cell.choices or told["dataset"] == parts[len(AXES)]
        for key in ("model.units", "model.optimizer.learning_rate", "measure.warmup_steps"):
            part = f"{key.rpartition('.')[2]}{slug(told[key])}"
            assert (told[key] != DEFAULTS[key]) == (key in cell.overrides) == (part in parts)
        assert (f"as_{told['alias']}" in parts) == (told["alias"] is not None)
        assert parts[-2:] == [f"s{told['seed']}", f"r{told['repeat']}"]
