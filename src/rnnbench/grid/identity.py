"""The identity of a run: everything that decides whether it has to be repeated."""

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
    """Computes the identities of many configs. A section that several configs share is sorted and
    serialised once. The identities share it too, so they must not be modified."""

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
            # The default precision is left out, so that records from before the key stay valid.
            if key not in NOT_IN_CONFIG and (key, value) != ("precision", DEFAULT)
        }
        identity = {
            "build_lock": build_lock,
            "config": {key: value for key, (value, _) in parts.items()},
            "dataset_md5": dataset_md5,
            "worker": worker_digest,
        }
        texts = {key: canonical(value) for key, value in identity.items() if key != "config"}
        texts["config"] = _canonical_object({key: text for key, (_, text) in parts.items()})
        return identity, _sha256(_canonical_object(dict(sorted(texts.items()))))


def identity_of(
    config: Mapping[str, Any], dataset_md5: str | None, build_lock: str | None, worker_digest: str
) -> dict[str, Any]:
    """Everything that a run's result depends on, sorted: its config without limits and without
    the documentation keys at the top level of each section, the MD5 of its dataset, the lock of its
    build, and the digest of the worker's code."""
    return Identifier()(config, dataset_md5, build_lock, worker_digest)[0]


def digest_of(identity: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical JSON, in hexadecimal."""
    return _sha256(canonical(identity))


def canonical(data: Any) -> str:
    """JSON with sorted keys and no whitespace. Raises `ValueError` for NaN and infinity."""
    return _ENCODER.encode(data)


def _part(value: Any) -> tuple[Any, str]:
    """A section without its documentation, or another value: sorted, and as canonical JSON."""
    if isinstance(value, Mapping):
        value = {key: item for key, item in value.items() if key not in DOCUMENTATION}
    text = canonical(value)
    return (json.loads(text) if isinstance(value, dict | list) else value), text


def _canonical_object(texts: Mapping[str, str]) -> str:
    """The canonical JSON of an object whose values are serialised already."""
    return "{" + ",".join(f"{_key(key)}:{text}" for key, text in texts.items()) + "}"


_key = functools.cache(canonical)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
