"""Measures the runs of a bundle on a machine that has Python and nothing else of ours.

Standard library only, Python 3.6 syntax. ``python run.py`` in the bundle's folder does all runs in
the plan's order, those of a round together, in turns; each one's certificate before it, and the
probe of its device and build after the block in which these ran first. It resumes where it was
stopped, and ends before a limit of time. What it leaves below ``out/`` is what ``rnnbench import``
makes records of; nothing is judged here.
"""

import argparse
import hashlib
import json
import os
import sys

from rnnworker.bundle_process import read
from rnnworker.bundle_session import CUT, Session

LEFT, LACKING = 1, 3
EXIT_CODES = (
    "Exit code 0: every run that this machine can do is done; {}: some are left, start it again; "
    "{}: the runs of a build were skipped because its Python lacks its framework or its packages "
    "are not here, which is said.".format(LEFT, LACKING)
)


def main(folder, arguments):
    """Runs the bundle in `folder`; returns the exit code, see `EXIT_CODES`."""
    options = _options(arguments)
    _check_files(folder)
    session = Session(folder, options)
    runs = _runs(folder)
    certificates = {} if options.no_certificates else _planned(folder, "certificates")
    probes = {} if options.no_probes else _planned(folder, "probes")
    left, ran = 0, {}
    machine = session.machine
    machine.look(run["config"] for run in runs if not session.done(run["name"], run["digest"]))
    labels = {
        run["name"]: "[{}/{}] {}".format(place + 1, len(runs), run["name"])
        for place, run in enumerate(runs)
    }
    for place, run in enumerate(runs):
        # Every cell of a block has been seen once: a probe explains them, and is not worth more.
        if place and run["block"] != runs[place - 1]["block"]:
            session.make("probes", ran.values())
        why, done = machine.obstacle(run["config"]), session.done(run["name"], run["digest"])
        if why and not done:
            session.skip(run["name"], why)
            if run["config"]["build"]["name"] not in machine.unfit:
                print("{}  skipped: {}".format(labels[run["name"]], why), flush=True)
            continue
        together, companion = ([run], None) if done else session.together(run, runs)
        for one in together:
            if one.get("certificate") in certificates:
                session.make("certificates", [certificates[one["certificate"]]])
        if not done:
            words = {}
            if session.fits(together):
                words = session.train(together, companion)
                for one in together:
                    word = words[one["name"]]
                    print("{}  {}".format(labels[one["name"]], word or CUT), flush=True)
            if words.get(run["name"]) is None:
                left += 1
                continue
            session.pack()
        if run.get("probe") in probes:
            ran[run["probe"]] = probes[run["probe"]]
    session.make("probes", ran.values())
    session.pack(always=True)
    for count, what in ((left, "runs"), (len(session.unmade), "certificates and probes")):
        if count:
            print("{} {} are left: start it again.".format(count, what))
    if machine.lacking or machine.unfit:
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
        help="no run starts that may not end by then, and none goes on",
    )
    parser.add_argument("--again", action="store_true", help="repeat runs that ended with an error")
    parser.add_argument("--out", help="where out/ is written (default: the bundle's folder)")
    parser.add_argument("--pack", metavar="FILE", help="keep all of out/ in this .tar.gz as well")
    parser.add_argument("--no-certificates", action="store_true", help="make none")
    parser.add_argument("--no-probes", action="store_true", help="make none")
    parser.add_argument(
        "--parts",
        action="append",
        default=[],
        metavar="FOLDER",
        help="where parts of carried packages lie, beside the bundle's own",
    )
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
    """Key → what is to be made; nothing where the bundle says nothing of it."""
    path = os.path.join(folder, kind + ".json")
    return read(path) if os.path.exists(path) else {}


def _check_files(folder):
    """Every file of the bundle is what was packed, or it ends here."""
    digests = read(os.path.join(folder, "bundle.json"))["files"]
    for name, digest in sorted(digests.items()):
        with open(os.path.join(folder, name), "rb") as file:
            if hashlib.sha256(file.read()).hexdigest() != digest:
                sys.exit("{} is not what was packed: copy the bundle again.".format(name))
