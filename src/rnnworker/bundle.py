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
import hashlib
import json
import os
import subprocess
import sys
import tarfile
import time

from rnnworker import cards, cohorts, cuda_toolkit, machine, processors, rounds, workers
from rnnworker.durations import Durations
from rnnworker.frameworks.names import FRAMEWORKS
from rnnworker.members import Outcome
from rnnworker.shared_file import open_shared
from rnnworker.workers import read, write

LEFT, LACKING = 1, 3
EXIT_CODES = (
    "Exit code 0: every run that this machine can execute is done; {}: some are left, start it "
    "again; {}: the runs of a build were skipped because its Python lacks the framework (see the "
    "output).".format(LEFT, LACKING)
)
# The modules are not imported, because that would take seconds of the session.
PRINT_MISSING = """
import importlib.util, sys
print(" ".join(name for name in sys.argv[1:] if importlib.util.find_spec(name) is None))
"""
CHECK_SECONDS = 120.0
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


def main(folder, arguments):
    """Executes the bundle in `folder` and returns the exit code (see `EXIT_CODES`)."""
    begin = time.monotonic()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], epilog=EXIT_CODES)
    add = parser.add_argument
    help_ = "start no run that may not end by then, and end those that still run"
    add(
        "--stop-after",
        dest="limit",
        type=float,
        metavar="SECONDS",
        help=help_,
    )
    add("--again", action="store_true", help="repeat runs that ended with an error")
    add("--out", default=folder, help="parent folder of out/ (default: the bundle's folder)")
    add("--pack", metavar="FILE", help="also keep all of out/ in this .tar.gz")
    add("--no-certificates", action="store_true", help="make no certificates")
    help_ = "the interpreter of a build (default: this one)"
    add(
        "--python",
        action="append",
        default=[],
        metavar="BUILD=PATH",
        help=help_,
    )
    help_ = "a further folder with packages for a build, such as one that pip --target made"
    add(
        "--site",
        action="append",
        default=[],
        metavar="BUILD=FOLDER",
        help=help_,
    )
    options = parser.parse_args(arguments)
    for name, digest in sorted(read(os.path.join(folder, "bundle.json"))["files"].items()):
        with open(os.path.join(folder, name), "rb") as file:
            if hashlib.sha256(file.read()).hexdigest() != digest:
                sys.exit("{} is not what was packed: copy the bundle again.".format(name))
    try:
        session = Session(folder, options, begin)
    except ValueError as error:
        parser.error(str(error))
    return session.measure()


