"""Products and additions in TensorFlow 1, with the settings of the models' session. Each has a
graph and a session of its own: in the models' graph every new one would be optimised again with
all that are there."""


class Arithmetic:
    def __init__(self, session):
        self.settings, self.tensorflow = session.session._config, session.tensorflow

    def products(self, m, k, n, count):
        """`count` float32 products (m, k) × (k, n), one after another in one step. Each has a
        left side of its own: equal ones would be computed once."""
        tensorflow = self.tensorflow
        with tensorflow.Graph().as_default() as graph:
            left, right = [self._variable((m, k)) for _ in range(count)], self._variable((k, n))
            found = []
            for one in left:
                with tensorflow.control_dependencies(found[-1:]):
                    found.append(tensorflow.matmul(one, right).op)
            return self._runs(graph, found, left + [right])

    def adding(self, elements):
        """a += b over `elements` float32 numbers, in place."""
        with self.tensorflow.Graph().as_default() as graph:
            a, b = self._variable((elements,)), self._variable((elements,))
            return self._runs(graph, self.tensorflow.assign_add(a, b).op, [a, b])

    def _variable(self, shape):
        start = self.tensorflow.random_uniform(shape, -1.0, 1.0)
        return self.tensorflow.Variable(start, trainable=False)

    def _runs(self, graph, operations, variables):
        session = self.tensorflow.Session(graph=graph, config=self.settings)
        session.run([variable.initializer for variable in variables])
        # Operations, not their values: what is fetched is copied.
        # Made once: taking a list of operations apart costs more than small products.
        return session.make_callable(operations)
