"""The outcomes of a bundle → records, certificates and probes, judged like local ones, as an export
has them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rnnbench.errors import RecordError
from rnnbench.exchange.archive import MAX_FILE, safe_name
from rnnbench.records.plan_file import read_runs
from rnnbench.records.record import Record
from rnnbench.records.run import Run
from rnnbench.records.store import read_json, write_json
from rnnbench.running import memory, turns
from rnnbench.running.certify import assembled as assembled_certificate
from rnnbench.running.probe import assembled as assembled_probe
from rnnbench.running.supervise import SIGKILLED, Outcome, parse
from rnnbench.running.train import Place, assembled, timing_lock


def lay_out(bundle: Path, folder: Path) -> None:
    """Writes the outcomes of a `bundle` into the empty `folder`, as an export has them."""
    _check_files(bundle)
    facts = _facts(bundle)
    experiment = str(facts.get("name"))
    if not safe_name(experiment):
        raise RecordError(f"has no valid experiment, but {experiment!r}.", where=str(bundle))
    place = Place(bundle, bundle, "", experiment, timing_lock())
    for record, outcome in records_in(bundle, place):
        file = folder / f"records/{record.key}.json"
        write_json(file, record.to_json())
        for name, suffix in (("events.jsonl", ".events.jsonl"), ("log", ".log")):
            if (outcome / name).exists():
                shutil.copyfile(outcome / name, file.with_suffix(suffix))
        site = folder / record.machine / experiment
        if not (site / "plan.jsonl").exists():
            write_json(site / "experiment.json", facts)
            shutil.copyfile(bundle / "plan.jsonl", site / "plan.jsonl")
    preflights = {"certificates": certificates_in(bundle), "probes": probes_in(bundle)}
    for kind, every in preflights.items():
        for data in every:
            name = f"{data['machine']}/{experiment}/{kind}/{data['key']}.json"
            if not safe_name(name):
                raise RecordError(f"{name!r} is not a safe name.", where=str(bundle))
            write_json(folder / name, data)
    if not any(folder.iterdir()):
        raise RecordError(
            "has no finished run below out/.", where=str(bundle), remedy="start its run.py."
        )


def _check_files(bundle: Path) -> None:
    """Raises `RecordError` for a link, which could bring a file of this machine into the results,
    and for a file that is too large to be read at once."""
    top = [bundle / name for name in ("out", "plan.jsonl", "experiment.json", "certificates.json",
                                      "probes.json")]  # fmt: skip
    for path in [*top, *(bundle / "out").rglob("*")]:
        if path.is_symlink() or (path.exists() and not (path.is_file() or path.is_dir())):
            raise RecordError("is not a plain file.", where=str(path))
        if path.is_file() and path.stat().st_size > MAX_FILE:
            raise RecordError(f"has more than {MAX_FILE >> 20} MiB.", where=str(path))


def _facts(bundle: Path) -> dict[str, Any]:
    """The experiment's facts, including the runs that the other machine skipped."""
    facts, skipped = read_json(bundle / "experiment.json"), bundle / "out" / "skipped.json"
    reasons = read_json(skipped) if skipped.exists() else {}
    try:
        more = [{"name": name, "why": why} for name, why in reasons.items()]
        return {**facts, "skipped": [*facts.get("skipped", []), *more]}
    except (AttributeError, TypeError) as error:
        raise RecordError(
            f"experiment.json or out/skipped.json is not one of a bundle ({error}).",
            where=str(bundle),
        ) from error


def records_in(folder: Path, place: Place) -> Iterator[tuple[Record, Path]]:
    """Each complete outcome below ``out/`` as (record, folder of its events and log). The site of a
    record is its machine. Runs that received an external SIGKILL have no record, as in local
    measurements."""
    planned = _plan(folder / "plan.jsonl")
    outcomes = {path: read_json(path) for path in sorted(folder.glob("out/*/*/outcome.json"))}
    try:
        rounds = _rounds(outcomes)
    except (AttributeError, KeyError, OSError, TypeError, ValueError) as error:
        raise RecordError(
            f"an outcome below out/ is not one of a bundle ({error}).", where=str(folder)
        ) from error
    for path, data in outcomes.items():
        try:
            run = planned[data["name"]]
            if data["digest"] != run.digest:
                raise RecordError("was measured with another plan.", where=str(path))
            if data["exit_code"] == SIGKILLED and not data["over_limit"]:
                continue
            record = assembled(
                run,
                replace(place, site=data["hardware"]["machine"]),
                data["hardware"],
                data["started"],
                _outcome(path, data),
                data["finished"],
                log_tail=memory.tail(path.with_name("log")),
                **rounds.get(path, {}),
            )
        except (AttributeError, KeyError, OSError, TypeError, ValueError) as error:
            raise _not_an_outcome(path, error) from error
        yield record, path.parent


