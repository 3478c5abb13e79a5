"""The processes that a bundle starts: the worker, supervised, and a look at what a Python has.

Standard library only, Python 3.6 syntax.
"""

import json
import os
import select
import signal
import subprocess
import time

from rnnworker import carried

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


def supervise(command, environment, place, limits, end=None):
    """Starts the worker, keeps its events, ends it when a phase is over its limit; None where
    `end` (monotonic) came first. ``error`` is the one that the worker told, in words, or None."""
    usual = limits.get("default", 600)
    reader, writer = os.pipe()
    environment["RNNWORKER_EVENTS"] = str(writer)
    with open(os.path.join(place, "log"), "wb") as log:
        worker = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment,
            pass_fds=(writer,), start_new_session=True,
        )  # fmt: skip
    os.close(writer)
    phase, over_limit, rest, told = "start", None, b"", None
    deadline = time.monotonic() + limits.get(phase, usual)
    with open(os.path.join(place, "events.jsonl"), "wb") as kept:
        while True:
            until = deadline if end is None else min(deadline, end)
            ready, _, _ = select.select([reader], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                over_limit = phase
                break
            data = os.read(reader, 65536)
            if not data:
                break
            kept.write(data)
            lines = (rest + data).split(b"\n")
            rest = lines.pop()
            for event in map(_parsed, lines):
                if event.get("event") == "error":
                    told = "{type}: {message}".format(**event)
                if event.get("event") in ("phase_begin", "phase_end"):
                    phase = event["phase"] if event["event"] == "phase_begin" else "end"
                    deadline = time.monotonic() + limits.get(phase, usual)
    os.close(reader)
    if over_limit:
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
        if end is not None and time.monotonic() >= end:
            return None
    return {
        "exit_code": worker.wait(), "over_limit": over_limit, "phase": phase, "error": told,
    }  # fmt: skip


def _parsed(line):
    try:
        event = json.loads(line.decode("utf-8", "replace"))
    except ValueError:
        return {}
    return event if isinstance(event, dict) else {}


def environment_of(build, site, threads):
    """The variables of a run: this process's own without what would lead it astray, the threads,
    and what the build says; `site` is the folder of its carried packages, or None."""
    environment = {k: v for k, v in os.environ.items() if k not in THREAD_VARIABLES}
    environment["OMP_NUM_THREADS"] = str(threads)
    environment["PYTHONUNBUFFERED"] = "1"
    environment.update(carried.variables(build, site))
    return environment


def write(path, data):
    """JSON, whole or not at all."""
    temporary = path + ".new"
    with open(temporary, "w") as file:
        json.dump(data, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
