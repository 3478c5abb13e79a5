"""One start of a bundle: what it does, for how long, and what it leaves. Standard library only,
Python 3.6 syntax.
"""

import datetime
import fcntl
import os
import tarfile
import time

from rnnworker import affinity, cards, certificate_jobs, rounds
from rnnworker.bundle_machine import Machine
from rnnworker.bundle_process import member, read, supervise, write

TIMING_LOCK = os.environ.get("RNNBENCH_TIMING_LOCK", "/tmp/rnnbench-timing.lock")
STAMP = "%Y%m%dT%H%M%S_%fZ"
GUESS_SECONDS = 30.0
LIMITS = {"certificates": {"default": 900.0}, "probes": {"default": 600.0}}
PACK_SECONDS = 20.0
CUT = "ended by --stop-after; it is to be done again"


class Session:
    """One start of a bundle: its time, where it writes, and what it found out so far."""

    def __init__(self, folder, options):
        self.folder, self.options = folder, options
        self.out = os.path.join(options.out or folder, "out")
        os.makedirs(self.out, exist_ok=True)
        self.deadline = time.monotonic() + options.limit if options.limit else None
        about = read(os.path.join(folder, "bundle.json"))
        self.machine = Machine(folder, about["packages"], options)
        # The user's own Python files: their paths where the bundle was made → here.
        self.own = {path: os.path.join(folder, name) for path, name in about["own"].items()}
        self.reference = read(os.path.join(folder, "experiment.json")).get("reference") or {}
        self.skipped = {}
        self.seconds = {}  # (build, name without its repeat) → the longest so far
        # Certificates and probes: tried, there or impossible here; and those that did not fit.
        self.settled, self.unmade = set(), set()
        self.packed = time.monotonic()
        if os.path.exists(self._skipped_file()):  # of an earlier start, perhaps with other Pythons
            write(self._skipped_file(), self.skipped)

    def skip(self, name, why):
        self.skipped[name] = why
        write(self._skipped_file(), self.skipped)

    def _skipped_file(self):
        return os.path.join(self.out, "skipped.json")

    def done(self, name, digest):
        """Whether a whole outcome of this very run is there; with ``--again``, one that went
        well."""
        for outcome in self._outcomes(name):
            companion = name in (outcome.get("round") or {}).get("companions", ())
            failed = self.options.again and outcome["exit_code"]
            if outcome["digest"] == digest and not companion and not failed:
                return True
        return False

    def fits(self, planned, name=None):
        """Whether it is likely that all of `planned` end in the time that is left."""
        if self.deadline is None:
            return True
        needed = sum(self.forecast(one, name) for one in planned)
        return time.monotonic() + needed <= self.deadline

    def together(self, run, runs):
        """Those of `runs` that take turns with `run` and are not there yet, itself among them; and
        the run that they are compared with, where it is there: their companion, or None."""
        if not rounds.takes_turns(run["config"]) or not run.get("round"):
            return [run], None
        able = [
            other
            for other in runs
            if other.get("round") == run["round"]
            and rounds.takes_turns(other["config"])
            and not self.machine.obstacle(other["config"])
        ]
        missing = [other for other in able if not self.done(other["name"], other["digest"])]
        base = rounds.reference_of(able, self.reference)
        companion = base if base not in missing else None
        beside = [companion] if companion else []
        room = self.machine.room(run["config"]) - len(beside)
        # Who does not fit is measured later, with the reference as a companion.
        first = sorted(missing, key=lambda other: (other is not base, other is not run))[:room]
        found = [other for other in missing if other in first]
        if run in found and self.fits(found + beside):
            return found, companion
        return [run], None

    def forecast(self, planned, name=None):
        """Seconds: the longest of its own repeats, else of its kind in its build, else of
        anything in it, else a guess."""
        build, cell = _cell(planned, name or planned["name"])
        known = {other: value for (one, other), value in self.seconds.items() if one == build}
        alike = [value for other, value in known.items() if _kind(other) == _kind(cell)]
        return known.get(cell) or max(alike or list(known.values()) or [GUESS_SECONDS])

    def make(self, kind, planned):
        """Makes those of the ``certificates`` or ``probes`` (`kind`) that are not there yet, may be
        made here and are likely to end in time. One that fails is made, and no fault of a run."""
        for one in planned:
            name, words = os.path.join(kind, one["key"]), None
            if name in self.settled:
                continue
            if self.done(name, one["digest"]) or self.machine.obstacle(one["config"]):
                self.settled.add(name)
                continue
            if self.fits([one], name):
                words = self.measure(name, one, job_of(one), LIMITS[kind])
                print("{}  {}".format(name, words or CUT), flush=True)
            if words is None:
                self.unmade.add(name)
                continue
            self.settled.add(name)
            self.unmade.discard(name)
            self.pack()

    def train(self, runs, companion=None):
        """Measures `runs` in turns, beside a `companion` where there is one. Returns how each went,
        in words, by name; None for one that the session's end cut short, which leaves no outcome
        and is done again."""
        started, begin = self._now(), time.monotonic()
        runs = rounds.starting_order(runs + ([companion] if companion else []))
        places = {run["name"]: self._place(run["name"], started) for run in runs}
        asked = [(run["name"], places[run["name"]], job_of(run)) for run in runs]
        limits = {run["name"]: run["config"].get("limits") for run in runs}
        found = self._workers(asked, limits)
        took = (time.monotonic() - begin) / len(runs)
        about = {
            "id": "{}/{}".format(runs[0].get("round"), started),
            "members": [run["name"] for run in runs],
            "companions": [companion["name"]] if companion else [],
        }
        words = {}
        for run in runs:
            name, outcome = run["name"], found[run["name"]]
            self._note(run, name, took)
            if outcome is not None:
                outcome = dict(outcome, round=about)
            words[name] = outcome and self._keep(places[name], name, run, started, outcome, took)
        return words

    def measure(self, name, planned, job, limits):
        """A certificate or a probe: one process of the worker, for a certificate one on each
        device; what it leaves, in a folder of its own. Returns how it went, in words, or None, as
        `train` does."""
        started, begin = self._now(), time.monotonic()
        place = self._place(name, started)
        outcome = self._workers([(name, place, job)], {name: limits})[name]
        for number, other in enumerate(on_other_devices(planned), 1):
            if outcome is None or self.machine.obstacle(other["config"]):
                continue
            elsewhere = os.path.join(place, str(number))
            os.makedirs(elsewhere)
            found = self._workers([(name, elsewhere, other)], {name: limits})[name]
            if found is None:
                outcome = None
                continue
            found.update(device=other["device"])
            write(os.path.join(elsewhere, "outcome.json"), found)
        took = time.monotonic() - begin
        self._note(planned, name, took)
        return outcome and self._keep(place, name, planned, started, outcome, took)

    def _now(self):
        return datetime.datetime.utcnow().strftime(STAMP)

    def _place(self, name, started):
        place = os.path.join(self.out, name, started)
        os.makedirs(place)
        return place

    def _note(self, planned, name, took):
        key = _cell(planned, name)
        self.seconds[key] = max(took, self.seconds.get(key, 0.0))

    def _keep(self, place, name, planned, started, outcome, took):
        """Writes the outcome; returns how it went, in words."""
        error = outcome.pop("error")
        outcome.update(
            name=name,
            digest=planned["digest"],
            started=started,
            finished=self._now(),
            hardware=self.machine.hardware,
            seconds=took,
        )
        write(os.path.join(place, "outcome.json"), outcome)
        if outcome["over_limit"]:
            return "over the limit of phase {}".format(outcome["over_limit"])
        if error and outcome["phase"] == "import" and not _kind(name):
            why = "{} cannot import its framework ({}); mend that there"
            build = planned["config"]["build"]
            self.machine.refuse(build, why.format(self.machine.python_of(build), error))
        words = "exit code {}, {:.0f} s".format(outcome["exit_code"], took)
        return "{}, in phase {}: {}".format(words, outcome["phase"], error) if error else words

    def _workers(self, asked, limits):
        """One process for each of `asked` (name, folder of its files, job), which take turns.
        Name → outcome, None where the session's end cut it short."""
        started, threads = [], {}
        for number, (name, place, job) in enumerate(asked):
            config = job["config"]
            card, cores = self.machine.card(config), self.machine.cores(config)
            dataset = (config.get("dataset") or {}).get("path")
            path = os.path.join(self.folder, dataset) if dataset else None
            job = dict(moved(job, self.own), threads=len(cores), cores=list(cores), dataset=path)
            job["card"], job["nvml"] = card, os.path.join(self.folder, "pynvml.py")
            job["start_cores"] = list(affinity.start_cores(self.machine.topology, cores, number))
            job["parent"] = os.getpid()
            job["memory_bytes"] = (config.get("limits") or {}).get("memory_bytes")
            file = os.path.join(place, "job.json")
            write(file, job)
            build, threads[name] = config["build"], len(cores)
            command = [self.machine.python_of(build), os.path.join(self.folder, "rnnworker"), file]
            environment = self.machine.environment(build, len(cores))
            environment.update(cards.variables(card))
            forks = "mode" not in job and rounds.may_fork(config)
            started.append(member(name, command, environment, place, limits[name] or {}, forks))
        with open(TIMING_LOCK, "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            found = supervise(started, self.deadline)
        return {
            name: outcome and dict(outcome, threads=threads[name])
            for name, outcome in found.items()
        }

    def pack(self, always=False):
        """Everything so far as one file, for machines that give few files back."""
        recent = time.monotonic() - self.packed < PACK_SECONDS
        if not self.options.pack or (recent and not always):
            return
        partial = self.options.pack + ".new"
        with tarfile.open(partial, "w:gz") as archive:
            archive.add(self.out, arcname="out")
        os.replace(partial, self.options.pack)
        self.packed = time.monotonic()

    def _outcomes(self, name):
        folder = os.path.join(self.out, name)
        for started in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
            path = os.path.join(folder, started, "outcome.json")
            if os.path.exists(path):
                yield read(path)


def job_of(planned):
    """What the worker is told of a run, a certificate or a probe."""
    job = {"config": planned["config"]}
    if "implementations" in planned:
        job = certificate_jobs.jobs_of(planned)[0]
    elif "models" in planned:
        job.update(mode="probe", models=planned["models"])
    return dict(job, pinned_md5=planned.get("pinned_md5"))


def on_other_devices(planned):
    """The jobs of a certificate beside its first; none for anything else."""
    jobs = certificate_jobs.jobs_of(planned)[1:] if "implementations" in planned else []
    return [dict(job, pinned_md5=planned.get("pinned_md5")) for job in jobs]


def moved(value, places):
    """`value` with each path to a file, or to a function in one, where `places` says."""
    if isinstance(value, dict):
        return {key: moved(one, places) for key, one in value.items()}
    if isinstance(value, list):
        return [moved(one, places) for one in value]
    path, colon, name = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    if colon and path in places:
        return places[path] + colon + name
    return places.get(value, value) if isinstance(value, str) else value


def _cell(planned, name):
    """(build, the run's name without its repeat): what takes the same time."""
    return planned["config"]["build"]["name"], name.rpartition("-r")[0] or name


def _kind(name):
    """``certificates``, ``probes``, or None of a run."""
    return os.path.dirname(name) or None
