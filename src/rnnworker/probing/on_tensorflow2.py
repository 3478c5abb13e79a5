"""Products and additions in TensorFlow 2."""


class Arithmetic:
    def __init__(self, session):
        self.session, self.tensorflow = session, session.tensorflow
        self.compiled = bool(session.config["build"].get("jit_compile", False))

    def products(self, m, k, n, count):
        """Returns a function that computes `count` float32 products (m, k) × (k, n) in sequence, in
        one graph. Left operands differ, because equal products would be computed only once."""
        tensorflow = self.tensorflow
        left = [tensorflow.random.uniform((m, k), -1.0, 1.0) for _ in range(count)]
        right = tensorflow.random.uniform((k, n), -1.0, 1.0)

        @tensorflow.function(jit_compile=self.compiled)
        def multiply(right):
            products = []
            for matrix in left:
                with tensorflow.control_dependencies(products[-1:]):
                    products.append(tensorflow.matmul(matrix, right))
            return products

        # The left operands are constants of the graph, because passing them on each call takes
        # longer than small products. The right operand is an argument, to prevent constant folding.
        multiply = multiply.get_concrete_function(right)

        def run():
            multiply(right)
            self.session.finish_device()

        return run

    def addition(self, elements):
        """Returns a function that computes a += b in place over `elements` float32 numbers."""
        tensorflow = self.tensorflow
        a = tensorflow.Variable(tensorflow.zeros((elements,)), trainable=False)
        b = tensorflow.fill((elements,), 1e-3)

        def run():
            a.assign_add(b)
            self.session.finish_device()

        return run
