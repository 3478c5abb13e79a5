"""Measures the runs of a bundle on a machine that has Python but no rnnbench.

``python run.py`` in the bundle's folder executes all runs in the plan's order, the runs of a round
together, in turns. A run's certificate is made before it. It resumes after an interruption and can
stop within a time limit.
``rnnbench import`` makes records of what it writes below ``out/``; verdicts are reached only then.
"""

import argparse
import contextlib
import datetime
import fcntl
import glob
import hashlib
import json
import os
import sys
import tarfile
import time
from typing import IO, Any, Dict, List, Mapping, Optional, Sequence, Set

from rnnworker import cards, cohorts, machine, processors, rounds, workers
from rnnworker.bundle_options import LACKING, LEFT, Builds, parser_of
from rnnworker.durations import OUTCOME, Durations
from rnnworker.forked_workers import Importers
from rnnworker.json_types import Config, Json, Planned
from rnnworker.members import Member, Outcome
from rnnworker.shared_file import open_shared
from rnnworker.workers import read, write

TIMING_LOCK = os.environ.get("RNNBENCH_TIMING_LOCK", "/tmp/rnnbench-timing.lock")
STAMP = "%Y%m%dT%H%M%S_%fZ"
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
    return session.measure()


class Session:
    """One start of a bundle: its plan, this machine, its deadline and its output folder."""

    def __init__(self, folder: str, options: argparse.Namespace, begin: float) -> None:
        """Raises ValueError for an option that names no build of the bundle, or no folder."""
        self.folder = folder
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
        self.reference = experiment.get("reference") or {}
        # User-supplied Python files: path on the machine that made the bundle → local path.
        own = read(os.path.join(folder, "bundle.json"))["own"]
        self.own = {path: os.path.join(folder, name) for path, name in own.items()}

        self.hardware = machine.fingerprint()
        self.cores = len(processors.read_topology())
        names = {run["config"]["build"]["name"] for run in self.runs}
        self.builds = Builds(options.python, options.site, names)

        self.settled: Set[str] = set()  # names of certificates that need no further work
        self.unmade: Set[str] = set()  # of those that are left for lack of time
        self.given_up: Set[str] = set()  # of those among them that take too long for this session
        self.packed = time.monotonic()
        self.packing = 0.0  # seconds that it took
        self.importers = Importers(lasting=True)
        self.out = os.path.join(options.out, "out")
        os.makedirs(self.out, exist_ok=True)
        self.durations = Durations(options.limit)
        self.durations.recall(self.out, self.runs)
        self.durations.recall(self.out, self.certificates.values())

        self.skipped: Dict[str, str] = {}
        self.skipped_file = os.path.join(self.out, "skipped.json")
        if os.path.exists(self.skipped_file):  # from an earlier start, maybe with other Pythons
            write(self.skipped_file, self.skipped)

    def measure(self) -> int:
        """Executes all runs that are left. Returns the exit code."""
        try:
            return self._measure()
        finally:
            self.importers.end()

    def _measure(self) -> int:
        self.check_builds()
        left = 0
        # What used up most of an earlier session may hang, so that it comes last.
        for run in sorted(self.runs, key=lambda run: run["name"] in self.durations.endless):
            if self.done(run):
                self.certify([run])
                continue

            why = self.obstacle(run["config"])
            if why:
                self.skipped[run["name"]] = why
                write(self.skipped_file, self.skipped)
                if run["config"]["build"]["name"] not in self.builds.unfit:
                    self._say(run["name"], "skipped: {}".format(why))
                continue

            together = self.cohort_of(run)
            self.certify(together)
            results: Dict[str, Optional[str]] = {}
            if self.fits(together):
                results = self.train(together)
            for name in sorted(results, key=self.places.__getitem__):
                self._say(name, results[name] or CUT)
            if results.get(run["name"]) is None:
                left += 1
            else:
                self.pack()
        self.pack(always=True)

        if left:
            print("{} runs are left: start it again.".format(left))
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

    def check_builds(self) -> None:
        """Refuses each build of the runs that are left whose Python cannot run it."""
        last_of_build = {}
        for run in self.runs:
            config = run["config"]
            if not self.done(run) and not self.obstacle(config):
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

    def obstacle(self, config: Config) -> Optional[str]:
        """Returns the reason why a run with `config` cannot run on this machine, or None."""
        gpus = self.hardware["gpus"]
        device = config["device"]
        variable = workers.variables_of(config).get(cards.VISIBLE)
        names = [card["name"] for card in cards.visible(gpus, variable)]
        if device["kind"] == "gpu" and gpus and not names:
            return "no GPU on this machine, which has no visible one ({})".format(cards.VISIBLE)
        why = cards.unmet_device(device, self.cores, names)
        return why or self.builds.unfit.get(config["build"]["name"])

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

    def cohort_of(self, run: Planned) -> List[Planned]:
        """Returns the runs that are measured together with `run`, which is missing: missing runs of
        its round, and the reference (see `cohorts.cohorts`); all runs of its round if the reference
        is missing, because only runs that are measured together can be compared. Only for runs that
        take turns and have time left, nvidia-smi, which can take a second, is asked how many fit on
        a card."""
        if not cohorts.takes_turns(run["config"]) or not self.fits([run]):
            return [run]

        able: List[Planned] = []
        for other in self.runs:
            if other.get("round") == run.get("round") and not self.obstacle(other["config"]):
                able.append(other)
        missing = [other for other in able if not self.done(other)]
        compared = cohorts.reference_of(able, self.reference)
        if compared in missing:
            missing = able
        card = workers.card_of(run["config"], self.hardware["gpus"])
        contexts = cards.query_contexts(card)
        for cohort in cohorts.cohorts(missing, compared, card=contexts):
            if run in cohort and self.fits(cohort):
                return cohort
        return [run]

    def certify(self, runs: Sequence[Planned]) -> None:
        """Makes those certificates of the `runs` that are missing, possible on this machine and
        likely to end in time. A failed one counts as made and affects no run."""
        for run in runs:
            planned = self.certificates.get(run.get("certificate") or "")
            if planned is None:
                continue
            name = planned["name"]
            if name in self.settled or name in self.given_up:
                continue
            if not self.done(planned) and not self.obstacle(planned["config"]):
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

    def train(self, runs: Sequence[Planned]) -> Dict[str, Optional[str]]:
        """Measures `runs` in turns. Those that have an outcome already are companions of the
        others. Returns {name: message on the result}; None for a run that the session's end cut
        short, which leaves no outcome and will be repeated. A run that ran out of memory next to
        others is measured again on its own; a companion has no result then."""
        started = _now()
        runs = cohorts.starting_order(runs)
        names = [run["name"] for run in runs]
        companions = [run["name"] for run in runs if self.done(run)]
        about = {
            "id": "{}/{}".format(runs[0].get("round"), started),
            "members": names,
            "companions": companions,
        }

        folders = {name: self._folder(name, started) for name in names}
        members = []
        for place, run in enumerate(runs):
            job = {"config": run["config"]}
            limits = run["config"].get("limits") or {}
            members.append(self._member(run, folders[run["name"]], job, limits, place))
        outcomes = self._supervise(members)

        results: Dict[str, Optional[str]] = {}
        again = []
        for run in runs:
            name = run["name"]
            outcome = outcomes.get(name)
            if outcome is None:  # it was not started
                results[name] = None
            elif outcome.cut:
                results[name] = None
                self.durations.keep_cut(folders[name], run, outcome.seconds)
            elif not cohorts.must_retry_alone(run["config"], outcome, len(runs)):
                self.durations.note(run, outcome.seconds)
                results[name] = self._keep(folders[name], run, started, outcome, about)
            elif name not in companions:
                again.append(run)
        for run in again:
            print("{} ran out of memory; retrying it on its own".format(run["name"]), flush=True)
            results.update(self.train([run]))
        return results

    def check(self, planned: Planned) -> Optional[str]:
        """Makes a certificate, in one worker process per device. Prints and returns a message on
        the result. Returns None if the end of the session cut it short, or if a phase took longer
        than this session allows and a longer session allows more."""
        started = _now()
        name = planned["name"]
        folder = self._folder(name, started)
        limits = {"default": self.phase_seconds}
        first = Outcome()  # on the first device
        took = 0.0
        for number, job in enumerate(workers.certificate_jobs(planned)):
            files = folder
            if number:  # a further device
                if self.obstacle(job["config"]):
                    continue
                files = os.path.join(folder, str(number))
                os.makedirs(files, exist_ok=True)
            member = self._member(planned, files, job, limits)
            outcome = self._supervise([member])[name]
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
        folder = os.path.join(self.out, name, started)
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
        facts["finished"] = _now()
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
            self.folder,
            pinned_md5=planned.get("pinned_md5"),
            place=place,
            nvml=os.path.join(self.folder, "pynvml.py"),
            gpus=self.hardware["gpus"],
            **job,
        )
        launcher = [self.builds.python_of(build)]
        files = os.path.join(folder, "")
        return workers.member_of(planned["name"], job, launcher, files, limits)

    def _supervise(self, members: Sequence[Member]) -> Dict[str, Outcome]:
        """Runs `members` while nothing else on this host is timed. Returns {name: outcome}."""
        with os.fdopen(open_shared(TIMING_LOCK), "r+") as lock:
            if self._lock(lock):
                end = None
                if self.deadline is not None:
                    end = self.deadline - self.packing
                return rounds.supervise(members, end=end, importers=self.importers)
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


def _now() -> str:
    return datetime.datetime.utcnow().strftime(STAMP)
