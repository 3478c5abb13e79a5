"""What every cell's config has to fulfil, whichever choices it is made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rnnbench.errors import ConfigError
from rnnbench.grid.dotted_keys import ABSENT, lookup, missing_keys
from rnnbench.grid.precision import check_precision

# Dotted key → the smallest whole number that makes sense. Null is left to whoever reads it.
SMALLEST = {
    "model.batch": 1,
    "model.epochs": 1,
    "model.units": 1,
    "device.threads": 1,
    "measure.warmup_steps": 0,
    "measure.evaluate_calls": 0,
    "measure.predict_calls": 0,
    "limits.members": 1,
    "limits.memory_bytes": 2**27,
}
# Dotted key → the smallest number that makes sense.
SMALLEST_NUMBER = {"measure.warmup_seconds": 0.0}
NEEDED = (
    "model.function",
    "model.data.prepare",
    "model.batch",
    "model.epochs",
    "rnn.implementation",
    "device.kind",
    "build.framework",
    "dataset.path",  # null where the model makes its own data: said, never left out
)
KINDS = ("cpu", "gpu")


def check_complete(config: Mapping[str, Any], where: str) -> None:
    """Raises a `ConfigError` that names a key whose value is still to be given."""
    for key in missing_keys(config):
        raise ConfigError(f"{key} has no value.", where=where, remedy=f"write {key}=VALUE.")


def check_config(config: Mapping[str, Any], where: str, written: Mapping[str, str]) -> None:
    """Raises a `ConfigError` that names the key and the value. `written` says which keys, and
    which groups (``model``), are written elsewhere than in the grid `where`."""

    def place(key: str) -> str:
        return written.get(key) or written.get(key.partition(".")[0]) or where

    for key in NEEDED:
        if lookup(config, key) is ABSENT:
            group, _, rest = key.partition(".")
            raise ConfigError(
                f"{group}={lookup(config, f'{group}.name')} has no {rest}.",
                where=where,
                remedy=f"add {rest} to its file in conf/{group}/, or write +{key}=VALUE.",
            )
    for key, smallest in SMALLEST.items():
        value = lookup(config, key)
        if value is ABSENT or value is None:
            continue
        if type(value) is not int or value < smallest:
            raise ConfigError(
                f"{key} is {value!r}; it must be an integer ≥ {smallest}.",
                where=place(key),
                remedy=f"write {key}={max(smallest, 1)} or more.",
            )
    for key, least in SMALLEST_NUMBER.items():
        value = lookup(config, key)
        if value is ABSENT:
            continue
        if type(value) not in (int, float) or value < least:
            raise ConfigError(
                f"{key} is {value!r}; it must be a number ≥ {least:g}.",
                where=place(key),
                remedy=f"write {key}={least:g} or more.",
            )
    check_precision(config, written.get("precision", where))
    kind = lookup(config, "device.kind")
    if kind not in KINDS:
        raise ConfigError(
            f"device.kind is {kind!r}.",
            where=place("device.kind"),
            remedy=f"one of {', '.join(KINDS)}.",
        )
