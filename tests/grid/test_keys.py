"""Every key of every shipped choice with a null, a value of a wrong type and a wrong name; and what
each error about an override says to write, followed to the letter."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest

from rnnbench.axes import NAMES
from rnnbench.errors import ConfigError
from rnnbench.grid import expand as expand_module
from rnnbench.grid.compose import Library, compose_choices
from rnnbench.grid.expand import expand
from rnnbench.grid.experiment import Experiment
from rnnbench.grid.files import files_of
from rnnbench.grid.overrides import keys_of, lookup, same
from rnnbench.grid.point import GridPoint
from tests.conftest import ROOT
from tests.grid.conftest import CONF

FOLDERS = [CONF, ROOT / "tests/conf"]
GROUPS = {group: sorted(files_of(FOLDERS, group)) for group in NAMES}
# Keys whose default is another value, but whose null has a meaning, by their last parts.
NULLS = (
    *("train_samples", "val_samples", "arrays", "kernels", "cells", "requires", "lock", "python"),
    *("threads", "gpu", "file", "members", "memory_bytes", "turns", "alias"),
    *("environment", "jit_compile", "as_published", "replicas", "options", "fault", "class"),
    *("augment", "peak_tflops", "decay", "cpu", "gpu", "lstm", "gru"),
)
# Free texts, numbers or sections: any type of value is a value.
ANYTHING = ("build.environment", "rnn.options")


@functools.cache
def library() -> Library:
    files = {group: files_of(FOLDERS, group) for group in NAMES}
    return compose_choices(FOLDERS, files, True)


@pytest.fixture
def points(monkeypatch: pytest.MonkeyPatch):
    """A function that expands overrides as one grid, with choices that are composed once."""
    monkeypatch.setattr(expand_module, "compose_choices", lambda *_: library())

    def of(*overrides: str, command_line: str = "") -> tuple[GridPoint, ...]:
        experiment = Experiment(name="x", grids=(overrides,), file=Path("x.yaml"))
        return expand(experiment, FOLDERS, [command_line] if command_line else [])

    return of


def refused(points, *overrides: str) -> ConfigError | None:
    try:
        points(*overrides)
    except ConfigError as error:
        assert error.where and error.remedy
        return error
    return None


WRONG: dict[type, tuple[str, ...]] = {
    bool: ("3", "abc", "[[1]]"),
    int: ("abc", "1.5", "true", "[[1]]"),
    float: ("abc", "true", "[[1]]"),
    str: ("17", "true", "[[1]]"),
    list: ("3", "abc", "[[[1]]]"),
    dict: ("3", "abc", "[1]"),
    type(None): ("[[[1]]]",),
}


@pytest.mark.parametrize(("group", "choice"), [(g, c) for g in NAMES for c in GROUPS[g]])
def test_a_null_a_wrong_type_and_a_wrong_name_of_every_key_are_refused(
    group: str, choice: str, points
) -> None:
    grid = [f"{group}={choice}", *(["dataset.path=data/x.npz"] if choice == "file" else [])]
    (point,) = points(*grid)
    sections = NAMES if group == "model" else (group,)
    top = set(point.config) - set(NAMES) if group == "model" else set()
    accepted = []
    for key in keys_of(point.config):
        if key.partition(".")[0] not in {*sections, *top} or key in NAMES or key == "dataset.path":
            continue
        value = lookup(point.config, key)
        if key.startswith(("rnn.kernels.", "build.environment.")):
            continue  # tested with `kernels` and `environment`
        if (
            value is not None
            and key.rpartition(".")[2] not in NULLS
            and not refused(points, *grid, f"{key}=null")
        ):
            accepted.append(f"{key}=null")
        for prefix in ("", "+"):
            if not key.startswith(ANYTHING):
                wrong = f"{prefix}{key}x=1"
                accepted += [] if refused(points, *grid, wrong) else [wrong]
        for text in WRONG[type(value)]:
            if key.startswith(ANYTHING) or key == "alias":
                continue
            accepted += [] if refused(points, *grid, f"{key}={text}") else [f"{key}={text}"]
    assert accepted == []


# The grid, an override with a fault, and what stands for VALUE, CHOICE or A,B in its remedy.
FAULTY = [
    ("", "model.unist=3", "3"),
    ("", "+model.unist=3", "3"),
    ("", "modle.units=3", "3"),
    ("", "+model.batchs=3", "3"),
    ("", "+model.metrcs=[AUC]", "[AUC]"),
    ("", "model.metrics=[AUC]", "[AUC]"),
    ("", "train_samples=3", "3"),
    ("", "model.train_samples=3", "3"),
    ("", "+model.units=3", "3"),
    ("", "+model.dropot=0.2", "0.2"),
    ("model=mnist_mlp", "+model.dropot=0.3", "0.3"),
    ("model=shape_short", "model.layers=2", "2"),
    ("model=shape_short", "+model.words=2", "2"),
    ("", "+x=y", "y"),
    ("", "x=y", "y"),
    ("", "+repeats.most=3", "3"),
    ("", "repeats.most=3", "3"),
    ("", "+reference.rnn=block", "block"),
    ("", "+lead=kernels", "kernels"),
    ("", "rnn.options.implementation=1", "1"),
    ("", "+rnn.options.implementaton=1", "1"),
    ("", "+rnn.implementaton=cell", "cell"),
    ("", "+rnn.activation=relu", "relu"),
    ("", "+rnn.opions.activation=relu", "relu"),
    ("", "+rnn.options.activaton=relu", "relu"),
    ("", "+rnn.options=relu", "relu"),
    ("", "rnn.name=cell", "cell"),
    ("", "+rnn=cell", "cell"),
    ("", "rnn=cel", "cell"),
    ("", "~model.batch", "3"),
    ("", "~model.units", "3"),
    ("", "~measure.warmup_steps", "3"),
    ("", "~seed", "3"),
    ("", "~nothing", "3"),
    ("", "+seed=3", "3"),
    ("", "seed=-1", "3"),
    ("", "+device.treads=2", "2"),
    ("", "device.thread=2", "2"),
    ("", "device.replica=1", "1"),
    ("", "device.replicas=1", "1"),
    ("", "+device.threads=2", "2"),
    ("", "build.jit_compile=true", "true"),
    ("", "build.environmnt.X=1", "1"),
    ("", "+build.enviroment.X=1", "1"),
    ("", "+measure.warmup_step=3", "3"),
    ("", "limits.trian=3", "3"),
    ("", "model.loss=mean_square_error", ""),
    ("", "model.loss=3", "mse"),
    ("", "model.optimizer.name=rmsprp", "rmsprop"),
    ("", "+model.optimizer.rho=1", "0.5"),
    ("", "+model.optimizer.epsilo=1", "0.5"),
    ("", "model.optimizer=adam", "sgd"),
    ("", "precision=half", ""),
    ("", "~modle.units", ""),
    ("", "rnn.options.implementaton=1", "1"),
    ("", "rnn.options.nothing=1", "1"),
    ("", "rnn.implementation=cel", ""),
    ("", "model.units=3 ++model.units=4", "3,4"),
    ("", "+rnn.options.implementation=1 +rnn.options.implementation=2", "1,2"),
    ("", "dataset.path=data/x.npz", "data/x.npz"),
]
COMMAND = re.compile(
    r"(?:write|mean|add|or) ([+~]*[a-z][\w.]*)=(VALUE|CHOICE|A,B|\{.*\}|[^\s?.;]+)"
)
NAMED = re.compile(r"did you mean ([^\s?]+)\?")


def commands_of(remedy: str, faulty: str, value: str) -> list[str]:
    """The overrides that a `remedy` says to write in place of the `faulty` one: commands, or the
    faulty one with the key or the value that it names."""
    found = []
    for key, rest in COMMAND.findall(remedy):
        filled = value if rest in ("VALUE", "CHOICE", "A,B") else rest
        found.append(f"{key.replace('.NAME', '.activation')}={filled}")
    named = NAMED.search(remedy)
    if found or named is None:
        return found
    key, _, old = faulty.partition("=")
    prefix = key.removesuffix(key.lstrip("+~"))
    if "." in named[1]:
        return [f"{prefix}{named[1].lstrip('~')}={old}"]
    return [f"{key}={named[1]}"]


@pytest.mark.parametrize(("grid", "faulty", "value"), FAULTY)
def test_what_a_remedy_says_is_accepted_and_has_an_effect(
    grid: str, faulty: str, value: str, points
) -> None:
    given = grid.split()
    error = refused(points, *given, *faulty.split())
    assert error, "the override is refused"
    untouched = [point.config for point in points(*given, "seed=0")]
    for command in commands_of(error.remedy, faulty.split()[0], value):
        also = re.search(r"add (\S+=\S+)\.", error.remedy)
        written = [faulty, command] if also and command == also[1] else [command]
        changed = [point.config for point in points(*given, *written)]
        assert len(changed) > 1 or not same(changed, untouched), command
