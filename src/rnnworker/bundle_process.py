"""The processes that a bundle starts: the worker, supervised, and a look at what a Python has.

Standard library only, Python 3.6 syntax.
"""

import json
import os
import subprocess

from rnnworker import carried_packages, members, rounds

# Framework → what is imported in it; packages have the same names.
NEEDED = {
    "keras3_tensorflow": ("numpy", "tensorflow", "keras"),
    "keras3_torch": ("numpy", "torch", "keras"),
    "keras3_jax": ("numpy", "jax", "keras"),
    "keras2_tensorflow2": ("numpy", "tensorflow"),
    "keras2_tensorflow1": ("numpy", "tensorflow"),
    "keras206_tensorflow1": ("numpy", "tensorflow", "keras"),
    "fake": ("numpy",),
}
# Found, not imported: that would take seconds of the session.
LOOK = """
import importlib.util, sys
print(" ".join(name for name in sys.argv[1:] if importlib.util.find_spec(name) is None))
"""
LOOK_SECONDS = 120.0

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PYTHONPATH")


def lack(build, python, environment):
    """What keeps the interpreter `python` from running `build`, in words, or None."""
    try:
        told = subprocess.check_output(
            [python, "-c", LOOK] + list(NEEDED.get(build["framework"], ())),
            stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, env=environment,
            universal_newlines=True, timeout=LOOK_SECONDS,
        )  # fmt: skip
    except OSError as error:
        return "{} cannot be started ({})".format(python, error.strerror or error)
    except subprocess.SubprocessError as error:
        return "{} does not work ({})".format(python, error)
    names = told.split()
    if not names:
        return None
    return "{} has no {}; install {} there".format(
        python, " and no ".join(names), "it" if len(names) == 1 else "them"
    )


def member(name, command, environment, place, limits, forks=False):
    """The worker that leaves its files in the folder `place`, to be supervised."""
    log, events = (os.path.join(place, name) for name in ("log", "events.jsonl"))
    return members.Member(name, command, environment, log, events, limits, forks=forks)


def supervise(asked, end=None):
    """Starts the workers `asked` for (`member`), which take turns, keeps their events, ends one
    that is over the limit of a phase. Returns name → outcome: None where `end` (monotonic) came
    first; ``error`` is the one that the worker told, in words, or None; ``turns`` those it had."""
    found = rounds.supervise(asked, end=end, at_once=len(os.sched_getaffinity(0)))
    return {one.name: _told(found.get(one.name)) for one in asked}


def _told(outcome):
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


def environment_of(build, site, threads):
    """The variables of a run: this process's own without what would lead it astray, the threads,
    and what the build says; `site` is the folder of its carried packages, or None."""
    environment = {k: v for k, v in os.environ.items() if k not in THREAD_VARIABLES}
    environment["OMP_NUM_THREADS"] = str(threads)
    environment["PYTHONUNBUFFERED"] = "1"
    environment.update(carried_packages.variables(build, site))
    return environment


def read(path):
    with open(path) as file:
        return json.load(file)


def write(path, data):
    """JSON, whole or not at all."""
    temporary = path + ".new"
    with open(temporary, "w") as file:
        json.dump(data, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
