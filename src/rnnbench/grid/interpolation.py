"""Resolves interpolations, ``${model.units}``, in a config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rnnbench.errors import ConfigError


def resolved(config: Mapping[str, Any], where: str) -> dict[str, Any]:
    """`config` with all ``${…}`` resolved."""
    try:
        plain = OmegaConf.to_container(OmegaConf.create(dict(config)), resolve=True)
    except OmegaConfBaseException as error:
        raise ConfigError(
            f"an interpolation cannot be resolved: {error}",
            where=where,
            remedy="correct the ${…} in the choice's file or in the override.",
        ) from None
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items()}
