"""The outcomes of a bundle → records and certificates, judged like local ones, as an export has
them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import msgspec

from rnnbench.errors import RecordError
from rnnbench.exchange.archive import MAX_FILE, safe_name
from rnnbench.records.plan_file import (
    Skipped,
    read_certificates,
    read_experiment,
    read_runs,
)
from rnnbench.records.record import Record
from rnnbench.records.store import read_json, write_json
from rnnbench.running.assemble import Trained, records_of
from rnnbench.running.certificates import assembled_certificate
from rnnbench.running.worker import Facts, Outcome, parse
from rnnworker import machine
from rnnworker.members import tail


def lay_out(bundle: Path, folder: Path) -> None:
    """Writes the outcomes of a bundle as an export has them.

    - `bundle`: its folder, after its ``run.py`` has measured.
    - `folder`: an empty one, which gets the layout of a results folder.

    Raises `RecordError` for a damaged bundle, and for one without a finished run.
    """
    _check_files(bundle)
    if not (bundle / "experiment.json").is_file():
        raise RecordError(
            "is not a bundle: it has no experiment.json.",
            where=str(bundle),
            remedy="name a file of `rnnbench export`, or a bundle's folder after its runs.",
        )
    experiment = read_experiment(bundle / "experiment.json")
    file = bundle / "out" / "skipped.json"  # the runs that the other machine skipped
    if file.exists():
        with _is_an_outcome(file):
            skipped = msgspec.convert(read_json(file), dict[str, str])
        more = tuple(Skipped(name, why) for name, why in skipped.items())
        experiment = msgspec.structs.replace(experiment, skipped=experiment.skipped + more)

    def target(name: str) -> Path:
        """Where the file of this name is written. A name comes from the bundle."""
        if not safe_name(name):
            raise RecordError(f"{name!r} is not a safe name.", where=str(bundle))
        return folder / name

    machines: dict[str, Facts] = {}  # name → hardware
    for record, outcome in records_in(bundle, experiment.name):
        machines[record.machine] = record.hardware
        file = target(record.path)
        write_json(file, record)
        for name in ("events.jsonl", "log"):
            attached = outcome / name
            if attached.exists():
                shutil.copyfile(attached, file.with_suffix(f".{name}"))

    for name in machines:
        plan = target(f"{name}/{experiment.name}/plan.jsonl")
        write_json(plan.with_name("experiment.json"), experiment)
        shutil.copyfile(bundle / "plan.jsonl", plan)

    for data in certificates_in(bundle, machines):
        name = f"{data['machine']}/{experiment.name}/certificates/{data['key']}.json"
        write_json(target(name), data)

    if not any(folder.iterdir()):
        raise RecordError(
            "has no finished run below out/.",
            where=str(bundle),
            remedy="start its run.py.",
        )


def _check_files(bundle: Path) -> None:
    """Raises `RecordError` if a file of the bundle must not be read:

    - a link, which could bring a file of this machine into the results,
    - a pipe, a socket or a device,
    - a file that is too large to be read at once.
    """
    out = bundle / "out"
    paths = [
        *bundle.glob("*.json*"),
        out,
        *out.rglob("*"),
    ]
    for path in paths:
        is_special = path.exists() and not path.is_file() and not path.is_dir()
        if path.is_symlink() or is_special:
            raise RecordError("is not a plain file.", where=str(path))
        if path.is_file() and path.stat().st_size > MAX_FILE:
            raise RecordError(f"has more than {MAX_FILE >> 20} MiB.", where=str(path))


def records_in(folder: Path, experiment: str) -> Iterator[tuple[Record, Path]]:
    """The records of a bundle's complete outcomes, below ``out/``.

    - `folder`: the bundle's.
    - `experiment`: the name of its experiment.

    The site of a record is its machine. Runs that received an external SIGKILL have no record, as
    in local measurements.

    Yields each record with the folder of its events and log. Raises `RecordError` if an outcome is
    damaged or of another plan.
    """
    planned = {run.name: run for run in read_runs(folder / "plan.jsonl")}
    rounds: dict[str, Facts] = {}
    # Round and run → how it was trained, and the folder of its outcome.
    measured: dict[tuple[str, str], Trained] = {}
    folders: dict[tuple[str, str], Path] = {}
    for path in sorted(folder.glob("out/*/*/outcome.json")):
        with _is_an_outcome(path):
            data = read_json(path)
            run = planned[data["name"]]
            if data["digest"] != run.digest:
                raise RecordError("was measured with another plan.", where=str(path))
            facts = data["round"]
            if run.name not in facts["members"]:
                raise ValueError(f"{run.name} is not a member of its round")

            identity = facts["id"]
            rounds.setdefault(identity, facts)
            folders[identity, run.name] = path.parent
            hardware = data["hardware"]
            measured[identity, run.name] = Trained(
                run=run,
                experiment=experiment,
                site=hardware["machine"],
                started=data["started"],
                finished=data["finished"],
                hardware=hardware,
                outcome=_outcome(path, data),
            )

    for identity, facts in rounds.items():
        cohort = []
        with _is_an_outcome(folder):
            for name in facts["members"]:
                if (identity, name) in measured:
                    cohort.append(measured[identity, name])
            made = records_of(cohort, identity, facts["companions"])
        for name, record in made.items():
            yield record, folders[identity, name]


def certificates_in(
    folder: Path,
    machines: Mapping[str, Facts] = MappingProxyType({}),
) -> Iterator[dict[str, object]]:
    """The contents of the certificates of a bundle's outcomes, below ``out/certificates/``.

    A bundle that was continued on another machine of the same kind, such as the next virtual
    machine of a provider, did not make its certificates again. So the other machines have them too,
    before their own.

    - `folder`: the bundle's.
    - `machines`: name → hardware, of the machines that measured.

    Yields older ones first. Raises `RecordError` if an outcome is damaged or of another plan.
    """
    own = []
    file = folder / "certificates.json"
    all_planned = read_certificates(file) if file.exists() else {}
    for path in sorted(folder.glob("out/certificates/*/*/outcome.json")):
        with _is_an_outcome(path):
            data = read_json(path)
            planned = all_planned[Path(data["name"]).name]
            outcome = _outcome(path, data)
            if data["digest"] != planned.digest:
                raise RecordError("was made with another plan.", where=str(path))
            if outcome.is_killed:
                continue

            outcomes = {planned.devices[0].name: outcome}
            for further in sorted(path.parent.glob("*/outcome.json")):
                other = read_json(further)
                outcomes[other["device"]] = _outcome(further, other)

            hardware = data["hardware"]
            made_on = hardware["machine"]
            certificate = assembled_certificate(planned, outcomes, made_on)
            kind = machine.kind(hardware)
            alike = {name for name, facts in machines.items() if machine.kind(facts) == kind}
            alike.discard(made_on)

        own.append(certificate)
        for name in sorted(alike):
            yield {**certificate, "machine": name}
    yield from own


@contextmanager
def _is_an_outcome(path: Path) -> Iterator[None]:
    """Raises `RecordError` for whatever is wrong with what is read meanwhile.

    `path`: of the file or folder that is read.
    """
    try:
        yield
    except (
        AttributeError,
        KeyError,
        OSError,
        TypeError,
        ValueError,
    ) as error:
        raise RecordError(f"is not an outcome of a bundle ({error}).", where=str(path)) from error


def _outcome(path: Path, data: Facts) -> Outcome:
    """What `Outcome.facts` wrote, with the events and the end of the log beside it.

    - `path`: of the file.
    - `data`: its content.

    Raises the errors that `_is_an_outcome` catches.
    """
    events = []
    content = path.with_name("events.jsonl").read_bytes()
    for line in content.split(b"\n"):
        event = parse(line)
        if event is not None:
            events.append(event)

    log_tail = tail(path.with_name("log"))
    facts = {name: data[name] for name in Outcome().facts()}
    return Outcome(events, log_tail=log_tail, **facts)
