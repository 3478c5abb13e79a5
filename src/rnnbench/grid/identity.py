"""The identity of a run: everything that decides whether it has to be repeated."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from rnnbench.axes import DOCUMENTATION
from rnnworker.precision import DEFAULT

NOT_IN_CONFIG = ("limits",)
_ENCODER = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
)


def identity_of(
    config: Mapping[str, Any], dataset_md5: str | None, build_lock: str | None, worker_digest: str
) -> dict[str, Any]:
    """Everything that a result depends on: the config without limits and without the documentation
    keys at the top level of each section, the MD5 of the dataset, the lock of the build, and the
    digest of the worker's code."""
    rest = {"build_lock": build_lock, "dataset_md5": dataset_md5, "worker": worker_digest}
    return full_identity(config, rest)


def full_identity(config: Mapping[str, Any], identity: Mapping[str, Any]) -> dict[str, Any]:
    """The `identity_of` a planned run, given its config and the rest of its identity, or of a
    planned certificate or probe, whose identity has a config already."""
    # The default precision is left out, so that records from before the key stay valid.
    identifying = {
        key: _undocumented(value) if isinstance(value, Mapping) else value
        for key, value in config.items()
        if key not in NOT_IN_CONFIG and (key, value) != ("precision", DEFAULT)
    }
    return {"config": identifying, **identity}


def digest_of(identity: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical JSON, in hexadecimal."""
    return hashlib.sha256(canonical(identity).encode()).hexdigest()


def digest_of_round(digests: Mapping[str, str]) -> str:
    """The digest of a round, from the digests of its runs by name."""
    return hashlib.sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest()


def canonical(data: Any) -> str:
    """JSON with sorted keys and no whitespace. Raises `ValueError` for NaN and infinity."""
    return _ENCODER.encode(data)


def _undocumented(section: Mapping[str, Any]) -> dict[str, Any]:
    return {key: item for key, item in section.items() if key not in DOCUMENTATION}
