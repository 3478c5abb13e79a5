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
from typing import Callable, Dict, NamedTuple, Optional, Sequence, Set, Tuple

from rnnworker import machine, proc_files
from rnnworker.json_types import Card, Config

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

Cores = Tuple[int, ...]  # the numbers of processors, sorted


class Processor(NamedTuple):
    """One logical processor: its number, its socket, its core within the socket."""

    number: int
    socket: int
    core: int


Topology = Sequence[Processor]


class LoadSoFar(NamedTuple):
    """The CPU seconds so far: `own`, of this process with its children, and those of each processor
    (busy, taken by the hypervisor), none if they are unknown."""

    own: float
    processors: Dict[int, Tuple[float, float]]


Load = Dict[str, float]  # CPU seconds over some time (`load_between`)


def read_topology(
    base: str = "/sys/devices/system/cpu",
    cores: Optional[float] = None,
) -> Tuple[Processor, ...]:
    """Returns the processors that this process may use, as listed by the kernel. Their number is
    limited to the CPU quota of the control group (or `cores`): more threads would be throttled."""
    topology = []
    for cpu in sorted(os.sched_getaffinity(0)):
        folder = os.path.join(base, "cpu{}".format(cpu), "topology")
        socket = proc_files.number(os.path.join(folder, "physical_package_id"), 0)
        core = proc_files.number(os.path.join(folder, "core_id"), cpu)
        topology.append(Processor(cpu, socket, core))
    if cores is None:
        cores = proc_files.quota()
    if cores is None or cores >= len(topology):
        return tuple(topology)
    kept = choose(topology, max(1, int(cores)))
    return tuple(processor for processor in topology if processor.number in kept)


def choose(topology: Topology, threads: Optional[int]) -> Cores:
    """Returns the processors for `threads` threads (None: all) as a sorted tuple: distinct
    physical cores of one socket first, then of the next, and hyper-thread siblings last. Raises
    ValueError if there are too few processors or `threads` is not positive."""
    if threads is None:
        return tuple(sorted(processor.number for processor in topology))
    if not 1 <= threads <= len(topology):
        message = "asks for {} threads; this machine offers {} cores"
        raise ValueError(message.format(threads, len(topology)))
    siblings: Dict[Tuple[int, int], int] = collections.Counter()
    ranked = []
    for processor in sorted(topology):
        core = (processor.socket, processor.core)
        ranked.append((siblings[core], processor.socket, processor.number))
        siblings[core] += 1
    ranked.sort()
    chosen = [number for _, _, number in ranked[:threads]]
    return tuple(sorted(chosen))


def for_device(
    topology: Topology,
    device: Config,
    card: Optional[Card] = None,
    base: str = "/sys",
) -> Cores:
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


def processors_near(
    topology: Topology,
    card: Optional[Card],
    base: str = "/sys",
) -> Tuple[Processor, ...]:
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


def start_cores(topology: Topology, cores: Cores, place: int) -> Cores:
    """Returns the processors on which the run at `place` (from 0) in its round starts: as many as
    `cores`, on the same sockets, and different ones for each place if there are enough."""
    count = len(cores)
    sockets = {processor.socket for processor in topology if processor.number in cores}
    near = [processor.number for processor in topology if processor.socket in sockets]
    near.sort()
    first = near.index(min(cores)) + place * count
    chosen = [near[number % len(near)] for number in range(first, first + count)]
    return tuple(sorted(chosen))


def move(cores: Sequence[int]) -> None:
    """Pins this process and all of its threads to the processors `cores`."""
    moved: Set[int] = set()
    while True:
        threads = {int(name) for name in os.listdir("/proc/self/task")} - moved
        if not threads:
            return
        for thread in threads:
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(thread, cores)
        moved |= threads


def load_so_far(stat: str = "/proc/stat") -> LoadSoFar:
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    second = float(os.sysconf("SC_CLK_TCK"))
    seconds = own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
    processors = {}
    has_ticks = False
    lines = re.findall(r"^cpu(\d+) (.*)$", proc_files.text(stat) or "", re.MULTILINE)
    for cpu, listed in lines:
        ticks = [int(field) for field in listed.split()[:8]]
        user, nice, system, _, _, irq, softirq, steal = ticks
        busy = user + nice + system + irq + softirq
        processors[int(cpu)] = (busy / second, steal / second)
        has_ticks = has_ticks or any(ticks)
    if not has_ticks:  # some sandboxes (gVisor) list only zeros
        processors = {}
    return LoadSoFar(seconds, processors)


def load_between(before: LoadSoFar, after: LoadSoFar) -> Load:
    """Returns the CPU seconds between two results of `load_so_far`: `own` (this run), `busy` (all
    processes on this run's processors), `foreign` (busy minus own, at least 0), `steal` (taken by
    the hypervisor). Only `own` is known if ``/proc/stat`` has no data."""
    load = {"own": after.own - before.own}
    if not after.processors:
        return load

    load["busy"] = 0.0
    load["steal"] = 0.0
    for cpu in os.sched_getaffinity(0):
        if cpu in before.processors and cpu in after.processors:
            busy, steal = after.processors[cpu]
            busy_before, steal_before = before.processors[cpu]
            load["busy"] += busy - busy_before
            load["steal"] += steal - steal_before
    return total_load({}, load)


def total_load(first: Load, second: Load) -> Load:
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

    def __init__(self, cores: Sequence[int] = ()) -> None:
        self.bytes = reads_bytes(machine.caches())
        self._read: Optional[Callable[[], object]] = None
        self._cores = cores[:MOST_CORES]

    def seconds(self) -> float:
        """Returns the seconds of the reads on the slowest core."""
        if self._read is None:
            self._read = random_reads(self.bytes)
        if len(self._cores) < 2:
            return median_seconds(self._read)
        usual = os.sched_getaffinity(0)
        taken = []
        try:
            for core in self._cores:
                os.sched_setaffinity(0, {core})
                taken.append(median_seconds(self._read))
        finally:
            os.sched_setaffinity(0, usual)
        return max(taken)


def random_reads(size: int) -> Callable[[], object]:
    """Returns a function that makes the reads of `RandomReads` in an array of `size` bytes."""
    import numpy

    array = numpy.arange(size // 8, dtype="float64")
    count = READS * size // BYTES
    places = numpy.random.RandomState(0).randint(0, len(array), count)
    return functools.partial(
        numpy.take,
        array,
        places.astype(numpy.intp),
        out=numpy.empty(count),
        mode="clip",
    )


def median_seconds(read: Callable[[], object]) -> float:
    """Returns the median of several timings of `read`."""
    read()  # fills the cache
    taken = []
    for _ in range(TIMES):  # a timer interrupt takes as long as the reads
        begin = time.perf_counter()
        read()
        taken.append(time.perf_counter() - begin)
    return sorted(taken)[TIMES // 2]


def mean_reads(before: Optional[float], after: Optional[float]) -> Optional[float]:
    """The geometric mean of what a timer returned before and after a turn."""
    if before is None or after is None:
        return None
    return math.sqrt(before * after)


def reads_bytes(caches: Dict[str, Optional[str]]) -> int:
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
