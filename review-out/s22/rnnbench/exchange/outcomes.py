"""The outcomes of a bundle → records and certificates, judged like local ones, as an export has
them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from rnnbench.errors import RecordError
from rnnbench.exchange.archive import MAX_FILE, safe_name
from rnnbench.records.plan_file import Experiment, Skipped, read_experiment, read_runs
from rnnbench.records.record import Record
from rnnbench.records.store import read_json, write_json
from rnnbench.running.assemble import Trained, records_of
from rnnbench.running.certificates import assembled_certificate
from rnnbench.running.worker import Outcome, parse
from rnnworker import machine
from rnnworker.members import tail


def lay_out(bundle: Path, folder: Path) -> None:
    """Writes the outcomes of a `bundle` into the empty `folder`, as an export has them."""
    _check_files(bundle)
    experiment = _experiment(bundle)

    def target(name: str) -> Path:
        if not safe_name(name):
            raise RecordError(f"{name!r} is not a safe name.", where=str(bundle))
        return folder / name

    machines: dict[str, Mapping[str, Any]] = {}
    for record, outcome in records_in(bundle, experiment.name):
        machines[record.machine] = record.hardware
        file = target(record.path)
        write_json(file, record)
        for name, suffix in (("events.jsonl", ".events.jsonl"), ("log", ".log")):
            if (outcome / name).exists():
                shutil.copyfile(outcome / name, file.with_suffix(suffix))
        plan = target(f"{record.machine}/{experiment.name}/plan.jsonl")
        if not plan.exists():
            write_json(plan.with_name("experiment.json"), experiment)
            shutil.copyfile(bundle / "plan.jsonl", plan)
    for data in certificates_in(bundle, machines):
        name = f"{data['machine']}/{experiment.name}/certificates/{data['key']}.json"
        write_json(target(name), data)
    if not any(folder.iterdir()):
        what = "has no finished run below out/."
        raise RecordError(what, where=str(bundle), remedy="start its run.py.")


def _check_files(bundle: Path) -> None:
    """Raises `RecordError` for a link, which could bring a file of this machine into the results,
    and for a file that is too large to be read at once."""
    for path in [*bundle.glob("*.json*"), bundle / "out", *(bundle / "out").rglob("*")]:
        if path.is_symlink() or (path.exists() and not (path.is_file() or path.is_dir())):
            raise RecordError("is not a plain file.", where=str(path))
        if path.is_file() and path.stat().st_size > MAX_FILE:
            raise RecordError(f"has more than {MAX_FILE >> 20} MiB.", where=str(path))


def _experiment(bundle: Path) -> Experiment:
    """The experiment, including the runs that the other machine skipped."""
    experiment, file = read_experiment(bundle / "experiment.json"), bundle / "out" / "skipped.json"
    with _is_an_outcome(file):
        skipped = msgspec.convert(read_json(file), dict[str, str]) if file.exists() else {}
    more = tuple(Skipped(name, why) for name, why in skipped.items())
    return msgspec.structs.replace(experiment, skipped=experiment.skipped + more)


def records_in(folder: Path, experiment: str) -> Iterator[tuple[Record, Path]]:
    """Each complete outcome below ``out/`` as (record, folder of its events and log). The site of a
    record is its machine. Runs that received an external SIGKILL have no record, as in local
    measurements."""
    planned = {run.name: run for run in read_runs(folder / "plan.jsonl")}
    rounds: dict[str, tuple[Mapping[str, Any], dict[str, tuple[Trained, Path]]]] = {}
    for path in sorted(folder.glob("out/*/*/outcome.json")):
        with _is_an_outcome(path):
            data = read_json(path)
            run, facts = planned[data["name"]], data["round"]
            if data["digest"] != run.digest:
                raise RecordError("was measured with another plan.", where=str(path))
            hardware, outcome = data["hardware"], _outcome(path, data)
            trained = Trained(
                run, experiment, hardware["machine"], data["started"], data["finished"], hardware,
                outcome,
            )  # fmt: skip
            if run.name not in facts["members"]:
                raise ValueError(f"{run.name} is no member of its round")
            _, measured = rounds.setdefault(facts["id"], (facts, {}))
            measured[run.name] = trained, path.parent
    for identity, (facts, measured) in rounds.items():
        with _is_an_outcome(folder):
            cohort = [measured[name][0] for name in facts["members"] if name in measured]
            made = records_of(cohort, identity, facts["companions"])
        yield from ((record, measured[name][1]) for name, record in made.items())


def certificates_in(
    folder: Path, machines: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
) -> Iterator[dict[str, Any]]:
    """Each certificate below ``out/certificates/``, older ones first.

    A bundle that went on on another machine of the same kind, such as the next virtual machine of a
    provider, did not make them again: those of `machines` (name → hardware) have them too, before
    their own."""
    own = []
    file = folder / "certificates.json"
    all_planned = read_json(file) if file.exists() else {}
    for path in sorted(folder.glob("out/certificates/*/*/outcome.json")):
        with _is_an_outcome(path):
            data = read_json(path)
            planned, outcome = all_planned[Path(data["name"]).name], _outcome(path, data)
            if data["digest"] != planned["digest"]:
                raise RecordError("was made with another plan.", where=str(path))
            if outcome.is_killed:
                continue
            outcomes = {planned["devices"][0]["name"]: outcome}
            for further in sorted(path.parent.glob("*/outcome.json")):
                other = read_json(further)
                outcomes[other["device"]] = _outcome(further, other)
            hardware = data["hardware"]
            own.append(assembled_certificate(planned, outcomes, hardware["machine"]))
            kind = machine.kind(hardware)
            alike = {name for name, facts in machines.items() if machine.kind(facts) == kind}
            alike.discard(hardware["machine"])
        yield from ({**own[-1], "machine": name} for name in sorted(alike))
    yield from own


@contextmanager
def _is_an_outcome(path: Path) -> Iterator[None]:
    try:
        yield
    except (AttributeError, KeyError, OSError, TypeError, ValueError) as error:
        raise RecordError(f"is not an outcome of a bundle ({error}).", where=str(path)) from error


def _outcome(path: Path, data: Mapping[str, Any]) -> Outcome:
    """What `Outcome.facts` wrote, with the events and the end of the log beside it."""
    parsed = map(parse, path.with_name("events.jsonl").read_bytes().split(b"\n"))
    facts = {name: data[name] for name in Outcome().facts()}
    events = [event for event in parsed if event is not None]
    return Outcome(events, log_tail=tail(path.with_name("log")), **facts)
