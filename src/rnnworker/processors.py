"""The logical processors of this machine: which of them a run is pinned to, how much CPU time the
run and other processes use on them, and whether something slows them down.

    python -m rnnworker.processors

prints how many times as long as on an undisturbed core random reads take; nothing if that is not
known. Source: ``/proc/stat`` (proc(5)): user, nice, system, idle, iowait, irq, softirq, steal in
clock ticks since boot, per processor.
"""

import collections
import contextlib
import functools
import math
import os
import re
import resource
import time

from rnnworker import machine, proc_files

# Cores that feed a GPU: Python, the input pipeline and the driver need no more, and each further
# core brings in more interference from other processes.
FEEDERS = 8
# Seconds of `RandomReads` on an undisturbed core by processor (vendor, family, model) and bytes of
# the array, with NumPy 1.26 to 2.4; older ones take up to a fifth longer. Measured on two cores,
# 2026-11-24 and 26.
KNOWN = {("AuthenticAMD 25 17", 2**19): 15.6e-6, ("AuthenticAMD 25 1", 2**18): 11.6e-6}
MOST_CORES = 4
# Of the array of `RandomReads`, at most; and the number of reads of so many.
BYTES = 2**19
READS = 20000
TIMES = 7
TRIES = 200

Processor = collections.namedtuple("Processor", "number socket core")
Processor.__doc__ = "One logical processor: its number, its socket, its core within the socket."


def read_topology(base="/sys/devices/system/cpu", cores=None):
    """Returns the processors that this process may use, as listed by the kernel. Their number is
    limited to the CPU quota of the control group (or `cores`): more threads would be throttled."""
    topology = []
    for cpu in sorted(os.sched_getaffinity(0)):
        folder = os.path.join(str(base), "cpu{}".format(cpu), "topology")
        socket = proc_files.number(os.path.join(folder, "physical_package_id"), 0)
        core = proc_files.number(os.path.join(folder, "core_id"), cpu)
        topology.append(Processor(cpu, socket, core))
    if cores is None:
        cores = proc_files.quota()
    if cores is None or cores >= len(topology):
        return tuple(topology)
    kept = choose(topology, max(1, int(cores)))
    return tuple(processor for processor in topology if processor.number in kept)


def choose(topology, threads):
    """Returns the processors for `threads` threads (None: all) as a sorted tuple: distinct
    physical cores of one socket first, then of the next, and hyper-thread siblings last. Raises
    ValueError if there are too few processors or `threads` is not positive."""
    if threads is None:
        return tuple(sorted(processor.number for processor in topology))
    if not 1 <= threads <= len(topology):
        message = "asks for {} threads; this machine offers {} cores"
        raise ValueError(message.format(threads, len(topology)))
    siblings = collections.Counter()
    ranked = []
    for processor in sorted(topology):
        core = (processor.socket, processor.core)
        ranked.append((siblings[core], processor.socket, processor.number))
        siblings[core] += 1
    ranked.sort()
    chosen = [number for _, _, number in ranked[:threads]]
    return tuple(sorted(chosen))


def for_device(topology, device, card=None, base="/sys"):
    """Returns the processors for a run on `device` (``kind``, ``threads``), chosen as by `choose`.
    On a GPU, processors near its `card` are preferred, and `threads` defaults to `FEEDERS`."""
    threads = device.get("threads")
    if device.get("kind") != "gpu":
        return choose(topology, threads)
    local = processors_near(topology, card, base)
    if threads is None:
        threads = min(FEEDERS, len(local))
    if threads <= len(local):
        return choose(local, threads)
    return choose(topology, threads)


def processors_near(topology, card, base="/sys"):
    """Returns the processors of `topology` on the NUMA node of `card` (``bus``: its PCI address),
    or all of `topology` if the node is unknown or none of its processors is available."""
    bus = (card or {}).get("bus") or ""
    # The kernel writes 0000:10:00.0, nvidia-smi writes the first number with eight digits.
    device = os.path.join(base, "bus/pci/devices", bus[-12:].lower())
    node = proc_files.number(os.path.join(device, "numa_node"), -1)
    if node < 0:
        return tuple(topology)
    listed = os.path.join(base, "devices/system/node/node{}/cpulist".format(node))
    numbers = proc_files.processors(listed)
    near = [processor for processor in topology if processor.number in numbers]
    return tuple(near or topology)


def start_cores(topology, cores, place):
    """Returns the processors on which the run at `place` (from 0) in its round starts: as many as
    `cores`, on the same sockets, and different ones for each place if there are enough."""
    count = len(cores)
    sockets = {processor.socket for processor in topology if processor.number in cores}
    near = [processor.number for processor in topology if processor.socket in sockets]
    near.sort()
    first = near.index(min(cores)) + place * count
    chosen = [near[number % len(near)] for number in range(first, first + count)]
    return tuple(sorted(chosen))


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


