"""The commands that the rules of Snakemake call to measure: `round`, `certify`, `predict`."""

from __future__ import annotations

import ctypes
import math
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from functools import cache
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from msgspec import structs, to_builtins

from rnnbench.builds.launcher import lock_of
from rnnbench.commands.arguments import ROOT, Arguments, command_parser
from rnnbench.datasets.pins import own_md5, pinned, verify
from rnnbench.errors import RecordError, RunError
from rnnbench.grid.experiment import Repeats
from rnnbench.grid.files import user_files
from rnnbench.grid.overrides import Config
from rnnbench.grid.point import digest_of_round
from rnnbench.planning.digests import serving_digest, worker_digest, worker_files
from rnnbench.planning.plan import Prediction, code_of
from rnnbench.records.plan_file import read_experiment, read_round
from rnnbench.records.record import Record, Run, run_seconds
from rnnbench.records.rounds import (
    NotNeeded,
    Result,
    read_results,
    results_in,
    results_of,
    round_file,
    round_files,
    write_results,
)
from rnnbench.records.store import Place, as_kind, read_json, timing_lock, write_json
from rnnbench.running.certificates import certify as make_certificate
from rnnbench.running.progress import place_of, print_progress, progress_label, remaining
from rnnbench.running.round import adoptable_records, measure
from rnnbench.running.verdict import LESS_MEMORY
from rnnbench.sources.certificates import certificate_of
from rnnworker.cohorts import reference_of
from rnnworker.members import says_out_of_memory
from rnnworker.options import is_user_file
from rnnworker.rounds import Share

PR_SET_PDEATHSIG = 1
INPUTS = {
    "build_lock": "the packages of build",
    "dataset_md5": "the data of dataset",
    "worker": "the Python code of model, rnn or rnnbench",
}
PLAN_AGAIN = "run the same command again, which plans with what is there now."
STATUSES = ("certified", "failed", "refused", "not_run")  # of an implementation in a certificate
SAMPLE = 20  # finished rounds that the estimate of the remaining time reads


def certify(arguments: Sequence[str]) -> int:
    """Check that a model's implementations compute the same function."""
    end_with_snakemake()
    file, place, digest = requested(certify, arguments, "certificates")
    where = f"certificate {file.stem}"
    planned = read_json(place.folder / "certificates.json").get(file.stem)
    check_planned(planned and planned["digest"], digest, where)

    make_planned_certificate(planned, place)
    return 0


def make_planned_certificate(planned: Mapping[str, Any], place: Place) -> None:
    """Makes a certificate from its entry of ``certificates.json`` and prints what it says."""
    where = f"certificate {planned['key']}"
    config = planned["config"]
    implementations = planned["implementations"]

    rnns = {}
    configs = [config]
    for each in implementations:
        rnns[each["name"]] = each["rnn"]
        configs.append({"rnn": each["rnn"]})
    check = watched(where, configs, place.root)
    pinned_md5 = check_inputs(
        where,
        planned["identity"],
        config,
        place.root,
        worker=code_of(config, implementations, planned["devices"]),
    )

    certificate = make_certificate(
        planned,
        place,
        check,
        pinned_md5=pinned_md5,
    )
    for line in certificate_summary(certificate, rnns):
        print_progress(line)


def predict(arguments: Sequence[str]) -> int:
    """Measure how runtimes answer with a model (Snakemake calls this)."""
    from rnnbench.prediction.measure import Job
    from rnnbench.prediction.results import measured

    end_with_snakemake()
    file, place, digest = requested(predict, arguments, "predictions")
    where = f"prediction {file.stem}"
    entry = read_json(place.folder / "predictions.json").get(file.stem)
    check_planned(entry and entry["digest"], digest, where)
    planned = as_kind(entry, Prediction, "is not a prediction", where, PLAN_AGAIN)

    check = watched(where, [planned.config], place.root)
    pinned_md5 = check_inputs(
        where,
        planned.identity,
        planned.config,
        place.root,
        worker=serving_digest(planned.config),
    )
    folder = file.with_suffix("")
    shutil.rmtree(folder, ignore_errors=True)  # what another version has exported
    folder.mkdir(parents=True)
    settings = planned.settings
    job = Job(
        config=planned.config,
        runtimes=settings.runtimes,
        batches=settings.batches,
        root=place.root,
        folder=folder,
        rounds=settings.rounds,
        cycles=settings.cycles,
        pinned_md5=pinned_md5,
    )
    results = measured(job, file.stem, lambda text: print_progress(f"{file.stem}: {text}"))
    check()
    of_point = structs.replace(
        results,
        digest=digest,
        choices=dict(planned.choices),
        overrides=dict(planned.overrides),
    )
    write_json(file, of_point)
    return 0


