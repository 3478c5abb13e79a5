"""Measures the runs of a bundle on a machine that has Python but no rnnbench.

Standard library only, Python 3.6 syntax. ``python run.py`` in the bundle's folder executes all runs
in the plan's order, the runs of a round together, in turns. A run's certificate is made before it,
the probe of its device and build after the first block that used them. It resumes after an
interruption and can stop within a time limit. ``rnnbench import`` makes records of what it writes
below ``out/``; verdicts are reached only then.
"""

import argparse
import hashlib
import json
import os
import sys

from rnnworker.bundle_session import CUT, Session
from rnnworker.workers import read

LEFT, LACKING = 1, 3
EXIT_CODES = (
    "Exit code 0: every run that this machine can execute is done; {}: some are left, start it "
    "again; {}: the runs of a build were skipped because its Python lacks the framework (see the "
    "output).".format(LEFT, LACKING)
)


def main(folder, arguments):
    """Executes the bundle in `folder` and returns the exit code (see `EXIT_CODES`)."""
    options = _options(arguments)
    _check_files(folder)
    session = Session(folder, options)
    runs = _runs(folder)
    certificates = {} if options.no_certificates else _planned(folder, "certificates")
    probes = {} if options.no_probes else _planned(folder, "probes")
    left, due_probes = 0, {}
    machine = session.machine
    left_runs = [run for run in runs if not session.done(run["name"], run["digest"])]
    machine.check_builds(run["config"] for run in left_runs)
    labels = {
        run["name"]: "[{}/{}] {}".format(place + 1, len(runs), run["name"])
        for place, run in enumerate(runs)
    }
    for place, run in enumerate(runs):
        # A probe explains runs, so it comes after a block in which each configuration ran once.
        if place and run["block"] != runs[place - 1]["block"]:
            session.make("probes", due_probes.values())
        why, done = machine.obstacle(run["config"]), session.done(run["name"], run["digest"])
        if why and not done:
            session.skip(run["name"], why)
            if run["config"]["build"]["name"] not in machine.unfit:
                print("{}  skipped: {}".format(labels[run["name"]], why), flush=True)
            continue
        together = [run] if done else session.cohort_of(run, runs)
        for member in together:
            if member.get("certificate") in certificates:
                session.make("certificates", [certificates[member["certificate"]]])
        if not done:
            results = {}
            if session.fits(together):
                results = session.train(together)
                for name in sorted(results, key=list(labels).index):
                    print("{}  {}".format(labels[name], results[name] or CUT), flush=True)
            if results.get(run["name"]) is None:
                left += 1
                continue
            session.pack()
        if run.get("probe") in probes:
            due_probes[run["probe"]] = probes[run["probe"]]
    session.make("probes", due_probes.values())
    session.pack(always=True)
    for count, kind in ((left, "runs"), (len(session.unmade), "certificates and probes")):
        if count:
            print("{} {} are left: start it again.".format(count, kind))
    if machine.unfit:
        return LACKING
    return LEFT if left or session.unmade else 0


def _options(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], epilog=EXIT_CODES)
    parser.add_argument(
        "--stop-after",
        "--limit",
        dest="limit",
        type=float,
        metavar="SECONDS",
        help="start no run that may not end by then, and end those that still run",
    )
    parser.add_argument("--again", action="store_true", help="repeat runs that ended with an error")
    parser.add_argument("--out", help="parent folder of out/ (default: the bundle's folder)")
    parser.add_argument("--pack", metavar="FILE", help="also keep all of out/ in this .tar.gz")
    parser.add_argument("--no-certificates", action="store_true", help="make no certificates")
    parser.add_argument("--no-probes", action="store_true", help="make no probes")
    parser.add_argument(
        "--python",
        action="append",
        default=[],
        metavar="BUILD=PATH",
        help="the interpreter of a build (default: this one)",
    )
    return parser.parse_args(arguments)


def _runs(folder):
    with open(os.path.join(folder, "plan.jsonl")) as file:
        return [json.loads(line) for line in file if line.strip()]


def _planned(folder, kind):
    """Returns {key: planned certificate or probe}; empty if the bundle has none."""
    path = os.path.join(folder, kind + ".json")
    return read(path) if os.path.exists(path) else {}


def _check_files(folder):
    """Exits if a file of the bundle differs from what was packed."""
    digests = read(os.path.join(folder, "bundle.json"))["files"]
    for name, digest in sorted(digests.items()):
        with open(os.path.join(folder, name), "rb") as file:
            if hashlib.sha256(file.read()).hexdigest() != digest:
                sys.exit("{} is not what was packed: copy the bundle again.".format(name))
