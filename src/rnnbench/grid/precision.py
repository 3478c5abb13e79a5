"""Checks the ``precision`` of a config, and whether its device and build support it. No side
effects.

``float32``: every product in float32, TF32 off; ``tf32``: float32 whose products an NVIDIA GPU
(Ampere or later) rounds to TF32; ``mixed_float16`` and ``mixed_bfloat16``: Keras's dtype policies
of these names, with float32 weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rnnbench.errors import ConfigError
from rnnworker.precision import DEFAULT, TOLERANCE, requested_precision

PRECISIONS = tuple(TOLERANCE)
_WITHOUT_POLICY = ("keras206_tensorflow1", "keras2_tensorflow1")


def check_precision(config: Mapping[str, Any], where: str) -> None:
    """Raises a `ConfigError` if the precision is not one of `PRECISIONS`."""
    if requested_precision(config) not in PRECISIONS:
        raise ConfigError(
            f"precision is {config['precision']!r}.",
            where=where,
            remedy=f"write one of {', '.join(PRECISIONS)}.",
        )


def unmet_precision(config: Mapping[str, Any]) -> str | None:
    """Why a run with `config` cannot compute in its precision, or None."""
    precision, framework = requested_precision(config), config["build"].get("framework")
    if precision == DEFAULT:
        return None
    if precision == "tf32":
        if config["device"]["kind"] != "gpu":
            return "TF32 exists on NVIDIA GPUs only"
        if framework in _WITHOUT_POLICY:
            return "TensorFlow 1 has no setting for TF32"
        return None
    if framework in _WITHOUT_POLICY:
        return f"this Keras has no dtype policy {precision}"
    return None
