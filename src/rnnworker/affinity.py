"""Which logical processors a run is pinned to. Standard library only; pure but for
`read_topology` and `move`."""

import collections
import contextlib
import os

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
    return tuple(sorted(number for _, _, number in sorted(ranked)[:threads]))


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


def read_topology(base="/sys/devices/system/cpu"):
    """The processors this process may use, as the kernel lists them."""
    topology = []
    for number in sorted(os.sched_getaffinity(0)):
        folder = os.path.join(str(base), "cpu{}".format(number), "topology")
        socket = _number(os.path.join(folder, "physical_package_id"), 0)
        topology.append(Processor(number, socket, _number(os.path.join(folder, "core_id"), number)))
    return tuple(topology)


def _number(path, default):
    try:
        with open(path) as file:
            return int(file.read())
    except (OSError, ValueError):
        return default
