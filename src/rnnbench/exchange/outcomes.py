"""What a bundle's runs left → records, judged here as every other run is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rnnbench.errors import RecordError
from rnnbench.records.record import Record
from rnnbench.records.store import read_json
from rnnbench.running import memory
from rnnbench.running.certify import assembled as assembled_certificate
from rnnbench.running.supervise import SIGKILLED, Outcome, parse
from rnnbench.running.train import Place, assembled


def records_in(folder: Path, place: Place) -> Iterator[tuple[Record, Path]]:
    """Each whole outcome below ``out/`` as (record, folder of its events and log). Runs that
    were killed from outside leave no record, as everywhere."""
    planned = _plan(folder / "plan.jsonl")
    for path in sorted(folder.glob("out/*/*/outcome.json")):
        data = read_json(path)
        try:
            run = planned[data["name"]]
            if data["digest"] != run["digest"]:
                raise RecordError("was measured from another plan.", where=str(path))
            if data["exit_code"] == SIGKILLED and not data["over_limit"]:
                continue
            outcome = _outcome(path, data)
            record = assembled(
                run,
                place,
                data["hardware"],
                data["started"],
                outcome,
                data["finished"],
                log_tail=memory.tail(path.with_name("log")),
            )
        except (KeyError, TypeError) as error:
            raise RecordError(f"is no outcome of a bundle ({error}).", where=str(path)) from error
        yield record, path.parent


def certificates_in(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each certificate below ``out/certificates/`` as (machine, certificate), older ones first."""
    planned = read_json(folder / "certificates.json")
    for path in sorted(folder.glob("out/certificates/*/*/outcome.json")):
        data = read_json(path)
        try:
            one = planned[Path(data["name"]).name]
            if data["digest"] != one["digest"]:
                raise RecordError("was certified from another plan.", where=str(path))
            if data["exit_code"] == SIGKILLED and not data["over_limit"]:
                continue
            made_on = data["hardware"]["machine"]
            tail = memory.tail(path.with_name("log"))
            yield made_on, assembled_certificate(one, _outcome(path, data), tail, made_on)
        except (KeyError, TypeError) as error:
            raise RecordError(f"is no outcome of a bundle ({error}).", where=str(path)) from error


def _outcome(path: Path, data: Mapping[str, Any]) -> Outcome:
    events, garbage = _events(path.with_name("events.jsonl"))
    return Outcome(
        events=events,
        garbage=garbage,
        exit_code=data["exit_code"],
        over_limit=data["over_limit"],
        phase=data["phase"],
    )


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
