"""The options of a bundle's ``run.py``, and the Python of each build that they name."""

import argparse
import os
import subprocess
import sys
from typing import Any, Callable, Collection, Dict, Iterable, Iterator, List, Tuple

from rnnworker import cuda_toolkit, workers
from rnnworker.frameworks.names import FRAMEWORKS
from rnnworker.json_types import Config

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


OPTIONS: Dict[str, Dict[str, Any]] = {
    "--stop-after": {
        "dest": "limit",
        "type": float,
        "metavar": "SECONDS",
        "help": "start no run that may not end by then, and end those that still run",
    },
    "--again": {"action": "store_true", "help": "repeat runs that ended with an error"},
    "--out": {"help": "parent folder of out/ (default: the bundle's folder)"},
    "--pack": {"metavar": "FILE", "help": "also keep all of out/ in this .tar.gz"},
    "--no-certificates": {"action": "store_true", "help": "make no certificates"},
    "--python": {
        "action": "append",
        "default": [],
        "metavar": "BUILD=PATH",
        "help": "the interpreter of a build (default: this one)",
    },
    "--site": {
        "action": "append",
        "default": [],
        "metavar": "BUILD=FOLDER",
        "help": "a further folder with packages for a build, such as one that pip --target made",
    },
}


def parser_of(folder: str, description: str) -> argparse.ArgumentParser:
    """Returns the parser of the options of the bundle in `folder`."""
    parser = argparse.ArgumentParser(description=description, epilog=EXIT_CODES)
    for name, settings in OPTIONS.items():
        parser.add_argument(name, **settings)
    parser.set_defaults(out=folder)
    return parser


class Builds:
    """The builds of a bundle on this machine: the Python of each, and further folders with its
    packages. `unfit` says for a build's name why its Python cannot run it."""

    def __init__(
        self,
        pythons: Iterable[str],
        sites: Iterable[str],
        names: Collection[str],
    ) -> None:
        """Takes options ``BUILD=PATH`` and ``BUILD=FOLDER``. Raises ValueError for an option that
        names none of the builds `names`, or no folder."""
        self.pythons = dict(_of_builds(pythons, names))
        self.sites: Dict[str, List[str]] = {}  # build → folders
        for build, site in _of_builds(sites, names):
            if not os.path.isdir(site):
                raise ValueError("--site {}={} is not a folder".format(build, site))
            self.sites.setdefault(build, []).append(os.path.abspath(site))
        self.unfit: Dict[str, str] = {}

    def check(self, config: Config, time_left: Callable[[], float]) -> None:
        """Refuses the build of `config` if its Python cannot run it. `time_left`: a function that
        returns the seconds until the end of the session. A check that this end cuts short refuses
        nothing."""
        build = config["build"]
        python = self.python_of(build)
        environment = workers.environment_of({"build": self.with_sites(build)}, 1)
        command = [python, "-c", PRINT_MISSING]
        command += FRAMEWORKS[build["framework"]].imports
        why = None
        try:
            output = subprocess.check_output(
                command,
                stdin=subprocess.DEVNULL,
                stderr=subprocess.STDOUT,
                env=environment,
                universal_newlines=True,
                timeout=min(CHECK_SECONDS, max(1.0, time_left())),
            )
        except OSError as error:
            why = "{} cannot be started ({})".format(python, error.strerror or error)
        except subprocess.SubprocessError as error:
            why = "{} does not work ({})".format(python, error)
        else:
            names = output.split()
            if names:
                what = "it" if len(names) == 1 else "them"
                missing = " and no ".join(names)
                why = "{} has no {}; install {} there".format(python, missing, what)

        if why and time_left() > 0:
            self.refuse(build, why)
        elif build["framework"] == "keras3_jax" and config["device"]["kind"] == "gpu":
            advice = cuda_toolkit.advice_for([python], environment)
            if advice:
                print("build {}: {}".format(build["name"], advice), flush=True)

    def refuse(self, build: Config, why: str) -> None:
        """Notes and prints why the Python of `build` cannot run it."""
        self.unfit[build["name"]] = why
        message = (
            "build {0} cannot run: {1}, or use --python {0}=PATH or --site {0}=FOLDER. "
            "Its runs are skipped."
        )
        print(message.format(build["name"], why), flush=True)

    def python_of(self, build: Config) -> str:
        """Returns the path of the interpreter of `build`."""
        return self.pythons.get(build["name"], sys.executable)

    def with_sites(self, build: Config) -> Config:
        """Returns the section of a build with its further folders in PYTHONPATH."""
        folders = self.sites.get(build["name"])
        if not folders:
            return build
        variables = dict(build.get("environment") or {})
        if variables.get("PYTHONPATH"):
            folders = folders + [variables["PYTHONPATH"]]
        variables["PYTHONPATH"] = os.pathsep.join(folders)
        return dict(build, environment=variables)


def _of_builds(pairs: Iterable[str], builds: Collection[str]) -> Iterator[Tuple[str, str]]:
    """Splits options ``BUILD=VALUE``. Raises ValueError if a build is none of the bundle's."""
    for pair in pairs:
        build, equals, value = pair.partition("=")
        if not equals or build not in builds:
            message = "{} is not BUILD=PATH with a build of this bundle ({})"
            raise ValueError(message.format(pair, ", ".join(sorted(builds))))
        yield build, value
