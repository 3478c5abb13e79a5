"""A run as the estimates see it: the only form between a record and a ratio. No side effects."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from rnnbench.records import timestamps
from rnnbench.records.record import Record
from rnnbench.records.record import run_value as seconds_of
from rnnbench.tables.effects import Effect
from rnnbench.tables.states import State


class RunValue(NamedTuple):
    """A run that is not void.

    - `key`: its configuration; `device`: the spread is pooled over the configurations of one.
    - `log`: natural logarithm of the seconds of an epoch, by turns if it trained `in_turns`
      (`effects.Effect`).
    - `block`: the runs of one seed and repeat, which were measured after each other.
    - `unit`: what it is compared within, its round or its block.
    - `machine`, and the moment it `started` (seconds since the epoch).
    - `is_companion`: it only serves the ratios of others; `state`, `slowness`: of its round.
    """

    key: Any
    device: Any
    log: float
    unit: str
    machine: str
    started: float
    is_companion: bool = False
    in_turns: bool = False
    state: int = State.QUIET
    slowness: float = 0.0
    block: str = ""

    @property
    def seconds(self) -> float:
        """Seconds of an epoch."""
        return math.exp(self.log)

    def with_seconds(self, seconds: float) -> RunValue:
        """The same run with the `seconds` of something that was not measured in turns."""
        return self._replace(
            log=math.log(seconds),
            unit=self.block,
            in_turns=False,
            state=State.QUIET,
            slowness=0.0,
        )


def run_value(record: Record, effect: Effect) -> RunValue | None:
    """What the estimates use of a `record` and its `effect` within its round.

    The value of a run with an effect is relative to its round. Any other run is represented by the
    seconds of its epochs, and compared within its seed and repeat. (Not within the number of its
    block in the plan, which changes if an experiment is extended.)

    None if the record is void or has no epoch, or is of a companion without an effect.
    """
    if record.verdict.status == "void" or not record.epochs:
        return None
    if record.is_companion and not effect.is_known:
        return None

    run = record.run
    block = f"{record.machine}/{record.site}/{record.experiment}/s{run.seed}-r{run.repeat}"
    if effect.is_known:
        log = effect.log
        unit = record.round_id
    else:
        log = math.log(seconds_of([epoch.seconds for epoch in record.epochs]))
        unit = block
    return RunValue(
        key=f"{record.machine}/{run.configuration}",
        device=f"{record.machine}/{run.choices.get('model')}/{run.choices.get('device')}",
        log=log,
        unit=unit,
        machine=record.machine,
        started=timestamps.read(record.started).timestamp(),
        is_companion=record.is_companion,
        in_turns=effect.is_known,
        state=effect.state,
        slowness=effect.slowness,
        block=block,
    )
