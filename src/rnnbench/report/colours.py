"""One colour per implementation, the same in every figure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

# Okabe and Ito (2008), distinguishable with colour blindness; without yellow and black, which are
# invisible on a light or a dark page. Then grey, Tol's olive (2021) and a violet: no ten colours
# are distinguishable for everybody.
PALETTE = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"),
    *("#8A8A8A", "#999933", "#8172B3"),
)

# As many as there are colours.
SHIPPED = ("keras", "block", "cudnn", "unrolled", "cell", "cudnn_raw", "auto", "native", "contrib")


def colours(implementations: Iterable[str]) -> Mapping[str, str]:
    """Implementation → colour. Names in `SHIPPED` have the same colour in every experiment; the
    others get the free colours in alphabetical order. If there are none left, colours repeat, so
    every mark is also labelled."""
    names = set(implementations)
    shipped = zip(SHIPPED, PALETTE, strict=True)
    palette = {name: colour for name, colour in shipped if name in names}
    free = [colour for colour in PALETTE if colour not in palette.values()] or PALETTE
    others = sorted(names - set(SHIPPED))
    palette |= {name: free[number % len(free)] for number, name in enumerate(others)}
    # A model without a recurrent layer has no implementation; the page calls it "model".
    return {**palette, "model": palette[""]} if "" in palette else palette


def of_these(palette: Mapping[str, str], names: Iterable[str]) -> Mapping[str, str]:
    """The colours of `names` only, so that a legend lists only what is drawn."""
    drawn = set(names)
    return {name: colour for name, colour in palette.items() if name in drawn}
