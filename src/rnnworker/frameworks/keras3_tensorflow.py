"""Keras 3 on TensorFlow 2."""

import os

import numpy

from rnnworker.frameworks import tensorflow_facts, tensorflow_profile
from rnnworker.frameworks.batches import bounds
from rnnworker.frameworks.keras_session import KerasSession

HOST = "/CPU:0"


class Session(KerasSession):
    """Keras 3 with TensorFlow, threads as the config says, batches from memory."""

    def __init__(self, config, threads):
        super().__init__(config, threads)
        set_environment(config)
        with tensorflow_facts.heard() as said:
            import tensorflow

            tensorflow.config.threading.set_intra_op_parallelism_threads(threads)
            tensorflow.config.threading.set_inter_op_parallelism_threads(threads)
            self.tensorflow, self.keras = tensorflow, self.import_keras(tensorflow)
            grow(tensorflow)
            devices = tensorflow.config.list_logical_devices()
        self._said = tensorflow_facts.said_before() + said[0]
        self._asynchronous = any(device.device_type != "CPU" for device in devices)

    def import_keras(self, tensorflow):
        import keras

        return keras

    def environment(self):
        return tensorflow_facts.facts(self.tensorflow, self.keras, self._said)

    def device_facts(self):
        threading = self.tensorflow.config.threading
        return {
            "threads": {
                "asked": self.threads,
                "intra_op": threading.get_intra_op_parallelism_threads(),
                "inter_op": threading.get_inter_op_parallelism_threads(),
                "pinned_to": sorted(os.sched_getaffinity(0)),
            },
            "framework_devices": [
                device.name for device in self.tensorflow.config.list_logical_devices()
            ],
            "framework_cards": card_names(self.tensorflow),
        }

    def compile_settings(self):
        # "auto" switches XLA as a side effect of other choices, so it is pinned.
        return {"jit_compile": bool(self.config["build"].get("jit_compile", False))}

    def batches(self, x, y, orders, batch):
        """One tf.data pipeline over arrays in memory, its iterator made already, so that neither
        falls into a call of ``fit``, ``evaluate`` or ``predict``. Without autotuning: its thread
        would delay the end of ``fit`` by up to 0.6 s. All of it is on the host, also where there
        is a GPU, on which constants would be placed otherwise, to be copied back batch by batch."""
        tensorflow = self.tensorflow
        with tensorflow.device(HOST):
            return self._pipeline(tensorflow.constant(x), y, orders, batch)

    def changing(self, y, orders, batch):
        # One pipeline for all epochs, which reads the images of the epoch.
        tensorflow = self.tensorflow
        with tensorflow.device(HOST):
            x = tensorflow.Variable(self.arrays["x_train"], trainable=False)
            feed = self._pipeline(x, y, orders, batch)

        def feed_of(epoch, images):
            with tensorflow.device(HOST):
                x.assign(images)
            return feed

        return feed_of

    def _pipeline(self, x, y, orders, batch):
        tensorflow = self.tensorflow
        y, order = tensorflow.constant(y), tensorflow.constant(numpy.concatenate(orders))

        def take(start, stop):
            chosen = order[start:stop]
            return tensorflow.gather(x, chosen), tensorflow.gather(y, chosen)

        dataset = tensorflow.data.Dataset.from_tensor_slices(bounds(orders, batch))
        options = tensorflow.data.Options()
        options.autotune.enabled = False
        return ready(tensorflow, dataset.repeat().map(take).with_options(options))

    def set_tf32(self, on):
        self.tensorflow.config.experimental.enable_tensor_float_32_execution(on)

    def card_memory_peak(self):
        return int(self.tensorflow.config.experimental.get_memory_info("GPU:0")["peak"])

    def tf32(self):
        return bool(self.tensorflow.config.experimental.tensor_float_32_execution_enabled())

    def finish_device(self):
        # On a CPU what was asked is done when the call returns.
        if self._asynchronous:
            self.tensorflow.test.experimental.sync_devices()

    def cudnn_facts(self):
        return {
            "gpus": len(self.tensorflow.config.list_logical_devices("GPU")),
            "cuda_build": bool(self.tensorflow.test.is_built_with_cuda()),
        }

    def executed_ops(self, run):
        return tensorflow_profile.executed_ops(self.tensorflow, run)

    def layer_gradients(self, layer, x, upstream):
        tensorflow = self.tensorflow
        upstream = tensorflow.constant(upstream)
        # Keras 3's variables hold TensorFlow's; Keras 2's are those.
        variables = [getattr(one, "_value", one) for one in layer.trainable_variables]

        @tensorflow.function
        def probe(inputs):
            with tensorflow.GradientTape() as tape:
                tape.watch(inputs)
                outputs = layer(inputs, training=True)
                outputs = tensorflow.cast(outputs, upstream.dtype)
                loss = tensorflow.reduce_sum(outputs * upstream)
            return outputs, tape.gradient(loss, [inputs] + variables)

        outputs, gradients = probe(tensorflow.constant(x))
        gradients = [tensorflow.convert_to_tensor(one).numpy() for one in gradients]
        found = self.recurrent.gradients_to_canonical(layer, gradients[1:])
        return outputs.numpy(), dict(found, x=gradients[0])


def preload(config):
    """Imports what a session needs and runs nothing, so that a process may fork after it."""
    set_environment(config)
    with tensorflow_facts.heard() as said:
        import keras  # noqa: F401
        import tensorflow  # noqa: F401
    tensorflow_facts.remember(said[0])


def set_environment(config):
    """What TensorFlow and Keras look for when they are imported."""
    os.environ["KERAS_BACKEND"] = "tensorflow"
    # At 0 it says once, as it opens the device, what it was not compiled for.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "0")
    if config["device"]["kind"] == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"


def grow(tensorflow):
    """Takes a GPU's memory as it is needed: other runs of a round have contexts on the card too."""
    for gpu in tensorflow.config.list_physical_devices("GPU"):
        tensorflow.config.experimental.set_memory_growth(gpu, True)


def card_names(tensorflow):
    config = tensorflow.config
    details = map(config.experimental.get_device_details, config.list_physical_devices("GPU"))
    return [found["device_name"] for found in details if "device_name" in found]


def ready(tensorflow, dataset):
    """`dataset`, which must not end, with one iterator: made now, and gone on with by whoever
    iterates over it."""

    class Ready(tensorflow.data.Dataset):
        def __init__(self):
            self.iterator = iter(dataset)
            super().__init__(dataset._variant_tensor)

        def _inputs(self):
            return [dataset]

        @property
        def element_spec(self):
            return dataset.element_spec

        def __iter__(self):
            return self.iterator

    return Ready()
