"""Labels of choices with overrides of their own section. They match the grid points of a plan, the
implementations of a certificate and the rows of a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rnnworker.options import PREFIX

SEPARATOR = ", "


def in_words(overrides: Mapping[str, Any]) -> str:
    """The overrides, sorted by key, each with the key's last component: ``batch=64, units=512``. No
    value contains the separator, so `parts_of` returns the single overrides again."""
    return SEPARATOR.join(
        f"{key.rpartition('.')[2]}={str(overrides[key]).replace(SEPARATOR, ',')}"
        for key in sorted(overrides)
    )


def parts_of(text: Any) -> list[str]:
    """The single overrides (``batch=64``) in the text that `in_words` made."""
    return str(text).split(SEPARATOR) if text else []


def section_overrides(overrides: Mapping[str, Any], section: str) -> dict[str, Any]:
    """The `overrides` that change the config's `section`."""
    return {
        key: value
        for key, value in overrides.items()
        if key.removeprefix("~").partition(".")[0] == section
    }


def reference_label(reference: Mapping[str, str]) -> str:
    """Label of a reference: ``keras``, ``keras implementation=1``, ``keras, cpu_1``."""
    options = in_words({key: reference[key] for key in reference if key.startswith(PREFIX)})
    labels = {axis: choice for axis, choice in reference.items() if not axis.startswith(PREFIX)}
    if options:
        labels["rnn"] = labelled(labels.get("rnn", ""), options)
    return ", ".join(labels.values())


def label(choice: str, overrides: Mapping[str, Any], section: str) -> str:
    """``keras``, or ``cudnn_raw op=CudnnRNNV3`` if `overrides` change the choice's `section`."""
    return labelled(choice, in_words(section_overrides(overrides, section)))


def labelled(choice: str, options: str) -> str:
    """The same from `options` that are already text."""
    return f"{choice} {options}".strip()
