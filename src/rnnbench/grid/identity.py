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
    """Computes the identities of many runs. A section that several configs share is serialised
    once."""

    def __init__(self) -> None:
        self._text = IdentityCache(lambda section: canonical(_undocumented(section)))

    def __call__(
        self,
        config: Mapping[str, Any],
        dataset_md5: str | None,
        build_lock: str | None,
        worker_digest: str,
    ) -> tuple[dict[str, Any], str]:
        """What identifies the run besides its config, and the digest of both: `digest_of` of their
        `identity_of`."""
        identity = {"build_lock": build_lock, "dataset_md5": dataset_md5, "worker": worker_digest}
        sections = {
            key: self._text(value) if isinstance(value, Mapping) else canonical(value)
            for key, value in sorted(config.items())
            if _identifies(key, value)
        }
        texts = {key: canonical(value) for key, value in identity.items()}
        texts["config"] = _canonical_object(sections)
        return identity, _sha256(_canonical_object(dict(sorted(texts.items()))))


def identity_of(
    config: Mapping[str, Any], dataset_md5: str | None, build_lock: str | None, worker_digest: str
) -> dict[str, Any]:
    """Everything that a result depends on: the config without limits and without the documentation
    keys at the top level of each section, the MD5 of the dataset, the lock of the build, and the
    digest of the worker's code."""
    return {
        "build_lock": build_lock,
        "config": _identifying(config),
        "dataset_md5": dataset_md5,
        "worker": worker_digest,
    }


def full_identity(config: Mapping[str, Any], identity: Mapping[str, Any]) -> dict[str, Any]:
    """The `identity_of` a planned run, given its config and the rest of its identity, or of a
    planned certificate or probe, whose identity has a config already."""
    return {"config": _identifying(config), **identity}


def digest_of(identity: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical JSON, in hexadecimal."""
    return _sha256(canonical(identity))


def canonical(data: Any) -> str:
    """JSON with sorted keys and no whitespace. Raises `ValueError` for NaN and infinity."""
    return _ENCODER.encode(data)


def _identifying(config: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _undocumented(value) if isinstance(value, Mapping) else value
        for key, value in config.items()
        if _identifies(key, value)
    }


def _identifies(key: str, value: Any) -> bool:
    # The default precision is left out, so that records from before the key stay valid.
    return key not in NOT_IN_CONFIG and (key, value) != ("precision", DEFAULT)


def _undocumented(section: Mapping[str, Any]) -> dict[str, Any]:
    return {key: item for key, item in section.items() if key not in DOCUMENTATION}


def _canonical_object(texts: Mapping[str, str]) -> str:
    """The canonical JSON of an object whose values are serialised already."""
    return "{" + ",".join(f"{_key(key)}:{text}" for key, text in texts.items()) + "}"


_key = functools.cache(canonical)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
