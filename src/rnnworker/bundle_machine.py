"""Determines which runs of a bundle this machine can execute.

Standard library only, Python 3.6 syntax.
"""

import subprocess
import sys

from rnnworker import affinity, cards, machine
from rnnworker.workers import environment_of, variables_of

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


class Machine:
    """This machine: its processors and GPUs, and the Python of each build."""

    def __init__(self, options):
        self.hardware = machine.fingerprint()
        self.cores = len(affinity.read_topology())
        self._pythons = dict(pair.split("=", 1) for pair in options.python)
        self.unfit = {}  # build → why its Python cannot run it

    def obstacle(self, config):
        """Returns the reason why a run with `config` cannot run on this machine, or None."""
        return self._impossible(config) or self.unfit.get(config["build"]["name"])

    def _impossible(self, config):
        device = config["device"]
        if device["kind"] == "gpu" and not self.hardware["gpus"]:
            return "no NVIDIA GPU on this machine"
        if device["kind"] == "gpu" and self.card(config) is None:
            names = [card["name"] for card in self._visible(config)]
            if cards.replicas_of(device) > 1:
                return cards.too_few(device, names)
            available = ", ".join(names) or "no visible one ({})".format(cards.VISIBLE)
            model = device.get("gpu") or "GPU"
            return "no {} on this machine, which has {}".format(model, available)
        if (device.get("threads") or 0) > self.cores:
            return "this machine offers {} cores".format(self.cores)
        return None

    def card(self, config):
        """Returns the GPU that a run with `config` uses (`cards.select_card`); None on a CPU."""
        if config["device"]["kind"] != "gpu":
            return None
        return cards.select_card(config["device"], self.hardware["gpus"], variables_of(config))

    def _visible(self, config):
        return cards.visible(self.hardware["gpus"], variables_of(config).get(cards.VISIBLE))

    def check_builds(self, configs):
        """Checks that the Python of each build of `configs` has the build's framework."""
        builds = [config["build"] for config in configs if not self._impossible(config)]
        for build in {build["name"]: build for build in builds}.values():
            python, environment = self.python_of(build), environment_of({"build": build}, 1)
            self.refuse(build, missing_requirement(build, python, environment))

    def refuse(self, build, why):
        """Marks `build` as unfit and prints that its runs are skipped; no effect without `why`."""
        if why:
            self.unfit[build["name"]] = why
            message = "build {0} cannot run: {1}, or use --python {0}=PATH. Its runs are skipped."
            print(message.format(build["name"], why), flush=True)

    def python_of(self, build):
        return self._pythons.get(build["name"], sys.executable)


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
