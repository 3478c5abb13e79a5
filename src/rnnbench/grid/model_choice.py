"""Checks a model choice when a grid is read: its functions, its loss, its optimizer, and keys that
look like misspellings of known ones."""

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

# The keys of a model that rnnbench reads; the model's functions may read any other key.
KEYS = (
    *("about", "source", "function", "data", "batch", "epochs", "optimizer", "loss", "metrics"),
    *("recurrent", "units", "train_samples", "val_samples"),
)
DATA_KEYS = ("prepare", "augment")
# Name → the settings specific to it, as Keras 3 names them. Source: ``keras/src/optimizers``.
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
COMMON_SETTINGS = (
    *("name", "learning_rate", "decay", "weight_decay", "clipnorm", "clipvalue"),
    *("global_clipnorm", "use_ema", "ema_momentum", "ema_overwrite_frequency"),
)
SIMILARITY_CUTOFF = 0.8


def check_model(section: Mapping[str, Any], where: str) -> None:
    """Raises a `ConfigError` for an invalid key of the model in the file `where`. Values that are
    missing (``???``) or interpolated are not checked."""
    _check_misspelt(section, where)
    for key in ("function", "data", "batch", "epochs", "optimizer", "loss", "recurrent"):
        if key not in section:
            raise ConfigError(
                f"has no {key}.",
                where=where,
                remedy=f"add {key}, as in the files of conf/model/.",
            )
    if not isinstance(section["recurrent"], bool) and not _is_open(section["recurrent"]):
        raise ConfigError(
            f"recurrent is {section['recurrent']!r}; it must be true or false.",
            where=where,
            remedy="write true if the model calls `recurrent`, else false.",
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
    """Raises a `ConfigError` if `optimizer` is not a mapping with the name of an optimizer of Keras
    and settings of that optimizer."""
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
            f"optimizer has the unknown name {name!r}.",
            where=where,
            remedy=f"{suggestion(str(name), OPTIMIZERS)}the optimizers are "
            f"{', '.join(OPTIMIZERS)}.",
        )
    known = (*COMMON_SETTINGS, *OPTIMIZERS[str(name).lower()])
    for key in optimizer:
        if key not in known:
            raise ConfigError(
                f"the optimizer {name} has no setting {key}.",
                where=where,
                remedy=f"{suggestion(str(key), known)}its settings are {', '.join(known[1:])}.",
            )


def check_function(key: str, reference: Any, where: str) -> None:
    """Raises a `ConfigError` if the file of ``mine.py:name`` or ``package.module:name`` is not
    valid Python or has no such function. The file is not executed."""
    if _is_open(reference):
        return
    module, colon, name = str(reference).rpartition(":")
    if not colon:
        raise ConfigError(
            f"{key} is {reference!r}.", where=where, remedy=f"write {key}: mine.py:NAME."
        )
    file = Path(module)
    if not module.endswith(".py"):
        first, *parts = module.split(".")
        if first != rnnworker.__name__:
            return
        file = Path(rnnworker.__file__).parent.joinpath(*parts).with_suffix(".py")
    if not file.is_file():  # `absolute_file` reports a missing file
        return
    names = top_level(file)
    if name not in names and STAR not in names:
        raise ConfigError(
            f"{key}: {file} has no function {name}.",
            where=where,
            remedy=f"{suggestion(name, names)}name a function of that file, or add this one.",
        )


def _check_misspelt(section: Mapping[str, Any], where: str) -> None:
    """Raises a `ConfigError` for an unknown key that resembles a known key that is absent."""
    for key in section.keys() - set(KEYS):
        absent = set(KEYS) - section.keys()
        similar = difflib.get_close_matches(str(key), absent, 1, SIMILARITY_CUTOFF)
        if similar:
            raise ConfigError(
                f"has the key {key}, which rnnbench does not read.",
                where=where,
                remedy=f"did you mean {similar[0]}? Otherwise choose a less similar name.",
            )


def _is_open(value: Any) -> bool:
    return value == MISSING or "${" in str(value)
