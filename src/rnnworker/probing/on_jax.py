"""Products and additions in jax, compiled by XLA like every step in jax."""

import functools

import numpy


class Arithmetic:
    def __init__(self, session):
        self.jax = session.jax

    def products(self, m, k, n, count):
        """Returns a function that computes `count` float32 products (m, k) × (k, n) in a scan."""
        jax = self.jax
        left, right = self._random(count, m, k), self._random(k, n)

        @jax.jit
        def multiply(left, right):
            def body(_, matrix):
                return matrix @ right, None

            return jax.lax.scan(body, jax.numpy.zeros((m, n), "float32"), left)[0]

        return lambda: multiply(left, right).block_until_ready()

    def addition(self, elements):
        """Returns a function that computes a += b over `elements` float32 numbers; a is donated."""
        jax = self.jax
        b, state = jax.numpy.full((elements,), 1e-3, "float32"), {}
        state["a"] = jax.numpy.zeros((elements,), "float32")

        @functools.partial(jax.jit, donate_argnums=0)
        def add(a, b):
            return a + b

        def run():
            state["a"] = add(state["a"], b).block_until_ready()

        return run

    def _random(self, *shape):
        values = numpy.random.RandomState(0).uniform(-1.0, 1.0, shape)
        return self.jax.numpy.asarray(values.astype("float32"))
