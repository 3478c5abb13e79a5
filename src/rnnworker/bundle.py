"""Measures the runs of a bundle on a machine that has Python but no rnnbench.

``python run.py`` in the bundle's folder executes all runs in the plan's order, the runs of a round
together, in turns. A run's certificate is made before it. It resumes after an interruption and can
stop within a time limit.
``rnnbench import`` makes records of what it writes below ``out/``; verdicts are reached only then.
"""

import argparse
import datetime
import fcntl
import hashlib
import json
import os
import subprocess
import sys
import tarfile
import time

from rnnworker import cards, cohorts, machine, processors, rounds, workers
from rnnworker.workers import read, write

LEFT, LACKING = 1, 3
EXIT_CODES = (
    "Exit code 0: every run that this machine can execute is done; {}: some are left, start it "
    "again; {}: the runs of a build were skipped because its Python lacks the framework (see the "
    "output).".format(LEFT, LACKING)
)
# Framework → the modules that it needs; their packages have the same names.
NEEDED = {
    "keras3_tensorflow": ("numpy", "tensorflow", "keras"),
    "keras3_torch": ("numpy", "torch", "keras"),
    "keras3_jax": ("numpy", "jax", "keras"),
    "keras2_tensorflow2": ("numpy", "tensorflow"),
    "keras2_tensorflow1": ("numpy", "tensorflow"),
    "keras206_tensorflow1": ("numpy", "tensorflow", "keras"),
    "fake": ("numpy",),
}
# The modules are not imported, because that would take seconds of the session.
PRINT_MISSING = """
import importlib.util, sys
print(" ".join(name for name in sys.argv[1:] if importlib.util.find_spec(name) is None))
"""
CHECK_SECONDS = 120.0
TIMING_LOCK = os.environ.get("RNNBENCH_TIMING_LOCK", "/tmp/rnnbench-timing.lock")
STAMP = "%Y%m%dT%H%M%S_%fZ"
GUESS_SECONDS = 30.0
LIMITS = {"default": 900.0}  # of a certificate
PACK_SECONDS = 20.0
CUT = "ended by --stop-after; will be repeated"


