"""The common part of all Keras sessions: building the model, canonical weights, and what
certification and attestation need. `keras_training` has the rest."""

import contextlib
import functools
import importlib
import inspect
import os
import random

import numpy

from rnnlayers.in_place import OF_KERAS
from rnnworker import (
    attest,
    data,
    initializers,
    model_keys,
    optimizers,
    precision,
    products,
    trees,
    user_functions,
)
from rnnworker.arguments import Refusal
from rnnworker.frameworks import file_settings, keras_checks, keras_facts, random_layers
from rnnworker.frameworks.keras_training import KerasTraining
from rnnworker.frameworks.keras_weights import KerasWeights
from rnnworker.frameworks.watch import Watched
from rnnworker.options import SAVED, is_function
from rnnworker.recurrent import Recurrent, composed, in_place
from rnnworker.recurrent.cells import keras_version
from rnnworker.recurrent.composed import inner_layers, inner_of


class KerasSession(KerasWeights, KerasTraining):
    """The model of one run. A framework's class sets ``self.keras`` and provides:

    - ``batches(samples, orders, batch)``: an input for ``fit`` that yields the `samples`, (x, y)
      or (x, y, weights), in one order after another, in batches of `batch`; no batch spans two
      orders. It never ends: the last order is followed by the first.
    - ``build_facts()``: facts about the framework for the record's ``environment``.
    - ``devices()``: lists of names, ``framework_devices`` and, if known, ``framework_cards``.
    - ``_layer_gradients(layer, x, upstream)``: (outputs, gradients of sum(outputs ∘ upstream) with
      respect to ``x`` and each trainable weight), with ``training=True``.
    - ``loss_gradients()``: a function of (x, y) or (x, y, weights) → the gradients of the model's
      loss with respect to its trainable weights, without an update.
    - ``executed_ops(run)``: [(path, op type, count)] of the ops that `run` executes; or `kernels`.
    """

    keras = None
    _own_optimizer = None  # that with which the model has compiled itself
    lead_in = 5  # untimed steps at the beginning of a training, see `epoch_clock`
    resets_dropout = True  # whether `reset` restores the random states of dropout
    can_feed_on_device = True
    takes_sample_weights = True
    attests_short_layers = True  # whether `kernels` can observe a part of a long sequence

    def __init__(self, config, threads):
        self.config = config
        self.threads = threads
        self.arrays = None
        self.model = None
        self.recurrent = None
        # With `device` the arrays stay in the device's memory, where each step gathers its batch;
        # with `host` each batch is copied to the device.
        on_device = self.can_feed_on_device and keras_facts.feeds_on_device(config)
        self.feed = "device" if on_device else "host"
        self._initial = None
        self._validation_feeds = {}
        self._is_settled = False

    @contextlib.contextmanager
    def current(self):
        """Makes this session's model the one that is used in the block, although another session
        was opened after it."""
        yield

    def loses_states(self, layer):
        """Why a training does not keep the states of `layer`, which has stateful=True; None if it
        does."""
        return None

    def thread_counts(self):
        """(within an op, between ops); None if the framework has no such setting."""
        return None, None

    def draw_others(self):
        """Lets the framework draw other numbers than after `reset`, if a training step does."""

    def refusing_optimizers(self):
        """In its block, a step of an optimizer that is not Keras's raises `Refusal`."""
        return contextlib.ExitStack()

    def finish_device(self):
        """Waits until the device has finished all submitted work."""

    def finish_step(self, values):
        """The same within an epoch; `values`: arguments or results of the step."""
        self.finish_device()

    def card_memory_peak(self):
        """The peak of the card's memory that arrays took so far, in bytes, without the memory of
        libraries and reserves; None if the framework does not report it."""

    def set_tf32(self, on):
        """Allows or forbids an NVIDIA GPU to round the operands of float32 products to TF32."""

    def tf32(self):
        """Whether TF32 is allowed, read back; None if the framework does not report it."""

    def cudnn_facts(self):
        """``gpus`` and ``cuda_build`` as the framework reports them."""
        return {}

    def environment(self):
        """The versions of all packages, and how the framework was built, for the record."""
        return dict(
            self.build_facts(),
            packages=keras_facts.installed(),
            keras=keras_version(self.keras),
            numpy=numpy.__version__,
        )

    def device_facts(self):
        intra_op, inter_op = self.thread_counts()
        threads = {
            "asked": self.threads,
            "intra_op": intra_op,
            "inter_op": inter_op,
            "pinned_to": sorted(os.sched_getaffinity(0)),
        }
        return dict(self.devices(), threads=threads)

    def load_data(self, path, pinned_md5=None):
        """Makes the arrays of the model's data from the dataset in `path`. Returns, for each part
        of them, its number of samples, and the shape of one."""
        self.settle()
        self.arrays = data.arrays(self.config, path, pinned_md5)
        parts = ("train", "val")
        return {
            "sizes": {part: trees.rows(self.arrays["x_" + part]) for part in parts},
            "sample_shape": trees.shapes(self.arrays["x_train"]),
            "weighted": [part for part in parts if "sample_weight_" + part in self.arrays],
        }

    @property
    def function(self):
        """The function of the model, FILE.py:NAME or MODULE:NAME."""
        return self.config["model"]["function"]

    @property
    def validation_samples(self):
        return trees.rows(self.arrays["x_val"])

    def construct(self):
        """Makes the model as its author wrote it. Raises `Refusal` for what the grid decides."""
        self.settle()
        self.seed(self.config["seed"])
        self.recurrent = Recurrent(self.keras, self.config)
        self._watched = Watched(self.keras)
        draws = initializers.Draws(self.keras, self.config["seed"], self.drawn)
        watching = self._watched.watching()
        making = self.making_layers()
        with watching, making, draws.by_numpy(), keras_checks.refusals(self.place):
            with user_functions.as_program(self.function.rpartition(":")[0]):
                self.model = self.make_model(user_functions.function(self.function))
            keras_checks.check_kind(self)
            keras_checks.check_strategy(self)
            self._own_optimizer = self.own_optimizer()
            file_settings.check(self)
            self.complete_model()
            self.recurrent.initialize()

    def build(self):
        """Makes the model, gives its recurrent layers the kernel, and compiles it. Raises `Refusal`
        if it cannot be measured."""
        self.construct()
        if self.config["rnn"]["implementation"] != "none":
            self.recurrent.found_in(self.model, self.place)
        keras_checks.check(self)
        # Keras orders the layers of several branches by their depth.
        order = [id(layer) for layer in self.weighted()]
        self.recurrent.made.sort(key=lambda made: order.index(id(made.layer)))
        if self.arrays is not None:
            # The last of the functions that may read a key of the model.
            data.epoch_images(trees.taken(self.arrays["x_train"], slice(1)), self.config, 0)
            model_keys.check(self.config)
        self.compile(self.config.get("certifying_optimizer"))
        keras_checks.check_axes_of_weights(self)
        given = self.recurrent.made or in_place.kernels_given(self.model)
        if self.recurrent.kernel is not None and given:
            self.give_kernel()
        if self.config.get("certifying") and not self.resets_dropout:
            # Two implementations would draw other masks.
            for setting in random_layers.turned_off(self.model, self.keras.layers):
                setattr(*setting)
        return {"layers": len(self.model.layers)}

    def settle(self):
        """Sets what a model's file may change, before the file is executed."""
        if self._is_settled:
            return
        self._is_settled = True
        self.seed(self.config["seed"])
        self.set_tf32(precision.requested_precision(self.config) == "tf32")
        self.keras.backend.set_floatx("float32")
        self.policy(precision.policy(self.config))
        self.reset_names()
        self.settings = file_settings.before(self)

    def reset_names(self):
        """Lets Keras number the names of layers from the beginning, as in a new process."""
        if hasattr(self.keras.backend, "reset_uids"):
            self.keras.backend.reset_uids()
        else:
            importlib.import_module("keras.src.utils.naming").reset_uids()

    def making_layers(self):
        """The context in which the model makes its layers."""
        return contextlib.ExitStack()  # nothing; Python 3.6 has no nullcontext

    def give_kernel(self):
        """Lets the model's recurrent layers compute with the kernel of the run. Raises `Refusal`
        if it cannot or, in a certificate, if it takes no mask and there is one."""
        in_place.give(self.keras, self.model, self.recurrent.kernel, self.place)
        if self.config["build"].get("jit_compile") and not self.model.jit_compile:
            fault = "rnn={} cannot be compiled by XLA: take a build without build.jit_compile"
            raise Refusal(fault.format(self.recurrent.name))
        takes_all = self.recurrent.kernel in OF_KERAS
        if takes_all or self.arrays is None or not self.config.get("certifying"):
            return
        before = self.read(self.model.variables)
        with keras_checks.refusals(self.place):
            rows = self.config["model"]["batch"]
            self.model(trees.taken(self.arrays["x_train"], slice(rows)))
        self.write(self.model.variables, before)
        self.forget_states()

    def place(self, layer):
        """``FILE, line N`` where the model has made `layer`, or the file of a saved model; None if
        that is unknown."""
        if self.function == SAVED:
            return self.config["model"]["file"]
        return self._watched.place(layer)

    def made_in_build(self):
        """The layers that the model's file has made, in order."""
        return self._watched.made()

    def compile(self, optimizer=None):
        """Compiles the built model with an `optimizer`, stated as in a model's YAML, in place of
        its own; with its own if that is None. `load_weights` must follow."""
        arguments = self._compile_arguments(optimizer)
        own, _ = self._watched.compiled(self.model)
        if own is None:
            self.model.compile(**arguments)
        else:  # these are of Keras's `compile`; the author's own has done what it adds to it
            keras_facts.of_keras(type(self.model), "compile")(self.model, **arguments)
        self.prepare_training()

    def own_optimizer(self):
        """The optimizer with which the model compiled itself, with what it keeps of a training in
        `build`; None if there is none."""
        return getattr(self.model, "optimizer", None)

    def drawn(self, draw, shape, dtype):
        """The array that ``draw()`` returns as a tensor; see `initializers.Draws`."""
        return self.keras.ops.cast(draw(), dtype)

    def complete_model(self):
        """Makes the weights that a model, or a layer in it, makes when it is first called."""
        parts = composed.flat([self.model])
        if self.arrays is None or all(part.built for part in parts):
            return
        before = list(self.model.variables)
        values = self.read(before)
        self.model(trees.taken(self.arrays["x_train"], slice(self.config["model"]["batch"])))
        self.write(before, values)
        self.forget_states()

    def _compile_arguments(self, optimizer=None):
        """The arguments of ``compile``: those of the model itself, or of its YAML, with the stated
        `optimizer` if that is given."""
        settings = self.compile_settings()
        own, place = self._watched.compiled(self.model)
        if own is None:
            arguments = self._stated_compile_arguments()
        else:
            place = place or self.function
            keras_checks.check_own_compile(place, self.config["model"], own, settings)
            arguments = dict(own, optimizer=self._own_optimizer or own.get("optimizer"))
        if optimizer is not None:
            arguments["optimizer"] = self.optimizer(optimizer)
        return dict(arguments, **settings)

    def _stated_compile_arguments(self):
        settings = self.config["model"]
        for key in ("loss", "optimizer"):
            if settings.get(key) is None:
                fault = (
                    "{} does not compile its model, and no {} is stated: write model.loss=NAME "
                    "and model.optimizer={{name:NAME}} in the grid or its YAML, or compile"
                )
                raise Refusal(fault.format(settings["function"], key))
        loss = settings["loss"]
        if is_function(loss):
            loss = user_functions.function(loss)
        return {
            "loss": loss,
            "metrics": self._metrics(),
            "optimizer": self.optimizer(settings["optimizer"]),
        }

    def _metrics(self):
        """The metrics for each of several outputs, which Keras takes as a list of lists."""
        metrics = keras_facts.metrics_of(self.config["model"])
        outputs = getattr(self.model, "outputs", None) or []
        if metrics and len(outputs) > 1:
            return [metrics] * len(outputs)
        return metrics

    def make_model(self, function):
        """The model that `function` builds. `function` takes (), (keras), (keras, config), or
        (keras, recurrent, config), and others of these three by their names."""
        config = model_keys.recorded(self.config, "build")
        known = {"keras": self.keras, "recurrent": self.recurrent, "config": config}
        number, optional = user_functions.needed(function)
        needed = list(inspect.signature(function).parameters)[:number]
        if number and not set(needed) & set(known):
            fault = (
                "{} needs {}: give it a default; rnnbench gives only keras, recurrent and config"
            )
            raise Refusal(fault.format(self.function, " and ".join(needed)))
        shorter = {0: (), 1: ("keras",), 2: ("keras", "config")}
        positional = [known[name] for name in shorter.get(number, known)]
        named = {name: known[name] for name in optional if name in known}
        return function(*positional, **named)

    def seed(self, seed):
        self.keras.utils.set_random_seed(seed)

    def optimizer(self, stated):
        return optimizers.for_keras_3(self.keras, stated)

    def compile_settings(self):
        # The default "auto" would let other choices turn XLA on or off.
        return {"jit_compile": bool(self.config["build"].get("jit_compile", False))}

    def prepare_training(self):
        """Makes the optimizer's variables, which `reset` restores too."""
        optimizer = self.model.optimizer
        make = getattr(optimizer, "build", None) or optimizer._create_all_weights
        make(self.model.trainable_variables)
        if keras_checks.has_own_step(self):
            # Keras 3 would report its own metrics in place of results with the same names.
            self.model._get_metrics_result_or_logs = lambda results: results

    def model_facts(self, layers):
        """The facts about the built model for the record; `layers`: what `layers()` returned."""
        facts = {
            "parameters": int(self.model.count_params()),
            "optimizer": keras_facts.settings_of(self.model.optimizer),
            "loss": keras_facts.named_loss(self.model.loss),
            "recurrent_layers": [layer.name for layer in self.recurrent.layers],
            "random_layers": random_layers.names(self.model, self.keras.layers),
            "precision": self.precision_facts(),
            "feed": self.feed,
        }
        return dict(facts, **products.facts_of(self, layers))

    def precision_facts(self):
        """The requested precision and the one in which the built layers compute."""
        types = set()
        for layer in self.recurrent.layers:
            for inner in inner_layers(layer):
                types.add(getattr(inner, "compute_dtype", "float32"))
        facts = {
            "policy": self.policy(),
            "layers": sorted(types),
            "tf32": self.tf32(),
            "asked": precision.requested_precision(self.config),
        }
        facts["as_asked"] = precision.as_expected(self.config, facts)
        return facts

    def as_numpy(self, tensor):
        return self.keras.ops.convert_to_numpy(tensor)

    def constrained(self, variables, values):
        """`values` of the variables after their constraints."""
        after = []
        for variable, value in zip(variables, values):
            constraint = getattr(variable, "constraint", None)
            if constraint is not None:
                value = self.as_numpy(constraint(self.as_tensor(value)))
            after.append(value)
        return after

    def as_tensor(self, value):
        return self.keras.ops.convert_to_tensor(value)

    def reset(self):
        """Restores the state after ``load_weights``: weights, optimizer, random states."""
        self.write(*self._initial)
        # A layer of the author's may draw with them, also when its graph is made.
        random.seed(self.config["seed"])
        numpy.random.seed(self.config["seed"] % 2**32)
        self.forget_states()  # in Keras 3 they are none of the model's variables

    def read(self, variables):
        # Copies: torch's are views of the variables' own memory.
        return [numpy.array(variable.numpy()) for variable in variables]

    def write(self, variables, values):
        for variable, value in zip(variables, values):
            variable.assign(value)

    def train_batch(self, *samples):
        """Takes one training step with (x, y) or (x, y, weights); returns the loss before it."""
        if keras_checks.has_own_step(self):
            return self.fit_batch(*samples)  # it expects the form of `fit`, without empty weights
        self.model.reset_metrics()
        results = self.model.train_on_batch(*samples, return_dict=True)
        return keras_checks.loss_in(results, self)

    def fit_batch(self, *samples):
        """`train_batch` through ``fit``."""
        rows = trees.rows(samples)
        feed = self.batches(samples, [numpy.arange(rows)], rows)
        history = self.model.fit(feed, steps_per_epoch=1, verbose=0).history
        logs = {name: values[0] for name, values in history.items()}
        return keras_checks.loss_in(logs, self)

    def loss(self, x, y, sample_weight=None):
        """The loss of a batch, tensors, as a training step computes it: with a mean over its
        samples."""
        settings = {"training": True}
        if not getattr(self.model, "_call_has_training_arg", True):
            settings = {}  # Keras 3 passes it only to a `call` that takes it
        predicted = self.called_in_step()(x, **settings)
        return self.compute_loss(x=x, y=y, y_pred=predicted, sample_weight=sample_weight)

    def called_in_step(self):
        """What a training step calls with its inputs."""
        return self.model

    def compute_loss(self, **batch):
        return self.model.compute_loss(**batch)

    def outputs(self, samples=None):
        """The model's outputs for the validation set, or for its first `samples`."""
        feed, steps = self.validation(samples)
        return self.model.predict(feed, steps=steps, verbose=0)

    def layer_shapes(self, layer):
        """The shapes of one sample of the layer's inputs and of its outputs; a recurrent layer is
        taken as `plain`."""
        made = self.recurrent.made_here(layer)
        if made is None:
            inputs = products.sizes(layer.input.shape)
            return inputs[1:], products.sizes(layer.output.shape)[1:]
        inputs = products.sizes(self.input_shape(layer))
        if made.is_plain:
            with contextlib.suppress(AttributeError, ValueError):  # called on tensors, or twice
                output = layer.output.shape
                latest = layer._get_node_attribute_at_index(-1, "output_tensors", "output").shape
                if len(output) == len(latest):  # else return_sequences was set in between
                    return inputs[1:], products.sizes(output)[1:]
        with composed.plain(layer):
            outputs = layer.compute_output_shape(inputs)
        return inputs[1:], products.sizes(outputs)[1:]

    def input_shape(self, layer):
        """The shape of the inputs of a recurrent layer, with the batch."""
        for each in [layer] + inner_layers(layer):
            found = self._watched.input_shape(each)
            if found is None:
                continue
            if getattr(each, "time_major", False):
                steps, batch = tuple(found)[:2]
                return (batch, steps) + tuple(found)[2:]
            return found
        return layer.input.shape

    def probe_shapes(self, layer, steps):
        """`layer_shapes` of a recurrent layer, with `steps` in place of an unknown length."""
        shape, output = self.layer_shapes(layer)
        if shape[0] is None:
            shape = (steps,) + shape[1:]
        if len(output) > 1:
            output = (shape[0],) + output[1:]
        return shape, output

    def without_randomness(self):
        """A context in which the model draws no dropout and no noise."""
        return random_layers.off(self.model, self.keras.layers)

    def layer_gradients(self, layer, x, upstream):
        """(outputs, gradients of sum(outputs ∘ upstream) with respect to ``x`` and the canonical
        arrays), with ``training=True``."""
        outputs, gradients = self._layer_gradients(layer, x, upstream)
        canonical = self.recurrent.to_canonical(layer, gradients[1:])
        return outputs, dict(canonical, x=gradients[0])

    def layer_outputs(self, layer, x):
        """The outputs with ``training=False``, as in ``evaluate`` and ``predict``."""
        ops = self.keras.ops
        outputs = layer(ops.convert_to_tensor(x), training=False)
        return ops.convert_to_numpy(ops.cast(outputs, "float32"))

    def attest(self):
        """``measured.kernel`` of a record, from one training step; None without a recurrent
        layer."""
        if not self.recurrent.layers:
            return None
        lengths = self.lengths()
        time_steps = min(lengths)
        is_long = self.attests_short_layers and max(lengths) > attest.LONGEST
        run = functools.partial(self.train_steps, 1)
        if is_long:
            run = self._short_layers
            time_steps = min(time_steps, attest.SHORT)
        kernels = self.kernels(run, time_steps)
        cells = [made.cell for made in self.recurrent.made]
        facts = {
            "found": kernels,
            "expected": attest.expected(self.config, cells),
            "why_not_cudnn": [],
        }
        if not any(name.endswith("cudnn") for name in kernels):
            facts["why_not_cudnn"] = self._why_not_cudnn()
        if is_long:
            facts["time_steps"] = attest.SHORT
        return facts

    def lengths(self):
        """The number of time steps of each recurrent layer; of one that takes any number, that of
        the longest input."""
        longest = 1
        for array in trees.leaves(self.arrays["x_train"]):
            if array.ndim > 1:
                longest = max(longest, array.shape[1])
        lengths = []
        for layer in self.recurrent.layers:
            inputs, _ = self.layer_shapes(layer)
            lengths.append(inputs[0] or longest)
        return lengths

    def kernels(self, run, steps):
        """The kernels that `run` ran on sequences of at least `steps` time steps."""
        recurrent, others = self._layer_names()
        ops = attest.without_layers(self.executed_ops(run), recurrent, others)
        return attest.kernels_in_tensorflow(ops, steps)

    def _layer_names(self):
        """The names of the recurrent layers, and of the others."""
        own = [layer.name for layer in self.recurrent.layers]
        every = [layer.name for layer in self.outside_recurrent(inner_of(self.model))]
        return own, [name for name in every if name not in own]

    def _short_layers(self):
        """Runs each recurrent layer forward and backward on the first time steps of a sequence: the
        profile of a whole long sequence would take gigabytes."""
        for layer in self.recurrent.layers:
            shape, outputs = self.probe_shapes(layer, attest.SHORT)
            steps = min(shape[0], attest.SHORT)
            if len(outputs) == 2:
                outputs = (steps, outputs[-1])
            x = numpy.zeros((1, steps) + shape[1:], "float32")
            upstream = numpy.zeros((1,) + outputs, "float32")
            with composed.plain(layer), composed.unfrozen(layer):
                self.layer_gradients(layer, x, upstream)

    def policy(self, new=None):
        """The name of Keras's dtype policy, after it was set to `new` if given."""
        mixed = getattr(self.keras, "mixed_precision", None)
        if not hasattr(mixed, "set_global_policy"):
            if new not in (None, precision.DEFAULT):
                raise ValueError("precision: this Keras has no dtype policy {}".format(new))
            return precision.DEFAULT
        if new:
            mixed.set_global_policy(new)
        get_policy = getattr(mixed, "global_policy", None) or mixed.dtype_policy
        return get_policy().name

    def kinds_of_variables(self):
        """The classes of variables that attributes of a model may have."""
        return (self.keras.Variable,)

    def variables(self):
        """The variables of the model and of its optimizer, in a fixed order."""
        of_optimizer = self.model.optimizer.variables
        if callable(of_optimizer):  # of Keras 2's legacy optimizers
            of_optimizer = of_optimizer()
        return list(self.model.variables) + list(of_optimizer)

    def _state(self):
        """The variables that training changes, in a fixed order: with those that Keras does not
        know, such as sums of gradients in attributes of the model, and those of optimizers inside
        another object."""
        found = self.variables()
        known = {id(getattr(each, "_value", each)) for each in found}
        through = (self.keras.layers.Layer,) + keras_facts.optimizers(self.keras)
        kinds = self.kinds_of_variables()
        for each in keras_facts.attributes([self.model], kinds, through):
            if id(getattr(each, "_value", each)) not in known:
                found.append(each)
        return found

    def _why_not_cudnn(self):
        """Why Keras's own layers cannot use cuDNN's kernel, each reason once."""
        reasons = []
        for layer in self.recurrent.layers:
            facts = dict(
                attest.layer_facts(inner_layers(layer)[0]),  # they have the same settings
                cell=self.recurrent.made_here(layer).cell,
                device=self.config["device"]["kind"],
                mask=keras_facts.is_masked(layer),
            )
            reasons += attest.why_not_cudnn(dict(facts, **self.cudnn_facts()))
        return sorted(set(reasons), key=reasons.index)
