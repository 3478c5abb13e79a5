"""Products and additions in TensorFlow 2."""


class Arithmetic:
    def __init__(self, session):
        self.session, self.tensorflow = session, session.tensorflow
        self.compiled = bool(session.config["build"].get("jit_compile", False))

    def products(self, m, k, n, count):
        """`count` float32 products (m, k) × (k, n), one after another in one graph. Each has a
        left side of its own: equal ones would be computed once."""
        tensorflow = self.tensorflow
        left = [tensorflow.random.uniform((m, k), -1.0, 1.0) for _ in range(count)]
        right = tensorflow.random.uniform((k, n), -1.0, 1.0)

        @tensorflow.function(jit_compile=self.compiled)
        def multiply(right):
            found = []
            for one in left:
                with tensorflow.control_dependencies(found[-1:]):
                    found.append(tensorflow.matmul(one, right))
            return found

        # The left sides are in the graph: to hand them over at each call costs more than small
        # products. The right one is handed over, so that nothing is computed in advance.
        multiply = multiply.get_concrete_function(right)

        def run():
            multiply(right)
            self.session.finish_device()

        return run

    def adding(self, elements):
        """a += b over `elements` float32 numbers, in place."""
        tensorflow = self.tensorflow
        a = tensorflow.Variable(tensorflow.zeros((elements,)), trainable=False)
        b = tensorflow.fill((elements,), 1e-3)

        def run():
            a.assign_add(b)
            self.session.finish_device()

        return run