def load_so_far(stat="/proc/stat"):
    """Returns the CPU seconds of this process with its children (``own``) and of each processor,
    (busy, taken by the hypervisor), so far."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    second = float(os.sysconf("SC_CLK_TCK"))
    load = {
        "processors": {},
        "own": own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime,
    }

    has_ticks = False
    lines = re.findall(r"^cpu(\d+) (.*)$", proc_files.text(stat) or "", re.MULTILINE)
    for cpu, listed in lines:
        ticks = [int(field) for field in listed.split()[:8]]
        user, nice, system, _, _, irq, softirq, steal = ticks
        busy = user + nice + system + irq + softirq
        load["processors"][int(cpu)] = (busy / second, steal / second)
        has_ticks = has_ticks or any(ticks)
    if not has_ticks:  # some sandboxes (gVisor) list only zeros
        load["processors"] = {}
    return load


def load_between(before, after):
    """Returns the CPU seconds between two results of `load_so_far`: `own` (this run), `busy` (all
    processes on this run's processors), `foreign` (busy minus own, at least 0), `steal` (taken by
    the hypervisor). Only `own` is known if ``/proc/stat`` has no data."""
    load = {"own": after["own"] - before["own"]}
    if not after["processors"]:
        return load

    load["busy"] = 0.0
    load["steal"] = 0.0
    for cpu in os.sched_getaffinity(0):
        if cpu in before["processors"] and cpu in after["processors"]:
            busy, steal = after["processors"][cpu]
            busy_before, steal_before = before["processors"][cpu]
            load["busy"] += busy - busy_before
            load["steal"] += steal - steal_before
    return total_load({}, load)


def total_load(first, second):
    """Returns the sum of two loads. `foreign` is computed from the sums, because the kernel counts
    busy time in ticks of 10 ms, and over a short time often has one too many or too few."""
    total = {}
    for name, seconds in second.items():
        total[name] = first.get(name, 0) + seconds
    if "busy" in total:
        total["foreign"] = max(0.0, total["busy"] - total["own"])
    return total


class RandomReads:
    """Times random reads of half the L2 cache, of half a megabyte at most, before and after each
    turn, by which tables see whether something slowed the processor down.

    The array stays in the L2 cache, so that the time depends on the core, NumPy, and who else uses
    the core or its caches: a neighbour on the other half of a physical core makes it up to twice as
    long. They are timed on each of the `cores` (none: on the core where this thread is): a
    neighbour may be on one only. The array is made by the first call, when the framework has
    imported NumPy.
    """

    def __init__(self, cores=()):
        self.bytes = reads_bytes(machine.caches())
        self._read = None
        self._cores = cores[:MOST_CORES]

    def seconds(self):
        """Returns the seconds of the reads on the slowest core."""
        if self._read is None:
            import numpy

            array = numpy.arange(self.bytes // 8, dtype="float64")
            count = READS * self.bytes // BYTES
            places = numpy.random.RandomState(0).randint(0, len(array), count)
            self._read = functools.partial(
                numpy.take,
                array,
                places.astype(numpy.intp),
                out=numpy.empty(count),
                mode="clip",
            )

        if len(self._cores) < 2:
            return self._once()
        usual = os.sched_getaffinity(0)
        try:
            return max(self._once(core) for core in self._cores)
        finally:
            os.sched_setaffinity(0, usual)

    def _once(self, core=None):
        """Returns the median of several timings, on `core` if it is given."""
        if core is not None:
            os.sched_setaffinity(0, {core})
        self._read()  # fills the cache
        taken = []
        for _ in range(TIMES):  # a timer interrupt takes as long as the reads
            begin = time.perf_counter()
            self._read()
            taken.append(time.perf_counter() - begin)
        return sorted(taken)[TIMES // 2]


def mean_reads(before, after):
    """The geometric mean of what a timer returned before and after a turn."""
    if before is None or after is None:
        return None
    return math.sqrt(before * after)


def reads_bytes(caches):
    """Returns the size of the array of `RandomReads`: half of the L2 cache, at most `BYTES`, also
    if its size is unknown. `caches`: as `machine.caches` returns them."""
    kibibytes = re.match(r"(\d+)K$", caches.get("L2") or "")
    if kibibytes is None:
        return BYTES
    return min(BYTES, int(kibibytes.group(1)) * 512)


if __name__ == "__main__":
    reads = RandomReads(sorted(os.sched_getaffinity(0)))
    processor = machine.processor_facts()["processor"]
    known = KNOWN.get((processor, reads.bytes))
    if known:
        seconds = sorted(reads.seconds() for _ in range(TRIES))
        print(seconds[TRIES // 2] / known)
