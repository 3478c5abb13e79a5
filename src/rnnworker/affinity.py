"""Selects the logical processors that a run is pinned to. Standard library only. No side effects
except in `read_topology`, `processors_near` and `move`."""

import collections
import contextlib
import os
import re

from rnnworker.proc_files import number, processors
from rnnworker.quota import quota

# Cores that feed a GPU: Python, the input pipeline and the driver need no more, and each further
# core brings in more interference from other processes.
FEEDERS = 8

Processor = collections.namedtuple("Processor", "number socket core")
Processor.__doc__ = "One logical processor: its number, its socket, its core within the socket."


def choose(topology, threads):
    """Returns the processors for `threads` threads (None: all) as a sorted tuple: distinct
    physical cores of one socket first, then of the next, and hyper-thread siblings last. Raises
    ValueError if there are too few processors or `threads` is not positive."""
    if threads is None:
        return tuple(sorted(processor.number for processor in topology))
    if not 1 <= threads <= len(topology):
        raise ValueError(
            "asks for {} threads; this machine offers {} cores".format(threads, len(topology))
        )
    siblings = collections.Counter()
    ranked = []
    for processor in sorted(topology):
        core = (processor.socket, processor.core)
        ranked.append((siblings[core], processor.socket, processor.number))
        siblings[core] += 1
    return tuple(sorted(rank[-1] for rank in sorted(ranked)[:threads]))


def for_device(topology, device, card=None, base="/sys"):
    """Returns the processors for a run on `device` (``kind``, ``threads``), chosen as by `choose`.
    On a GPU, processors near its `card` are preferred, and `threads` defaults to `FEEDERS`."""
    threads = device.get("threads")
    if device.get("kind") != "gpu":
        return choose(topology, threads)
    local = processors_near(topology, card, base)
    if threads is None:
        threads = min(FEEDERS, len(local))
    return choose(local if threads <= len(local) else topology, threads)


def processors_near(topology, card, base="/sys"):
    """Returns the processors of `topology` on the NUMA node of `card` (``bus``: its PCI address),
    or all of `topology` if the node is unknown or none of its processors is available."""
    match = re.search(r"([0-9a-fA-F]{4}):([0-9a-fA-F:.]+)$", (card or {}).get("bus") or "")
    address = "{}:{}".format(*match.groups()).lower() if match else ""
    node = number(os.path.join(base, "bus/pci/devices", address, "numa_node"), -1)
    listed = os.path.join(base, "devices/system/node/node{}/cpulist".format(node))
    numbers = processors(listed) if node >= 0 else set()
    return tuple(entry for entry in topology if entry.number in numbers) or tuple(topology)


def start_cores(topology, cores, place):
    """Returns the processors on which the run at `place` (from 0) in its round starts: as many as
    `cores`, on the same sockets, and different ones for each place if there are enough."""
    sockets = {processor.socket for processor in topology if processor.number in cores}
    available = sorted(processor.number for processor in topology if processor.socket in sockets)
    first = available.index(min(cores)) + place * len(cores)
    return tuple(sorted(available[(first + i) % len(available)] for i in range(len(cores))))


def move(cores):
    """Pins this process and all of its threads to the processors `cores`."""
    moved = set()
    while True:
        threads = {int(name) for name in os.listdir("/proc/self/task")} - moved
        if not threads:
            return
        for thread in threads:
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(thread, cores)
        moved |= threads


def read_topology(base="/sys/devices/system/cpu", cores=None):
    """Returns the processors that this process may use, as listed by the kernel. Their number is
    limited to the CPU quota of the control group (or `cores`): more threads would be throttled."""
    topology = []
    for cpu in sorted(os.sched_getaffinity(0)):
        folder = os.path.join(str(base), "cpu{}".format(cpu), "topology")
        socket = number(os.path.join(folder, "physical_package_id"), 0)
        topology.append(Processor(cpu, socket, number(os.path.join(folder, "core_id"), cpu)))
    cores = quota() if cores is None else cores
    if cores is None or cores >= len(topology):
        return tuple(topology)
    kept = choose(topology, max(1, int(cores)))
    return tuple(processor for processor in topology if processor.number in kept)
