"""Measures the runs of a bundle on a machine that has Python and nothing else of ours.

Standard library only, Python 3.6 syntax. ``python run.py`` in the bundle's folder does all runs
in the plan's order, resumes where it was stopped, and ends before a limit of time. What it
leaves below ``out/`` is what ``rnnbench import`` makes records of; nothing is judged here.
"""

import argparse
import datetime
import fcntl
import hashlib
import json
import os
import select
import signal
import subprocess
import sys
import time

from rnnworker import affinity, machine

TIMING_LOCK = "/tmp/rnnbench-timing.lock"
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PYTHONPATH")
STAMP = "%Y%m%dT%H%M%S_%fZ"


def main(folder, arguments):
    """Runs the bundle in `folder`; returns 0 when every run that can run here is done."""
    options = _options(arguments)
    deadline = time.monotonic() + options.limit if options.limit else None
    out = os.path.join(options.out or folder, "out")
    os.makedirs(out, exist_ok=True)
    pythons = dict(pair.split("=", 1) for pair in options.python)
    hardware = machine.fingerprint()
    _check_files(folder)
    with open(os.path.join(folder, "plan.jsonl")) as file:
        runs = [json.loads(line) for line in file if line.strip()]
    longest = 0.0
    left = 0
    for run in runs:
        label = "[{}/{}] {}".format(run["order"] + 1, len(runs), run["name"])
        why = _obstacle(run["config"], hardware)
        if why:
            print("{}  skipped: {}".format(label, why), flush=True)
            continue
        if _done(out, run, options.again):
            continue
        if deadline and time.monotonic() + longest > deadline:
            left += 1
            continue
        begin = time.monotonic()
        words = _measure(folder, out, run, hardware, pythons)
        longest = max(longest, time.monotonic() - begin)
        print("{}  {}".format(label, words), flush=True)
    if left:
        print("{} runs are left: start it again.".format(left))
    return 1 if left else 0


def _options(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--limit", type=float, help="seconds; no run starts that may not end by then"
    )
    parser.add_argument("--again", action="store_true", help="repeat runs that ended with an error")
    parser.add_argument("--out", help="where out/ is written (default: the bundle's folder)")
    parser.add_argument(
        "--python",
        action="append",
        default=[],
        metavar="BUILD=PATH",
        help="the interpreter of a build (default: this one)",
    )
    return parser.parse_args(arguments)


def _check_files(folder):
    """Every file of the bundle is what was packed, or it ends here."""
    with open(os.path.join(folder, "bundle.json")) as file:
        digests = json.load(file)["files"]
    for name, digest in sorted(digests.items()):
        with open(os.path.join(folder, name), "rb") as file:
            if hashlib.sha256(file.read()).hexdigest() != digest:
                sys.exit("{} is not what was packed: copy the bundle again.".format(name))


def _obstacle(config, hardware):
    device = config["device"]
    if device["kind"] == "gpu" and not hardware["gpus"]:
        return "no NVIDIA GPU on this machine"
    if (device.get("threads") or 0) > len(os.sched_getaffinity(0)):
        return "this machine offers {} cores".format(len(os.sched_getaffinity(0)))
    return None


def _done(out, run, again):
    """Whether a whole outcome of this very run is there; with `again`, one that went well."""
    folder = os.path.join(out, run["name"])
    if not os.path.isdir(folder):
        return False
    for name in os.listdir(folder):
        path = os.path.join(folder, name, "outcome.json")
        if os.path.exists(path):
            with open(path) as file:
                outcome = json.load(file)
            if outcome["digest"] == run["digest"] and not (again and outcome["exit_code"]):
                return True
    return False


def _measure(folder, out, run, hardware, pythons):
    started = datetime.datetime.utcnow().strftime(STAMP)
    place = os.path.join(out, run["name"], started)
    os.makedirs(place)
    config = run["config"]
    cores = affinity.choose(affinity.read_topology(), config["device"].get("threads"))
    dataset = config["dataset"].get("path")
    job = {
        "config": config,
        "threads": len(cores),
        "cores": list(cores),
        "dataset": os.path.join(folder, dataset) if dataset else None,
        "pinned_md5": run.get("pinned_md5"),
        "memory_bytes": (config.get("limits") or {}).get("memory_bytes"),
        "parent": os.getpid(),
    }
    _write(os.path.join(place, "job.json"), job)
    python = pythons.get(config["build"]["name"], sys.executable)
    command = [python, os.path.join(folder, "rnnworker"), os.path.join(place, "job.json")]
    with open(TIMING_LOCK, "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        outcome = _supervise(command, _environment(config, len(cores)), place, config)
    outcome.update(
        name=run["name"],
        digest=run["digest"],
        started=started,
        finished=datetime.datetime.utcnow().strftime(STAMP),
        hardware=hardware,
    )
    _write(os.path.join(place, "outcome.json"), outcome)
    if outcome["over_limit"]:
        return "over the limit of phase {}".format(outcome["over_limit"])
    return "exit code {}".format(outcome["exit_code"])


def _supervise(command, environment, place, config):
    """Starts the worker, keeps its events, ends it when a phase is over its limit."""
    limits = config.get("limits") or {}
    reader, writer = os.pipe()
    environment["RNNWORKER_EVENTS"] = str(writer)
    with open(os.path.join(place, "log"), "wb") as log:
        worker = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment,
            pass_fds=(writer,), start_new_session=True,
        )  # fmt: skip
    os.close(writer)
    phase, over_limit, rest = "start", None, b""
    deadline = time.monotonic() + limits.get(phase, 600)
    with open(os.path.join(place, "events.jsonl"), "wb") as kept:
        while True:
            ready, _, _ = select.select([reader], [], [], max(0.0, deadline - time.monotonic()))
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
                if event.get("event") in ("phase_begin", "phase_end"):
                    phase = event["phase"] if event["event"] == "phase_begin" else "end"
                    deadline = time.monotonic() + limits.get(phase, 600)
    os.close(reader)
    if over_limit:
        os.killpg(worker.pid, signal.SIGKILL)
    return {"exit_code": worker.wait(), "over_limit": over_limit, "phase": phase}


def _parsed(line):
    try:
        event = json.loads(line.decode("utf-8", "replace"))
    except ValueError:
        return {}
    return event if isinstance(event, dict) else {}


def _environment(config, threads):
    environment = {k: v for k, v in os.environ.items() if k not in THREAD_VARIABLES}
    environment["OMP_NUM_THREADS"] = str(threads)
    environment["PYTHONUNBUFFERED"] = "1"
    for name, value in (config["build"].get("environment") or {}).items():
        environment[name] = str(value)
    return environment


def _write(path, data):
    temporary = path + ".new"
    with open(temporary, "w") as file:
        json.dump(data, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
