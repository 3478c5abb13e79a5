"""Checks that an experiment's grids contain its reference, which speed-ups are relative to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rnnbench.errors import ConfigError
from rnnbench.grid.catalogue import display_path, suggestion
from rnnbench.grid.experiment import Experiment
from rnnbench.grid.grammar import Setting
from rnnworker.options import PREFIX


def check_reference(
    experiment: Experiment,
    grids: Sequence[Mapping[str, Setting]],
    defaults: Mapping[str, Mapping[str, str]],
    default_model: str,
) -> None:
    """Raises a `ConfigError` that names the file, the axis, and the choices in the grids.

    **Arguments:**

    - `grids`: the experiment's grids, without the overrides of the command line.
    - `defaults`: model → group → the choice if a grid names none.
    """
    where = display_path(experiment.file)
    reference = experiment.reference
    choices = [
        {axis: _choices(grid, axis, defaults, default_model) for axis in reference}
        for grid in grids
    ]
    for axis, choice in reference.items():
        known = sorted(set().union(*(grid[axis] for grid in choices)))
        if choice not in known:
            raise ConfigError(
                f"reference has {axis}={choice}, which is not in any grid.",
                where=where,
                remedy=f"{suggestion(choice, known)}the grids have {axis}={','.join(known)}.",
            )
    if not any(all(choice in grid[axis] for axis, choice in reference.items()) for grid in choices):
        text = " ".join(f"{axis}={choice}" for axis, choice in reference.items())
        raise ConfigError(
            f"reference is {text}, but no grid contains all of it.",
            where=where,
            remedy="add a grid that contains all of it, or name fewer axes.",
        )


def _choices(
    grid: Mapping[str, Setting],
    axis: str,
    defaults: Mapping[str, Mapping[str, str]],
    default_model: str,
) -> set[str]:
    if axis in grid:
        return {str(value) for value in grid[axis].values}
    if axis.startswith(PREFIX):
        return set()
    models = grid["model"].values if "model" in grid else (default_model,)
    return {defaults[model][axis] for model in models}
