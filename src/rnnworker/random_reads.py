"""Times random reads of half a megabyte before and after each turn, by which tables see whether
something slowed the processor down.

The array stays in the L2 cache, so that the time depends on the core, NumPy, and who else uses the
core or its caches: a neighbour on the other half of a physical core makes it up to twice as long.
They are timed on each core of the device: a neighbour may be on one only. Python 3.6 syntax.

    python -m rnnworker.random_reads

prints how many times as long as on an undisturbed core they take; nothing if that is not known.
"""

import functools
import math
import os
import time

from rnnworker import machine

# Seconds on an undisturbed core by processor (vendor, family, model), with NumPy 1.26 to 2.4; older
# ones take up to a fifth longer.
KNOWN = {"AuthenticAMD 25 17": 15.6e-6}  # measured on two cores, 2026-11-24
MOST_CORES = 4
BYTES = 2**19
READS = 20000
TIMES = 7
TRIES = 200


def timer(job):
    """Returns a function that returns the seconds of the reads on the slowest core; None on a GPU,
    whose speed they say nothing about."""
    if job["config"]["device"].get("kind") != "cpu":
        return lambda: None
    return Reads(job.get("cores") or ()).seconds


class Reads:
    """The arrays, made by the first call, when the framework has imported NumPy, and the `cores`
    on which this thread reads them (none: where it is)."""

    def __init__(self, cores=()):
        self._read = None
        self._cores = cores[:MOST_CORES]

    def seconds(self):
        if self._read is None:
            self._read = _reading()
        if len(self._cores) < 2:
            return self._once()
        usual = os.sched_getaffinity(0)
        try:
            return max(self._once(core) for core in self._cores)
        finally:
            os.sched_setaffinity(0, usual)

    def _once(self, core=None):
        if core is not None:
            os.sched_setaffinity(0, {core})
        self._read()  # fills the cache
        taken = []
        for _ in range(TIMES):  # a timer interrupt takes as long as the reads
            begin = time.perf_counter()
            self._read()
            taken.append(time.perf_counter() - begin)
        return sorted(taken)[TIMES // 2]


def mean(before, after):
    """The geometric mean of what a timer returned before and after a turn."""
    return before and after and math.sqrt(before * after)


def _reading():
    import numpy

    array = numpy.arange(BYTES // 8, dtype="float64")
    places = numpy.random.RandomState(0).randint(0, len(array), READS).astype(numpy.intp)
    return functools.partial(numpy.take, array, places, out=numpy.empty(READS), mode="clip")


if __name__ == "__main__":
    known = KNOWN.get(machine.processor_facts().get("processor"))
    if known:
        reads = Reads(sorted(os.sched_getaffinity(0)))
        print(sorted(reads.seconds() for _ in range(TRIES))[TRIES // 2] / known)
