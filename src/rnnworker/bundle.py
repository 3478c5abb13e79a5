"""Measures the runs of a bundle on a machine that has Python but no rnnbench.

``python run.py`` in the bundle's folder executes all runs in the plan's order, the runs of a round
together, in turns. A run's certificate is made before it. It resumes after an interruption and can
stop within a time limit.
``rnnbench import`` makes records of what it writes below ``out/``; verdicts are reached only then.
"""

import argparse
import contextlib
import fcntl
import glob
import hashlib
import json
import os
import sys
import tarfile
import time
from typing import IO, Any, Container, Dict, List, Mapping, Optional, Sequence, Set

from rnnworker import cards, cohorts, machine, processors, rounds, workers
from rnnworker.bundle_options import LACKING, LEFT, Builds, parser_of
from rnnworker.durations import OUTCOME, Durations
from rnnworker.forked_workers import Importers
from rnnworker.json_types import Json, Planned
from rnnworker.measuring import Measured, Measuring, now_as_stamp, start_stamp
from rnnworker.members import Member, Outcome
from rnnworker.shared_file import open_shared, timing_lock
from rnnworker.workers import read, write

CERTIFICATE_SECONDS = 900.0  # of each phase
# The most for such a phase, which may hang: a share of the session, but not less than a minute.
SHARE, LEAST_SECONDS = 0.25, 60.0
MARGIN = 1.25  # by which things may take longer than ever before
PACK_SECONDS = 20.0
LOCK_SECONDS = 0.2
CUT = "ended by --stop-after; will be repeated"
TOO_LONG = "took {:.0f} s in phase {} and was ended; it needs a longer --stop-after"


def main(folder: str, arguments: Sequence[str]) -> int:
    """Executes the bundle in `folder` and returns the exit code (`bundle_options.EXIT_CODES`)."""
    begin = time.monotonic()
    parser = parser_of(folder, (__doc__ or "").partition("\n")[0])
    options = parser.parse_args(arguments)
    packed = read(os.path.join(folder, "bundle.json"))["files"]
    for name, digest in sorted(packed.items()):
        with open(os.path.join(folder, name), "rb") as file:
            content = file.read()
        if hashlib.sha256(content).hexdigest() != digest:
            sys.exit("{} is not what was packed: copy the bundle again.".format(name))

    try:
        session = Session(folder, options, begin)
    except ValueError as error:
        parser.error(str(error))
    return session.run()


