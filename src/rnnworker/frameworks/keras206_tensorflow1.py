"""The package Keras 2.0.6 on TensorFlow 1.2: the stack of the article of 2017 that compares CPU
and GPU.

Variables are references in this TensorFlow, and the training step of Keras 2.0.6 does not order
the update of a variable after the gradients that read its old value: a step may apply another
gradient than the one it computes, most often on one thread. This module computes every gradient
before the first update; with this alone no step differs (``benchmarks/README.md`` has the counts).
Keras does not order the increment of the step count after Adam's bias correction or a decay reads
it either; this module reads the count first.
``build.as_published: true`` leaves the step as Keras 2.0.6 published it.
"""

import os
from unittest import mock

from rnnworker.frameworks import keras2_tensorflow1, keras_facts


class Session(keras2_tensorflow1.Session):
    def import_keras(self, tensorflow):
        os.environ["KERAS_BACKEND"] = "tensorflow"
        import keras

        return keras

    def _compile_arguments(self, optimizer=None):
        arguments = super()._compile_arguments(optimizer)
        if self.config["build"].get("as_published"):
            return arguments
        optimizer = self.keras.optimizers.get(arguments["optimizer"])
        _compute_before_updating(self.tensorflow, optimizer)
        _count_after_reading(self.tensorflow, self.keras.backend, optimizer)
        return dict(arguments, optimizer=optimizer)

    def _metrics(self):
        # A list is for every output.
        return keras_facts.metrics_of(self.config["model"])

    def layer_shapes(self, layer):
        if self.recurrent.made_here(layer) is not None:
            return super().layer_shapes(layer)
        # TensorFlow 1.2 loses the number of time steps of a layer's output; Keras keeps it.
        return layer.input_shape[1:], layer.output_shape[1:]


def _compute_before_updating(tensorflow, optimizer):
    """Makes `optimizer` use no gradient until all gradients are computed."""
    get_gradients = optimizer.get_gradients

    def all_computed(loss, params):
        # An embedding's gradient is sparse; Keras 2.0.6 makes it dense when it uses it.
        gradients = [tensorflow.convert_to_tensor(each) for each in get_gradients(loss, params)]
        with tensorflow.control_dependencies(gradients):
            return [tensorflow.identity(gradient) for gradient in gradients]

    optimizer.get_gradients = all_computed


def _count_after_reading(tensorflow, backend, optimizer):
    """Makes `optimizer` read its step count once, before it increments it."""
    get_updates = optimizer.get_updates
    update_add = backend.update_add

    def updates(*arguments, **settings):
        count = optimizer.iterations
        value = count + 0  # a copy: the identity of a reference may share its memory

        def add_after_reading(variable, increment):
            if variable is not value:
                return update_add(variable, increment)
            with tensorflow.control_dependencies([value]):
                return update_add(count, increment)

        reading = mock.patch.object(optimizer, "iterations", value)
        with reading, mock.patch.object(backend, "update_add", add_after_reading):
            result = get_updates(*arguments, **settings)
        if hasattr(optimizer, "weights"):
            optimizer.weights = [count if each is value else each for each in optimizer.weights]
        return result

    optimizer.get_updates = updates
