"""What a model choice says of itself, checked when a grid is read: its functions, its loss, its
optimizer, and keys that are nearly those that somebody reads."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import rnnworker
from rnnbench.errors import ConfigError
from rnnbench.grid.catalogue import suggestion
from rnnbench.grid.dotted_keys import MISSING
from rnnbench.grid.python_file import STAR, top_level

# What rnnbench reads of a model; a model's own function may read any other key.
KEYS = (
    *("about", "source", "function", "data", "batch", "epochs", "optimizer", "loss", "metrics"),
    *("recurrent", "units", "train_samples", "val_samples"),
)
DATA_KEYS = ("prepare", "augment")
# Name → the settings of its own, in Keras 3's words. Source: Keras 3, ``keras/src/optimizers``.
OPTIMIZERS: Mapping[str, tuple[str, ...]] = {
    "sgd": ("momentum", "nesterov"),
    "rmsprop": ("rho", "momentum", "epsilon", "centered"),
    "adam": ("beta_1", "beta_2", "epsilon", "amsgrad"),
    "adamw": ("beta_1", "beta_2", "epsilon", "amsgrad"),
    "adamax": ("beta_1", "beta_2", "epsilon"),
    "nadam": ("beta_1", "beta_2", "epsilon"),
    "adagrad": ("initial_accumulator_value", "epsilon"),
    "adadelta": ("rho", "epsilon"),
    "lion": ("beta_1", "beta_2"),
}
EVERY = (
    *("name", "learning_rate", "decay", "weight_decay", "clipnorm", "clipvalue"),
    *("global_clipnorm", "use_ema", "ema_momentum", "ema_overwrite_frequency"),
)
NEAR = 0.8


def check_model(section: Mapping[str, Any], where: str) -> None:
    """Raises a `ConfigError` for a key of the model in the file `where` that cannot be right. A
    value that is still to be given, or interpolated, is left to whoever fills it in."""
    _check_near(section, KEYS, where)
    for key in ("function", "data", "batch", "epochs", "optimizer", "loss", "recurrent"):
        if key not in section:
            raise ConfigError(
                f"has no {key}.",
                where=where,
                remedy=f"add {key}, as conf/model/ has it.",
            )
    if not isinstance(section["recurrent"], bool) and not _is_open(section["recurrent"]):
        raise ConfigError(
            f"recurrent is {section['recurrent']!r}.",
            where=where,
            remedy="write true where the model uses `recurrent`, else false.",
        )
    data = section["data"]
    if not isinstance(data, dict) or "prepare" not in data:
        raise ConfigError(
            "data has no prepare.", where=where, remedy="write data: {prepare: mine.py:prepare}."
        )
    check_optimizer(section["optimizer"], where)
    references = {"function": section["function"]}
    references |= {f"data.{key}": data[key] for key in DATA_KEYS if data.get(key) is not None}
    for key, reference in references.items():
        check_function(key, reference, where)


def check_optimizer(optimizer: Any, where: str) -> None:
    """Raises a `ConfigError` where this is not a name that Keras has, with settings of its."""
    if not isinstance(optimizer, dict) or "name" not in optimizer:
        name = optimizer if isinstance(optimizer, str) else "adam"
        raise ConfigError(
            f"optimizer is {optimizer!r}, not a mapping with a name.",
            where=where,
            remedy=f"write optimizer: {{name: {name}, learning_rate: 0.001}}.",
        )
    name = optimizer["name"]
    if _is_open(name):
        return
    if str(name).lower() not in OPTIMIZERS:
        raise ConfigError(
            f"optimizer has the name {name!r}.",
            where=where,
            remedy=f"{suggestion(str(name), OPTIMIZERS)}one of {', '.join(OPTIMIZERS)}.",
        )
    known = (*EVERY, *OPTIMIZERS[str(name).lower()])
    for key in optimizer:
        if key not in known:
            raise ConfigError(
                f"the optimizer {name} has no {key}.",
                where=where,
                remedy=f"{suggestion(str(key), known)}its settings are {', '.join(known[1:])}.",
            )


def check_function(key: str, reference: Any, where: str) -> None:
    """Raises a `ConfigError` where the file of ``mine.py:name`` or ``package.module:name`` is no
    Python or has no such function; nothing in it is run."""
    if _is_open(reference):
        return
    place, colon, name = str(reference).rpartition(":")
    if not colon:
        raise ConfigError(
            f"{key} is {reference!r}.", where=where, remedy=f"write {key}: mine.py:NAME."
        )
    file = Path(place)
    if not place.endswith(".py"):
        first, *parts = place.split(".")
        if first != rnnworker.__name__:
            return
        file = Path(rnnworker.__file__).parent.joinpath(*parts).with_suffix(".py")
    if not file.is_file():  # its absence is reported where the path is resolved
        return
    names = top_level(file)
    if name not in names and STAR not in names:
        raise ConfigError(
            f"{key}: {file} has no function {name}.",
            where=where,
            remedy=f"{suggestion(name, names)}name one that is there, or add it.",
        )


def _check_near(section: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    """A key that is nearly one that is not there is a slip, and would go unread."""
    for key in section.keys() - set(known):
        near = difflib.get_close_matches(str(key), set(known) - section.keys(), 1, NEAR)
        if near:
            raise ConfigError(
                f"has the key {key}, which rnnbench does not read.",
                where=where,
                remedy=f"did you mean {near[0]}? Else give it a name less like it.",
            )


def _is_open(value: Any) -> bool:
    return value == MISSING or "${" in str(value)
