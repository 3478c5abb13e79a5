"""Keras 2 on TensorFlow 1: a graph, a session, ``fit`` on arrays. In TensorFlow 1.15 it is
TensorFlow's own (``tf.keras`` 2.2.4); `keras206_tensorflow1` has the older package.

Users of these builds wrote ``fit(x, y, batch_size)``: NumPy slices the arrays into batches, which
are fed to the session one by one. `fixed_shuffle_orders` sets their order.
"""

import collections
import contextlib
import os
from unittest import mock

import numpy

from rnnworker import data, optimizers, trees
from rnnworker.arguments import Refusal
from rnnworker.frameworks import keras_facts, random_layers, tensorflow_facts
from rnnworker.frameworks.keras_session import KerasSession
from rnnworker.frameworks.keras_training import renamed
from rnnworker.recurrent import in_place

# Another call of a layer in the graph, because those of the model may have a mask or initial
# states: its tensors, and the gradients of sum(outputs ∘ upstream) with respect to inputs and
# weights.
_Call = collections.namedtuple("_Call", ("inputs", "upstream", "outputs", "gradients"))


class Session(KerasSession):
    # `finish_device` does nothing: ``Session.run`` returns computed values, and Keras fetches those
    # of each step.
    lead_in = 0  # ``fit`` on arrays prepares nothing when it begins
    resets_dropout = False  # the masks come from ops whose state cannot be set
    can_feed_on_device = False
    takes_sample_weights = False
    attests_short_layers = False  # a session traces whole steps

    def __init__(self, config, threads):
        super().__init__(config, threads)
        self._calls = {}
        if os.environ.get("TF2_BEHAVIOR", "0") != "0":
            fault = "TF2_BEHAVIOR is set, with which TensorFlow 1 makes no graph: unset it"
            raise Refusal(fault)
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "0")
        if config["device"]["kind"] == "cpu":
            os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
        with tensorflow_facts.captured_stderr() as captured:
            import tensorflow

            # Each session has a graph of its own, because each new call prepares the whole graph.
            tensorflow.reset_default_graph()
            # The first session of a process decides about its threads.
            settings = tensorflow.ConfigProto(
                intra_op_parallelism_threads=threads,
                inter_op_parallelism_threads=threads,
            )
            settings.gpu_options.allow_growth = True
            self.session = tensorflow.Session(config=settings)
            self.tensorflow = tensorflow
            self.keras = self.import_keras(tensorflow)
            backend = self.keras.backend
            backend.set_session(self.session)
            # A user's ~/.keras/keras.json may set other values.
            backend.set_floatx("float32")
            backend.set_epsilon(1e-7)
            backend.set_image_data_format("channels_last")
        self._messages = captured[0]

    def import_keras(self, tensorflow):
        return tensorflow.keras

    @contextlib.contextmanager
    def current(self):
        backend = self.keras.backend
        latest = backend.get_session()
        with self.session.graph.as_default():
            backend.set_session(self.session)
            try:
                yield
            finally:
                backend.set_session(latest)

    def build_facts(self):
        return tensorflow_facts.facts(self.tensorflow, self._messages)

    def thread_counts(self):
        settings = self.session._config
        return settings.intra_op_parallelism_threads, settings.inter_op_parallelism_threads

    def devices(self):
        if hasattr(self.session, "list_devices"):
            listed = self.session.list_devices()
        else:  # before TensorFlow 1.3
            from tensorflow.python.client import device_lib

            listed = device_lib.list_local_devices()
        return {"framework_devices": [device.name for device in listed]}

    def seed(self, seed):
        numpy.random.seed(seed)
        self.tensorflow.set_random_seed(seed)

    def optimizer(self, stated):
        name, settings = optimizers.for_keras_2(stated)
        return self.keras.optimizers.get({"class_name": name, "config": settings})

    def own_optimizer(self):
        """In place of one that the model has named, a new one with its present settings: its
        variables belong to the first training of the graph."""
        compiled = self._watched.compiled(self.model)[0] or {}
        if not isinstance(compiled.get("optimizer"), str):
            return None
        optimizer = self.model.optimizer
        return type(optimizer).from_config(optimizer.get_config())

    def compile_settings(self):
        return {}

    def drawn(self, draw, shape, dtype):
        # A constant would make the graph larger, which is copied in each optimization.
        tensor = self.tensorflow.py_func(draw, [], "float32")
        tensor.set_shape(shape)
        return self.tensorflow.cast(tensor, dtype)

    @contextlib.contextmanager
    def making_layers(self):
        kernel = self.recurrent.kernel
        with contextlib.ExitStack() as stack:
            if kernel is not None:
                if kernel not in ("keras", "cell", "unrolled", "auto"):
                    fault = "rnn={}: TensorFlow 1 has no such kernel for Keras's own layers"
                    raise Refusal(fault.format(self.recurrent.name))
                unrolled = kernel == "unrolled"
                stack.enter_context(in_place.unrolled_when_made(self.keras, unrolled))
            if self.config.get("certifying"):
                stack.enter_context(random_layers.made_off(self.keras.layers))
            yield

    def give_kernel(self):
        """Nothing: in a graph the layers have it when they are made."""

    def complete_model(self):
        """Gives a subclassed model its inputs, as ``fit`` would; in a graph, any other one has its
        weights when it is built."""
        has_inputs = getattr(self.model, "inputs", None) or not hasattr(self.model, "_set_inputs")
        if self.arrays is not None and not has_inputs:
            self.model._set_inputs(trees.taken(self.arrays["x_train"], slice(1)))

    def as_numpy(self, tensor):
        return self.session.run(tensor)

    def as_tensor(self, value):
        return self.tensorflow.constant(value)

    def prepare_training(self):
        # This makes the optimizer's variables too.
        self.model._make_train_function()

    def read(self, variables):
        return self.keras.backend.batch_get_value(variables)

    def write(self, variables, values):
        self.keras.backend.batch_set_value(list(zip(variables, values)))

    def _state(self):
        # Keras 2.0.6 leaves the iterations of some optimizers out of their weights.
        optimizer = self.model.optimizer
        inner = keras_facts.of_tensorflow(optimizer)
        state = list(self.model.weights) + list(inner.variables() if inner else optimizer.weights)
        if not any(each is optimizer.iterations for each in state):
            state.append(optimizer.iterations)
        return state

    def train_batch(self, *samples):
        if hasattr(self.model, "reset_metrics"):
            self.model.reset_metrics()
        x, y = self._lists(*samples)
        loss = self.model.train_on_batch(x, y)
        if isinstance(loss, list):  # with metrics, which follow
            loss = loss[0]
        return float(loss)

    def loss_curve(self, batches):
        samples = data.samples(self.arrays, "train")
        return [self.train_batch(*trees.taken(samples, chosen)) for chosen in batches]

    def augmented_feed(self, samples, orders, batch):
        return lambda epoch, images: None  # ``fit`` takes the images themselves

    def train(self, samples, orders, batch, lead_in=0, feed=None, **settings):
        if len(orders[0]) != trees.rows(samples):
            samples = trees.taken(samples, orders[0])
            orders = [numpy.arange(trees.rows(samples))]
        with fixed_shuffle_orders(orders):
            x, y = self._lists(*samples)
            return self.model.fit(x, y, batch_size=batch, shuffle=True, verbose=0, **settings)

    def evaluate(self):
        batch = self.config["model"]["batch"]
        x, y = self._lists(self.arrays["x_val"], self.arrays["y_val"])
        values = self.model.evaluate(x, y, batch_size=batch, verbose=0)
        # Keras 2.0.6 returns a loss without metrics as a bare number.
        if not isinstance(values, list):
            values = [values]
        return renamed(dict(zip(self.model.metrics_names, values)))

    def outputs(self, samples=None):
        batch = self.config["model"]["batch"]
        first = trees.taken(self.arrays["x_val"], slice(samples))
        x = as_list(first, self.model.input_names)
        return self.model.predict(x, batch_size=batch, verbose=0)

    def _lists(self, x, y):
        """The samples as Keras 2 takes them: each of `x` and `y` as one array, or as a list in the
        order of the model's inputs or outputs."""
        model = self.model
        return as_list(x, model.input_names), as_list(y, model.output_names)

    def loss_gradients(self):
        model = self.model
        gradients = self.keras.backend.gradients(model.total_loss, model.trainable_weights)
        gradients = list(map(self.tensorflow.convert_to_tensor, gradients))
        return lambda x, y: self.session.run(gradients, feed_dict=self.step_feed(x, y))

    def _layer_gradients(self, layer, x, upstream):
        call = self._called(layer, x)
        return self._run(call, x, upstream, (call.outputs, call.gradients), training=1)

    def layer_outputs(self, layer, x):
        call = self._called(layer, x)
        return self._run(call, x, None, call.outputs, training=0)

    def _called(self, layer, x):
        """The `_Call` of the layer on as many rows as it is fed: a call for each size of a batch
        would make the graph larger, which is prepared as a whole for each new call."""
        if layer not in self._calls:
            inputs = self.keras.layers.Input(x.shape[1:])
            outputs = layer(inputs)
            upstream = self.tensorflow.placeholder("float32", outputs.get_shape())
            loss = self.tensorflow.reduce_sum(outputs * upstream)
            variables = [inputs] + list(layer.trainable_weights)
            gradients = self.tensorflow.gradients(loss, variables)
            self._calls[layer] = _Call(inputs, upstream, outputs, gradients)
        return self._calls[layer]

    def _run(self, call, x, upstream, tensors, training):
        """The values of `tensors`, in their form, for the inputs `x`. `training`: 0 or 1."""
        feed = {call.inputs: x}
        if upstream is not None:
            feed[call.upstream] = upstream
        phase = self.keras.backend.learning_phase()
        if isinstance(phase, self.tensorflow.Tensor):
            feed[phase] = training
        return self.session.run(tensors, feed_dict=feed)

    def step_feed(self, x, y):
        """The ``feed_dict`` of one training step on the batch `x`, `y`."""
        inputs = self.model.train_function.inputs
        # Samples and targets are followed by sample weights in some versions and, with dropout, by
        # the learning phase, whose shape Keras 2.0.6 leaves open.
        x, y = self._lists(x, y)
        values = trees.leaves(x)
        rows = len(values[0])
        for array in trees.leaves(y):
            # Keras makes one column of targets that are one number for each sample.
            if array.ndim == 1:
                array = array.reshape(rows, 1)
            values.append(array)
        for tensor in inputs[len(values) :]:
            if tensor.dtype.is_bool:
                values.append(True)
            else:
                values.append(numpy.ones(rows, "float32"))
        return dict(zip(inputs, values))

    def executed_ops(self, run):
        """The ops of one training step on the first batch, traced by the session. `run` is not
        called, since Keras passes no trace options to its own steps."""
        tensorflow = self.tensorflow
        step = self.model.train_function
        samples = data.samples(self.arrays, "train")
        batch = self.config["model"]["batch"]
        x, y = trees.taken(samples, slice(batch))
        trace = tensorflow.RunMetadata()
        full = tensorflow.RunOptions(trace_level=tensorflow.RunOptions.FULL_TRACE)
        self.session.run(
            (step.outputs, step.updates_op),
            feed_dict=self.step_feed(x, y),
            options=full,
            run_metadata=trace,
        )
        return traced_ops(trace.step_stats)


