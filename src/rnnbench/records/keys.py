"""The keys that match a run with the certificate of its function and with the probe of its device
and build. Keys are safe as file names."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from rnnbench.axes import CERTIFIED_AXES, DOCUMENTATION
from rnnbench.records.overrides import section_of

OF_THE_FUNCTION = (*CERTIFIED_AXES, "dataset", "precision")
# What decides how long and on which samples a model is trained; the sizes of its batches follow
# from the first three.
OF_BATCHES = ("batch", "train_samples", "val_samples")
OF_TRAINING = {
    f"model.{key}" for key in (*OF_BATCHES, "epochs", "optimizer", "metrics", "data_seed")
}
PROBED_AXES = ("device", "build")


def function_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a composed `config` that the function depends on."""
    sections = {name: config.get(name) for name in OF_THE_FUNCTION} | {
        "precision": config.get("precision") or "float32"
    }
    return {
        name: {
            key: value
            for key, value in section.items()
            if key not in DOCUMENTATION and f"{name}.{key}" not in OF_TRAINING
        }
        if isinstance(section, Mapping)
        else section
        for name, section in sections.items()
    }


def certificate_key(choices: Mapping[str, str], config: Mapping[str, Any]) -> str:
    """The key of the certificate of the function: ``digits_rnn-lstm-current-0a1b2c3d4e5f``. It ends
    with a digest of `function_of`; the choices before it are for the reader."""
    digest = _sha256(function_of(config), ensure_ascii=True)[:12]
    return _key([*(choices[axis] for axis in CERTIFIED_AXES if axis in choices), digest])


def function_overrides(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The `overrides` that change the function."""
    return {
        key: value
        for key, value in overrides.items()
        if section_of(key) in OF_THE_FUNCTION
        and ".".join(key.removeprefix("~").split(".")[:2]) not in OF_TRAINING
    }


def probe_key(choices: Mapping[str, str], overrides: Mapping[str, Any]) -> str:
    """The probe's key: ``cpu_1-current``, followed by the overrides of device and build, such as
    ``cpu_1-current-jit_compiletrue``."""
    parts = [choices[axis] for axis in PROBED_AXES if axis in choices]
    for key, value in sorted(probed_overrides(overrides).items()):
        last, text = key.rpartition(".")[2], value if isinstance(value, str) else json.dumps(value)
        parts.append(f"no_{last}" if key.startswith("~") else f"{last}{text}")
    return _key(parts)


def probed_overrides(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The `overrides` that change the device or the build."""
    return {key: value for key, value in overrides.items() if section_of(key) in PROBED_AXES}


def model_digest(config: Mapping[str, Any], without: Iterable[str] = DOCUMENTATION) -> str:
    """SHA-256 of the canonical JSON of a config's sections ``cell`` and ``model``, without the keys
    that only describe them."""
    sections = {
        name: {key: value for key, value in (config.get(name) or {}).items() if key not in without}
        for name in ("cell", "model")
    }
    return _sha256(sections, ensure_ascii=False)


def _sha256(data: Any, ensure_ascii: bool) -> str:
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=ensure_ascii)
    return hashlib.sha256(text.encode()).hexdigest()


def _key(parts: Iterable[str]) -> str:
    return "-".join(re.sub(r"[^A-Za-z0-9_.+=-]+", "_", part) for part in parts)
