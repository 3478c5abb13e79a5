"""What decides about a rerun."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from rnnworker.precision import DEFAULT

NOT_IN_CONFIG = ("limits",)
DOCUMENTATION = ("about", "source", "requires", "title", "url")


def identity_of(
    config: Mapping[str, Any], dataset_md5: str | None, build_lock: Any, worker_digest: str
) -> dict[str, Any]:
    """Everything a run's result depends on, sorted: its config without limits and without
    what is only documentation (in each section, at its top), its dataset's bytes, what its
    build is locked to, and the worker's code."""
    # Not where it is the default, as before there was a choice.
    if config.get("precision") == DEFAULT:
        config = {key: value for key, value in config.items() if key != "precision"}
    kept = {
        key: _without_documentation(value)
        for key, value in config.items()
        if key not in NOT_IN_CONFIG
    }
    identity = {
        "config": kept,
        "dataset_md5": dataset_md5,
        "build_lock": build_lock,
        "worker": worker_digest,
    }
    return dict(json.loads(canonical(identity)))


def digest_of(identity: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical JSON, in hexadecimal."""
    return hashlib.sha256(canonical(identity).encode()).hexdigest()


def canonical(data: Any) -> str:
    """JSON with sorted keys and no blanks; refuses NaN."""
    return json.dumps(
        data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def _without_documentation(section: Any) -> Any:
    if not isinstance(section, Mapping):
        return section
    return {key: value for key, value in section.items() if key not in DOCUMENTATION}
