"""What a choice with overrides of its own section is called: by this the cells of a plan, the
implementations of a certificate and the rows of a table find each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rnnworker.options import PREFIX


def in_words(overrides: Mapping[str, Any]) -> str:
    """Last component of the key = value, sorted by key: ``batch=64, units=512``."""
    return ", ".join(f"{key.rpartition('.')[2]}={overrides[key]}" for key in sorted(overrides))


def of_section(overrides: Mapping[str, Any], section: str) -> dict[str, Any]:
    """Those of `overrides` that change the config's `section`."""
    return {
        key: value
        for key, value in overrides.items()
        if key.removeprefix("~").partition(".")[0] == section
    }


def reference_words(reference: Mapping[str, str]) -> str:
    """``keras``, ``keras, implementation=1``: what an experiment's reference names."""
    return ", ".join(
        f"{key.removeprefix(PREFIX)}={choice}" if key.startswith(PREFIX) else choice
        for key, choice in reference.items()
    )


def label(choice: str, overrides: Mapping[str, Any], section: str) -> str:
    """``keras``, or ``cudnn_raw op=CudnnRNNV3`` where `overrides` change its `section`."""
    return labelled(choice, in_words(of_section(overrides, section)))


def labelled(choice: str, options: str) -> str:
    """The same of the `options` in words."""
    return f"{choice} {options}".strip()