class Session(Measuring):
    """One start of a bundle: its plan, this machine, its deadline and its output folder."""

    def __init__(self, folder: str, options: argparse.Namespace, begin: float) -> None:
        """Raises ValueError for an option that names no build of the bundle, or no folder."""
        self.bundle = folder
        self.options = options
        self.deadline: Optional[float] = None
        self.phase_seconds = CERTIFICATE_SECONDS
        if options.limit is not None:
            self.deadline = begin + options.limit
            share = max(LEAST_SECONDS, SHARE * options.limit)
            self.phase_seconds = min(CERTIFICATE_SECONDS, share)

        with open(os.path.join(folder, "plan.jsonl")) as file:
            self.runs: List[Json] = [json.loads(line) for line in file if line.strip()]
        self.places: Dict[str, int] = {}
        for place, run in enumerate(self.runs, 1):
            self.places[run["name"]] = place
        self.certificates: Dict[str, Json] = {}  # key → planned certificate, with a name
        if not options.no_certificates:
            self.certificates = read(os.path.join(folder, "certificates.json"))
        for key, planned in self.certificates.items():
            planned["name"] = "certificates/" + key
        experiment = read(os.path.join(folder, "experiment.json"))
        rounds_: Dict[Optional[str], List[Json]] = {}
        for run in self.runs:
            rounds_.setdefault(run.get("round"), []).append(run)
        self.references = set()
        for of_round in rounds_.values():
            compared = cohorts.reference_of(of_round, experiment.get("reference"))
            if compared:
                self.references.add(compared["name"])
        # User-supplied Python files: path on the machine that made the bundle → local path.
        own = read(os.path.join(folder, "bundle.json"))["own"]
        self.own = {path: os.path.join(folder, name) for path, name in own.items()}

        self.hardware = machine.fingerprint()
        self.gpus = self.hardware["gpus"]
        self.cores = len(processors.read_topology())
        names = {run["config"]["build"]["name"] for run in self.runs}
        self.builds = Builds(options.python, options.site, names)

        self.settled: Set[str] = set()  # names of certificates that need no further work
        self.unmade: Set[str] = set()  # of those that are left for lack of time
        self.given_up: Set[str] = set()  # of those among them that take too long for this session
        self.packed = time.monotonic()
        self.packing = 0.0  # seconds that it took
        self.importers = Importers()
        self.out = os.path.join(options.out, "out")
        os.makedirs(self.out, exist_ok=True)
        self.durations = Durations(options.limit)
        self.durations.recall(self.out, self.runs)
        self.durations.recall(self.out, self.certificates.values())

        self.skipped: Dict[str, str] = {}
        self.skipped_file = os.path.join(self.out, "skipped.json")
        if os.path.exists(self.skipped_file):  # from an earlier start, maybe with other Pythons
            write(self.skipped_file, self.skipped)

    def run(self) -> int:
        """Executes all runs that are left. Returns the exit code."""
        try:
            return self._run()
        finally:
            self.importers.end()

    def _run(self) -> int:
        done = {run["name"]: False for run in self.runs if self.done(run)}
        self.check_builds(done)
        # What used up most of an earlier session may hang, so that it comes last.
        runs = sorted(self.runs, key=lambda run: run["name"] in self.durations.endless)
        left = self.complete(runs, done)
        self.pack(always=True)

        if left:
            print("{} runs are left: start it again.".format(len(left)))
        if self.unmade:
            print("{} certificates are left: start it again.".format(len(self.unmade)))
        if self.builds.unfit:
            return LACKING
        if left or self.unmade:
            return LEFT
        return 0

    def _say(self, name: str, message: str) -> None:
        place = self.places[name]
        print("[{}/{}] {}  {}".format(place, len(self.runs), name, message), flush=True)

    def check_builds(self, done: Container[str]) -> None:
        """Refuses each build whose Python cannot run it, but not if all its runs are `done`
        (names)."""
        last_of_build = {}
        for run in self.runs:
            config = run["config"]
            if run["name"] not in done and not self.obstacle(run):
                last_of_build[config["build"]["name"]] = config
        for config in last_of_build.values():
            if self.time_left() <= 0:
                return
            self.builds.check(config, self.time_left)

    def time_left(self) -> float:
        """Returns the seconds until results must be packed; infinity without ``--stop-after``."""
        if self.deadline is None:
            return float("inf")
        return self.deadline - self.packing - time.monotonic()

    def obstacle(self, run: Planned) -> Optional[str]:
        """Returns the reason why `run` cannot run on this machine, or None."""
        config = run["config"]
        gpus = self.gpus or []
        device = config["device"]
        variable = workers.variables_of(config).get(cards.VISIBLE)
        names = [card["name"] for card in cards.visible(gpus, variable)]
        if device["kind"] == "gpu" and gpus and not names:
            return "no GPU on this machine, which has no visible one ({})".format(cards.VISIBLE)
        why = cards.unmet_device(device, self.cores, names)
        return why or self.builds.unfit.get(config["build"]["name"])

    def skip(self, run: Planned, why: str) -> None:
        self.skipped[run["name"]] = why
        write(self.skipped_file, self.skipped)
        if run["config"]["build"]["name"] not in self.builds.unfit:
            self._say(run["name"], "skipped: {}".format(why))

    def done(self, planned: Planned) -> bool:
        """Returns whether there is an outcome of `planned`; with ``--again``, whether there is a
        successful one. That of a certificate holds for machines of the same kind."""
        attempts = glob.escape(os.path.join(self.out, planned["name"]))
        for path in glob.glob(os.path.join(attempts, "*", OUTCOME)):
            outcome = read(path)
            if outcome["digest"] != planned["digest"]:
                continue
            about = outcome.get("round") or {}
            if planned["name"] in about.get("companions", ()):
                continue
            if self.options.again and outcome.get("exit_code"):
                continue
            if "implementations" in planned:
                made_on = machine.kind(outcome.get("hardware") or {})
                if made_on != machine.kind(self.hardware):
                    continue
            return True
        return False

    def fits(self, planned: Sequence[Planned]) -> bool:
        """Returns whether all of `planned` are likely to end in the time that is left."""
        seconds = sum(self.durations.needed(each) for each in planned)
        return MARGIN * seconds <= self.time_left()

    def prepare(self, runs: Sequence[Planned]) -> None:
        """Makes those certificates of the `runs` that are missing, possible on this machine and
        likely to end in time. A failed one counts as made and affects no run."""
        for run in runs:
            planned = self.certificates.get(run.get("certificate") or "")
            if planned is None:
                continue
            name = planned["name"]
            if name in self.settled or name in self.given_up:
                continue
            if not self.done(planned) and not self.obstacle(planned):
                result = None
                if self.durations.too_long.get(name, 0.0) >= self.phase_seconds:
                    print("{}  needs a longer --stop-after".format(name), flush=True)
                    self.given_up.add(name)
                elif self.fits([planned]):
                    result = self.check(planned)
                if result is None:
                    self.unmade.add(name)
                    continue
                self.pack()
            self.settled.add(name)
            self.unmade.discard(name)

    def folder(self, name: str) -> str:
        return os.path.join(self.out, name)

    def member(self, run: Planned, started: str, place: int) -> Member:
        folder = self._folder(run["name"], started)
        limits = run["config"].get("limits") or {}
        return self._member(run, folder, {"config": run["config"]}, limits, place)

    def keep(self, measured: Measured) -> Set[str]:
        """Writes outcomes. A run that the session's end cut short leaves none and is repeated."""
        about = {
            "id": measured.identity,
            "members": list(measured.started),
            "companions": sorted(measured.companions),
        }
        done = set()
        for run in sorted(measured.runs, key=lambda run: self.places[run["name"]]):
            name = run["name"]
            started = measured.started[name]
            folder = os.path.join(self.folder(name), started)
            outcome = measured.outcomes.get(name)
            if name in measured.again:
                if name not in measured.companions:
                    self._say(name, "ran out of memory; retrying it on its own")
                continue
            if outcome is None:  # it was not started
                message = CUT
            elif outcome.cut:
                message = CUT
                self.durations.keep_cut(folder, run, outcome.seconds)
            else:
                self.durations.note(run, outcome.seconds)
                message = self._keep(folder, run, started, outcome, about)
                done.add(name)
            self._say(name, message)
        if done:
            self.pack()
        return done

    def check(self, planned: Planned) -> Optional[str]:
        """Makes a certificate, in one worker process per device. Prints and returns a message on
        the result. Returns None if the end of the session cut it short, or if a phase took longer
        than this session allows and a longer session allows more."""
        name = planned["name"]
        started = start_stamp(self.folder(name))
        folder = self._folder(name, started)
        limits = {"default": self.phase_seconds}
        first = Outcome()  # on the first device
        took = 0.0
        for number, job in enumerate(workers.certificate_jobs(planned)):
            files = folder
            if number:  # a further device
                if self.obstacle(job):
                    continue
                files = os.path.join(folder, str(number))
                os.makedirs(files, exist_ok=True)
            member = self._member(planned, files, job, limits)
            outcome = self.supervise([member])[name]
            took += outcome.seconds

            if outcome.over_limit and self.phase_seconds < CERTIFICATE_SECONDS:
                why = TOO_LONG.format(self.phase_seconds, outcome.over_limit)
                print("{}  {}".format(name, why), flush=True)
                self.durations.keep_cut(folder, planned, took, self.phase_seconds)
                self.given_up.add(name)
                return None
            if outcome.cut:
                print("{}  {}".format(name, CUT), flush=True)
                self.durations.keep_cut(folder, planned, took)
                return None
            if number:
                facts = dict(outcome.facts(), device=job["device"])
                write(os.path.join(files, OUTCOME), facts)
            else:
                first = outcome

        self.durations.note(planned, took)
        message = self._keep(folder, planned, started, first)
        print("{}  {}".format(name, message), flush=True)
        return message

    def _folder(self, name: str, started: str) -> str:
        """Makes the folder of an attempt that began at `started`."""
        folder = os.path.join(self.folder(name), started)
        os.makedirs(folder)
        return folder

    def _keep(
        self,
        folder: str,
        planned: Planned,
        started: str,
        outcome: Outcome,
        about: Optional[Json] = None,
    ) -> str:
        """Writes the outcome and returns a message on the result. `about`: the round of a run."""
        facts = outcome.facts()
        if about:
            facts["round"] = about
        facts["name"] = planned["name"]
        facts["digest"] = planned["digest"]
        facts["started"] = started
        facts["finished"] = now_as_stamp()
        facts["hardware"] = self.hardware
        write(os.path.join(folder, OUTCOME), facts)

        if outcome.over_limit:
            return "over the limit of phase {}".format(outcome.over_limit)
        message = "exit code {}, {:.0f} s".format(outcome.exit_code, outcome.seconds)

        errors = [event for event in outcome.events if event["event"] == "error"]
        if not errors:
            return message
        error = "{type}: {message}".format(**errors[-1])
        if outcome.phase == "import" and about:
            build = planned["config"]["build"]
            python = self.builds.python_of(build)
            why = "{} cannot import its framework ({}); repair that installation"
            self.builds.refuse(build, why.format(python, error))
        return "{}, in phase {}: {}".format(message, outcome.phase, error)

    def _member(
        self,
        planned: Planned,
        folder: str,
        job: Json,
        limits: Mapping[str, float],
        place: int = 0,
    ) -> Member:
        """Returns the worker of `planned` that does `job` and has its files in `folder`. `place`:
        its number among the workers that run at the same time."""
        job = with_local_paths(job, self.own)

        config = job.pop("config")
        build = self.builds.with_sites(config["build"])
        job = workers.job_of(
            dict(config, build=build),
            self.bundle,
            pinned_md5=planned.get("pinned_md5"),
            place=place,
            nvml=os.path.join(self.bundle, "pynvml.py"),
            gpus=self.gpus,
            **job,
        )
        launcher = [self.builds.python_of(build)]
        files = os.path.join(folder, "")
        return workers.member_of(planned["name"], job, launcher, files, limits)

    def supervise(self, members: Sequence[Member], seed: int = 0) -> Dict[str, Outcome]:
        """Runs `members` while nothing else on this host is timed. Returns {name: outcome}."""
        with os.fdopen(open_shared(timing_lock()), "r+") as lock:
            if self._lock(lock):
                end = None
                if self.deadline is not None:
                    end = self.deadline - self.packing
                return rounds.supervise(members, seed, end, importers=self.importers)
        return {member.name: Outcome(cut=True, seconds=0.0) for member in members}

    def _lock(self, file: IO[Any]) -> bool:
        """Waits until nothing else is timed on this host; returns whether that was in time."""
        if self.deadline is None:
            fcntl.flock(file, fcntl.LOCK_EX)
            return True
        while True:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            if self.time_left() <= 0:
                return False
            time.sleep(LOCK_SECONDS)

    def pack(self, always: bool = False) -> None:
        """Packs all results so far into one file, for machines that return only few files."""
        if not self.options.pack:
            return
        begin = time.monotonic()
        if begin - self.packed < PACK_SECONDS and not always:
            return

        partial = self.options.pack + ".new"
        with tarfile.open(partial, "w:gz") as archive:
            archive.add(self.out, arcname="out")
        os.replace(partial, self.options.pack)
        self.packed = time.monotonic()
        self.packing = self.packed - begin


def with_local_paths(value: Any, paths: Mapping[str, str]) -> Any:
    """Replaces in `value` each path to a file, or to a function in a file, according to `paths`."""
    if isinstance(value, dict):
        return {key: with_local_paths(item, paths) for key, item in value.items()}
    if isinstance(value, list):
        return [with_local_paths(item, paths) for item in value]
    if not isinstance(value, str):
        return value
    path, colon, name = value.rpartition(":")
    if colon and path in paths:
        return paths[path] + colon + name
    return paths.get(value, value)
