"""What decides about a rerun."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from rnnbench.grid.identity_cache import IdentityCache
from rnnworker.precision import DEFAULT

NOT_IN_CONFIG = ("limits",)
DOCUMENTATION = ("about", "source", "requires", "cells", "title", "url")
_ENCODER = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
)


class Identifier:
    """Identities of many configs. What the cells of a grid share of their configs is sorted and
    written once; the identities share it too, and are for reading only."""

    def __init__(self) -> None:
        self._part = IdentityCache(_part)

    def __call__(
        self,
        config: Mapping[str, Any],
        dataset_md5: str | None,
        build_lock: str | None,
        worker_digest: str,
    ) -> tuple[dict[str, Any], str]:
        """The identity (see `identity_of`) and its digest (see `digest_of`)."""
        parts = {
            key: self._part(value) if isinstance(value, Mapping) else _part(value)
            for key, value in sorted(config.items())
            # Not where it is the default, as before there was a choice.
            if key not in NOT_IN_CONFIG and (key, value) != ("precision", DEFAULT)
        }
        identity = {
            "build_lock": build_lock,
            "config": {key: value for key, (value, _) in parts.items()},
            "dataset_md5": dataset_md5,
            "worker": worker_digest,
        }
        written = {key: canonical(value) for key, value in identity.items() if key != "config"}
        written["config"] = _written({key: text for key, (_, text) in parts.items()})
        return identity, _sha256(_written(dict(sorted(written.items()))))


def identity_of(
    config: Mapping[str, Any], dataset_md5: str | None, build_lock: str | None, worker_digest: str
) -> dict[str, Any]:
    """Everything a run's result depends on, sorted: its config without limits and without
    what is only documentation (in each section, at its top), its dataset's bytes, what its
    build is locked to, and the worker's code."""
    return Identifier()(config, dataset_md5, build_lock, worker_digest)[0]


def digest_of(identity: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical JSON, in hexadecimal."""
    return _sha256(canonical(identity))


def canonical(data: Any) -> str:
    """JSON with sorted keys and no blanks; refuses NaN."""
    return _ENCODER.encode(data)


def _part(value: Any) -> tuple[Any, str]:
    """What of a section or of another value counts, sorted, and its canonical text."""
    if isinstance(value, Mapping):
        value = {key: item for key, item in value.items() if key not in DOCUMENTATION}
    text = canonical(value)
    return (json.loads(text) if isinstance(value, dict | list) else value), text


def _written(texts: Mapping[str, str]) -> str:
    """The canonical text of an object whose values are written already."""
    return "{" + ",".join(f"{_key(key)}:{text}" for key, text in texts.items()) + "}"


_key = functools.cache(canonical)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
