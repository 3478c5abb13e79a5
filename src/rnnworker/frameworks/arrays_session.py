"""What the two Keras of TensorFlow 1 share: a graph, a session, and ``fit`` on arrays.

``fit(x, y, batch_size)`` is what users of these builds wrote: batches are cut out of the arrays by
NumPy and fed to the session one by one. `shuffle` sees to their order.
"""

import contextlib
import functools
import os

import numpy

from rnnworker import optimizers
from rnnworker.frameworks import tensorflow_facts
from rnnworker.frameworks.epoch_clock import short_name
from rnnworker.frameworks.keras_session import KerasSession
from rnnworker.frameworks.shuffle import shuffled_as

_MADE = {}


class ArraysSession(KerasSession):
    """Subclasses provide ``import_keras``, which imports both."""

    lead_in = 0  # nothing is made when ``fit`` begins: it cuts batches out of arrays
    resets_dropout = False  # its masks come from ops whose state nobody can set

    def __init__(self, config, threads):
        super().__init__(config, threads)
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "0")
        if config["device"]["kind"] == "cpu":
            os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
        with tensorflow_facts.heard() as said:
            import tensorflow

            self.session = _session(tensorflow, threads)
            self.tensorflow, self.keras = tensorflow, self.import_keras(tensorflow)
            self.keras.backend.set_session(self.session)
            # A user's ~/.keras/keras.json may say otherwise.
            self.keras.backend.set_floatx("float32")
            self.keras.backend.set_epsilon(1e-7)
            self.keras.backend.set_image_data_format("channels_last")
        self._said = said[0]

    def import_keras(self, tensorflow):
        raise NotImplementedError

    def environment(self):
        return tensorflow_facts.facts(self.tensorflow, self.keras, self._said)

    def device_facts(self):
        used = self.session._config
        return {
            "threads": {
                "asked": self.threads,
                "intra_op": used.intra_op_parallelism_threads,
                "inter_op": used.inter_op_parallelism_threads,
                "pinned_to": sorted(os.sched_getaffinity(0)),
            },
            "framework_devices": self._devices(),
        }

    def _devices(self):
        if hasattr(self.session, "list_devices"):
            return [device.name for device in self.session.list_devices()]
        from tensorflow.python.client import device_lib  # before TensorFlow 1.3

        return [device.name for device in device_lib.list_local_devices()]

    def seed(self, seed):
        numpy.random.seed(seed)
        self.tensorflow.set_random_seed(seed)

    def optimizer(self, stated):
        name, settings = optimizers.for_keras_2(stated)
        return self.keras.optimizers.get({"class_name": name, "config": settings})

    def make_model(self, function):
        if not self.config.get("certifying"):
            return super().make_model(function)
        with _made_without_dropout(self.keras.layers):
            return super().make_model(function)

    def prepare_training(self):
        # The optimizer's variables come with the training function.
        self.model._make_train_function()

    def read_state(self):
        return self.keras.backend.batch_get_value(self._state())

    def write_state(self, values):
        self.keras.backend.batch_set_value(list(zip(self._state(), values)))

    def _state(self):
        """Keras 2.0.6 keeps the iterations of some optimizers out of their weights."""
        state = list(self.model.weights) + list(self.model.optimizer.weights)
        iterations = self.model.optimizer.iterations
        return state if any(one is iterations for one in state) else state + [iterations]

    def changing(self, y, orders, batch):
        return lambda epoch, images: None  # ``fit`` takes the images themselves

    def train(self, x, y, orders, batch, lead_in=0, feed=None, **settings):
        if len(orders[0]) != len(x):
            x, y = x[orders[0]], y[orders[0]]
            orders = [numpy.arange(len(x))]
        with shuffled_as(orders):
            self.model.fit(x, y, batch_size=batch, shuffle=True, verbose=0, **settings)

    def evaluate(self, samples=None):
        x, y = self.arrays["x_val"][:samples], self.arrays["y_val"][:samples]
        batch = self.config["model"]["batch"]
        values = self.model.evaluate(x, y, batch_size=batch, verbose=0)
        # Keras 2.0.6 gives a loss without metrics as a bare number.
        values = values if isinstance(values, list) else [values]
        names = self.model.metrics_names
        return {short_name(name): value for name, value in zip(names, values)}

    def predict(self):
        batch = self.config["model"]["batch"]
        self.model.predict(self.arrays["x_val"], batch_size=batch, verbose=0)

    def layer_gradients(self, layer, x, upstream):
        tensorflow, phase = self.tensorflow, self.keras.backend.learning_phase()
        loss = tensorflow.reduce_sum(layer.output * upstream)
        wanted = tensorflow.gradients(loss, [layer.input] + list(layer.trainable_weights))
        feed = {layer.input: x}
        if isinstance(phase, tensorflow.Tensor):
            feed[phase] = 1
        outputs, x_gradient, *gradients = self.session.run([layer.output] + wanted, feed_dict=feed)
        return outputs, dict(self.recurrent.gradients_to_canonical(layer, gradients), x=x_gradient)

    def step_feed(self, x, y):
        """What the session is fed for one training step on the batch `x`, `y`."""
        inputs = self.model.train_function.inputs
        # After samples and targets come sample weights, in some versions, and with dropout the
        # learning phase, whose shape Keras 2.0.6 leaves open.
        values = [x, y.reshape(len(y), -1)]
        for one in inputs[2:]:
            values.append(True if one.dtype.is_bool else numpy.ones(len(x), "float32"))
        return dict(zip(inputs, values))

    def executed_ops(self, run):
        """One training step on the first batch, traced by the session itself; `run` is not
        called, since Keras gives its own steps no trace options."""
        step, batch = self.model.train_function, self.config["model"]["batch"]
        x, y = self.arrays["x_train"][:batch], self.arrays["y_train"][:batch]
        trace = self.tensorflow.RunMetadata()
        full = self.tensorflow.RunOptions(trace_level=self.tensorflow.RunOptions.FULL_TRACE)
        self.session.run(
            list(step.outputs) + [step.updates_op],
            feed_dict=self.step_feed(x, y),
            options=full,
            run_metadata=trace,
        )
        return traced_ops(trace.step_stats)

    def finish_device(self):
        """Nothing: ``Session.run`` returns what was computed, and Keras fetches each step."""


