"""One start of a bundle: measures runs, certificates and probes, and writes their outcomes.
Standard library only, Python 3.6 syntax."""

import datetime
import fcntl
import os
import tarfile
import time

from rnnworker import affinity, cards, certificate_jobs, rounds
from rnnworker.bundle_machine import Machine
from rnnworker.bundle_process import environment_of, member, read, supervise, write

TIMING_LOCK = os.environ.get("RNNBENCH_TIMING_LOCK", "/tmp/rnnbench-timing.lock")
STAMP = "%Y%m%dT%H%M%S_%fZ"
GUESS_SECONDS = 30.0
LIMITS = {"certificates": {"default": 900.0}, "probes": {"default": 600.0}}
PACK_SECONDS = 20.0
CUT = "ended by --stop-after; will be repeated"


class Session:
    """One start of a bundle: its deadline, its output folder and its state."""

    def __init__(self, folder, options):
        self.folder, self.options = folder, options
        self.out = os.path.join(options.out or folder, "out")
        os.makedirs(self.out, exist_ok=True)
        self.deadline = time.monotonic() + options.limit if options.limit else None
        about = read(os.path.join(folder, "bundle.json"))
        self.machine = Machine(options)
        # User-supplied Python files: path on the machine that made the bundle → local path.
        self.own = {path: os.path.join(folder, name) for path, name in about["own"].items()}
        self.reference = read(os.path.join(folder, "experiment.json")).get("reference") or {}
        self.skipped = {}
        self.seconds = {}  # (build, name without its repeat) → longest duration so far
        # Certificates and probes that need no further work, and those left for lack of time.
        self.settled, self.unmade = set(), set()
        self.packed = time.monotonic()
        if os.path.exists(self._skipped_file()):  # from an earlier start, maybe with other Pythons
            write(self._skipped_file(), self.skipped)

    def skip(self, name, why):
        self.skipped[name] = why
        write(self._skipped_file(), self.skipped)

    def _skipped_file(self):
        return os.path.join(self.out, "skipped.json")

    def done(self, name, digest):
        """Returns whether there is an outcome of the run `name` with this `digest`; with
        ``--again``, whether there is a successful one."""
        for outcome in self._outcomes(name):
            companion = name in (outcome.get("round") or {}).get("companions", ())
            failed = self.options.again and outcome["exit_code"]
            if outcome["digest"] == digest and not companion and not failed:
                return True
        return False

    def fits(self, planned, name=None):
        """Returns whether all of `planned` are likely to end in the time that is left."""
        needed = sum(self.forecast(entry, name) for entry in planned)
        return self.deadline is None or time.monotonic() + needed <= self.deadline

    def together(self, run, runs):
        """Returns `run` and those of `runs` that are still missing and take turns with it; and
        their companion: the reference if it is already measured, else None."""
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
        companions = [companion] if companion else []
        capacity = self.machine.capacity(run["config"]) - len(companions)
        # Runs beyond the capacity are measured later, with the reference as a companion.
        first = sorted(missing, key=lambda other: (other is not base, other is not run))[:capacity]
        cohort = [other for other in missing if other in first]
        if run in cohort and self.fits(cohort + companions):
            return cohort, companion
        return [run], None

    def forecast(self, planned, name=None):
        """Returns the expected seconds: the longest duration of its configuration so far, else of
        its kind in its build, else of anything in its build, else a guess."""
        build, configuration = _configuration(planned, name or planned["name"])
        known = {other: took for (python, other), took in self.seconds.items() if python == build}
        alike = [took for other, took in known.items() if _kind(other) == _kind(configuration)]
        return known.get(configuration) or max(alike or list(known.values()) or [GUESS_SECONDS])

    def make(self, kind, planned):
        """Makes those ``certificates`` or ``probes`` (`kind`) that are missing, possible on this
        machine and likely to end in time. A failed one counts as made and affects no run."""
        for entry in planned:
            name, result = os.path.join(kind, entry["key"]), None
            if name in self.settled:
                continue
            if self.done(name, entry["digest"]) or self.machine.obstacle(entry["config"]):
                self.settled.add(name)
                continue
            if self.fits([entry], name):
                result = self.measure(name, entry, LIMITS[kind])
                print("{}  {}".format(name, result or CUT), flush=True)
            if result is None:
                self.unmade.add(name)
                continue
            self.settled.add(name)
            self.unmade.discard(name)
            self.pack()

    def train(self, runs, companion=None):
        """Measures `runs` in turns, together with a `companion` if there is one. Returns {name:
        message on the result}; None for a run that the session's end cut short, which leaves no
        outcome and will be repeated."""
        started, begin = self._now(), time.monotonic()
        runs = rounds.starting_order(runs + ([companion] if companion else []))
        folders = {run["name"]: self._folder(run["name"], started) for run in runs}
        tasks = [(run["name"], folders[run["name"]], jobs_of(run)[0]) for run in runs]
        limits = {run["name"]: run["config"].get("limits") for run in runs}
        outcomes = self._run_workers(tasks, limits)
        took = (time.monotonic() - begin) / len(runs)
        about = {
            "id": "{}/{}".format(runs[0].get("round"), started),
            "members": [run["name"] for run in runs],
            "companions": [companion["name"]] if companion else [],
        }
        results = {}
        for run in runs:
            name, outcome = run["name"], outcomes[run["name"]]
            self._note_duration(run, name, took)
            if outcome is not None:
                outcome = dict(outcome, round=about)
            results[name] = outcome and self._keep(folders[name], name, run, started, outcome, took)
        return results

    def measure(self, name, planned, limits):
        """Makes a certificate or a probe in one worker process, for a certificate one per device.
        Returns a message on the result, or None, as `train` does."""
        started, begin = self._now(), time.monotonic()
        folder = self._folder(name, started)
        first, *others = jobs_of(planned)
        outcome = self._run_workers([(name, folder, first)], {name: limits})[name]
        for number, other in enumerate(others, 1):
            if outcome is None or self.machine.obstacle(other["config"]):
                continue
            device_folder = os.path.join(folder, str(number))
            os.makedirs(device_folder)
            result = self._run_workers([(name, device_folder, other)], {name: limits})[name]
            if result is None:
                outcome = None
                continue
            result.update(device=other["device"])
            write(os.path.join(device_folder, "outcome.json"), result)
        took = time.monotonic() - begin
        self._note_duration(planned, name, took)
        return outcome and self._keep(folder, name, planned, started, outcome, took)

    def _now(self):
        return datetime.datetime.utcnow().strftime(STAMP)

    def _folder(self, name, started):
        folder = os.path.join(self.out, name, started)
        os.makedirs(folder)
        return folder

    def _note_duration(self, planned, name, took):
        key = _configuration(planned, name)
        self.seconds[key] = max(took, self.seconds.get(key, 0.0))

    def _keep(self, folder, name, planned, started, outcome, took):
        """Writes the outcome and returns a message on the result."""
        error = outcome.pop("error")
        outcome.update(
            name=name,
            digest=planned["digest"],
            started=started,
            finished=self._now(),
            hardware=self.machine.hardware,
            seconds=took,
        )
        write(os.path.join(folder, "outcome.json"), outcome)
        if outcome["over_limit"]:
            return "over the limit of phase {}".format(outcome["over_limit"])
        if error and outcome["phase"] == "import" and not _kind(name):
            why = "{} cannot import its framework ({}); repair that installation"
            build = planned["config"]["build"]
            self.machine.refuse(build, why.format(self.machine.python_of(build), error))
        message = "exit code {}, {:.0f} s".format(outcome["exit_code"], took)
        return "{}, in phase {}: {}".format(message, outcome["phase"], error) if error else message

    def _run_workers(self, tasks, limits):
        """Runs one process for each of `tasks` (name, folder of its files, job), in turns. Returns
        {name: outcome}; None for one that the session's end cut short."""
        workers, threads = [], {}
        for number, (name, folder, job) in enumerate(tasks):
            config = job["config"]
            card, cores = self.machine.card(config), self.machine.cores(config)
            dataset = (config.get("dataset") or {}).get("path")
            path = os.path.join(self.folder, dataset) if dataset else None
            job = with_local_paths(job, self.own)
            job = dict(job, threads=len(cores), cores=list(cores), dataset=path)
            job["card"], job["nvml"] = card, os.path.join(self.folder, "pynvml.py")
            job["start_cores"] = list(affinity.start_cores(self.machine.topology, cores, number))
            job["parent"] = os.getpid()
            job["memory_bytes"] = (config.get("limits") or {}).get("memory_bytes")
            file = os.path.join(folder, "job.json")
            write(file, job)
            build, threads[name] = config["build"], len(cores)
            command = [self.machine.python_of(build), os.path.join(self.folder, "rnnworker"), file]
            environment = environment_of(build, len(cores))
            environment.update(cards.variables(card))
            forks = "mode" not in job and rounds.may_fork(config)
            workers.append(member(name, command, environment, folder, limits[name] or {}, forks))
        with open(TIMING_LOCK, "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            outcomes = supervise(workers, self.deadline)
        return {name: out and dict(out, threads=threads[name]) for name, out in outcomes.items()}

    def pack(self, always=False):
        """Packs all results so far into one file, for machines that return only few files."""
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


def jobs_of(planned):
    """Returns the worker's jobs for a planned run, certificate or probe: a certificate has one per
    device, the others have one."""
    jobs = [{"config": planned["config"]}]
    if "implementations" in planned:
        jobs = certificate_jobs.jobs_of(planned)
    elif "models" in planned:
        jobs[0].update(mode="probe", models=planned["models"])
    return [dict(job, pinned_md5=planned.get("pinned_md5")) for job in jobs]


def with_local_paths(value, paths):
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


def _configuration(planned, name):
    """Returns (build, name without the repeat): repeats take the same time."""
    return planned["config"]["build"]["name"], name.rpartition("-r")[0] or name


def _kind(name):
    """Returns ``certificates`` or ``probes``; None for a run."""
    return os.path.dirname(name) or None
