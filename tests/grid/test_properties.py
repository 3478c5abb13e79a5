"""Properties of every grid, tested on generated grids. No file is read."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rnnbench.axes import NAMES, REQUIRED
from rnnbench.errors import ConfigError
from rnnbench.grid.compose import Library
from rnnbench.grid.expand import grid_points_of
from rnnbench.grid.overrides import Setting, lookup, parse_overrides
from rnnbench.grid.point import GridPoint, slug
from rnnbench.records.overrides import Overrides

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
REQUIRED_KEYS: dict[str, dict[str, Any]] = {
    "model": {
        **{"function": "m:f", "data": {"prepare": "m:p"}, "batch": 32, "epochs": 1, "units": 64},
        **{"loss": "mse", "recurrent": True},
        "optimizer": {"name": "adam", "learning_rate": 0.001},
    },
    "rnn": {"implementation": "keras"},
    "device": {"kind": "cpu"},
    "build": {"framework": "keras3_tensorflow"},
    "dataset": {"path": "data/x"},
}
LIMITS = ["import", "data", "build", "first_step", "warmup", "train", "evaluate", "predict"]
LIBRARY = Library(
    base={
        "measure": {"warmup_steps": 20, "evaluate_calls": 3, "predict_calls": 3},
        "limits": dict.fromkeys(LIMITS, 60.0),
        **{"precision": "float32", "seed": 0, "repeat": 0, "alias": None},
    },
    sections={
        (group, choice): {**REQUIRED_KEYS.get(group, {}), "name": choice}
        for group, choices in CHOICES.items()
        for choice in choices
    },
    defaults={"a": FIRST, "b": {**FIRST, "model": "b", "dataset": "mnist"}},
    model="a",
    files={(group, choice): Path() for group, choices in CHOICES.items() for choice in choices},
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


def points_of(*grids: Grid) -> tuple[GridPoint, ...]:
    texts = [
        [
            f"{key}={','.join('null' if v is None else str(v) for v in values)}"
            for key, values in grid.items()
        ]
        for grid in grids
    ]
    return grid_points_of([parse_overrides(text, "here", lambda _: []) for text in texts], LIBRARY)


def expected(grid: Grid) -> set[tuple[tuple[str, Any], ...]]:
    """The settings of each grid point of the product, including defaults."""
    combinations = []
    for values in itertools.product(*grid.values()):
        named = dict(zip(grid, values, strict=True))
        model = named.get("model", "a")
        combinations.append({**DEFAULTS, **LIBRARY.defaults[model], **named})
    return {tuple(sorted(settings.items())) for settings in combinations}


def settings_of(point: GridPoint) -> tuple[tuple[str, Any], ...]:
    """The settings in the config of `point`, in the form of `expected`."""
    found: dict[str, Any] = {group: point.config[group]["name"] for group in NAMES}
    found |= {key: lookup(point.config, key) for key in VALUES}
    return tuple(sorted(found.items()))


@settings(max_examples=60)
@given(st.lists(grids(), min_size=1, max_size=3), st.randoms(use_true_random=False))
def test_grid_points_are_the_union_of_the_products_in_any_order(
    original: list[Grid], random: Any
) -> None:
    points = points_of(*original)
    by_name = {point.name: point for point in points}
    assert len(by_name) == len(points)
    assert sorted(map(repr, map(settings_of, points))) == sorted(
        map(repr, set().union(*map(expected, original)))
    )
    shuffled = []
    for grid in original:
        items = [(key, random.sample(values, len(values))) for key, values in grid.items()]
        random.shuffle(items)
        shuffled.append(dict(items))
    random.shuffle(shuffled)
    assert {point.name: point for point in points_of(*shuffled)} == by_name


@settings(max_examples=60)
@given(grids())
def test_the_name_contains_every_choice_and_override(grid: Grid) -> None:
    for point in points_of(grid):
        parts = point.name.split("-")
        values = dict(settings_of(point))
        default = LIBRARY.defaults[values["model"]]["dataset"]
        assert parts[: len(REQUIRED)] == [values[axis] for axis in REQUIRED]
        assert (values["dataset"] == default) != ("dataset" in point.choices)
        assert "dataset" not in point.choices or values["dataset"] == parts[len(REQUIRED)]
        for key in ("model.units", "model.optimizer.learning_rate", "measure.warmup_steps"):
            part = f"{key.rpartition('.')[2]}{slug(values[key])}"
            assert (values[key] != DEFAULTS[key]) == (key in point.overrides) == (part in parts)
        assert (f"as_{values['alias']}" in parts) == (values["alias"] is not None)
        assert parts[-2:] == [f"s{values['seed']}", f"r{values['repeat']}"]


# Values of which some have the same text, or the same characters in a name.
ALIKE = (
    *(True, "True", "true", None, "None", "null", 1, "1", 1.0, "1.0", -1, "a b", "a_b", "a-b"),
    *([], "empty", "", [1, 2], "[1, 2]", "1x2", {"a": 1}, "{'a': 1}", "a1"),
)
WITH_NOTE = replace(
    LIBRARY,
    sections={
        **LIBRARY.sections,
        ("model", "a"): {**REQUIRED_KEYS["model"], "name": "a", "note": None},
    },
)


def points_with(values: Sequence[Any]) -> tuple[GridPoint, ...]:
    """The grid points with each of the values; none if they are refused for being alike."""
    grid = {"model.note": Setting("model.note", "", tuple(values), "here")}
    try:
        return grid_points_of([grid], WITH_NOTE)
    except ConfigError as error:
        assert "two grid points" in error.what
        return ()


def assert_told_apart(values: Sequence[Any]) -> None:
    points = points_with(values)
    different = len(set(map(repr, values)))
    for told_by in ({each.name for each in points}, {Overrides.of(p.overrides) for p in points}):
        assert len(told_by) == len(points) and len(points) in (0, different)


@given(st.lists(st.text("1aé .-_,[", max_size=3), min_size=2, max_size=4))
def test_grid_points_with_other_texts_are_told_apart_or_refused(values: list[str]) -> None:
    assert_told_apart(values)


def test_values_that_look_alike_are_told_apart_or_refused() -> None:
    for pair in itertools.combinations(ALIKE, 2):
        assert_told_apart(pair)
    assert len(points_with([1, "a", None, [2]])) == 4
