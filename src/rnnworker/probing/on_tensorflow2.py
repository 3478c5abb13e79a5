"""Products in TensorFlow 2."""


class Arithmetic:
    def __init__(self, session):
        self.session, self.tensorflow = session, session.tensorflow
        self.compiled = bool(session.config["build"].get("jit_compile", False))

    def product(self, size):
        tensorflow = self.tensorflow
        left, right = (tensorflow.random.uniform((size, size), -1.0, 1.0) for _ in range(2))
        # The right operand is an argument, to prevent constant folding.
        multiply = tensorflow.function(
            lambda right: tensorflow.matmul(left, right), jit_compile=self.compiled
        ).get_concrete_function(right)

        def run():
            multiply(right)
            self.session.finish_device()

        return run
