"""What a card did during training, from two samples of it, and when that makes a run suspect. No
side effects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from rnnbench.records.measured import CardUse
from rnnbench.records.record import Epoch, Reason
from rnnbench.running.worker import Events

HEAT_SHARE = 0.01  # of the training, in which the clocks were reduced


class CardState(msgspec.Struct):
    """A sample of a card (`rnnworker.cards.CardState.read`), None for what it does not report.

    - `t`: monotonic seconds.
    - `joules`: since the driver was loaded.
    - `thermal_s`, `power_s`: seconds so far with clocks reduced by heat or the power limit.
    - `ecc`: uncorrected errors since boot; `memory_bytes`: in use.
    - `others`: the number of other processes that compute on the card.
    - `slowed`: reasons for reduced clocks.
    - `further`: the samples of the run's other cards.
    """

    t: float
    joules: float | None = None
    thermal_s: float | None = None
    power_s: float | None = None
    ecc: int | None = None
    others: int | None = None
    celsius: float | None = None
    memory_bytes: int | None = None
    sm_mhz: float | None = None
    memory_mhz: float | None = None
    slowed: list[str] | None = None
    further: list[CardState] = []


def card_use(events: Events, epochs: Sequence[Epoch]) -> dict[str, Any]:
    """Facts for ``measured``. Empty if the card was not sampled or the training had several turns.

    - `events`: what the worker reported, with the samples.
    - `epochs`: of the run.

    Of several cards: the sum of energy and errors, the largest share, temperature and memory, the
    lowest clocks, the reasons of any; a sum is None if a card does not report its part.

    - `joules_per_sample` and `card_watts`: over the whole training with its validations.
    - `card_use`: `seconds` between the two samples; `joules`; the shares of the seconds in which
      `heat` and the `power_limit` reduced the clocks; new `ecc` errors; the larger value of both
      samples for `others` (other processes), `celsius` and `memory_bytes`; `sm_mhz` and
      `memory_mhz` before and after; `slowed`: reasons for reduced clocks in either sample. Values
      that the card does not report are None.
    """
    turns = [event for event in events if event["event"] == "turn"]
    samples = [turn.get("card") for turn in turns if turn.get("phase") == "train"]
    try:
        ((first, last),) = msgspec.convert(samples, list[tuple[CardState, CardState]])
    except ValueError:  # no card, several turns or a malformed sample
        return {}
    seconds = last.t - first.t
    if seconds <= 0:
        return {}
    before = [first, *first.further]
    after = [last, *last.further]
    both = before + after

    joules = _total(_grown(before, after, "joules"))
    use = {
        "seconds": seconds,
        "joules": joules,
        "heat": _share(_grown(before, after, "thermal_s"), seconds),
        "power_limit": _share(_grown(before, after, "power_s"), seconds),
        "ecc": _total(_grown(before, after, "ecc")),
    }
    for name in ("others", "celsius", "memory_bytes"):
        use[name] = max(_known(both, name), default=None)
    for name in ("sm_mhz", "memory_mhz"):
        use[name] = [min(_known(states, name), default=None) for states in (before, after)]
    use["slowed"] = sorted(set().union(*_known(both, "slowed")))

    watts = per_sample = None
    if joules is not None:
        watts = joules / seconds
        samples_trained = sum(epoch.samples or 0 for epoch in epochs)
        if samples_trained:
            per_sample = joules / samples_trained
    return {
        "joules_per_sample": per_sample,
        "card_watts": watts,
        "card_use": use,
    }


def _known(states: Sequence[CardState], name: str) -> list[Any]:
    """The values of a field that the cards report."""
    values = [getattr(state, name) for state in states]
    return [value for value in values if value is not None]


def _grown(before: Sequence[CardState], after: Sequence[CardState], name: str) -> list[Any]:
    """For each card, by how much a field has grown between the samples.

    None if that is unknown or it has decreased, as when the driver was reloaded.
    """
    differences: list[Any] = []
    for one, other in zip(before, after, strict=True):
        start = getattr(one, name)
        end = getattr(other, name)
        if start is None or end is None or end < start:
            differences.append(None)
        else:
            differences.append(end - start)
    return differences


def _total(differences: list[Any]) -> Any:
    """Their sum; None if a card does not report its part."""
    if None in differences:
        return None
    return sum(differences)


def _share(differences: Sequence[float | None], seconds: float) -> float | None:
    """The largest of them as a share of `seconds`; None if no card reports it."""
    known = [each for each in differences if each is not None]
    if not known:
        return None
    return max(known) / seconds


def card_reasons(use: CardUse) -> Iterator[Reason]:
    """Why the `use` of a card makes a run suspect."""
    if use.heat is not None and use.heat > HEAT_SHARE:
        text = f"heat reduced the card's clocks for {use.heat:.0%} of the training"
        yield Reason("card_hot", text, "improve the cooling and measure the run again.")
    if use.others:
        noun = "process" if use.others == 1 else "processes"
        text = f"{use.others} other {noun} used the card"
        yield Reason("card_shared", text, "stop them and measure the run again.")
    if use.ecc:
        noun = "error" if use.ecc == 1 else "errors"
        text = f"the card's memory had {use.ecc} uncorrected {noun}"
        yield Reason("card_ecc", text, "measure on another card.")
