"""Products and additions in TensorFlow 1, with the settings of the models' session. Each uses a
separate graph, because in a common graph each new operation would cause all others to be optimised
again."""


class Arithmetic:
    def __init__(self, session):
        self.settings, self.tensorflow = session.session._config, session.tensorflow

    def products(self, m, k, n, count):
        """Returns a function that computes `count` float32 products (m, k) × (k, n) in sequence, in
        one step. Left operands differ, because equal products would be computed only once."""
        tensorflow = self.tensorflow
        with tensorflow.Graph().as_default() as graph:
            left, right = [self._variable((m, k)) for _ in range(count)], self._variable((k, n))
            operations = []
            for matrix in left:
                with tensorflow.control_dependencies(operations[-1:]):
                    operations.append(tensorflow.matmul(matrix, right).op)
            return self._callable(graph, operations, left + [right])

    def addition(self, elements):
        """Returns a function that computes a += b in place over `elements` float32 numbers."""
        with self.tensorflow.Graph().as_default() as graph:
            a, b = self._variable((elements,)), self._variable((elements,))
            return self._callable(graph, self.tensorflow.assign_add(a, b).op, [a, b])

    def _variable(self, shape):
        start = self.tensorflow.random_uniform(shape, -1.0, 1.0)
        return self.tensorflow.Variable(start, trainable=False)

    def _callable(self, graph, operations, variables):
        session = self.tensorflow.Session(graph=graph, config=self.settings)
        session.run([variable.initializer for variable in variables])
        # Fetches operations, not values, because fetched values are copied. The callable is made
        # once, because parsing a list of fetches takes longer than small products.
        return session.make_callable(operations)
