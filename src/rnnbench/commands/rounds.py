"""Measures rounds, one after the other: the commands `round` and `rounds`, which rules of Snakemake
call, and the loop that they and `compare` share.

The loop keeps the processes from which workers are forked, and what finished runs have said.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice

from msgspec import to_builtins

from rnnbench.commands.rules import (
    Inputs,
    check_inputs,
    check_planned,
    end_with_snakemake,
    make_planned_certificate,
    requested,
    watched,
)
from rnnbench.errors import RecordError, RnnbenchError, say
from rnnbench.planning.digests import worker_digest
from rnnbench.planning.finished import FinishedRuns
from rnnbench.planning.repeats import ratios_of, rounds_measured, why_not_needed
from rnnbench.records.plan_file import (
    Batch,
    PlannedCertificate,
    PlannedRound,
    Repeats,
    read_batches,
    read_certificates,
    read_experiment,
    read_rounds,
)
from rnnbench.records.record import Record, Run, run_seconds
from rnnbench.records.rounds import (
    Result,
    read_results,
    results_in,
    results_of,
    round_file,
    round_files,
    unfinished,
    write_results,
)
from rnnbench.records.store import Place
from rnnbench.report.rounds import label_among, so_far, unneeded_text
from rnnbench.running.progress import place_of, print_progress, progress_label, remaining
from rnnbench.running.round import adoptable_records, measure, nothing_to_measure
from rnnbench.sources.certificates import lacking
from rnnworker.cohorts import reference_of
from rnnworker.forked_workers import Importers
from rnnworker.rounds import Share

SAMPLE = 20  # finished rounds that the estimate of the remaining time reads


def round(arguments: Sequence[str]) -> int:
    """Measure the runs of a round in turns (Snakemake calls this on a cluster)."""
    end_with_snakemake()
    file, place, digest = requested(round, arguments, "rounds")
    planned = read_rounds(place.folder / "plan.jsonl", [file.stem])
    check_planned(planned[0].digest, digest, file.stem)
    with Loop(place) as loop:
        loop.complete(planned[0])
    return 0


def rounds(arguments: Sequence[str]) -> int:
    """Make the certificates of a batch, and measure its rounds one after the other (Snakemake calls
    this)."""
    end_with_snakemake()
    file, place, digest = requested(rounds, arguments, "measured")
    plan = place.folder / "plan.jsonl"
    batches = {str(number): names for number, names in enumerate(read_batches(plan))}
    batch = Batch(read_rounds(plan, batches.get(file.stem, [])))
    check_planned(batch.digest, digest, f"batch {file.stem}")
    certificates = read_certificates(place.folder / "certificates.json")
    with Loop(place) as loop:
        own = [certificates[key] for key in batch.certificates]
        loop.certify(lacking(own, place.folder))
        loop.measure(batch.rounds)
    results, _ = results_in(place.folder)
    write_results(file, {name: results[name] for name in batch.identity if name in results})
    return 0


class Loop:
    """Measures rounds of an experiment on this machine. Until its `with` block ends, it keeps the
    processes from which workers are forked, and what finished runs have said.

    - `place`: of the experiment. Raises `RecordError` if its file ``experiment.json`` cannot be
      read.
    - `importers`: these processes.
    """

    def __init__(self, place: Place):
        self._place = place
        self._experiment = read_experiment(place.folder / "experiment.json")
        self._rule = self._experiment.repeats
        self.importers = Importers()
        self._finished = FinishedRuns(place)
        self._inputs = Inputs()

    def __enter__(self) -> Loop:
        return self

    def __exit__(self, *_: object) -> None:
        self.importers.end()

    def certify(self, planned: Iterable[PlannedCertificate]) -> None:
        """Makes certificates. Raises as `make_planned_certificate`."""
        for each in planned:
            make_planned_certificate(each, self._place, self.importers)

    def measure(self, planned: Sequence[PlannedRound]) -> None:
        """Completes those rounds in which a run has no valid result as it is planned.

        The error of a round does not keep the others from being measured: each is printed, the last
        one is raised. `OSError`, if something cannot be written, ends the loop.
        """
        left = unfinished_rounds(planned, self._place, self._rule)
        if not left:
            print_progress(nothing_to_measure(self._place.experiment))
        failed: RnnbenchError | None = None
        for each in left:
            try:
                self.complete(each)
            except RnnbenchError as error:
                if failed:
                    say(failed)
                failed = error
        if failed:
            raise failed

    def complete(self, planned: PlannedRound) -> None:
        """Measures what a round lacks, unless the experiment's ``repeats`` do not need it, and
        writes its file."""
        place = self._place
        runs = planned.runs
        label = progress_label(planned.number, planned.total)
        label = f"{label} {place_of(runs, self._experiment.varied)}".rstrip()
        base = reference_of([run.as_dict() for run in runs], self._experiment.reference)
        reference = None
        if base:
            reference = str(base["name"])

        unneeded = self._unneeded(runs, label, reference)
        needed = [run for run in runs if run.name not in unneeded]
        records: Mapping[str, Record] = {}
        if needed:
            records = self._measure(needed, label, reference)

        results = results_of(adoptable_records(needed, place)) | unneeded
        results = {run.name: results[run.name] for run in runs if run.name in results}
        write_results(round_file(place.folder, planned.name), results)
        if not needed:
            return

        text = ""
        if reference and len(runs) > 1:
            finished = self._finished.read()
            ratios = ratios_of(runs, finished, reference)
            text = so_far(runs, ratios, reference, rounds_measured(runs, finished))
        left = self._remaining_time(planned.total, planned.number + 1)
        for line in _round_lines(needed, records, text):
            print_progress(f"{label} {line}{left}")
            left = ""

    def _measure(
        self,
        needed: Sequence[Run],
        label: str,
        reference: str | None,
    ) -> dict[str, Record]:
        """Measures the `needed` runs of a round. Returns run → record.

        - `label`: how what is printed begins.
        - `reference`: the name of the run that others are compared with.
        """
        root = self._place.root
        configs = [run.config for run in needed]
        check = watched(needed[0].round, configs, root)
        self._inputs.refresh(configs, root)
        pins = {}
        for run in needed:
            pins[run.name] = check_inputs(
                run.name,
                run.identity,
                run.config,
                root,
                worker=worker_digest(run.config),
            )
        return measure(
            needed,
            self._place,
            check,
            label=label,
            reference=reference,
            pinned_md5=pins,
            share=share_of(self._rule),
            importers=self.importers,
        )

    def _unneeded(
        self,
        planned: Sequence[Run],
        label: str,
        reference: str | None,
    ) -> dict[str, Result]:
        """Run → its result, if the experiment's ``repeats`` do not need the round, and prints why.
        A round that has begun is finished.

        - `planned`: the runs of the round.
        - `label`, `reference`: as in `_measure`.
        """
        first = planned[0]
        rule = self._rule
        if rule is None or first.repeat < rule.least or adoptable_records(planned, self._place):
            return {}

        reasons = why_not_needed(planned, self._finished.read(), rule, reference)
        unneeded = {}
        names_by_text: dict[str, list[str]] = {}
        for run in planned:
            if run.name not in reasons:
                continue
            why = reasons[run.name]
            names_by_text.setdefault(unneeded_text(why), []).append(run.name)
            unneeded[run.name] = Result(
                record=None,
                digest=run.digest,
                not_needed=why,
                repeats=to_builtins(rule),
            )

        known, _ = results_in(self._place.folder)
        previous = known.get(f"{first.configuration}-s{first.seed}-r{first.repeat - 1}")
        if previous and previous.not_needed:
            return unneeded  # its reason was printed
        for text, names in names_by_text.items():
            some = ""
            if len(names_by_text) > 1:
                some = f" ({', '.join(names)})"
            print_progress(f"{label} not measured{some}: {text}")
        return unneeded

    def _remaining_time(self, total: int, done: int) -> str:
        """The estimated time of the rounds that are left, or of those that a budget allows, from
        the experiment's finished rounds.

        - `total`: rounds of the experiment; `done`: those of them that come first.
        """
        left = total - done
        seconds = []
        for path in islice(round_files(self._place.folder), SAMPLE):
            with suppress(RecordError):
                walls = [result.wall_seconds for result in read_results(path).values()]
                known = [wall for wall in walls if wall is not None]
                if len(known) == len(walls):
                    seconds.append(sum(known))
        rule = self._rule
        if rule and rule.budget_s is not None and sum(seconds) > 0:
            mean = sum(seconds) / len(seconds)
            within = math.ceil(max(0.0, rule.budget_s - sum(seconds)) / mean)
            least = total * rule.least // rule.most - done
            left = min(left, max(within, least))
        return remaining(seconds, left, "at most " if rule else "")


def unfinished_rounds(
    planned: Iterable[PlannedRound],
    place: Place,
    rule: Repeats | None,
) -> list[PlannedRound]:
    """The rounds with a run that has no valid result as it is planned. Prints which files of rounds
    cannot be read.

    - `rule`: the experiment's ``repeats``.
    """
    results, faults = results_in(place.folder)
    for fault in faults:
        say(fault)
    return [each for each in planned if unfinished(each.runs, results, place.results, rule)]


def _round_lines(planned: Sequence[Run], records: Mapping[str, Record], text: str) -> list[str]:
    """What to print of a round that was measured: one line, and one for each reason of void runs.

    - `planned`: its runs; `records`: of them, by name.
    - `text`: what is known so far of ratios; ``""`` if nothing is.
    """
    void: dict[str, list[str]] = {}
    suspect = []
    summaries = []
    for run in planned:
        record = records.get(run.name)
        if record is None:
            continue
        name = run.name
        if len(planned) > 1:
            name = label_among(run, planned)
        status = record.verdict.status
        if status == "void":
            void.setdefault(_summary(record), []).append(name)
            continue
        if status == "suspect":
            suspect.append(record)
        summaries.append(f"{name} {_summary(record)}")

    lines = []
    if text:
        lines.append(text)
        if suspect:
            why = suspect[0].verdict.reasons[0].text
            lines[0] += f"; {len(suspect)} of {len(planned)} runs suspect ({why})"
    elif summaries:
        lines.append("; ".join(summaries))
    for why, names in void.items():
        lines.append(f"{', '.join(names)}: {why}")
    return lines


def share_of(rule: Repeats | None) -> Share | None:
    """How long the turns of each round take in all, by an experiment's ``repeats``. With a budget,
    turns take at most half of what it has for each of the least repeats."""
    if rule is None or rule.turns is None:
        return None
    if rule.budget_s is None:
        return Share(rule.turns)
    return Share(rule.turns, rule.budget_s / (2 * rule.least))


def _summary(record: Record) -> str:
    """The verdict with its first reason, the time of an epoch and the accuracy."""
    status = record.verdict.status
    reasons = record.verdict.reasons
    text = str(status)
    if reasons:
        text += f": {reasons[0].text}"
    if len(reasons) > 1:
        text += f" (and {len(reasons) - 1} more)"

    if record.epochs and status != "void":
        seconds = run_seconds([epoch.seconds for epoch in record.epochs])
        text += f", {seconds:.3g} s per epoch"
        accuracy = record.epochs[-1].val_acc
        if accuracy is not None:
            text += f", val_acc {accuracy:.3f}"
    return text
