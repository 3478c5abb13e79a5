"""The runtimes of an experiment's predictions: choices of ``conf/runtime``, or YAML files of one's
own. They are no axis: all runtimes answer in turns within one prediction."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from rnnbench.errors import ConfigError, display_path
from rnnbench.grid.choices import RuntimeChoice
from rnnbench.grid.compose import compose_choices
from rnnbench.grid.experiment import RUNTIME, Experiment, known_runtimes
from rnnbench.grid.files import (
    OF_RUNTIME,
    bindings_of,
    check_known,
    file_of,
    files_of,
    name_of_choice,
)
from rnnbench.grid.overrides import Config, key_of, parse_overrides
from rnnbench.grid.values import typed
from rnnbench.records.predictions import ChosenRuntime
from rnnserve import FULL_PRECISION, IMPLEMENTATIONS, OWN, PARTS, precision_of

REMEDY = "see docs/runtimes.md."


def with_runtimes(
    experiment: Experiment, overrides: Sequence[str], conf: Sequence[Path]
) -> tuple[Experiment, list[str]]:
    """`experiment` with the runtimes of the override ``runtime=A,B`` of the command line, if it is
    one of the `overrides`, and the other overrides. Raises `ConfigError`."""
    others = []
    own = []
    for text in overrides:
        key = key_of(text).partition(".")[0]
        if key == RUNTIME:
            own.append(text)
        else:
            others.append(text)
    if not own:
        return experiment, others

    where = "command line"
    settings = parse_overrides(own, where, lambda group: list(files_of(conf, group)))
    for key, setting in settings.items():
        if key != RUNTIME or setting.mode:
            what = f"{setting.written} is not an override of the runtimes."
            raise setting.error(what, f"write {RUNTIME}=A,B; options belong into a file of yours.")
        if experiment.predict is None:
            what = f"{RUNTIME}={','.join(map(str, setting.values))}, but {experiment.name} trains."
            raise setting.error(what, "only experiments with the key predict have runtimes.")
        chosen = known_runtimes(list(map(str, setting.values)), conf, Path.cwd(), where)
        predict = msgspec.structs.replace(experiment.predict, runtimes=chosen)
        experiment = msgspec.structs.replace(experiment, predict=predict)
    return experiment, others


def runtimes_of(chosen: Sequence[str], conf: Sequence[Path]) -> tuple[ChosenRuntime, ...]:
    """The composed runtimes that are `chosen`, as `known_runtimes` returns them. Raises
    `ConfigError` if one is invalid."""
    known = files_of(conf, RUNTIME)
    files = {}
    for each in chosen:
        file = file_of(known, RUNTIME, each, RUNTIME, Path.cwd())
        files[name_of_choice(file)] = file
    sections = compose_choices(conf, {RUNTIME: files}, default_model=True).sections
    found = []
    for name, file in files.items():
        where = display_path(file)
        found.append(_runtime(sections[RUNTIME, name], where))
    first = found[0]
    if first.precision != FULL_PRECISION:
        raise ConfigError(
            f"the others are compared with {first.name}, which has {first.precision}.",
            where=RUNTIME,
            remedy=f"name a runtime in {FULL_PRECISION} first.",
        )
    return tuple(found)


def _runtime(section: Config, where: str) -> ChosenRuntime:
    """The runtime of a composed `section`, which `where` defines."""
    choice = typed(section, RuntimeChoice, lambda key: where, REMEDY)
    _check_implementation(choice.implementation, where)
    try:
        precision_of(choice.options)
    except ValueError as error:
        raise ConfigError(f"has {error}.", where=where, remedy=REMEDY) from None
    return ChosenRuntime(
        name=choice.name,
        implementation=choice.implementation,
        options=choice.options,
    )


def _check_implementation(implementation: str, where: str) -> None:
    """Raises `ConfigError` unless it is one of rnnserve's, or a file with all parts of a runtime.
    The options that it takes are known to the Python that has its packages."""
    if not implementation.endswith(OWN):
        check_known(OF_RUNTIME, implementation, IMPLEMENTATIONS, where)
        return
    bound = bindings_of(Path(implementation))
    for part in PARTS:
        if part not in bound:
            raise ConfigError(
                f"has no {part}.",
                where=implementation,
                remedy=f"add {part}, as described in docs/runtimes.md.",
            )