def certificate_summary(certificate: Mapping[str, Any], rnns: Mapping[str, Config]) -> list[str]:
    """The lines to print: that all compute the same function, or the counts and one line for each
    implementation that failed, or one for all if they failed alike.

    `rnns`: implementation → its ``rnn`` config section.
    """
    key = certificate["key"]
    results = certificate["implementations"]
    counts = Counter(result["status"] for result in results.values())
    texts = []
    for status in STATUSES:
        if counts[status]:
            texts.append(f"{counts[status]} {status.replace('_', ' ')}")

    all_certified = counts["certified"] == len(results) > 1
    if all_certified and all(pair.get("equal") for pair in certificate["pairs"]):
        # Tolerates those that were made up: only these three name a function to a reader.
        named = [certificate.get(axis) for axis in ("model", "cell", "build")]
        of = ", ".join(str(name) for name in named if name not in (None, "of_model", "current"))
        return [f"{len(results)} implementations compute the same function ({of or key})"]
    lines = [f"certificate {key}: {', '.join(texts)}"]

    fault = certificate_of(certificate, key).fault_of_all(rnns)
    if fault:
        fix = "correct the model, the data or the options"
        if says_out_of_memory(fault):
            fix = LESS_MEMORY
        lines.append(f"  every implementation failed: {fault.rstrip('.')}. Fix: {fix}.")
        return lines

    for name, result in results.items():
        if result["status"] not in ("refused", "failed"):
            continue
        why = result["why"].rstrip(".")
        if result["status"] == "refused":
            lines.append(f"  {name} is refused: {why}")
            continue

        line = f"  {name} failed: {why}"
        file = rnns[name].get("implementation")
        if says_out_of_memory(why):
            line += f". Fix: {LESS_MEMORY}."
        elif is_user_file(file):
            line += f". Fix: correct {file} or its YAML, as docs/own_kernel.md describes."
        lines.append(line)
    return lines


def requested(
    command: Callable[..., int], arguments: Sequence[str], folder: str
) -> tuple[Path, Place, str]:
    """The file ``results/SITE/EXPERIMENT/FOLDER/KEY.json`` that the `arguments` of a command
    request, the place to make it in, and its planned digest."""
    declared: Arguments = {
        "file": {
            "type": Path,
            "help": f"the file to write: results/SITE/EXPERIMENT/{folder}/KEY.json",
        },
        "--digest": {"required": True, "help": "the digest in the plan"},
        "--root": ROOT,
    }

    options = command_parser(command, declared).parse_args(arguments)
    file = options.file.resolve()
    experiment, site, results = file.parents[1:4]
    place = Place(
        options.root.resolve(),
        results,
        site.name,
        experiment.name,
        timing_lock(),
    )
    return file, place, options.digest


def check_planned(planned: str | None, requested: str, where: str) -> None:
    """Raises `RunError` unless the `planned` digest is the one that Snakemake requested."""
    if planned != requested:
        raise RunError(
            "was planned again while this command was waiting to start.",
            where=where,
            remedy="run the same snakemake command again.",
        )


