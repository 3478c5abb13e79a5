"""Determines which runs of a bundle this machine can execute.

Standard library only, Python 3.6 syntax.
"""

import os
import sys

from rnnworker import affinity, cards, machine, rounds
from rnnworker.bundle_process import environment_of, missing_requirement


class Machine:
    """This machine: its processors and GPUs, and the Python of each build."""

    def __init__(self, options):
        self.hardware = machine.fingerprint()
        self.topology = affinity.read_topology()
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
        if (device.get("threads") or 0) > len(self.topology):
            return "this machine offers {} cores".format(len(self.topology))
        return None

    def card(self, config):
        """Returns the GPU that a run with `config` uses (`cards.select_card`); None on a CPU."""
        if config["device"]["kind"] != "gpu":
            return None
        return cards.select_card(config["device"], self.hardware["gpus"], _variables(config))

    def _visible(self, config):
        return cards.visible(self.hardware["gpus"], _variables(config).get(cards.VISIBLE))

    def cores(self, config):
        return affinity.for_device(self.topology, config["device"], self.card(config))

    def capacity(self, config):
        """Returns how many runs like one with `config` may be alive at the same time."""
        capacity = rounds.memory_capacity(machine.available_memory())
        if config["device"].get("kind") != "gpu":
            return capacity
        return min(capacity, rounds.gpu_capacity(cards.query_contexts(self.card(config))))

    def check_builds(self, configs):
        """Checks that the Python of each build of `configs` has the build's framework."""
        builds = [config["build"] for config in configs if not self._impossible(config)]
        for build in {build["name"]: build for build in builds}.values():
            python, environment = self.python_of(build), environment_of(build, 1)
            self.refuse(build, missing_requirement(build, python, environment))

    def refuse(self, build, why):
        """Marks `build` as unfit and prints that its runs are skipped; no effect without `why`."""
        if why:
            self.unfit[build["name"]] = why
            message = "build {0} cannot run: {1}, or use --python {0}=PATH. Its runs are skipped."
            print(message.format(build["name"], why), flush=True)

    def python_of(self, build):
        return self._pythons.get(build["name"], sys.executable)


def _variables(config):
    return dict(os.environ, **(config["build"].get("environment") or {}))
