"""Applies an override of ``dataset`` from the command line.

A choice whose file says ``replaces: NAME`` replaces the data set NAME only, so that one override
can replace several data sets of an experiment. Any other choice replaces every data set.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rnnbench.errors import ConfigError
from rnnbench.grid.compose import Library
from rnnbench.grid.grammar import Setting
from rnnbench.grid.point import GridPoint

Combination = Mapping[str, tuple[Setting, Any]]  # key → (setting, one of its values)


def with_datasets(
    combinations: Iterable[Combination], override: Setting | None, library: Library
) -> Iterator[Combination]:
    """Each of `combinations` with every data set of `override` that may replace its own; unchanged
    if none may, or if there is no override."""
    for combination in combinations:
        chosen = _replacements(_dataset_of(combination, library), override, library)
        yield from ({**combination, "dataset": each} for each in chosen)
        if not chosen:
            yield combination


def check_used(override: Setting | None, points: Iterable[GridPoint], library: Library) -> None:
    """Raises a `ConfigError` if no grid point has a data set of `override`."""
    names = {str(point.config["dataset"]["name"]) for point in points}
    if override is None or names & set(override.values):
        return
    replaced = sorted({str(_replaces(value, library)) for value in override.values})
    raise ConfigError(
        f"dataset={','.join(override.values)} replaces only {', '.join(replaced)}; "
        f"the data sets here are {', '.join(sorted(names))}.",
        where=override.where,
        remedy="remove it from the overrides.",
    )


def _replacements(
    own: str, override: Setting | None, library: Library
) -> list[tuple[Setting, Any]]:
    """The values of `override`, each with it, that may replace the data set `own`."""
    if override is None:
        return []
    return [
        (override, value)
        for value in override.values
        if value == own or _replaces(value, library) in (None, own)
    ]


def _dataset_of(combination: Combination, library: Library) -> str:
    if "dataset" in combination:
        return str(combination["dataset"][1])
    model = combination["model"][1] if "model" in combination else library.model
    return library.defaults[model]["dataset"]


def _replaces(choice: str, library: Library) -> str | None:
    """The data set that `choice` replaces; None if it replaces every one."""
    return library.sections["dataset", choice].get("replaces")