def _session(tensorflow, threads):
    """The one session of this process: all models are in one graph, and a variable has its value
    in the session that it was initialised in only."""
    if not _MADE:
        settings = tensorflow.ConfigProto(
            intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads
        )
        settings.gpu_options.allow_growth = True
        _MADE["session"] = tensorflow.Session(config=settings)
    return _MADE["session"]


@contextlib.contextmanager
def _made_without_dropout(layers):
    """Dropout layers that are made in the block have rate 0. A graph holds the rate that a layer
    was called with, so that to change it afterwards is too late."""
    found = [getattr(layers, name) for name in dir(layers) if "Dropout" in name]
    kept = [(one, one.__init__) for one in found]
    for one, original in kept:
        one.__init__ = _with_rate_0(original)
    try:
        yield
    finally:
        for one, original in kept:
            one.__init__ = original


def _with_rate_0(original):
    @functools.wraps(original)
    def made(self, *arguments, **settings):
        original(self, *arguments, **settings)
        self.rate = 0.0

    return made


def traced_ops(stats):
    """[(path of the op, op type, how often it ran)] of a session's trace, whose labels read
    ``path = Type(inputs)``."""
    counts = {}
    for device in stats.dev_stats:
        for node in device.node_stats:
            path, equals, rest = node.timeline_label.partition(" = ")
            if equals:
                kind = (path, rest.partition("(")[0])
                counts[kind] = counts.get(kind, 0) + 1
    return [(path, kind, count) for (path, kind), count in sorted(counts.items())]
