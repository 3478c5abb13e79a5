"""Products in TensorFlow 1, with the settings of the models' session. Each uses a separate graph,
because in a common graph each new operation would cause all others to be optimised again."""


class Arithmetic:
    def __init__(self, session):
        self.settings, self.tensorflow = session.session._config, session.tensorflow

    def product(self, size):
        tensorflow = self.tensorflow
        with tensorflow.Graph().as_default() as graph:
            start = tensorflow.random_uniform((size, size), -1.0, 1.0)
            left, right = (tensorflow.Variable(start, trainable=False) for _ in range(2))
            operation = tensorflow.matmul(left, right).op
            session = tensorflow.Session(graph=graph, config=self.settings)
            session.run([left.initializer, right.initializer])
            # Fetches the operation, not its value, because fetched values are copied.
            return session.make_callable(operation)
