"""What the machine on which a bundle was started can run.

Standard library only, Python 3.6 syntax.
"""

import os
import sys

from rnnworker import affinity, cards, carried_packages, machine, rounds
from rnnworker.bundle_process import environment_of, lack


class Machine:
    """This machine: its processors, cards and packages, and the Python of each build."""

    def __init__(self, folder, packages, options):
        self.hardware = machine.fingerprint()
        self.topology = affinity.read_topology()
        self._packages = packages
        self._folders = [os.path.join(folder, "packages")] + options.parts
        self._pythons = dict(pair.split("=", 1) for pair in options.python)
        self._sites, self.lacking = {}, {}
        self.unfit = {}  # build → why its Python cannot run it

    def obstacle(self, config):
        """Why a run with `config` cannot run here, in words, or None."""
        return self._impossible(config) or self.unfit.get(config["build"]["name"])

    def _impossible(self, config):
        device, build = config["device"], config["build"]
        if device["kind"] == "gpu" and not self.hardware["gpus"]:
            return "no NVIDIA GPU on this machine"
        if device["kind"] == "gpu" and self.card(config) is None:
            names = [one["name"] for one in self._visible(config)]
            here = ", ".join(names) or "none that may be seen ({})".format(cards.VISIBLE)
            return "no {} on this machine, which has {}".format(device.get("gpu") or "card", here)
        if (device.get("threads") or 0) > len(self.topology):
            return "this machine offers {} cores".format(len(self.topology))
        entry = self._packages.get(build.get("carry"))
        if entry and entry["name"] not in self._sites and entry["name"] not in self.lacking:
            try:
                self._sites[entry["name"]] = carried_packages.provide(entry, self._folders)
            except carried_packages.Missing as error:
                self.lacking[entry["name"]] = str(error)
        return self.lacking.get(entry["name"]) if entry else None

    def card(self, config):
        """The card that a run with `config` uses here, None on a CPU (`cards.chosen`)."""
        if config["device"]["kind"] != "gpu":
            return None
        return cards.chosen(config["device"], self.hardware["gpus"], _variables(config))

    def _visible(self, config):
        return cards.visible(self.hardware["gpus"], _variables(config).get(cards.VISIBLE))

    def cores(self, config):
        """The processors for a run with `config`."""
        return affinity.for_device(self.topology, config["device"], self.card(config))

    def room(self, config):
        """How many runs like one with `config` may live at once (`rounds.room`)."""
        room = rounds.room(machine.available_memory())
        if config["device"].get("kind") != "gpu":
            return room
        return min(room, rounds.room_on_card(cards.ask_contexts(self.card(config))))

    def look(self, configs):
        """Asks the Python of each build of `configs` for the build's framework."""
        todo = [config["build"] for config in configs if not self._impossible(config)]
        for build in {build["name"]: build for build in todo}.values():
            self.refuse(build, lack(build, self.python_of(build), self.environment(build, 1)))

    def refuse(self, build, why):
        """Says once that the runs of `build` are skipped; nothing where `why` is None."""
        if why:
            self.unfit[build["name"]] = why
            words = "build {0} cannot run: {1}, or name another Python: --python {0}=PATH; its runs"
            print((words + " are skipped").format(build["name"], why), flush=True)

    def python_of(self, build):
        return self._pythons.get(build["name"], sys.executable)

    def environment(self, build, threads):
        """The variables of a run of `build` with so many `threads`."""
        return environment_of(build, self._sites.get(build.get("carry")), threads)


def _variables(config):
    return dict(os.environ, **(config["build"].get("environment") or {}))
