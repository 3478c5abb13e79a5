"""What a bundle left → records, certificates and probes, judged here as everywhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rnnbench.errors import RecordError
from rnnbench.records.record import Record
from rnnbench.records.store import read_json
from rnnbench.running import effects, memory
from rnnbench.running.certify import assembled as assembled_certificate
from rnnbench.running.probe import assembled as assembled_probe
from rnnbench.running.supervise import SIGKILLED, Outcome, parse
from rnnbench.running.train import Place, assembled


def records_in(folder: Path, place: Place) -> Iterator[tuple[Record, Path]]:
    """Each whole outcome below ``out/`` as (record, folder of its events and log). Runs that
    were killed from outside leave no record, as everywhere."""
    planned = _plan(folder / "plan.jsonl")
    found = {path: read_json(path) for path in sorted(folder.glob("out/*/*/outcome.json"))}
    try:
        rounds = _rounds(found)
    except (AttributeError, KeyError, TypeError) as error:
        raise RecordError(f"holds no outcome of a bundle ({error}).", where=str(folder)) from error
    for path, data in found.items():
        try:
            run = planned[data["name"]]
            if data["digest"] != run["digest"]:
                raise RecordError("was measured from another plan.", where=str(path))
            if data["exit_code"] == SIGKILLED and not data["over_limit"]:
                continue
            record = assembled(
                run,
                place,
                data["hardware"],
                data["started"],
                _outcome(path, data),
                data["finished"],
                log_tail=memory.tail(path.with_name("log")),
                round_=rounds.get(path),
            )
        except (KeyError, TypeError) as error:
            raise RecordError(f"is no outcome of a bundle ({error}).", where=str(path)) from error
        yield record, path.parent


def _rounds(found: Mapping[Path, Any]) -> dict[Path, dict[str, Any]]:
    """Outcome → the ``round`` of its record, for those that took turns with others."""
    together: dict[str, dict[str, Path]] = {}
    for path, data in found.items():
        about = data.get("round") or {}
        if len(about.get("members", ())) > 1:
            together.setdefault(about["id"], {})[data["name"]] = path
    rounds = {}
    for identity, paths in together.items():
        outcomes = {name: _outcome(path, found[path]) for name, path in paths.items()}
        turns = {name: effects.turns(one.events, one.turns) for name, one in outcomes.items()}
        compared = effects.effects(turns)
        for name, path in paths.items():
            effect, cycles = compared.get(name, (None, 0))
            rounds[path] = {
                "id": f"{found[path]['hardware']['machine']}/{identity}",
                "members": list(found[path]["round"]["members"]),
                "companion": name in found[path]["round"].get("companions", ()),
                "effect": effect,
                "cycles": cycles,
            }
    return rounds


def certificates_in(folder: Path) -> Iterator[dict[str, Any]]:
    """Each certificate below ``out/certificates/``, older ones first."""

    def made(planned, data, outcome, tail, place):
        others = {}
        for path in sorted(place.glob("*/outcome.json")):
            beside = read_json(path)
            others[beside["device"]] = _outcome(path, beside)
        machine = data["hardware"]["machine"]
        return assembled_certificate(planned, outcome, tail, others, machine)

    return _beside(folder, "certificates", made)


def probes_in(folder: Path) -> Iterator[dict[str, Any]]:
    """Each probe below ``out/probes/``, older ones first; one that failed has its ``error``."""

    def made(planned, data, outcome, tail, place):
        return assembled_probe(planned, data["threads"], data["hardware"], outcome, tail)

    return _beside(folder, "probes", made)


def _beside(folder: Path, kind: str, made: Callable[..., dict[str, Any]]) -> Iterator[Any]:
    file = folder / f"{kind}.json"
    planned = read_json(file) if file.exists() else {}
    for path in sorted(folder.glob(f"out/{kind}/*/*/outcome.json")):
        data = read_json(path)
        try:
            one = planned[Path(data["name"]).name]
            if data["digest"] != one["digest"]:
                raise RecordError("was made from another plan.", where=str(path))
            if data["exit_code"] == SIGKILLED and not data["over_limit"]:
                continue
            outcome, tail = _outcome(path, data), memory.tail(path.with_name("log"))
            found = made(one, data, outcome, tail, path.parent)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise RecordError(f"is no outcome of a bundle ({error}).", where=str(path)) from error
        yield found


def plan_with(plan: Path, here: Path) -> bytes:
    """The bundle's plan, and of the one that is `here` the other runs that have a pointer: an
    experiment may travel in several bundles."""
    planned = _plan(plan)
    known = _plan(here) if here.exists() else {}
    others = [
        run for name, run in known.items()
        if name not in planned and (here.parent / f"{name}.json").is_file()
    ]  # fmt: skip
    return "".join(json.dumps(run) + "\n" for run in [*planned.values(), *others]).encode()


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


def _plan(path: Path) -> dict[str, Mapping[str, Any]]:
    try:
        runs = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        return {run["name"]: run for run in runs}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RecordError(f"cannot be read as a plan ({error}).", where=str(path)) from error
