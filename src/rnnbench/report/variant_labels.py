"""Short labels of variants: only what distinguishes them from each other."""

from __future__ import annotations

from collections.abc import Iterable

from rnnbench.records.labels import parts_of


def variant_labels(variants: Iterable[str]) -> dict[str, str]:
    """Variant (``batch=8, epochs=2``) → its label among all `variants`: without the parts that all
    of them have and without values that follow from other keys (``${model.batch}``). A variant
    without any other part is named after the keys of the others: ``default batch``."""
    parts = {variant: parts_of(variant) for variant in variants}
    if len(parts) < 2:
        return {variant: variant for variant in parts}
    common = set.intersection(*map(set, parts.values()))
    own = {
        variant: [each for each in some if each not in common and "${" not in each]
        for variant, some in parts.items()
    }
    keys = sorted({each.partition("=")[0] for some in own.values() for each in some})
    labels = {
        variant: ", ".join(some) or f"default {', '.join(keys)}" for variant, some in own.items()
    }
    is_unique = len(set(labels.values())) == len(labels)
    return labels if is_unique else {variant: variant for variant in parts}
