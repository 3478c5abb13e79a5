"""Which logical processors a run is pinned to. Standard library only; pure but for
`read_topology`, `near` and `move`."""

import collections
import contextlib
import os
import re

from rnnworker.proc_files import number, processors
from rnnworker.quota import quota

# What feeds a card: Python, the feed's threads and the driver's. More cores would only bring in
# more of what others do.
FEEDERS = 8

Processor = collections.namedtuple("Processor", "number socket core")
Processor.__doc__ = "One logical processor: its number, its socket, its core within the socket."


def choose(topology, threads):
    """The processors for `threads` threads (None: all), as a sorted tuple: distinct physical
    cores of one socket first, then of the next; hyper-thread siblings last. Raises a
    ValueError where there are too few, or `threads` is no positive number."""
    if threads is None:
        return tuple(sorted(processor.number for processor in topology))
    if not 1 <= threads <= len(topology):
        raise ValueError(
            "asks for {} threads; this machine offers {} cores".format(threads, len(topology))
        )
    seen = collections.Counter()
    ranked = []
    for processor in sorted(topology):
        place = (processor.socket, processor.core)
        ranked.append((seen[place], processor.socket, processor.number))
        seen[place] += 1
    return tuple(sorted(place[-1] for place in sorted(ranked)[:threads]))


def for_device(topology, device, card=None, base="/sys"):
    """The processors for a run on `device` (``kind``, ``threads``), as `choose`; on a GPU those
    near the `card` that it uses come first, and without a number of threads it is `FEEDERS`."""
    threads = device.get("threads")
    if device.get("kind") != "gpu":
        return choose(topology, threads)
    there = near(topology, card, base)
    if threads is None:
        threads = min(FEEDERS, len(there))
    return choose(there if threads <= len(there) else topology, threads)


def near(topology, card, base="/sys"):
    """Those of the `topology` on the NUMA node of the `card` (``bus``: its PCI address); all of
    them where nobody says which these are, or none of them is there."""
    match = re.search(r"([0-9a-fA-F]{4}):([0-9a-fA-F:.]+)$", (card or {}).get("bus") or "")
    address = "{}:{}".format(*match.groups()).lower() if match else ""
    node = number(os.path.join(base, "bus/pci/devices", address, "numa_node"), -1)
    listed = os.path.join(base, "devices/system/node/node{}/cpulist".format(node))
    numbers = processors(listed) if node >= 0 else set()
    return tuple(one for one in topology if one.number in numbers) or tuple(topology)


def start_cores(topology, cores, place):
    """As many processors as `cores`, another set for each `place` (from 0) in a round, where these
    sockets have others: there a run of the round starts, beside the others."""
    sockets = {one.socket for one in topology if one.number in cores}
    there = sorted(one.number for one in topology if one.socket in sockets)
    first = there.index(min(cores)) + place * len(cores)
    return tuple(sorted(there[(first + i) % len(there)] for i in range(len(cores))))


def move(cores):
    """Moves this process, with all the threads that it has, to the processors `cores`."""
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
    """The processors this process may use, as the kernel lists them; no more of them than the
    quota of its control group (or `cores`) has time for: threads of all would stop one another."""
    topology = []
    for one in sorted(os.sched_getaffinity(0)):
        folder = os.path.join(str(base), "cpu{}".format(one), "topology")
        socket = number(os.path.join(folder, "physical_package_id"), 0)
        topology.append(Processor(one, socket, number(os.path.join(folder, "core_id"), one)))
    cores = quota() if cores is None else cores
    if cores is None or cores >= len(topology):
        return tuple(topology)
    kept = choose(topology, max(1, int(cores)))
    return tuple(one for one in topology if one.number in kept)
