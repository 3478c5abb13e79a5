"""An experiment's reference has to be in its grids: a speed-up relative to nothing is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rnnbench.errors import ConfigError
from rnnbench.grid.catalogue import shown, suggestion
from rnnbench.grid.experiment import Experiment
from rnnbench.grid.grammar import Setting
from rnnworker.options import PREFIX


def check_reference(
    experiment: Experiment,
    grids: Sequence[Mapping[str, Setting]],
    defaults: Mapping[str, Mapping[str, str]],
    default_model: str,
) -> None:
    """Raises a `ConfigError` that names the file, the axis and the choices that the grids have.

    **Arguments:**

    - `grids`: the experiment's own, without what the command line says.
    - `defaults`: model → group → the choice where a grid names none.
    """
    where = shown(experiment.file)
    wanted = {axis: {choice} for axis, choice in experiment.reference.items()}
    having = [
        {axis: _choices(grid, axis, defaults, default_model) for axis in wanted} for grid in grids
    ]
    for axis, choice in experiment.reference.items():
        known = sorted(set().union(*(grid[axis] for grid in having)))
        if choice not in known:
            raise ConfigError(
                f"reference has {axis}={choice}, which no grid has.",
                where=where,
                remedy=f"{suggestion(choice, known)}the grids have {axis}={','.join(known)}.",
            )
    if not any(all(grid[axis] >= wanted[axis] for axis in wanted) for grid in having):
        words = " ".join(f"{axis}={choice}" for axis, choice in experiment.reference.items())
        raise ConfigError(
            f"reference is {words}, and no grid has all of it.",
            where=where,
            remedy="name them in one grid, or name fewer axes.",
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
