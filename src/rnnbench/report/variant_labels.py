"""Short labels of variants: only what distinguishes them from each other."""

from __future__ import annotations

from collections.abc import Iterable

BRACKETS = (("[", "]"), ("{", "}"), ("(", ")"))


def variant_labels(variants: Iterable[str]) -> dict[str, str]:
    """Variant (``batch=8, epochs=2``) → its label among all `variants`: without the parts that all
    of them have and without values that follow from other keys (``${model.batch}``). A variant
    without any other part is named after the keys of the others: ``default batch``."""
    parts = {variant: variant.split(", ") if variant else [] for variant in variants}
    if len(parts) < 2:
        return {variant: variant for variant in parts}
    common = set.intersection(*map(set, parts.values()))
    own = {
        variant: [each for each in some if not (_is_whole(each) and each in common)]
        for variant, some in parts.items()
    }
    own = {variant: [each for each in some if "${" not in each] for variant, some in own.items()}
    keys = sorted({each.partition("=")[0] for some in own.values() for each in some})
    labels = {
        variant: ", ".join(some) or f"default {', '.join(keys)}" for variant, some in own.items()
    }
    is_unique = len(set(labels.values())) == len(labels)
    return labels if is_unique else {variant: variant for variant in parts}


def _is_whole(part: str) -> bool:
    """Whether `part` is a whole ``key=value``, not a piece of a list that contains commas."""
    balanced = all(part.count(opening) == part.count(closing) for opening, closing in BRACKETS)
    return "=" in part and balanced