def check_inputs(
    where: str,
    identity: Mapping[str, Any],
    config: Config,
    root: Path,
    worker: str,
) -> str | None:
    """Raises an error unless what is about to be measured is what was planned, maybe hours ago.

    - `where`: the run or certificate, for messages.
    - `identity`: what was planned: the worker's code, the packages of the build, the data.
    - `config`, `root`: where the packages and the data are.
    - `worker`: the digest of the code as it is now.

    Returns the md5 of the data if ``data.dvc`` pins it, else None. Raises `RunError`, and
    `DatasetError` or `ConfigError` if the data cannot be read.
    """
    dataset = config.get("dataset") or {}
    md5, pinned_md5 = _data_md5(root, dataset.get("path"), dataset.get("name"))

    present = {
        "build_lock": lock_of(config["build"], root),
        "dataset_md5": md5,
        "worker": worker,
    }
    for key, what in INPUTS.items():
        if present[key] != identity.get(key):
            raise RunError(
                f"{what} changed since the plan was made; nothing was measured.",
                where=where,
                remedy=PLAN_AGAIN,
            )
    return pinned_md5


def watched(where: str, configs: Sequence[Config], root: Path) -> Callable[[], None]:
    """A function that raises `RunError` if a file of the data or of the Python code that runs with
    `configs` use has been edited since this call. To be called before `check_inputs`, so that what
    the workers have read by the time of the check is what was compared with the plan."""
    files = set(worker_files())
    for config in configs:
        dataset = config.get("dataset") or {}
        for file in [dataset.get("path") or "", *user_files(config)]:
            files.add(root / file)

    def look() -> dict[Path, tuple[int, int, int]]:
        state = {}
        for file in files:
            if file.is_file():
                found = file.stat()
                state[file] = (found.st_ino, found.st_size, found.st_mtime_ns)
        return state

    before = look()

    def check() -> None:
        if look() != before:
            raise RunError(
                "the data or the Python code changed while it was read; nothing was recorded.",
                where=where,
                remedy=PLAN_AGAIN,
            )

    return check


@cache
def _data_md5(root: Path, path: str | None, name: str) -> tuple[str | None, str | None]:
    """The md5 of the data, verified if it is pinned, and the pinned one. Read once per round."""
    if path is None:
        return None, None
    pin = pinned(root).get(path)
    if pin is None:
        return own_md5(root / path), None
    verify(root / pin.path, pin, name)
    return pin.md5, pin.md5


