"""Simulated machines whose true times are known: the records of rounds in which members trained in
turns. Nothing is measured.

    log seconds per step = true time of the member + state of the machine + effect of the member in
                           this round + level of the cycle + noise of the turn
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.signal import lfilter

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "src")]

from rnnbench.records.record import (  # noqa: E402
    Record,
    RoundFacts,
    Verdict,
    disturbed_cycles,
)
from rnnworker.processors import BYTES, KNOWN  # noqa: E402
from tests.factory import BEGINNING, STEPS, VOID, make_record, replace  # noqa: E402

TURN = 0.035  # seconds that the fastest member trains in a turn
LEAD_IN = 0.01  # seconds of a turn that are not timed
TICK = 0.01  # seconds: the kernel counts CPU time in these units
START = 20.0  # seconds from the end of a round to the first turn of the next
EPOCHS = 3
CYCLES = (35, 150)
SLOWER = 0.25
PROCESSOR = "AuthenticAMD 25 17"
READS_SLOWER, READS_NOISE = 0.5, 0.05  # in a state: a mean and a standard deviation of logs


class Member(NamedTuple):
    """A configuration that takes part in rounds."""

    rnn: str = "keras"
    device: str = "cpu_2"
    build: str = "current"


@dataclass(frozen=True)
class Machine:
    """A machine; standard deviations are of log seconds.

    - `noise`: of a turn (Student's t with four degrees of freedom).
    - `process`: of a member in one round (its process, its memory layout).
    - `level`: of a round, common to its members; `drift`: of the level from cycle to cycle (an
      autoregressive process).
    - `bursts`: share of the turns that last 10 to 70 % longer. In half of them another process uses
      the cores, which the kernel counts; in the others nothing shows.
    - `flicker`: share of the turns that a state of one turn slows down, by `SLOWER` on average.
    - `states`: how unequally a state that lasts three minutes slows the members down, on average by
      `SLOWER`.
    - `missing`: probability that a member's turns end early; one in four of these dies.
    - `cores`: those of a member.
    """

    noise: float = 0.03
    process: float = 0.005
    level: float = 0.1
    drift: float = 0.005
    bursts: float = 0.0
    flicker: float = 0.0
    states: float = 0.0
    missing: float = 0.0
    cores: int = 2


@dataclass(frozen=True)
class Simulated:
    """`records` of one model; `truth`: member → log seconds per step of the undisturbed machine."""

    model: str
    records: list[Record]
    truth: Mapping[Member, float]

    def with_(self, other: Simulated) -> Simulated:
        """The same model, measured with the members of `other` too."""
        return Simulated(
            self.model,
            self.records + other.records,
            {**self.truth, **other.truth},
        )


def simulate(
    random: np.random.Generator,
    machine: Machine,
    times: Mapping[Member, float],
    rounds: int,
    model: str = "digits_rnn",
    host: str = "testbox-0123abcd",
) -> Simulated:
    """Measures `times` (member → true log seconds per step) in `rounds` rounds on `machine`."""
    members, true = list(times), np.array(list(times.values()))
    slowed = 0 * true
    if machine.states:
        slowed = random.normal(SLOWER, machine.states, len(members))
    records = []
    now, bad = 0.0, bool(random.random() < 0.5)
    for number in range(rounds):
        cycles = int(random.integers(*CYCLES, endpoint=True))
        steps = max(1, round(TURN / float(np.exp(true.min()))))
        duration = steps * float(np.exp(true).sum())
        bad_cycles = _states(random, bad, cycles, duration)
        bad = bool(bad_cycles[-1]) ^ bool(random.random() < _switch(START))
        state = slowed[:, None] * bad_cycles
        short = _flicker(random, machine, (len(members), cycles))
        logs = true[:, None] + state + SLOWER * short
        logs += _disturbances(random, machine, len(members), cycles)
        seconds, others = _bursts(random, machine, steps * np.exp(logs))
        reads = KNOWN[PROCESSOR, BYTES] * np.exp(
            READS_SLOWER * (bad_cycles * bool(machine.states) + short)
            + random.normal(0, READS_NOISE, logs.shape)
        )
        if not machine.states and not machine.flicker:
            reads = np.full(logs.shape, None)
        ends, died = _ends(random, machine, len(members), cycles)
        columns = {
            member: {
                **_columns(now, steps, seconds[i, :end], others[i, :end], machine.cores),
                "reads": reads[i, :end].tolist(),
            }
            for i, (member, end) in enumerate(zip(members, ends, strict=True))
        }
        records += _records(columns, died, number, now, model, host)
        now += START + cycles * duration
    return Simulated(model, records, dict(times))


def _switch(seconds: float) -> float:
    """The probability that the state differs after `seconds`."""
    return float((1 - np.exp(-2 * seconds / 180)) / 2)


def _states(random: np.random.Generator, bad: bool, cycles: int, duration: float) -> np.ndarray:
    """For each cycle, whether the machine is in its bad state. `duration`: of a cycle."""
    switches = random.random(cycles) < _switch(duration)
    return (bad + np.cumsum(switches)) % 2 == 1


def _flicker(random: np.random.Generator, machine: Machine, shape: tuple[int, int]) -> np.ndarray:
    """How much a state of its own slows each turn down, relative to `SLOWER`."""
    if not machine.flicker:
        return np.zeros(shape)
    return (random.random(shape) < machine.flicker) * random.uniform(0, 2, shape)


def _disturbances(
    random: np.random.Generator, machine: Machine, members: int, cycles: int
) -> np.ndarray:
    level = random.normal(0, machine.level)
    level = level + lfilter([1], [1, -0.98], random.normal(0, machine.drift, cycles))
    process = random.normal(0, machine.process, (members, 1))
    return level + process + random.standard_t(4, (members, cycles)) * machine.noise / 2**0.5


def _bursts(
    random: np.random.Generator, machine: Machine, seconds: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Seconds of the turns with bursts, and CPU seconds of other processes in each."""
    longer = np.where(random.random(seconds.shape) < machine.bursts, 0, np.nan)
    longer = np.nan_to_num(longer + random.uniform(0.1, 0.7, seconds.shape))
    counted = longer * seconds * (random.random(seconds.shape) < 0.5)
    # Each core's count is rounded to ticks at the start and the end of the turn.
    ticks = random.triangular(-TICK, 0, TICK, (machine.cores, *seconds.shape)).sum(axis=0)
    return seconds * (1 + longer), counted + ticks


def _ends(
    random: np.random.Generator, machine: Machine, members: int, cycles: int
) -> tuple[list[int], list[bool]]:
    """The number of cycles of each member, and whether it dies. One member always stays."""
    early = random.random(members) < machine.missing
    early[random.integers(members)] = False
    ends = np.where(early, random.uniform(0.3, 1, members) * cycles, cycles).astype(int)
    return ends.tolist(), (early & (random.random(members) < 0.25)).tolist()


def _columns(
    now: float, steps: int, seconds: np.ndarray, others: np.ndarray, cores: int
) -> dict[str, list[Any]]:
    """The turns of a member, as in its record."""
    count = len(seconds)
    return {
        "turn": list(range(1, count + 1)),
        "cycle": list(range(1, count + 1)),
        "start": (now + np.cumsum(seconds)).tolist(),
        "seconds": seconds.tolist(),
        "steps": [steps] * count,
        "full": [True] * count,
        "others": others.tolist(),
        "took": (LEAD_IN + seconds).tolist(),
        "cores": [cores] * count,
    }


def _records(
    columns: Mapping[Member, dict[str, list[Any]]],
    died: Sequence[bool],
    number: int,
    now: float,
    model: str,
    host: str,
) -> list[Record]:
    """The records of one round. An epoch takes its steps times the mean of its turns, including
    disturbed ones, so that a table which compares epochs differs from one that compares turns."""
    names = {m: f"{model}-lstm-{'-'.join(m)}-s0-r{number}" for m in columns}
    started = BEGINNING + timedelta(seconds=now)
    facts = RoundFacts(
        id=f"{host}/{model}/{number}", members=tuple(names.values()), companion=False
    )
    records = []
    for (member, turns), dead in zip(columns.items(), died, strict=True):
        parts = np.array_split(np.array(turns["seconds"]) / turns["steps"][0], EPOCHS)
        choices = {"model": model, "cell": "lstm", **member._asdict()}
        record = make_record(
            rnn=member.rnn,
            device=member.device,
            repeat=number,
            machine=host,
            epoch_seconds=[STEPS * float(part.mean()) for part in parts],
            verdict=VOID if dead else Verdict("clean"),
            started=started,
            name=names[member],
            choices=choices,
            round=facts,
            turns=turns,
        )
        hardware = {**record.hardware, "processor": PROCESSOR}
        records.append(replace(record, hardware=hardware))
    return records


def share_left_out(records: Sequence[Record]) -> float:
    """The share of the cycles that are left out because other processes used the cores."""
    rounds: dict[str | None, dict[str, Any]] = defaultdict(dict)
    for record in records:
        rounds[record.round_id][record.name] = record.turns
    cycles = sum(max(len(t["cycle"]) for t in members.values()) for members in rounds.values())
    return sum(len(disturbed_cycles(members)) for members in rounds.values()) / cycles
