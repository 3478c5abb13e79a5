"""Prepares a model for runtimes and lets them answer in turns: one process for each runtime, of
which one answers while the others sleep. Several rounds, each with new processes, which are forked
from the same ones; the first round certifies its processes before any of them is timed."""

from __future__ import annotations

import json
import os
import random
import select
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import msgspec

from rnnbench import locks
from rnnbench.builds.environments import prepare
from rnnbench.builds.launcher import launcher
from rnnbench.builds.pins import build_of
from rnnbench.errors import RunError
from rnnbench.grid.choices import Build
from rnnbench.prediction import messages
from rnnbench.prediction.messages import (
    Case,
    Difference,
    Fault,
    Message,
    Prepared,
    Said,
    Timed,
)
from rnnbench.records.predictions import ChosenRuntime
from rnnbench.running.worker import job_of
from rnnserve import FULL_PRECISION
from rnnworker.forked_workers import Forked, Importer
from rnnworker.members import Member, end_process
from rnnworker.shared_file import timing_lock
from rnnworker.workers import WORKER, environment_of

TURN = 0.06  # seconds of a turn, at least one call
LEAD = 0.01  # seconds of answers before a turn, at least one call
NO_LEAD = 1.0  # seconds of a call that is not preceded by another one
LONG = 2 * TURN  # a runtime with longer calls has one turn in a round, unless it is the reference
ROUNDS = 5
CYCLES = 5  # turns of each runtime with each batch in a round
PREPARE_SECONDS = 600
ANSWER_SECONDS = 600  # for the answers before the first turn, and for a turn
IMPORT_SECONDS = 600  # for the imports of the process that forks


@dataclass(frozen=True)
class Job:
    """What is compared.

    - `config`: of a run, with its model, data, device and build. Without ``model.data``, the
      dataset is an .npz file with the arrays that are asked. `pinned_md5`: of the dataset.
    - `runtimes`: the first one is the reference of the ratios.
    - `batches`: numbers of samples in a call.
    - `root`: the project's folder; `folder`: for the exported files and the logs.
    - `train`: whether the model is trained first.
    """

    config: Mapping[str, Any]
    runtimes: Sequence[ChosenRuntime]
    batches: Sequence[int]
    root: Path
    folder: Path
    rounds: int = ROUNDS
    cycles: int = CYCLES
    pinned_md5: str | None = None
    train: bool = False

    @property
    def build(self) -> Build:
        return build_of(self.config["build"])

    @property
    def function(self) -> str:
        """The function of the model: ``FILE.py:NAME`` or ``package.module:NAME``."""
        return str(self.config["model"]["function"])

    @cached_property
    def threads(self) -> int:
        return int(self.for_worker["threads"])

    @cached_property
    def for_worker(self) -> dict[str, Any]:
        """The worker's job for the config. Raises `RunError` for more threads than cores."""
        return job_of(self.config, self.root, pinned_md5=self.pinned_md5)


@dataclass
class Turn:
    """One turn. `calls`: seconds of each call; `cpu`: CPU seconds of the turn; `threads`: with a
    share in them; `slept`: CPU seconds of the process between the previous turn and this one."""

    round: int
    cycle: int
    batch: int
    calls: list[float]
    cpu: float
    threads: int
    slept: float


@dataclass
class Outcome:
    """What one runtime did.

    - `chosen`: the runtime.
    - `refused`: why it cannot answer with the model, or None.
    - `folder`: of its exported files; `imports`: modules that are imported before the fork.
    - `certificate`: what its process said when it was asked everything, or None; `turns`: of all
      rounds.
    """

    chosen: ChosenRuntime
    refused: str | None = None
    folder: str | None = None
    imports: Sequence[str] = ()
    certificate: Said | None = None
    turns: list[Turn] = field(default_factory=list)
    peak_bytes: int = 0

    @property
    def runtime(self) -> str:
        """Its name."""
        return self.chosen.name

    @property
    def unequal(self) -> list[Difference]:
        """The answers that differ from what they should be."""
        return self.certificate.unequal if self.certificate else []

    def first_wrong(self) -> str | None:
        """The first wrong answer without numbers, or the worst one, in words; None without any."""
        wrong = self.unequal
        if not wrong:
            return None
        for each in wrong:
            if each.error is not None:
                return f"{each.asked}: {each.error}"
        worst = max(wrong, key=lambda each: each.difference)
        text = f"{worst.asked}: off by {worst.difference:.2g}"
        if self.chosen.precision != FULL_PRECISION:
            text += f", of which rounding to {self.chosen.precision} explains {worst.bound:.2g}"
        return text

    def quickest(self, batch: int) -> float:
        """The seconds of the quickest timed call with so many samples; 0 before the first one."""
        calls = [min(turn.calls) for turn in self.turns if turn.batch == batch]
        return min(calls, default=0.0)

    @property
    def is_right(self) -> bool:
        """Whether it computes the same function, up to the rounding of its precision."""
        return self.refused is None and self.certificate is not None and not self.unequal


