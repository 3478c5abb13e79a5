"""What a configuration requires of a certificate: the function that its model computes, and the
sizes of its batches."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from rnnbench.axes import CERTIFIED_AXES, DOCUMENTATION

SECTIONS = (*CERTIFIED_AXES, "dataset", "precision")
# Keys of the model that decide how long and on which samples it is trained. The certificate tests
# the sizes of batches that follow from `OF_BATCHES`.
OF_BATCHES = ("batch", "train_samples", "val_samples")
OF_TRAINING = (*OF_BATCHES, "epochs", "optimizer", "metrics", "data_seed")


def function_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a composed `config` that the function depends on."""
    sections = {name: config.get(name) for name in SECTIONS}
    return {
        **{name: _identifying(name, section) for name, section in sections.items()},
        "precision": sections["precision"] or "float32",
    }


def certificate_key(choices: Mapping[str, str], config: Mapping[str, Any]) -> str:
    """The key of the certificate of the function: ``digits_rnn-lstm-current-0a1b2c3d4e5f``. It ends
    with a digest of `function_of`; the choices before it are for the reader."""
    text = json.dumps(function_of(config), sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    parts = [choices[axis] for axis in CERTIFIED_AXES if axis in choices]
    return "-".join(re.sub(r"[^A-Za-z0-9_.+=-]+", "_", part) for part in (*parts, digest))


def function_overrides(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The `overrides` that change the function."""
    return {key: value for key, value in overrides.items() if _is_of_function(key)}


def _is_of_function(key: str) -> bool:
    section, *inside = key.removeprefix("~").split(".")
    return section in SECTIONS and not (inside and _is_of_training(section, inside[0]))


def _is_of_training(section: str, key: str) -> bool:
    return section == "model" and key in OF_TRAINING


def _identifying(name: str, section: Any) -> Any:
    if not isinstance(section, Mapping):
        return section
    return {
        key: value
        for key, value in section.items()
        if key not in DOCUMENTATION and not _is_of_training(name, key)
    }
