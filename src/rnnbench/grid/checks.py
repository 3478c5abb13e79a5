"""Checks the config of a grid point by the types of its choices, and for what types cannot say."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from rnnbench.axes import NAMES
from rnnbench.errors import ConfigError, suggestion
from rnnbench.grid.choices import Model, TypedConfig, kind_of
from rnnbench.grid.overrides import Config, SourceOf, lookup, replaced
from rnnbench.grid.values import typed
from rnnworker.cards import replicas_of
from rnnworker.options import is_function

AXES_WITHOUT_TYPES = set(NAMES) - set(TypedConfig.__struct_fields__)


def check_config(
    config: Config,
    source_of: SourceOf,
    written: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Raises a `ConfigError` for the first key of a grid point's `config` that is unknown, missing
    or of another type. `source_of`: maps a key to the file or grid that sets it; `written`: the
    keys that overrides set, each with its prefix."""
    _check_misspelt(config["model"], source_of)
    known = {key: value for key, value in config.items() if key not in AXES_WITHOUT_TYPES}
    # What the types cannot say: Keras accepts the name of an optimizer in any case, and
    # `files.check_own_code` checks a loss that is a function.
    optimizer = lookup(config, "model.optimizer.name")
    if isinstance(optimizer, str):
        known = replaced(known, ["model", "optimizer", "name"], optimizer.lower())
    if is_function(config["model"].get("loss")):
        known = replaced(known, ["model", "loss"], None)
    typed(
        known,
        kind_of(config),
        source_of,
        "write another value.",
        written,
    )
    _check_training(config["model"], source_of, written)
    if config["device"].get("feed") == "device" and replicas_of(config["device"]) > 1:
        raise ConfigError(
            "device.feed is 'device', which is for a single device; device.replicas is "
            f"{config['device']['replicas']}.",
            where=source_of("device.feed"),
            remedy=f"write {written.get('device.feed', 'device.feed')}=host.",
        )


def _check_misspelt(model: Config, source_of: SourceOf) -> None:
    """Raises a `ConfigError` for an unknown key that resembles a known key that is absent."""
    known = set(Model.__struct_fields__)
    for key in model:
        if key in known:
            continue
        similar = suggestion(str(key), known - model.keys(), 0.8)
        if similar:
            raise ConfigError(
                f"model has the key {key}, which rnnbench does not read.",
                where=source_of(f"model.{key}"),
                remedy=f"{similar}If the key is yours, give it another name.",
            )


def _check_training(
    model: Config,
    source_of: SourceOf,
    written: Mapping[str, str],
) -> None:
    """Raises a `ConfigError` if a model states one of loss and optimizer without the other, or
    weights of what is not a class."""
    for name in model.get("class_weight") or ():
        if not name.isdecimal():
            example = "class_weight: {0: 1.0, 1: 4.0}"
            if "model.class_weight" in written:
                example = f"'{written['model.class_weight']}={{0:1.0,1:4.0}}'"
            raise ConfigError(
                f"model.class_weight has the class {name}; classes are numbers from 0.",
                where=source_of("model.class_weight"),
                remedy=f"write {example}.",
            )

    has_loss = model.get("loss") is not None
    has_optimizer = model.get("optimizer") is not None
    if has_loss == has_optimizer:
        return
    if has_loss:
        missing = "optimizer"
        example = "'model.optimizer={name:adam,learning_rate:0.001}'"
    else:
        missing = "loss"
        example = "model.loss=mse"

    remedy = (
        f"add {missing}, in a YAML file or as {example}; or leave both out if build compiles "
        "the model."
    )
    if f"model.{missing}" in written:
        remedy = (
            f"remove the override of model.{missing}; loss and optimizer are both null only if "
            "build compiles the model."
        )

    raise ConfigError(
        f"model has no {missing}.",
        where=source_of(f"model.{missing}"),
        remedy=remedy,
    )