class Session:
    """One start of a bundle: its plan, this machine, its deadline and its output folder."""

    def __init__(self, folder, options, begin):
        """Raises ValueError for an option that names no build of the bundle, or no folder."""
        self.folder, self.options = folder, options
        self.deadline = None if options.limit is None else begin + options.limit
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
        names = {run["config"]["build"]["name"] for run in self.runs}
        self.pythons = dict(_of_builds(options.python, names))
        self.sites = {}  # build → folders
        for build, site in _of_builds(options.site, names):
            if not os.path.isdir(site):
                raise ValueError("--site {}={} is not a folder".format(build, site))
            self.sites.setdefault(build, []).append(os.path.abspath(site))
        self.unfit = {}  # build → why its Python cannot run it
        self.durations = Durations()
        # Certificates that need no further work, that are left for lack of time, and of these the
        # ones that take too long for this session.
        self.settled, self.unmade, self.given_up = set(), set(), set()
        self.packed, self.packing = time.monotonic(), 0.0
        self.out = os.path.join(options.out, "out")
        os.makedirs(self.out, exist_ok=True)
        planned = [(run["name"], run) for run in self.runs]
        planned += [("certificates/" + key, entry) for key, entry in self.certificates.items()]
        self.durations.recall(self.out, planned)
        self.skipped = {}
        self.skipped_file = os.path.join(self.out, "skipped.json")
        if os.path.exists(self.skipped_file):  # from an earlier start, maybe with other Pythons
            write(self.skipped_file, self.skipped)

    def measure(self):
        """Executes all runs that are left. Returns the exit code."""
        self.check_builds([run["config"] for run in self.runs if not self.done(run)])
        left = 0
        # What used up most of an earlier session may hang, so that it comes last.
        for run in sorted(self.runs, key=lambda run: run["name"] in self.durations.endless):
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
        able = [config for config in configs if not self.obstacle(config)]
        for config in {config["build"]["name"]: config for config in able}.values():
            if self.time_left() <= 0:
                return
            build = config["build"]
            environment = workers.environment_of({"build": self.with_sites(build)}, 1)
            seconds = min(CHECK_SECONDS, max(1.0, self.time_left()))
            why = missing_requirement(build, self.python_of(build), environment, seconds)
            if why and self.time_left() > 0:
                self.refuse(build, why)
            elif build["framework"] == "keras3_jax" and config["device"]["kind"] == "gpu":
                advice = cuda_toolkit.advice_for([self.python_of(build)], environment)
                if advice:
                    print("build {}: {}".format(build["name"], advice), flush=True)

    def refuse(self, build, why):
        self.unfit[build["name"]] = why
        message = (
            "build {0} cannot run: {1}, or use --python {0}=PATH or --site {0}=FOLDER. "
            "Its runs are skipped."
        )
        print(message.format(build["name"], why), flush=True)

    def python_of(self, build):
        return self.pythons.get(build["name"], sys.executable)

    def with_sites(self, build):
        """Returns the section of a build with its further folders in PYTHONPATH."""
        folders = self.sites.get(build["name"])
        if not folders:
            return build
        variables = dict(build.get("environment") or {})
        if variables.get("PYTHONPATH"):
            folders = folders + [variables["PYTHONPATH"]]
        variables["PYTHONPATH"] = os.pathsep.join(folders)
        return dict(build, environment=variables)

    def time_left(self):
        """Returns the seconds until results must be packed; infinity without ``--stop-after``."""
        if self.deadline is None:
            return float("inf")
        return self.deadline - self.packing - time.monotonic()

    def obstacle(self, config):
        """Returns the reason why a run with `config` cannot run on this machine, or None."""
        gpus, variable = self.hardware["gpus"], workers.variables_of(config).get(cards.VISIBLE)
        names = [card["name"] for card in cards.visible(gpus, variable)]
        if config["device"]["kind"] == "gpu" and gpus and not names:
            return "no GPU on this machine, which has no visible one ({})".format(cards.VISIBLE)
        why = cards.unmet_device(config["device"], self.cores, names)
        return why or self.unfit.get(config["build"]["name"])

    def done(self, planned, name=None):
        """Returns whether there is an outcome of `planned` (of a run, or of `name`, which holds for
        machines of the same kind); with ``--again``, whether there is a successful one."""
        name = name or planned["name"]
        folder = os.path.join(self.out, name)
        for started in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
            path = os.path.join(folder, started, "outcome.json")
            outcome = read(path) if os.path.exists(path) else {"digest": None}
            companion = name in (outcome.get("round") or {}).get("companions", ())
            failed = self.options.again and outcome.get("exit_code")
            hardware = outcome.get("hardware") or {}
            elsewhere = "name" not in planned and machine.kind(hardware) != machine.kind(
                self.hardware
            )
            is_this = outcome["digest"] == planned["digest"] and not companion
            if is_this and not failed and not elsewhere:
                return True
        return False

    def fits(self, planned, name=None):
        """Returns whether all of `planned` are likely to end in the time that is left."""
        seconds = [self.durations.needed(entry, name or entry["name"]) for entry in planned]
        return MARGIN * sum(seconds) <= self.time_left()

    def cohort_of(self, run):
        """Returns the runs that are measured together with `run`, which is missing: missing runs of
        its round, and the reference (see `cohorts.cohorts`). Only for runs that take turns and have
        time left, nvidia-smi, which can take a second, is asked how many fit on a card."""
        if not cohorts.takes_turns(run["config"]) or not self.fits([run]):
            return [run]
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
            if entry is None or name in self.settled | self.given_up:
                continue
            if not self.done(entry, name) and not self.obstacle(entry["config"]):
                seconds = CERTIFICATE_SECONDS
                if self.options.limit is not None:
                    seconds = min(seconds, max(LEAST_SECONDS, SHARE * self.options.limit))
                if self.durations.too_long.get(name, 0.0) >= seconds:
                    print("{}  needs a longer --stop-after".format(name), flush=True)
                    self.given_up.add(name)
                elif self.fits([entry], name):
                    result = self.check(name, entry, seconds)
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
            if outcome is None:
                continue
            if outcome.cut:
                self._keep_cut(folder, run, name, outcome.seconds)
                continue
            if cohorts.must_retry_alone(run["config"], outcome, len(runs)):
                again += [] if name in about["companions"] else [run]
                continue
            self.durations.note(run, name, outcome.seconds)
            results[name] = self._keep(folder, name, run, started, outcome, round=about)
        for run in again:
            print("{} ran out of memory; retrying it on its own".format(run["name"]), flush=True)
            results.update(self.train([run]))
        return results

    def check(self, name, planned, seconds):
        """Makes a certificate, in one worker process per device, in which no phase may take more
        than `seconds`. Prints and returns a message on the result; returns None if the end of the
        session cut it short, or if `seconds` did and a longer session allows more."""
        started, begin = _now(), time.monotonic()
        folder, first = self._folder(name, started), None
        for number, job in enumerate(jobs_of(planned)):
            if number and self.obstacle(job["config"]):
                continue
            files = os.path.join(folder, str(number)) if number else folder
            os.makedirs(files, exist_ok=True)
            outcome = self._run_workers([(name, files, job)], [{"default": seconds}])[name]
            took = time.monotonic() - begin
            if outcome.over_limit and seconds < CERTIFICATE_SECONDS:
                why = TOO_LONG.format(seconds, outcome.over_limit)
                print("{}  {}".format(name, why), flush=True)
                self._keep_cut(folder, planned, name, took, phase_seconds=seconds)
                self.given_up.add(name)
                return None
            if outcome.cut:
                print("{}  {}".format(name, CUT), flush=True)
                self._keep_cut(folder, planned, name, took)
                return None
            first = first or outcome
            if number:
                facts = dict(outcome.facts(), device=job["device"])
                write(os.path.join(files, "outcome.json"), facts)
        self.durations.note(planned, name, time.monotonic() - begin)
        message = self._keep(folder, name, planned, started, first)
        print("{}  {}".format(name, message), flush=True)
        return message

    def _folder(self, name, started):
        folder = os.path.join(self.out, name, started)
        os.makedirs(folder)
        return folder

    def _keep_cut(self, folder, planned, name, seconds, **more):
        self.durations.keep_cut(folder, planned, name, seconds, self.options.limit, **more)

    def _keep(self, folder, name, planned, started, outcome, **more):
        """Writes the outcome and returns a message on the result."""
        facts = dict(
            outcome.facts(),
            name=name,
            digest=planned["digest"],
            started=started,
            **more,
        )
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
            config = dict(config, build=self.with_sites(config["build"]))
            nvml, gpus = os.path.join(self.folder, "pynvml.py"), self.hardware["gpus"]
            job = workers.job_of(
                config,
                self.folder,
                place=place,
                nvml=nvml,
                gpus=gpus,
                **job,
            )
            launcher = [self.python_of(config["build"])]
            files = os.path.join(folder, "")
            members.append(workers.member_of(name, job, launcher, files, limits[place] or {}))
        with os.fdopen(open_shared(TIMING_LOCK), "r+") as lock:
            if self._lock(lock):
                end = None if self.deadline is None else self.deadline - self.packing
                return rounds.supervise(members, end=end)
        return {name: Outcome(cut=True, seconds=0.0) for name, _, _ in jobs}

    def _lock(self, file):
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

    def pack(self, always=False):
        """Packs all results so far into one file, for machines that return only few files."""
        recent = time.monotonic() - self.packed < PACK_SECONDS
        if not self.options.pack or (recent and not always):
            return
        begin, partial = time.monotonic(), self.options.pack + ".new"
        with tarfile.open(partial, "w:gz") as archive:
            archive.add(self.out, arcname="out")
        os.replace(partial, self.options.pack)
        self.packed = time.monotonic()
        self.packing = self.packed - begin


def missing_requirement(build, python, environment, seconds=CHECK_SECONDS):
    """Returns the reason why the interpreter `python` cannot run `build`, or does not answer within
    `seconds`; None if there is none."""
    try:
        output = subprocess.check_output(
            [python, "-c", PRINT_MISSING] + list(FRAMEWORKS[build["framework"]].imports),
            stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, env=environment,
            universal_newlines=True, timeout=seconds,
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


def _of_builds(pairs, builds):
    """Splits options ``BUILD=VALUE``. Raises ValueError if a build is none of the bundle's."""
    for pair in pairs:
        build, equals, value = pair.partition("=")
        if not equals or build not in builds:
            message = "{} is not BUILD=PATH with a build of this bundle ({})"
            raise ValueError(message.format(pair, ", ".join(sorted(builds))))
        yield build, value


def _now():
    return datetime.datetime.utcnow().strftime(STAMP)
