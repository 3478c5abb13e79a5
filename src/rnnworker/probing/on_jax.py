"""Products in jax, compiled by XLA like every step in jax."""

import numpy


class Arithmetic:
    def __init__(self, session):
        self.jax = session.jax

    def product(self, size):
        values = numpy.random.RandomState(0).uniform(-1.0, 1.0, (2, size, size))
        left, right = (self.jax.numpy.asarray(each.astype("float32")) for each in values)
        multiply = self.jax.jit(lambda left, right: left @ right)
        return lambda: multiply(left, right).block_until_ready()