def measure(job: Job, say: Callable[[str], None]) -> tuple[Prepared, list[Outcome]]:
    """Exports, certifies and times. Returns an outcome for each runtime beside what was prepared.

    Only runtimes that are certified are timed. Raises `RunError` if the model cannot be prepared or
    a process ends, and the errors of builds.
    """
    prepare(job.build, job.root, say)
    prepared = _prepared(job, say)
    outcomes = []
    for chosen in job.runtimes:
        made = prepared.runtimes[chosen.name]
        outcomes.append(Outcome(chosen, made.refused, made.folder, made.imports))
    remaining = [outcome for outcome in outcomes if outcome.refused is None]
    order = random.Random(0)
    holder = f"process {os.getpid()}, prediction with {job.function}"
    groups = [Group(job, together) for together in _by_imports(remaining)]
    processes = [process for group in groups for process in group.processes]
    with locks.locked(timing_lock(), holder, lambda other: say(f"waiting for {other}")):
        try:
            for number in range(job.rounds):
                processes = _round(job, number, processes, prepared.cases, order, say)
        finally:
            for group in groups:
                group.end()
    return prepared, outcomes


def _prepared(job: Job, say: Callable[[str], None]) -> Prepared:
    trains = "trains and " if job.train else ""
    say(f"{trains}exports the model and computes what the answers should be")
    facts = {
        "config": job.config,
        "data": job.for_worker["dataset"],
        "pinned_md5": job.pinned_md5,
        "batches": list(job.batches),
        "runtimes": msgspec.to_builtins(job.runtimes),
        "threads": job.threads,
        "train": job.train,
        "folder": str(job.folder),
    }
    log = job.folder / "prepare.log"
    try:
        with log.open("wb") as output:
            done = subprocess.run(
                _command(job, facts, "prepare.json"),
                env=_environment(job),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=PREPARE_SECONDS,
            )
    except subprocess.TimeoutExpired:
        what = f"has not prepared the model in {PREPARE_SECONDS} s: {_last_line(log)}"
        raise RunError(what, where=str(log)) from None
    file = job.folder / "prepared.json"
    if done.returncode or not file.exists():
        raise RunError(f"the model cannot be prepared: {_last_line(log)}", where=str(log))
    content = file.read_bytes()
    fault = messages.read(content, Fault, str(file)).fault
    if fault is not None:
        raise RunError(fault, where=job.function)
    return messages.read(content, Prepared, str(file))


def _command(job: Job, facts: Mapping[str, object], name: str) -> list[str]:
    """The command of a process of `rnnworker.serving`, with its job in the file `name`."""
    path = job.folder / name
    path.write_text(json.dumps(facts))
    return [*launcher(job.build, job.root), "-B", WORKER, "--serving", str(path)]


def _environment(job: Job) -> dict[str, str]:
    variables: dict[str, str] = environment_of(job.config, job.threads)
    variables["CUDA_VISIBLE_DEVICES"] = "-1"
    variables["KERAS_BACKEND"] = "tensorflow"
    variables["TF_CPP_MIN_LOG_LEVEL"] = "3"
    return variables


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "no message"


class Group:
    """The process that forks those of runtimes with the same imports, in all rounds. It starts with
    the first of them, so that it imports while nothing else is timed."""

    def __init__(self, job: Job, outcomes: Sequence[Outcome]) -> None:
        self.job = job
        self.outcomes = outcomes
        self.importer: Importer | None = None
        self.processes = [Process(self, outcome) for outcome in outcomes]

    def fork(self, outcome: Outcome, only_timed: bool, events: int) -> Forked:
        """The process of a runtime, which writes to the descriptor `events`. Raises `RunError` if
        the one that forks it has ended, or does not end its imports."""
        job = self.job
        name = outcome.runtime
        facts = {
            "folder": str(job.folder),
            "runtime": msgspec.to_builtins(outcome.chosen),
            "only_timed": only_timed,
            "imports": outcome.imports,
            "parent": os.getpid(),
            "threads": job.threads,
            "function": job.function,
        }
        member = Member(
            name=name,
            command=_command(job, facts, f"{name}.json"),
            environment=_environment(job),
            log=str(job.folder / f"{name}.log"),
            events_file="",
            limits={"import": IMPORT_SECONDS},
        )
        log = job.folder / f"{self.outcomes[0].runtime}-imports.log"
        if self.importer is None:
            self.importer = Importer(member._replace(log=str(log)))
            if not self.importer.wait():
                self._failed(f"has not answered for {IMPORT_SECONDS} s", log)
        try:
            return self.importer.fork(member, events)
        except OSError:
            self._failed(f"ended: {_last_line(log)}", log)

    def _failed(self, what: str, log: Path) -> NoReturn:
        names = ", ".join(outcome.runtime for outcome in self.outcomes)
        raise RunError(f"the process of {names} {what}", where=str(log))

    def end(self) -> None:
        if self.importer is not None:
            self.importer.finish()


