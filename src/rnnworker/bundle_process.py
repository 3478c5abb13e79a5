"""The processes that a bundle starts: supervised workers, and checks of the builds' interpreters.

Standard library only, Python 3.6 syntax.
"""

import json
import os
import subprocess

from rnnworker import members, rounds

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

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PYTHONPATH")


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
    if not names:
        return None
    return "{} has no {}; install {} there".format(
        python, " and no ".join(names), "it" if len(names) == 1 else "them"
    )


def member(name, command, environment, folder, limits, forks=False):
    """Returns the `Member` for a worker that writes its files to `folder`."""
    log, events = (os.path.join(folder, name) for name in ("log", "events.jsonl"))
    return members.Member(name, command, environment, log, events, limits, forks=forks)


def supervise(workers, end=None):
    """Runs the `workers` (see `member`), which take turns, with their phase limits. Returns
    {name: outcome}: None for a worker that was ended at `end` (monotonic seconds); ``error`` is
    the message that the worker reported, or None; ``turns`` are its turns."""
    outcomes = rounds.supervise(workers, end=end, at_once=len(os.sched_getaffinity(0)))
    return {worker.name: _facts(outcomes.get(worker.name)) for worker in workers}


def _facts(outcome):
    if outcome is None or outcome.cut:
        return None
    errors = [event for event in outcome.events if event["event"] == "error"]
    return {
        "exit_code": outcome.exit_code,
        "over_limit": outcome.over_limit,
        "phase": outcome.phase,
        "error": "{type}: {message}".format(**errors[-1]) if errors else None,
        "turns": outcome.turns,
    }


def environment_of(build, threads):
    """Returns the environment variables of a run: those of this process except
    `THREAD_VARIABLES`, the number of threads, and those of the build."""
    environment = {k: v for k, v in os.environ.items() if k not in THREAD_VARIABLES}
    environment["OMP_NUM_THREADS"] = str(threads)
    environment["PYTHONUNBUFFERED"] = "1"
    own = build.get("environment") or {}
    environment.update({name: str(value) for name, value in own.items()})
    return environment


def read(path):
    with open(path) as file:
        return json.load(file)


def write(path, data):
    """Writes `data` as JSON, atomically."""
    temporary = path + ".new"
    with open(temporary, "w") as file:
        json.dump(data, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