def _rounds(outcomes: Mapping[Path, Any]) -> dict[Path, dict[str, Any]]:
    """Outcome → the arguments of `assembled` that depend on its whole round, for runs that took
    turns with others."""
    members: dict[str, dict[str, Path]] = {}
    for path, data in outcomes.items():
        facts = data.get("round") or {}
        if len(facts.get("members", ())) > 1:
            members.setdefault(facts["id"], {})[data["name"]] = path
    rounds: dict[Path, dict[str, Any]] = {}
    for identity, paths in members.items():
        data = outcomes[next(iter(paths.values()))]
        facts = turns.rounds_of(
            f"{data['hardware']['machine']}/{identity}",
            tuple(data["round"]["members"]),
            data["round"].get("companions", ()),
        )
        disturbed = turns.disturbed_in(
            {name: _outcome(path, outcomes[path]) for name, path in paths.items()}
        )
        for name, path in paths.items():
            rounds[path] = {"round_": facts[name], "disturbed": disturbed}
    return rounds


def certificates_in(folder: Path) -> Iterator[dict[str, Any]]:
    """Each certificate below ``out/certificates/``, older ones first."""

    def assemble(planned, data, outcome, tail, attempt):
        others = {}
        for path in sorted(attempt.glob("*/outcome.json")):
            other = read_json(path)
            others[other["device"]] = _outcome(path, other)
        machine = data["hardware"]["machine"]
        return assembled_certificate(planned, outcome, tail, others, machine)

    return _preflights(folder, "certificates", assemble)


def probes_in(folder: Path) -> Iterator[dict[str, Any]]:
    """Each probe below ``out/probes/``, older ones first; a failed probe has an ``error``."""

    def assemble(planned, data, outcome, tail, attempt):
        return assembled_probe(planned, data["threads"], data["hardware"], outcome, tail)

    return _preflights(folder, "probes", assemble)


def _preflights(folder: Path, kind: str, assemble: Callable[..., dict[str, Any]]) -> Iterator[Any]:
    file = folder / f"{kind}.json"
    all_planned = read_json(file) if file.exists() else {}
    for path in sorted(folder.glob(f"out/{kind}/*/*/outcome.json")):
        data = read_json(path)
        try:
            planned = all_planned[Path(data["name"]).name]
            if data["digest"] != planned["digest"]:
                raise RecordError("was made with another plan.", where=str(path))
            if data["exit_code"] == SIGKILLED and not data["over_limit"]:
                continue
            outcome, tail = _outcome(path, data), memory.tail(path.with_name("log"))
            preflight = assemble(planned, data, outcome, tail, path.parent)
        except (AttributeError, KeyError, OSError, TypeError, ValueError) as error:
            raise _not_an_outcome(path, error) from error
        yield preflight


def _outcome(path: Path, data: Mapping[str, Any]) -> Outcome:
    events, garbage = _events(path.with_name("events.jsonl"))
    outcome = Outcome(
        events=events,
        garbage=garbage,
        exit_code=data["exit_code"],
        over_limit=data["over_limit"],
        phase=data["phase"],
    )
    outcome.turns = list(data.get("turns") or ())
    return outcome


def _events(path: Path) -> tuple[list[dict[str, Any]], int]:
    parsed = [parse(line) for line in path.read_bytes().split(b"\n") if line]
    events = [event for event in parsed if event is not None]
    return events, len(parsed) - len(events)


def _not_an_outcome(path: Path, error: Exception) -> RecordError:
    return RecordError(f"is not an outcome of a bundle ({error}).", where=str(path))


def _plan(path: Path) -> dict[str, Run]:
    return {run.name: run for run in read_runs(path)}
