"""Checks whether a config can train on several devices at once (``device.replicas``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rnnworker.cards import replicas_of

FRAMEWORKS = ("keras3_tensorflow", "keras2_tensorflow2")


def unmet_replicas(config: Mapping[str, Any]) -> str | None:
    """Why `config` cannot train on the replicas of its device, or None."""
    replicas = replicas_of(config["device"])
    if replicas == 1:
        return None
    framework, batch = config["build"]["framework"], config["model"]["batch"]
    if framework not in FRAMEWORKS:
        return (
            f"{framework} trains on one device here; "
            "choose a build of TensorFlow 2, which has tf.distribute.MirroredStrategy"
        )
    if config["build"].get("jit_compile"):
        return "XLA compiles a step for one device; choose a build without jit_compile"
    if batch % replicas:
        below = batch - batch % replicas
        choices = " or ".join(str(size) for size in (below, below + replicas) if size)
        return (
            f"a batch of {batch} cannot be split evenly among {replicas} replicas; "
            f"choose model.batch={choices}"
        )
    return None