class Process:
    """The process of one runtime, a new one in each round."""

    def __init__(self, group: Group, outcome: Outcome) -> None:
        self.group = group
        self.outcome = outcome
        self.log = group.job.folder / f"{outcome.runtime}.log"
        self.forked: Forked | None = None
        self.lines: BinaryIO | None = None
        self.ended: float | None = None

    def start(self, only_timed: bool) -> None:
        """`only_timed`: whether it is asked only what is timed before its turns. Raises `RunError`
        if it cannot be forked."""
        self.ended = None
        reader, writer = os.pipe()
        self.lines = os.fdopen(reader, "rb")
        try:
            self.forked = self.group.fork(self.outcome, only_timed, writer)
        finally:
            os.close(writer)

    def read(self, kind: type[Message]) -> Message:
        """What the process says next. Raises `RunError` if it has ended, says nothing for
        `ANSWER_SECONDS`, after which it is killed, or says something else."""
        assert self.forked is not None and self.lines is not None
        what = f"has not answered for {ANSWER_SECONDS} s"
        in_time, _, _ = select.select([self.lines], [], [], ANSWER_SECONDS)
        if in_time:
            line = self.lines.readline()
            if line:
                return messages.read(line, kind, str(self.log))
            what = f"ended: {_last_line(self.log)}"
        else:
            os.kill(self.forked.pid, signal.SIGKILL)
        raise RunError(f"the process of {self.outcome.runtime} {what}", where=str(self.log))

    def turn(self, number: int, cycle: int, case: int, batch: int) -> None:
        """Gives it a turn, which its outcome has then. `number`: of the round."""
        outcome = self.outcome
        lead = LEAD
        if outcome.quickest(batch) > NO_LEAD:
            lead = 0.0
        assert self.forked is not None
        with suppress(BrokenPipeError):  # of a process that has ended, which `read` says
            self.forked.stdin.write(f"{case} {TURN} {lead}\n".encode())
            self.forked.stdin.flush()
        timed = self.read(Timed)
        slept = 0.0
        if self.ended is not None:
            slept = timed.slept - self.ended
        self.ended = timed.ended
        outcome.peak_bytes = max(outcome.peak_bytes, timed.peak)
        calls = [nanoseconds / 1e9 for nanoseconds in timed.calls]
        turn = Turn(number, cycle, batch, calls, timed.cpu, timed.threads, slept)
        outcome.turns.append(turn)

    def end(self) -> None:
        if self.forked is not None:
            with suppress(BrokenPipeError):
                self.forked.stdin.close()
            end_process(self.forked)
            os.close(self.forked.ended)
            self.forked = None
        if self.lines is not None:
            self.lines.close()


def _by_imports(outcomes: Sequence[Outcome]) -> list[list[Outcome]]:
    """The outcomes whose runtimes import the same modules, or none, together."""
    found: dict[tuple[str, ...], list[Outcome]] = {}
    for outcome in outcomes:
        found.setdefault(tuple(outcome.imports), []).append(outcome)
    return list(found.values())


def _round(
    job: Job,
    number: int,
    processes: Sequence[Process],
    cases: Sequence[Case],
    order: random.Random,
    say: Callable[[str], None],
) -> list[Process]:
    """Starts the processes and gives them turns, in a new random order in each cycle.

    In the first round they are certified, and load one after the other, which is timed. Returns
    those that have turns. Raises `RunError` if one fails in a later round.
    """
    running: list[Process] = []
    timed = [place for place, case in enumerate(cases) if case.is_timed]
    try:
        for process in processes:
            running.append(process)
            if number > 0:
                process.start(only_timed=True)
                continue
            say(f"asks {process.outcome.runtime} for answers")
            if not _is_certified(process):
                running.pop().end()
        if number > 0:
            for process in running:
                _check_again(process)
        say(f"round {number + 1} of {job.rounds}")
        for cycle in range(job.cycles):
            for case in timed:
                members = running[:]
                order.shuffle(members)
                for process in members:
                    batch = cases[case].batch
                    outcome = process.outcome
                    is_reference = outcome.chosen == job.runtimes[0]
                    if cycle > 0 and not is_reference and outcome.quickest(batch) > LONG:
                        continue
                    process.turn(number, cycle, case, batch)
    finally:
        for process in running:
            process.end()
    return running


def _is_certified(process: Process) -> bool:
    """Whether the answers of a new process are right, which its outcome has then."""
    outcome = process.outcome
    try:
        process.start(only_timed=False)
        said = process.read(Said)
    except RunError as error:  # a crash of one runtime is no reason to measure no other
        said = Said(refused=error.what)
    if said.refused is not None:
        outcome.refused = said.refused
        return False
    outcome.certificate = said
    return outcome.is_right


def _check_again(process: Process) -> None:
    """Raises `RunError` if the answers differ from those of the first round."""
    outcome = process.outcome
    said = process.read(Said)
    if said.refused is not None:
        raise RunError(said.refused, where=outcome.runtime)
    wrong = Outcome(outcome.chosen, certificate=said).first_wrong()
    if wrong:
        raise RunError(f"another process gave other answers: {wrong}", where=outcome.runtime)
