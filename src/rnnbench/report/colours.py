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


# As many as there are colours: each keeps its own in every experiment.
SHIPPED = ("keras", "block", "cudnn", "unrolled", "cell", "cudnn_raw", "auto", "native", "contrib")


def colours(implementations: Iterable[str]) -> Mapping[str, str]:
    """Implementation → colour. Those of `SHIPPED` have the same in every experiment; each other
    name the first that is free, in alphabetical order; where none is, colours repeat, which is why
    every mark is also labelled."""
    names = set(implementations)
    known = zip(SHIPPED, PALETTE, strict=True)
    ink = {name: colour for name, colour in known if name in names}
    free = [colour for colour in PALETTE if colour not in ink.values()] or PALETTE
    others = sorted(names - set(SHIPPED))
    ink |= {name: free[place % len(free)] for place, name in enumerate(others)}
    # A model without a recurrent layer has no implementation and is called so on the page.
    return {**ink, "model": ink[""]} if "" in ink else ink


def of_these(ink: Mapping[str, str], names: Iterable[str]) -> Mapping[str, str]:
    """The colours of `names` alone, so that a legend lists only what is drawn."""
    wanted = set(names)
    return {name: colour for name, colour in ink.items() if name in wanted}
