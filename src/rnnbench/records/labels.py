"""Labels of choices with overrides of their own section. They match the grid points of a plan, the
implementations of a certificate and the rows of a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rnnbench.records.overrides import Overrides, is_of_section
from rnnworker.options import PREFIX


def section_overrides(overrides: Mapping[str, Any], section: str) -> dict[str, Any]:
    """The `overrides` that change the config's `section`."""
    return {key: value for key, value in overrides.items() if is_of_section(key, section)}


def reference_label(reference: Mapping[str, str]) -> str:
    """Label of a reference: ``keras``, ``keras implementation=1``, ``keras, cpu_1``."""
    options = {key: reference[key] for key in reference if key.startswith(PREFIX)}
    labels = {axis: choice for axis, choice in reference.items() if not axis.startswith(PREFIX)}
    if options:
        labels["rnn"] = labelled(labels.get("rnn", ""), Overrides.of(options))
    return ", ".join(labels.values())


def label(choice: str, overrides: Mapping[str, Any], section: str) -> str:
    """``keras``, or ``cudnn_raw op=CudnnRNNV3`` if `overrides` change the choice's `section`."""
    return labelled(choice, Overrides.of(section_overrides(overrides, section)))


def labelled(choice: str, overrides: Overrides) -> str:
    """The label of a choice whose section has these `overrides`."""
    return f"{choice} {overrides}".strip()
