"""Short labels of variants: only what distinguishes them from each other."""

from __future__ import annotations

from collections.abc import Iterable

from rnnbench.records.overrides import Overrides, last_component


def variant_labels(variants: Iterable[Overrides]) -> dict[Overrides, str]:
    """Variant (``batch=8, epochs=2``) → its label among all `variants`: without the parts that all
    of them have and without values that follow from other keys (``${model.batch}``). A variant
    without any other part is named after the keys of the others: ``default batch``."""
    parts = {variant: variant.texts for variant in variants}
    if len(parts) < 2:
        return {variant: str(variant) for variant in parts}
    common = set.intersection(*map(set, parts.values()))
    own = {
        variant: [each for each in some if each not in common and "${" not in each]
        for variant, some in parts.items()
    }
    keys = sorted(
        {
            last_component(key)
            for variant, some in own.items()
            for (key, _), text in zip(variant.items, variant.texts, strict=True)
            if text in some
        }
    )
    labels = {
        variant: ", ".join(some) or f"default {', '.join(keys)}" for variant, some in own.items()
    }
    is_unique = len(set(labels.values())) == len(labels)
    return labels if is_unique else {variant: str(variant) for variant in parts}
