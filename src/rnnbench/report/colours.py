"""One colour per implementation, the same in every figure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

# Okabe and Ito (2008), told apart by readers with colour blindness; without yellow and black,
# one of which is invisible on a light and one on a dark page. For more, grey, Tol's olive (2021)
# and a violet: no ten colours are told apart by everybody.
PALETTE = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"),
    *("#8A8A8A", "#999933", "#8172B3"),
)


def colours(implementations: Iterable[str]) -> Mapping[str, str]:
    """Implementation → colour, by name, so that neither speed nor chance decides; the tenth
    begins again, which is why every mark is also labelled."""
    names = sorted(set(implementations))
    ink = {name: PALETTE[place % len(PALETTE)] for place, name in enumerate(names)}
    # A model without a recurrent layer has no implementation and is called so on the page.
    return {**ink, "model": ink[""]} if "" in ink else ink


def of_these(ink: Mapping[str, str], names: Iterable[str]) -> Mapping[str, str]:
    """The colours of `names` alone, so that a legend lists only what is drawn."""
    wanted = set(names)
    return {name: colour for name, colour in ink.items() if name in wanted}
