"""Keys that match a run with the probe of its device and build."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

SECTIONS = ("device", "build")


def probe_key(choices: Mapping[str, str], overrides: Mapping[str, Any]) -> str:
    """The probe's key: ``cpu_1-current``, followed by the overrides of device and build, such as
    ``cpu_1-current-jit_compiletrue``. It is safe as a file name."""
    parts = [choices[axis] for axis in SECTIONS if axis in choices]
    for key, value in sorted(probed_overrides(overrides).items()):
        last = key.rpartition(".")[2]
        parts.append(f"no_{last}" if key.startswith("~") else f"{last}{_text(value)}")
    return "-".join(re.sub(r"[^A-Za-z0-9_.+=-]+", "_", part) for part in parts)


def probed_overrides(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The `overrides` that change the device or the build."""
    return {
        key: value
        for key, value in overrides.items()
        if key.removeprefix("~").partition(".")[0] in SECTIONS
    }


def model_digest(config: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical JSON of a config's sections ``cell`` and ``model``."""
    sections = {name: config.get(name) for name in ("cell", "model")}
    text = json.dumps(sections, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