def as_list(tree, names):
    """The only array of a tree, else a list of its arrays: those of a dict in the order of
    `names`."""
    if isinstance(tree, dict):
        tree = [tree[name] for name in names]
    arrays = trees.leaves(tree)
    if len(arrays) == 1:
        return arrays[0]
    return arrays


def traced_ops(stats):
    """[(path of the op, op type, count)] of a session's trace (labels: ``path = Type(inputs)``)."""
    counts = collections.Counter()
    for device in stats.dev_stats:
        for node in device.node_stats:
            path, equals, rest = node.timeline_label.partition(" = ")
            kind, _, _ = rest.partition("(")
            if equals:
                counts[path, kind] += 1
    return [(path, kind, count) for (path, kind), count in sorted(counts.items())]


@contextlib.contextmanager
def fixed_shuffle_orders(orders):
    """Makes the n-th call of ``numpy.random.shuffle`` in the block write ``orders[n]``: ``fit`` on
    arrays asks it for a new order in every epoch, and does the same work with the canonical one.
    Raises `RuntimeError` if `fit` shuffles anything else, or never."""
    left = list(orders)

    def shuffle(array):
        if not left or len(array) != len(left[0]):
            raise RuntimeError("fit shuffles something else than the samples once per epoch")
        array[:] = left.pop(0)

    with mock.patch.object(numpy.random, "shuffle", shuffle):
        yield
    if len(left) == len(orders):
        raise RuntimeError("fit never shuffled: the order of the samples is not the canonical one")
