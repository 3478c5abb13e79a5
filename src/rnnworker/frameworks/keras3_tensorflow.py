"""Keras 3 on TensorFlow 2, and Keras 2: TensorFlow's own up to 2.15, the package ``tf_keras``
later."""

import os

import numpy

from rnnworker import data, trees
from rnnworker.frameworks import keras_facts, tensorflow_facts
from rnnworker.frameworks.keras_session import KerasSession
from rnnworker.frameworks.keras_training import bounds
from rnnworker.recurrent.cells import keras_version

HOST = "/CPU:0"
# Step of a Keras model → the samples that it takes.
STEPS = {"train_step": "train", "test_step": "val", "predict_step": "val"}


class Session(KerasSession):
    """The model of one run on one device, a CPU or a card."""

    def __init__(self, config, threads):
        super().__init__(config, threads)
        set_environment(config)
        with tensorflow_facts.captured_stderr() as captured:
            import tensorflow

            settings = tensorflow.config
            settings.threading.set_intra_op_parallelism_threads(threads)
            settings.threading.set_inter_op_parallelism_threads(threads)
            self.tensorflow = tensorflow
            self.keras = self.import_keras(tensorflow)
            # As needed: other runs of a round have contexts on the card too.
            for card in settings.list_physical_devices("GPU"):
                settings.experimental.set_memory_growth(card, True)
            devices = settings.list_logical_devices()
        self._messages = "".join(tensorflow_facts.import_messages + captured)
        self._asynchronous = any(device.device_type != "CPU" for device in devices)
        self._probes = {}
        self._gathers = False  # whether the model's steps take numbers of samples

    def import_keras(self, tensorflow):
        if self.config["build"]["framework"] == "keras3_tensorflow":
            import keras

            return keras
        # The masks of dropout come from ops whose state cannot be set.
        self.resets_dropout = False
        version = keras_version(tensorflow.keras)
        if not version.startswith("2."):
            raise ValueError(
                "tensorflow.keras is Keras {}: set TF_USE_LEGACY_KERAS=1 in build.environment "
                "and install tf_keras".format(version)
            )
        return tensorflow.keras

    def drawn(self, draw, shape, dtype):
        return self.tensorflow.cast(draw(), dtype)

    def as_numpy(self, tensor):
        return self.as_tensor(tensor).numpy()

    def as_tensor(self, value):
        return self.tensorflow.convert_to_tensor(value)

    def build_facts(self):
        return tensorflow_facts.facts(self.tensorflow, self._messages)

    def thread_counts(self):
        threading = self.tensorflow.config.threading
        intra_op = threading.get_intra_op_parallelism_threads()
        return intra_op, threading.get_inter_op_parallelism_threads()

    def devices(self):
        config = self.tensorflow.config
        cards = []
        for card in config.list_physical_devices("GPU"):
            details = config.experimental.get_device_details(card)
            if "device_name" in details:
                cards.append(details["device_name"])
        return {
            "framework_devices": [device.name for device in config.list_logical_devices()],
            "framework_cards": cards,
        }

    def batches(self, samples, orders, batch):
        """A tf.data pipeline over arrays in memory with its iterator, so that no call of ``fit``,
        ``evaluate`` or ``predict`` makes them. It has no autotuning, whose thread would delay the
        end of ``fit`` by up to 0.6 s. All of it is on the host: on a machine with a GPU, constants
        would otherwise be placed on the GPU and copied back batch by batch.

        As in a ``fit`` with arrays, a step knows the size of its batch if the last batch of the
        `samples` is whole. Keras's loops over the timesteps are then up to 1.3 times as fast."""
        size = size_of_batches(samples, batch)
        if self.feed == "device":
            return self._pipeline(lambda chosen: chosen, orders, batch, size)
        with self.tensorflow.device(HOST):
            samples = trees.mapped(self.tensorflow.constant, samples)
            return self._pipeline(self._gather(samples), orders, batch, size)

    def prepare_training(self):
        super().prepare_training()
        self.make_metrics()
        if self.feed == "device" and self.arrays is not None and not self._gathers:
            self._gathers = True  # also when it is compiled again
            for name, part in STEPS.items():
                step = getattr(self.model, name)
                setattr(self.model, name, self._gathering(step, part))

    def kinds_of_variables(self):
        # A Keras 3 variable wraps a TensorFlow variable; a Keras 2 variable is one.
        return (self.tensorflow.Variable, getattr(self.keras, "Variable", ()))

    def compile_settings(self):
        return dict(super().compile_settings(), run_eagerly=False)

    def make_metrics(self):
        """Makes the variables of the metrics. TensorFlow would trace a step that made them
        twice."""
        # A subclassed model has no outputs yet.
        if self.arrays is not None and hasattr(self.model, "output"):
            y = trees.mapped(self._first, self.arrays["y_train"])
            self.model.compute_metrics(None, y, self._first_outputs(), None)
            self.model.reset_metrics()

    def _first(self, array):
        return self.tensorflow.constant(array[:1])

    def _first_outputs(self):
        """Zeros in the form of the model's outputs for the first sample."""
        for output in self.model.outputs:
            if None in tuple(output.shape)[1:]:
                first = trees.mapped(self._first, self.arrays["x_train"])
                return self.model(first, training=False)
        zeros = self.tensorflow.zeros
        return trees.mapped(lambda output: zeros((1,) + tuple(output.shape)[1:]), self.model.output)

    def _gathering(self, step, part):
        """`step` of the model as a function of the numbers of its samples in `part`."""
        tensorflow = self.tensorflow
        samples = data.samples(self.arrays, part)

        def for_function(array):
            array = numpy.asarray(array)
            if array.dtype == "int32":  # a function takes int32 tensors from the host's memory
                array = array.astype("int64")
            return tensorflow.constant(array)

        def cast(tensor, array):
            return tensorflow.cast(tensor, numpy.asarray(array).dtype)

        gather = self._gather(trees.mapped(for_function, samples))

        def gathered(numbers):
            batch = tensorflow.nest.map_structure(cast, gather(numbers), samples)
            return step(batch)

        return gathered

    def augmented_feed(self, samples, orders, batch):
        # One pipeline for all epochs, which reads the images of the current epoch.
        tensorflow = self.tensorflow
        with tensorflow.device(HOST):
            x = tensorflow.Variable(self.arrays["x_train"], trainable=False)
            others = trees.mapped(tensorflow.constant, samples[1:])
            gather = self._gather((x,) + others)
            feed = self._pipeline(gather, orders, batch, size_of_batches(samples, batch))

        def feed_of(epoch, images):
            with tensorflow.device(HOST):
                x.assign(images)
            return feed

        return feed_of

    def _gather(self, samples):
        """A function of the numbers of samples that returns a batch of them."""
        gather = self.tensorflow.gather
        return lambda chosen: trees.mapped(lambda array: gather(array, chosen), samples)

    def _pipeline(self, batch_of, orders, batch, size):
        """The endless dataset of `batches`; `batch_of`: a function of the numbers of samples that
        returns a batch of them; `size`: of every batch, None if they differ."""
        tensorflow = self.tensorflow
        options = tensorflow.data.Options()
        options.autotune.enabled = False
        with tensorflow.device(HOST):
            order = tensorflow.constant(numpy.concatenate(orders))

            def take(start, stop):
                return batch_of(tensorflow.ensure_shape(order[start:stop], (size,)))

            dataset = tensorflow.data.Dataset.from_tensor_slices(bounds(orders, batch))
            dataset = dataset.repeat().map(take).with_options(options)
            return with_iterator(dataset)

    def set_tf32(self, on):
        self.tensorflow.config.experimental.enable_tensor_float_32_execution(on)

    def card_memory_peak(self):
        return int(self.tensorflow.config.experimental.get_memory_info("GPU:0")["peak"])

    def tf32(self):
        return bool(self.tensorflow.config.experimental.tensor_float_32_execution_enabled())

    def finish_device(self):
        # On a CPU the work is finished when the call returns.
        if self._asynchronous:
            self.tensorflow.test.experimental.sync_devices()

    def cudnn_facts(self):
        return {
            "gpus": len(self.tensorflow.config.list_logical_devices("GPU")),
            "cuda_build": bool(self.tensorflow.test.is_built_with_cuda()),
        }

    def executed_ops(self, run):
        return tensorflow_facts.executed_ops(self.tensorflow, run)

    def loss_gradients(self):
        tensorflow = self.tensorflow
        variables = self._variables(self.model)

        @tensorflow.function
        def gradients(*samples):
            with tensorflow.GradientTape() as tape:
                loss = self.loss(*samples)
            # Of a weight that the loss does not depend on too.
            zero = tensorflow.UnconnectedGradients.ZERO
            found = tape.gradient(loss, variables, unconnected_gradients=zero)
            return list(map(self.as_tensor, found))

        def gradients_of(*samples):
            samples = trees.mapped(tensorflow.constant, samples)
            return [value.numpy() for value in gradients(*samples)]

        return gradients_of

    def _variables(self, layer):
        """TensorFlow's variables of a layer or model that are trained: those of Keras 3 wrap them,
        those of Keras 2 are such."""
        return [getattr(each, "_value", each) for each in layer.trainable_variables]

    def _layer_gradients(self, layer, x, upstream):
        outputs, gradients = self._probe(layer, True, (x, upstream))
        return outputs.numpy(), list(map(self.as_numpy, gradients))

    def layer_outputs(self, layer, x):
        return self._probe(layer, False, (x,)).numpy()

    def _probe(self, layer, training, arrays):
        """Calls `layer` in a graph whose batch has any size.
        `arrays`: (inputs, upstream) for (outputs, gradients of the inputs and the weights), or
        (inputs,) for the outputs alone."""
        tensorflow = self.tensorflow
        variables = self._variables(layer)

        def called(inputs):
            return tensorflow.cast(layer(inputs, training=training), "float32")

        def with_gradients(inputs, upstream):
            with tensorflow.GradientTape() as tape:
                # The variables too: by itself, TensorFlow does not watch those of a layer that was
                # frozen when Keras made them.
                tape.watch([inputs] + variables)
                outputs = called(inputs)
                loss = tensorflow.reduce_sum(outputs * upstream)
            return outputs, tape.gradient(loss, [inputs] + variables)

        key = (id(layer), training, arrays[0].shape[1:])
        if key not in self._probes:
            function = called
            if training:
                function = with_gradients
            signature = []
            for array in arrays:
                shape = (None,) + array.shape[1:]
                signature.append(tensorflow.TensorSpec(shape, array.dtype))
            self._probes[key] = tensorflow.function(function, input_signature=signature)
        return self._probes[key](*map(tensorflow.constant, arrays))


def preload(config):
    """Imports the packages of a session and runs nothing, so that the process may fork later."""
    set_environment(config)
    with tensorflow_facts.captured_stderr() as captured:
        import keras  # noqa: F401
        import tensorflow  # noqa: F401
    tensorflow_facts.import_messages.append(captured[0])
    keras_facts.installed()  # takes 0.1 s; all workers then know them


def size_of_batches(samples, batch):
    """The size of every batch of the `samples`; None if the last one is smaller."""
    if trees.rows(samples) % batch:
        return None
    return batch


def set_environment(config):
    os.environ["KERAS_BACKEND"] = "tensorflow"
    # At 0 TensorFlow reports the unused instructions once, when it opens the device.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "0")
    if config["device"]["kind"] == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"


def with_iterator(feed):
    """The dataset `feed`, which must not end, with a single iterator that is made now and shared by
    all loops over it. Its class is derived from that of `feed`, by which Keras recognizes it."""
    iterator = iter(feed)

    class WithIterator(type(feed)):
        def __init__(self):
            vars(self).update(vars(feed))

        def __iter__(self):
            return iterator

    return WithIterator()
