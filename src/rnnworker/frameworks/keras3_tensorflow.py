"""Keras 3 on TensorFlow 2."""

import os

import numpy

from rnnworker.frameworks.keras_session import KerasSession
from rnnworker.frameworks.packages import installed


class Session(KerasSession):
    """Keras 3 with TensorFlow, threads as the config says, batches from memory."""

    def __init__(self, config, threads):
        super().__init__(config, threads)
        os.environ["KERAS_BACKEND"] = "tensorflow"
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        if config["device"]["kind"] == "cpu":
            os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
        import tensorflow

        tensorflow.config.threading.set_intra_op_parallelism_threads(threads)
        tensorflow.config.threading.set_inter_op_parallelism_threads(threads)
        import keras

        self.tensorflow, self.keras = tensorflow, keras

    def environment(self):
        build = self.tensorflow.sysconfig.get_build_info()
        return {
            "tensorflow": self.tensorflow.__version__,
            "keras": self.keras.__version__,
            "numpy": numpy.__version__,
            "build_info": {key: str(value) for key, value in build.items()},
            "compile_flags": self.tensorflow.sysconfig.get_compile_flags(),
            "packages": installed(),
        }

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
        }

    def compile_settings(self):
        # "auto" switches XLA as a side effect of other choices, so it is pinned.
        return {"jit_compile": bool(self.config["build"].get("jit_compile", False))}

    def batches(self, x, y, orders, batch):
        """The batches of consecutive epochs as one tf.data pipeline over arrays in memory,
        without autotuning: its thread would delay the end of ``fit`` by up to 0.6 s."""
        tensorflow = self.tensorflow
        order = numpy.concatenate(orders)
        starts = numpy.concatenate(
            [
                offset + numpy.arange(0, len(one), batch)
                for offset, one in zip(numpy.cumsum([0] + [len(o) for o in orders]), orders)
            ]
        )
        stops = numpy.append(starts[1:], len(order))
        x, y, order = (tensorflow.constant(array) for array in (x, y, order))

        def take(start, stop):
            chosen = order[start:stop]
            return tensorflow.gather(x, chosen), tensorflow.gather(y, chosen)

        dataset = tensorflow.data.Dataset.from_tensor_slices((starts, stops)).map(take)
        options = tensorflow.data.Options()
        options.autotune.enabled = False
        return dataset.with_options(options)

    def finish_device(self):
        self.tensorflow.test.experimental.sync_devices()