def end_with_snakemake() -> None:
    """Ends this process with its parent, and on SIGTERM as on Ctrl-C."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def round(arguments: Sequence[str]) -> int:
    """Measure the runs of a round in turns (Snakemake calls this)."""
    end_with_snakemake()
    file, place, digest = requested(round, arguments, "rounds")
    planned, number, total = read_round(place.folder / "plan.jsonl", file.stem)
    digests = {run.name: run.digest for run in planned}
    check_planned(digest_of_round(digests), digest, file.stem)
    complete_round(planned, place, number, total)
    return 0


def complete_round(
    planned: Sequence[Run],
    place: Place,
    number: int,
    total: int,
    *,
    is_last: bool = True,
) -> bool:
    """Measures what a round lacks, unless the experiment's ``repeats`` do not need it, and writes
    its file. Returns whether its runs were needed.

    - `planned`: its runs; `number`: of the round, from 0, among a `total`.
    - `is_last`: whether this process ends with the round.
    """
    name = planned[0].round
    file = round_file(place.folder, name)
    experiment = read_experiment(place.folder / "experiment.json")
    label = f"{progress_label(number, total)} {place_of(planned, experiment.varied)}".rstrip()
    base = reference_of([run.as_dict() for run in planned], experiment.reference)
    reference = None
    if base:
        reference = str(base["name"])
    rule = None
    if experiment.repeats:
        rule = Repeats(**experiment.repeats)

    unneeded = _unneeded(
        planned,
        place,
        label,
        rule,
        reference,
        in_own_process=is_last,
    )
    needed = [run for run in planned if run.name not in unneeded]
    records: Mapping[str, Record] = {}
    if needed:
        records = _measure(
            needed,
            place,
            label,
            reference,
            share_of(rule),
        )

    results = results_of(adoptable_records(needed, place)) | unneeded
    write_results(file, {run.name: results[run.name] for run in planned if run.name in results})
    if not needed:
        return False

    text = ""
    if reference and len(planned) > 1:
        # Imported when nothing is timed: they load NumPy and SciPy.
        from rnnbench.planning.finished import finished_runs
        from rnnbench.planning.repeats import ratios_of
        from rnnbench.report.rounds import so_far

        text = so_far(planned, ratios_of(planned, finished_runs(place), reference), reference)
    left = _remaining_time(place, total - number - 1, rule)
    for line in _round_lines(needed, records, text):
        print_progress(f"{label} {line}{left}")
        left = ""
    return True


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
            name = run.choices.get("rnn") or run.name
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


def _measure(
    needed: Sequence[Run],
    place: Place,
    label: str,
    reference: str | None,
    share: Share | None = None,
) -> dict[str, Record]:
    """Measures the `needed` runs of a round. Returns run → record.

    - `label`: how what is printed begins.
    - `share`: how long the turns take in all.
    """
    check = watched(needed[0].round, [run.config for run in needed], place.root)
    pins = {}
    for run in needed:
        pins[run.name] = check_inputs(
            run.name,
            run.identity,
            run.config,
            place.root,
            worker=worker_digest(run.config),
        )

    return measure(
        needed,
        place,
        check,
        label=label,
        reference=reference,
        pinned_md5=pins,
        share=share,
    )


def _why_not_needed(
    planned: Sequence[Run],
    place: Place,
    rule: Repeats,
    reference: str | None,
) -> dict[str, tuple[NotNeeded, str]]:
    """Run → why it is not needed, and the text."""
    from rnnbench.planning.repeats import why_not_needed
    from rnnbench.report.rounds import unneeded_text

    reasons = {}
    for name, why in why_not_needed(planned, place, rule, reference).items():
        reasons[name] = (why, unneeded_text(why))
    return reasons


def _unneeded(
    planned: Sequence[Run],
    place: Place,
    label: str,
    rule: Repeats | None,
    reference: str | None,
    in_own_process: bool = True,
) -> dict[str, Result]:
    """Run → its result, if the experiment's ``repeats`` do not need the round, and prints why. A
    round that has begun is finished.

    - `planned`: the runs of the round.
    - `label`: how the printed line begins.
    - `rule`: the ``repeats`` of the experiment, if it has any.
    - `reference`: the name of the run that others are compared with.
    - `in_own_process`: whether another process loads SciPy, so that this one stays small while its
      only round is timed.
    """
    first = planned[0]
    if rule is None or first.repeat < rule.least or adoptable_records(planned, place):
        return {}

    decided = (planned, place, rule, reference)
    if in_own_process:
        with ProcessPoolExecutor(1, mp_context=get_context("fork")) as process:
            reasons = process.submit(_why_not_needed, *decided).result()
    else:
        reasons = _why_not_needed(*decided)

    unneeded = {}
    names_by_text: dict[str, list[str]] = {}
    for run in planned:
        if run.name not in reasons:
            continue
        why, text = reasons[run.name]
        names_by_text.setdefault(text, []).append(run.name)
        unneeded[run.name] = Result(
            record=None,
            digest=run.digest,
            not_needed=why,
            repeats=to_builtins(rule),
        )

    known, _ = results_in(place.folder)
    previous = known.get(f"{first.configuration}-s{first.seed}-r{first.repeat - 1}")
    if previous and previous.not_needed:
        return unneeded  # its reason was printed
    for text, names in names_by_text.items():
        some = ""
        if len(names_by_text) > 1:
            some = f" ({', '.join(names)})"
        print_progress(f"{label} not measured{some}: {text}")
    return unneeded


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


def _remaining_time(place: Place, left: int, rule: Repeats | None) -> str:
    """The estimated time of the `left` rounds, or of those that a budget allows, from the
    experiment's finished rounds."""
    seconds = []
    for path in islice(round_files(place.folder), SAMPLE):
        with suppress(RecordError):
            walls = [result.wall_seconds for result in read_results(path).values()]
            known = [wall for wall in walls if wall is not None]
            if len(known) == len(walls):
                seconds.append(sum(known))
    if rule and rule.budget_s is not None and sum(seconds) > 0:
        mean = sum(seconds) / len(seconds)
        within = math.ceil(max(0.0, rule.budget_s - sum(seconds)) / mean)
        left = min(left, within)
    return remaining(seconds, left, "at most " if rule else "")
