"""One start of a bundle: measures runs, certificates and probes, and writes their outcomes.
Standard library only, Python 3.6 syntax."""

import datetime
import fcntl
import os
import tarfile
import time

from rnnworker import cards, certificate_jobs, cohorts, rounds, workers
from rnnworker.bundle_machine import Machine
from rnnworker.workers import read, write

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

    def cohort_of(self, run, runs):
        """Returns those of `runs` that are measured together with `run`, which is missing: missing
        runs of its round, and the reference (see `cohorts.cohorts`)."""
        able = [
            other
            for other in runs
            if other.get("round") == run.get("round") and not self.machine.obstacle(other["config"])
        ]
        missing = [other for other in able if not self.done(other["name"], other["digest"])]
        base = cohorts.reference_of(able, self.reference)
        card = cards.query_contexts(self.machine.card(run["config"]))
        for cohort in cohorts.cohorts(missing, base, card=card):
            if run in cohort and self.fits(cohort):
                return cohort
        return [run]

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

    def train(self, runs):
        """Measures `runs` in turns. Those that have an outcome already are companions of the
        others. Returns {name: message on the result}; None for a run that the session's end cut
        short, which leaves no outcome and will be repeated. A run that ran out of memory next to
        others is measured again on its own."""
        started, results = self._now(), {}
        runs = cohorts.starting_order(runs)
        names = [run["name"] for run in runs]
        companions = [run["name"] for run in runs if self.done(run["name"], run["digest"])]
        folders = {name: self._folder(name, started) for name in names}
        about = {"id": "{}/{}".format(runs[0].get("round"), started), "members": names}
        about["companions"] = companions
        jobs = [(run["name"], folders[run["name"]], jobs_of(run)[0]) for run in runs]
        outcomes = self._run_workers(jobs, [run["config"].get("limits") for run in runs])
        again = []
        for run in runs:
            name, outcome = run["name"], outcomes[run["name"]]
            results[name] = None
            if not outcome.cut and cohorts.must_retry_alone(run["config"], outcome, len(runs)):
                again += [] if name in companions else [run]
            elif not outcome.cut:
                self._note_duration(run, name, outcome.seconds)
                results[name] = self._keep(folders[name], name, run, started, outcome, round=about)
        for run in again:
            print("{} ran out of memory; retrying it on its own".format(run["name"]), flush=True)
            results.update(self.train([run]))
        return results

    def measure(self, name, planned, limits):
        """Makes a certificate or a probe in one worker process, for a certificate one per device.
        Returns a message on the result, or None, as `train` does."""
        started, begin = self._now(), time.monotonic()
        folder = self._folder(name, started)
        for number, job in enumerate(jobs_of(planned)):
            if number and self.machine.obstacle(job["config"]):
                continue
            files = os.path.join(folder, str(number)) if number else folder
            os.makedirs(files, exist_ok=True)
            outcome = self._run_workers([(name, files, job)], [limits])[name]
            if outcome.cut:
                return None
            if number:
                facts = dict(outcome.facts(), device=job["device"])
                write(os.path.join(files, "outcome.json"), facts)
            else:
                first = outcome
        self._note_duration(planned, name, time.monotonic() - begin)
        return self._keep(folder, name, planned, started, first)

    def _now(self):
        return datetime.datetime.utcnow().strftime(STAMP)

    def _folder(self, name, started):
        folder = os.path.join(self.out, name, started)
        os.makedirs(folder)
        return folder

    def _note_duration(self, planned, name, took):
        key = _configuration(planned, name)
        self.seconds[key] = max(took, self.seconds.get(key, 0.0))

    def _keep(self, folder, name, planned, started, outcome, **more):
        """Writes the outcome and returns a message on the result."""
        facts = dict(
            outcome.facts(),
            name=name,
            digest=planned["digest"],
            started=started,
            finished=self._now(),
            hardware=self.machine.hardware,
            **more,
        )
        write(os.path.join(folder, "outcome.json"), facts)
        if outcome.over_limit:
            return "over the limit of phase {}".format(outcome.over_limit)
        errors = [event for event in outcome.events if event["event"] == "error"]
        error = "{type}: {message}".format(**errors[-1]) if errors else None
        if error and outcome.phase == "import" and not _kind(name):
            why = "{} cannot import its framework ({}); repair that installation"
            build = planned["config"]["build"]
            self.machine.refuse(build, why.format(self.machine.python_of(build), error))
        message = "exit code {}, {:.0f} s".format(outcome.exit_code, outcome.seconds)
        return "{}, in phase {}: {}".format(message, outcome.phase, error) if error else message

    def _run_workers(self, jobs, limits):
        """Runs one process for each of `jobs` (name, folder of its files, job), in turns, with the
        `limits` of each. Returns {name: outcome}."""
        members = []
        for place, (name, folder, job) in enumerate(jobs):
            job = with_local_paths(job, self.own)
            config = job.pop("config")
            nvml = os.path.join(self.folder, "pynvml.py")
            job = workers.job_of(config, self.folder, place=place, nvml=nvml, **job)
            launcher = [self.machine.python_of(config["build"])]
            files = os.path.join(folder, "")
            members.append(workers.member_of(name, job, launcher, files, limits[place] or {}))
        with open(TIMING_LOCK, "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return rounds.supervise(members, end=self.deadline)

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
