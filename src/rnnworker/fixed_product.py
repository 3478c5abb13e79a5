"""Times a fixed matrix product after each turn, by which tables see whether something slowed the
processor down.

The product of two 64 x 64 matrices of float32 stays in the L1 cache and is too small for BLAS to
use threads, so that its time depends on the core, NumPy's BLAS, and who else uses the core: a
neighbour on the other half of a physical core makes it up to one and a half times as long. Other
runs, and what this run trains, play no part. It is timed on each core of the device in turn,
because a neighbour may be on one of them only. Python 3.6 syntax.
"""

import functools
import os
import time

MOST_CORES = 4
SIZE = 64
PRODUCTS = 60  # about 0.2 to 0.4 ms


def timer(job):
    """Returns a function that returns the seconds of the fixed product on the slowest core; None on
    a GPU, whose speed it says nothing about."""
    if job["config"]["device"].get("kind") != "cpu":
        return no_product
    return Product(job.get("cores") or ()).seconds


class Product:
    """The matrices, made by the first call, when the framework has imported NumPy, and the `cores`
    on which this thread multiplies them (none: where it is)."""

    def __init__(self, cores=()):
        self._multiply = None
        self._cores = cores[:MOST_CORES]

    def seconds(self):
        if self._multiply is None:
            self._multiply = _multiplication()
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
        for _ in range(2):  # the first fills the cache
            begin = time.perf_counter()
            for _ in range(PRODUCTS):
                self._multiply()
        return time.perf_counter() - begin


def _multiplication():
    import numpy

    matrix = numpy.linspace(-1, 1, SIZE * SIZE, dtype="float32").reshape(SIZE, SIZE)
    return functools.partial(numpy.dot, matrix, matrix, out=numpy.empty_like(matrix))


def no_product():
    return None
