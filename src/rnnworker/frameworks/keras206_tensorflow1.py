"""Keras 2.0.6, the package, on TensorFlow 1.2: the stack of the CPU against GPU article of 2017.

Variables are references in this TensorFlow, and nothing in the training step of Keras 2.0.6 keeps
one variable's update from running before another's gradient has read the old value: a step may
apply another gradient than the one it computes, most often on one thread. So every gradient is
computed here before the first update: with this, and nothing else changed, no step differs
(``benchmarks/README.md`` has the counts of both). Nor does anything keep the count of steps from
being raised before Adam's bias correction or a decay reads it: here it is read first.
``build.as_published: true`` leaves the step as Keras 2.0.6 published it.
"""

import os

from rnnworker.frameworks.arrays_session import ArraysSession


class Session(ArraysSession):
    def import_keras(self, tensorflow):
        os.environ["KERAS_BACKEND"] = "tensorflow"
        import keras

        return keras

    def optimizer(self, stated):
        optimizer = super().optimizer(stated)
        if not self.config["build"].get("as_published"):
            _compute_before_updating(self.tensorflow, optimizer)
            _count_after_reading(self.tensorflow, self.keras.backend, optimizer)
        return optimizer

    def layer_shapes(self, layer):
        # TensorFlow 1.2 loses how many steps a layer gives out; Keras does not.
        return layer.input_shape[1:], layer.output_shape[1:]


def _compute_before_updating(tensorflow, optimizer):
    """Makes every gradient that `optimizer` uses wait for all of them."""
    get_gradients = optimizer.get_gradients

    def all_computed(loss, params):
        # An embedding's gradient is sparse; Keras 2.0.6 makes it dense when it uses it.
        gradients = [tensorflow.convert_to_tensor(one) for one in get_gradients(loss, params)]
        with tensorflow.control_dependencies(gradients):
            return [tensorflow.identity(one) for one in gradients]

    optimizer.get_gradients = all_computed


def _count_after_reading(tensorflow, backend, optimizer):
    """Makes `optimizer` raise its count of steps only after it has read it, and read it once."""
    get_updates, raised = optimizer.get_updates, backend.update_add

    def updates(*arguments, **settings):
        count = optimizer.iterations
        read = count + 0  # a copy: the identity of a reference may share its memory

        def raise_later(variable, increment):
            if variable is not read:
                return raised(variable, increment)
            with tensorflow.control_dependencies([read]):
                return raised(count, increment)

        optimizer.iterations, backend.update_add = read, raise_later
        try:
            made = get_updates(*arguments, **settings)
        finally:
            optimizer.iterations, backend.update_add = count, raised
        if hasattr(optimizer, "weights"):
            optimizer.weights = [count if one is read else one for one in optimizer.weights]
        return made

    optimizer.get_updates = updates