def main(folder, arguments):
    """Executes the bundle in `folder` and returns the exit code (see `EXIT_CODES`)."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], epilog=EXIT_CODES)
    add = parser.add_argument
    help_ = "start no run that may not end by then, and end those that still run"
    add("--stop-after", dest="limit", type=float, metavar="SECONDS", help=help_)
    add("--again", action="store_true", help="repeat runs that ended with an error")
    add("--out", default=folder, help="parent folder of out/ (default: the bundle's folder)")
    add("--pack", metavar="FILE", help="also keep all of out/ in this .tar.gz")
    add("--no-certificates", action="store_true", help="make no certificates")
    help_ = "the interpreter of a build (default: this one)"
    add("--python", action="append", default=[], metavar="BUILD=PATH", help=help_)
    options = parser.parse_args(arguments)
    for name, digest in sorted(read(os.path.join(folder, "bundle.json"))["files"].items()):
        with open(os.path.join(folder, name), "rb") as file:
            if hashlib.sha256(file.read()).hexdigest() != digest:
                sys.exit("{} is not what was packed: copy the bundle again.".format(name))
    return Session(folder, options).measure()


class Session:
    """One start of a bundle: its plan, this machine, its deadline and its output folder."""

    def __init__(self, folder, options):
        self.folder, self.options = folder, options
        self.deadline = time.monotonic() + options.limit if options.limit else None
        with open(os.path.join(folder, "plan.jsonl")) as file:
            self.runs = [json.loads(line) for line in file if line.strip()]
        self.places = {run["name"]: place for place, run in enumerate(self.runs, 1)}
        self.certificates = {}  # key → planned certificate
        if not options.no_certificates:
            self.certificates = read(os.path.join(folder, "certificates.json"))
        self.reference = read(os.path.join(folder, "experiment.json")).get("reference") or {}
        # User-supplied Python files: path on the machine that made the bundle → local path.
        own = read(os.path.join(folder, "bundle.json"))["own"]
        self.own = {path: os.path.join(folder, name) for path, name in own.items()}
        self.hardware = machine.fingerprint()
        self.cores = len(processors.read_topology())
        self.pythons = dict(pair.split("=", 1) for pair in options.python)
        self.unfit = {}  # build → why its Python cannot run it
        self.seconds = {}  # (build, name without its repeat) → longest duration so far
        # Certificates that need no further work, and those left for lack of time.
        self.settled, self.unmade = set(), set()
        self.packed = time.monotonic()
        self.out = os.path.join(options.out, "out")
        os.makedirs(self.out, exist_ok=True)
        self.skipped = {}
        self.skipped_file = os.path.join(self.out, "skipped.json")
        if os.path.exists(self.skipped_file):  # from an earlier start, maybe with other Pythons
            write(self.skipped_file, self.skipped)

    def measure(self):
        """Executes all runs that are left. Returns the exit code."""
        self.check_builds([run["config"] for run in self.runs if not self.done(run)])
        left = 0
        for run in self.runs:
            if not self.done(run):
                why = self.obstacle(run["config"])
                if why:
                    self.skipped[run["name"]] = why
                    write(self.skipped_file, self.skipped)
                    if run["config"]["build"]["name"] not in self.unfit:
                        self._say(run["name"], "skipped: {}".format(why))
                    continue
                together = self.cohort_of(run)
                self.certify([member.get("certificate") for member in together])
                results = self.train(together) if self.fits(together) else {}
                for name in sorted(results, key=self.places.get):
                    self._say(name, results[name] or CUT)
                if results.get(run["name"]) is None:
                    left += 1
                    continue
                self.pack()
            else:
                self.certify([run.get("certificate")])
        self.pack(always=True)
        for count, kind in ((left, "runs"), (len(self.unmade), "certificates")):
            if count:
                print("{} {} are left: start it again.".format(count, kind))
        return LACKING if self.unfit else LEFT if left or self.unmade else 0

    def _say(self, name, message):
        place = self.places[name], len(self.runs)
        print("[{}/{}] {}  {}".format(*place, name, message), flush=True)

    def check_builds(self, configs):
        builds = [config["build"] for config in configs if not self.obstacle(config)]
        for build in {build["name"]: build for build in builds}.values():
            environment = workers.environment_of({"build": build}, 1)
            why = missing_requirement(build, self.python_of(build), environment)
            if why:
                self.refuse(build, why)

    def refuse(self, build, why):
        self.unfit[build["name"]] = why
        message = "build {0} cannot run: {1}, or use --python {0}=PATH. Its runs are skipped."
        print(message.format(build["name"], why), flush=True)

    def python_of(self, build):
        return self.pythons.get(build["name"], sys.executable)

    def obstacle(self, config):
        """Returns the reason why a run with `config` cannot run on this machine, or None."""
        gpus, variable = self.hardware["gpus"], workers.variables_of(config).get(cards.VISIBLE)
        names = [card["name"] for card in cards.visible(gpus, variable)]
        if config["device"]["kind"] == "gpu" and gpus and not names:
            return "no GPU on this machine, which has no visible one ({})".format(cards.VISIBLE)
        why = cards.unmet_device(config["device"], self.cores, names)
        return why or self.unfit.get(config["build"]["name"])

    def done(self, planned, name=None):
        """Returns whether there is an outcome of `planned` (of a run, or of `name`); with
        ``--again``, whether there is a successful one."""
        name = name or planned["name"]
        folder = os.path.join(self.out, name)
        for started in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
            path = os.path.join(folder, started, "outcome.json")
            outcome = read(path) if os.path.exists(path) else {"digest": None}
            companion = name in (outcome.get("round") or {}).get("companions", ())
            failed = self.options.again and outcome.get("exit_code")
            if outcome["digest"] == planned["digest"] and not companion and not failed:
                return True
        return False

    def fits(self, planned, name=None):
        """Returns whether all of `planned` are likely to end in the time that is left: each takes
        as long as the longest of its configuration so far, else of its kind in its build, else of
        anything in its build, else a guess."""
        needed = 0.0
        for entry in planned:
            build, configuration = _configuration(entry, name or entry["name"])
            known = {other: took for (of, other), took in self.seconds.items() if of == build}
            kind = os.path.dirname(configuration)
            alike = [took for other, took in known.items() if os.path.dirname(other) == kind]
            guess = max(alike or known.values() or [GUESS_SECONDS])
            needed += known.get(configuration, guess)
        return self.deadline is None or time.monotonic() + needed <= self.deadline

    def cohort_of(self, run):
        """Returns the runs that are measured together with `run`, which is missing: missing runs of
        its round, and the reference (see `cohorts.cohorts`)."""
        alike = [other for other in self.runs if other.get("round") == run.get("round")]
        able = [other for other in alike if not self.obstacle(other["config"])]
        missing = [other for other in able if not self.done(other)]
        base = cohorts.reference_of(able, self.reference)
        card = cards.query_contexts(workers.card_of(run["config"], self.hardware["gpus"]))
        for cohort in cohorts.cohorts(missing, base, card=card):
            if run in cohort and self.fits(cohort):
                return cohort
        return [run]

    def certify(self, keys):
        """Makes those certificates of the `keys` that are missing, possible on this machine and
        likely to end in time. A failed one counts as made and affects no run."""
        for key in dict.fromkeys(keys):
            entry, result, name = self.certificates.get(key), None, "certificates/{}".format(key)
            if entry is None or name in self.settled:
                continue
            if not self.done(entry, name) and not self.obstacle(entry["config"]):
                if self.fits([entry], name):
                    result = self.check(name, entry)
                    print("{}  {}".format(name, result or CUT), flush=True)
                if result is None:
                    self.unmade.add(name)
                    continue
                self.pack()
            self.settled.add(name)
            self.unmade.discard(name)

    def train(self, runs):
        """Measures `runs` in turns. Those that have an outcome already are companions of the
        others. Returns {name: message on the result}; None for a run that the session's end cut
        short, which leaves no outcome and will be repeated. A run that ran out of memory next to
        others is measured again on its own."""
        started, results, again = _now(), {}, []
        runs = cohorts.starting_order(runs)
        about = {"id": "{}/{}".format(runs[0].get("round"), started)}
        about["members"] = [run["name"] for run in runs]
        about["companions"] = [run["name"] for run in runs if self.done(run)]
        folders = [self._folder(run["name"], started) for run in runs]
        jobs = [(run["name"], folder, jobs_of(run)[0]) for run, folder in zip(runs, folders)]
        outcomes = self._run_workers(jobs, [run["config"].get("limits") for run in runs])
        for run, folder in zip(runs, folders):
            name = run["name"]
            outcome, results[name] = outcomes.get(name), None
            if outcome is None or outcome.cut:
                continue
            if cohorts.must_retry_alone(run["config"], outcome, len(runs)):
                again += [] if name in about["companions"] else [run]
                continue
            self._note_duration(run, name, outcome.seconds)
            results[name] = self._keep(folder, name, run, started, outcome, round=about)
        for run in again:
            print("{} ran out of memory; retrying it on its own".format(run["name"]), flush=True)
            results.update(self.train([run]))
        return results

    def check(self, name, planned):
        """Makes a certificate, in one worker process per device. Returns a message on the result,
        or None, as `train` does."""
        started, begin = _now(), time.monotonic()
        folder, first = self._folder(name, started), None
        for number, job in enumerate(jobs_of(planned)):
            if number and self.obstacle(job["config"]):
                continue
            files = os.path.join(folder, str(number)) if number else folder
            os.makedirs(files, exist_ok=True)
            outcome = self._run_workers([(name, files, job)], [LIMITS])[name]
            if outcome.cut:
                return None
            first = first or outcome
            if number:
                facts = dict(outcome.facts(), device=job["device"])
                write(os.path.join(files, "outcome.json"), facts)
        self._note_duration(planned, name, time.monotonic() - begin)
        return self._keep(folder, name, planned, started, first)

    def _folder(self, name, started):
        folder = os.path.join(self.out, name, started)
        os.makedirs(folder)
        return folder

    def _note_duration(self, planned, name, took):
        key = _configuration(planned, name)
        self.seconds[key] = max(took, self.seconds.get(key, 0.0))

    def _keep(self, folder, name, planned, started, outcome, **more):
        """Writes the outcome and returns a message on the result."""
        facts = dict(outcome.facts(), name=name, digest=planned["digest"], started=started, **more)
        facts.update(finished=_now(), hardware=self.hardware)
        write(os.path.join(folder, "outcome.json"), facts)
        if outcome.over_limit:
            return "over the limit of phase {}".format(outcome.over_limit)
        errors = [event for event in outcome.events if event["event"] == "error"]
        error = "{type}: {message}".format(**errors[-1]) if errors else None
        if error and outcome.phase == "import" and "round" in more:
            why = "{} cannot import its framework ({}); repair that installation"
            build = planned["config"]["build"]
            self.refuse(build, why.format(self.python_of(build), error))
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
            launcher = [self.python_of(config["build"])]
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


def missing_requirement(build, python, environment):
    """Returns the reason why the interpreter `python` cannot run `build`, or None."""
    try:
        output = subprocess.check_output(
            [python, "-c", PRINT_MISSING] + list(NEEDED.get(build["framework"], ())),
            stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, env=environment,
            universal_newlines=True, timeout=CHECK_SECONDS,
        )  # fmt: skip
    except OSError as error:
        return "{} cannot be started ({})".format(python, error.strerror or error)
    except subprocess.SubprocessError as error:
        return "{} does not work ({})".format(python, error)
    names = output.split()
    what = "it" if len(names) == 1 else "them"
    message = "{} has no {}; install {} there".format(python, " and no ".join(names), what)
    return message if names else None


def jobs_of(planned):
    """Returns the worker's jobs for a planned run, which has one, or for a certificate, which has
    one per device."""
    jobs = [{"config": planned["config"]}]
    if "implementations" in planned:
        jobs = workers.certificate_jobs(planned)
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


def _now():
    return datetime.datetime.utcnow().strftime(STAMP)


def _configuration(planned, name):
    """Returns (build, name without the repeat): repeats take the same time."""
    return planned["config"]["build"]["name"], name.rpartition("-r")[0] or name
