"""Turns → the numbers of an answer: seconds of a call, percentiles, throughput, ratios.

A ratio compares two runtimes within a cycle, whose turns follow each other. Each round has new
processes and gives one ratio, the median over its cycles; the interval is that of the rounds
(`tables.stats.mean_interval`).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from rnnbench.prediction.measure import Job, Outcome, Turn, measure
from rnnbench.prediction.messages import Prepared, Said
from rnnbench.records import timestamps
from rnnbench.records.interval import Interval
from rnnbench.records.predictions import (
    Batch,
    Fastest,
    Lower,
    Results,
    Runtime,
)
from rnnbench.tables.stats import mean_interval
from rnnserve import FULL_PRECISION
from rnnworker import machine

FEWEST_CALLS = {50: 1, 95: 100, 99: 500}  # percentile → calls that it needs
ALLOWED_CORES = 1.1  # CPU seconds per second and thread
ASLEEP = 0.02  # CPU seconds between two turns that count as answering out of turn


def measured(job: Job, name: str, say: Callable[[str], None]) -> Results:
    """Measures a job and returns its results, called `name`. Raises as `measure.measure` does."""
    started = timestamps.now()
    prepared, outcomes = measure(job, say)
    return results_of(job, name, prepared, outcomes, started)


def results_of(
    job: Job,
    name: str,
    prepared: Prepared,
    outcomes: Sequence[Outcome],
    started: str,
) -> Results:
    """The results of a measurement, from what `measure.measure` returned."""
    reference = outcomes[0]
    runtimes = [_runtime(job, outcome, reference, prepared.steps) for outcome in outcomes]
    full = [each for each in outcomes if each.chosen.precision == FULL_PRECISION]
    lower = [each for each in outcomes if each.chosen.precision != FULL_PRECISION]
    fastest = [_fastest(full, lower, batch) for batch in _batches(full)]
    return Results(
        name=name,
        model=str(job.config["model"].get("file") or job.function),
        machine=machine.fingerprint()["machine"],
        started=started,
        finished=timestamps.now(),
        threads=job.threads,
        steps=prepared.steps,
        rounds=job.rounds,
        cycles=job.cycles,
        compared_with=reference.runtime,
        reference=prepared.reference,
        biases_changed=prepared.biases_changed,
        cases=[case.name for case in prepared.cases],
        bounds=prepared.bounds,
        runtimes=runtimes,
        fastest=fastest,
        lower_bounds=prepared.lower_bounds,
        trained=job.train,
        validation=prepared.validation,
    )


def _fastest(full: Sequence[Outcome], lower: Sequence[Outcome], batch: int) -> Fastest:
    """`full`, `lower`: the outcomes of runtimes in full and in lower precision."""

    def seconds(outcome: Outcome) -> float:
        return _call_seconds(outcome, batch).estimate

    timed = [outcome for outcome in full if outcome.turns]
    first = min(timed, key=seconds)
    also = []
    for other in timed:
        if other is not first:
            faster = mean_interval(ratios(first.turns, other.turns, batch))
            if not faster.excludes(1.0):
                also.append(other.runtime)
    best = min((outcome for outcome in lower if outcome.turns), key=seconds, default=None)
    of_lower = None
    if best is not None:
        gain = mean_interval(ratios(best.turns, first.turns, batch))
        of_lower = Lower(best.runtime, gain)
    return Fastest(batch, first.runtime, also, of_lower)


def _call_seconds(outcome: Outcome, batch: int) -> Interval:
    """The seconds of a call: of each round the median of its turns."""
    turns = [turn for turn in outcome.turns if turn.batch == batch]
    return mean_interval([statistics.median(each) for each in _by_round(turns, _seconds).values()])


def _batches(outcomes: Sequence[Outcome]) -> list[int]:
    found = {turn.batch for outcome in outcomes for turn in outcome.turns}
    return sorted(found)


def _runtime(job: Job, outcome: Outcome, reference: Outcome, steps: int | None) -> Runtime:
    said = outcome.certificate or Said()
    differences = [each.difference for each in said.differences if each.error is None]
    batches = []
    for batch in _batches([outcome]):
        batches.append(_batch(outcome, reference, batch, steps))
    return Runtime(
        name=outcome.runtime,
        refused=outcome.refused,
        unequal=outcome.first_wrong(),
        difference=max(differences, default=None),
        batches=batches,
        load_seconds=said.load_seconds,
        file_bytes=said.bytes,
        peak_bytes=outcome.peak_bytes or None,
        notes=_notes(job, outcome),
        versions=said.versions,
        code=said.code,
        folder=outcome.folder,
        precision=outcome.chosen.precision,
        validation=said.validation,
    )


def _batch(outcome: Outcome, reference: Outcome, batch: int, steps: int | None) -> Batch:
    turns = [turn for turn in outcome.turns if turn.batch == batch]
    calls = sorted(call for turn in turns for call in turn.calls)
    seconds = _call_seconds(outcome, batch)
    cpu = sum(turn.cpu for turn in turns) / len(calls)
    ratio = None
    if outcome is not reference and reference.turns:
        ratio = mean_interval(ratios(outcome.turns, reference.turns, batch))
    return Batch(
        batch=batch,
        seconds=seconds,
        p50=_percentile(calls, 50),
        p95=_percentile(calls, 95),
        p99=_percentile(calls, 99),
        calls=len(calls),
        samples_per_second=batch / seconds.estimate,
        cpu_seconds=cpu,
        us_per_step=1e6 * seconds.estimate / steps if steps else None,
        ratio=ratio,
    )


def _seconds(turn: Turn) -> float:
    return sum(turn.calls) / len(turn.calls)


def _by_round(turns: Sequence[Turn], value: Callable[[Turn], float]) -> dict[int, list[float]]:
    found: dict[int, list[float]] = {}
    for turn in turns:
        found.setdefault(turn.round, []).append(value(turn))
    return found


def ratios(turns: Sequence[Turn], reference: Sequence[Turn], batch: int) -> list[float]:
    """For each round, how many times as fast as the reference: the median over the cycles in which
    both had a turn."""
    slow = {}
    for turn in reference:
        if turn.batch == batch:
            slow[turn.round, turn.cycle] = _seconds(turn)
    same = []
    for turn in turns:
        if turn.batch == batch and (turn.round, turn.cycle) in slow:
            same.append(turn)
    by_round = _by_round(same, lambda turn: slow[turn.round, turn.cycle] / _seconds(turn))
    return [statistics.median(values) for values in by_round.values()]


def _percentile(ordered: Sequence[float], percentile: int) -> float | None:
    """Of sorted values, by the nearest rank."""
    if len(ordered) < FEWEST_CALLS[percentile]:
        return None
    rank = -(-len(ordered) * percentile // 100)
    return ordered[max(0, rank - 1)]


def _notes(job: Job, outcome: Outcome) -> list[str]:
    """What distorts the numbers of a runtime."""
    notes: list[str] = []
    if not outcome.turns:
        return notes
    wall = sum(sum(turn.calls) for turn in outcome.turns)
    cores = sum(turn.cpu for turn in outcome.turns) / wall
    if cores > ALLOWED_CORES * job.threads:
        notes.append(f"used {cores:.2f} cores, not {job.threads}")
    threads = max(turn.threads for turn in outcome.turns)
    if threads > job.threads:
        notes.append(f"up to {threads} threads did its work, {cores:.2f} cores in all")
    slept = statistics.median(turn.slept for turn in outcome.turns)
    if slept > ASLEEP:
        notes.append(f"worked for {1000 * slept:.0f} ms between two turns")
    return notes
