"""Products and additions in TensorFlow 1, in the session and graph that the models are in."""


class Arithmetic:
    def __init__(self, session):
        self.session, self.tensorflow = session.session, session.tensorflow

    def products(self, m, k, n, count):
        """`count` float32 products (m, k) × (k, n), one after another in one step. Each has a
        left side of its own: equal ones would be computed once."""
        tensorflow = self.tensorflow
        left = [self._variable((m, k)) for _ in range(count)]
        right, found = self._variable((k, n)), []
        for one in left:
            with tensorflow.control_dependencies(found[-1:]):
                found.append(tensorflow.matmul(one, right).op)
        return self._runs(found)

    def adding(self, elements):
        """a += b over `elements` float32 numbers, in place."""
        a, b = self._variable((elements,)), self._variable((elements,))
        return self._runs(self.tensorflow.assign_add(a, b).op)

    def _variable(self, shape):
        start = self.tensorflow.random_uniform(shape, -1.0, 1.0)
        variable = self.tensorflow.Variable(start, trainable=False, collections=[])
        self.session.run(variable.initializer)
        return variable

    def _runs(self, operations):
        # Operations, not their values: what is fetched is copied.
        return lambda: self.session.run(operations)
