"""Checks that apply to the config of every grid point, whichever choices it consists of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rnnbench.errors import ConfigError
from rnnbench.grid.dotted_keys import ABSENT, lookup, missing_keys
from rnnbench.grid.precision import check_precision
from rnnworker.cards import replicas_of

# Dotted key → smallest valid integer; null is valid too.
MIN_INTEGERS = {
    "model.batch": 1,
    "model.epochs": 1,
    "model.units": 1,
    "device.threads": 1,
    "device.replicas": 1,
    "measure.warmup_steps": 0,
    "measure.evaluate_calls": 0,
    "measure.predict_calls": 0,
    "limits.members": 1,
    "limits.memory_bytes": 2**27,
}
MIN_NUMBERS = {"measure.warmup_seconds": 0}
REQUIRED_KEYS = (
    "model.function",
    "model.data.prepare",
    "model.batch",
    "model.epochs",
    "rnn.implementation",
    "device.kind",
    "build.framework",
    "dataset.path",  # null if the model makes its own data, but never absent
)
DEVICE_KINDS = ("cpu", "gpu")
FEEDS = ("host", "device")


def check_complete(config: Mapping[str, Any], where: str) -> None:
    """Raises a `ConfigError` that names the first key whose value is missing (``???``)."""
    for key in missing_keys(config):
        raise ConfigError(f"{key} has no value.", where=where, remedy=f"write {key}=VALUE.")


def check_config(config: Mapping[str, Any], where: str, written: Mapping[str, str]) -> None:
    """Raises a `ConfigError` that names the key and the value. `where`: the grid; `written`: key or
    group (``model``) → its source, if that is not the grid."""

    def source_of(key: str) -> str:
        return written.get(key) or written.get(key.partition(".")[0]) or where

    for key in REQUIRED_KEYS:
        if lookup(config, key) is ABSENT:
            group, _, rest = key.partition(".")
            raise ConfigError(
                f"{group}={lookup(config, f'{group}.name')} has no {rest}.",
                where=where,
                remedy=f"add {rest} to its file in conf/{group}/, or write +{key}=VALUE.",
            )
    for key, minimum in {**MIN_INTEGERS, **MIN_NUMBERS}.items():
        value = lookup(config, key)
        integer = key in MIN_INTEGERS
        if value is ABSENT or (value is None and integer):
            continue
        if type(value) not in ((int,) if integer else (int, float)) or value < minimum:
            raise ConfigError(
                f"{key} is {value!r}; it must be {'an integer' if integer else 'a number'} "
                f"≥ {minimum}.",
                where=source_of(key),
                remedy=f"write {key}={minimum} or more.",
            )
    if lookup(config, "device.feed") == "device" and replicas_of(config["device"]) > 1:
        raise ConfigError(
            "device.feed is 'device', which is for a single device; device.replicas is "
            f"{config['device']['replicas']}.",
            where=source_of("device.feed"),
            remedy="write device.feed=host.",
        )
    check_precision(config, written.get("precision", where))
    for key, valid in {"device.kind": DEVICE_KINDS, "device.feed": FEEDS}.items():
        value = lookup(config, key)
        if value is not ABSENT and value not in valid:
            raise ConfigError(
                f"{key} is {value!r}; it must be one of {', '.join(valid)}.",
                where=source_of(key),
                remedy=f"write {key}={valid[0]} or {key}={valid[1]}.",
            )
