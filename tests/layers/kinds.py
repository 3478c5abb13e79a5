"""Models as people write them, in plain Keras 3 or tf.keras 2; each is trained with a kernel and
compared with plain Keras.

`KINDS`: name → `Kind`. A function of a kind gets Keras and returns a model that is not compiled.
"""

from typing import NamedTuple

import numpy

BATCH, STEPS, FEATURES = 4, 3, 3
# The first shows a gradient, the second what an optimizer and a layer keep, the third that this was
# kept too.
TRAINED_STEPS = 3


class Kind(NamedTuple):
    build: object
    optimizer: object
    loss: object
    in_graph: bool


KINDS = {}


def kind(optimizer=None, loss="mse", in_graph=False):
    def add(build):
        KINDS[build.__name__] = Kind(build, optimizer or adam, loss, in_graph)
        return build

    return add


def adam(keras):
    return keras.optimizers.Adam(0.01)


def clipped(keras):
    return keras.optimizers.Adam(0.01, clipnorm=0.01)


def clipped_together(keras):
    return keras.optimizers.SGD(0.1, momentum=0.9, global_clipnorm=0.05)


def without_decay_of_biases(keras):
    optimizer = keras.optimizers.AdamW(0.01, weight_decay=0.1)
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    return optimizer


def adafactor(keras):
    return keras.optimizers.Adafactor(0.01)


def lamb(keras):
    if not hasattr(keras.optimizers, "Lamb"):
        return keras.optimizers.Nadam(0.01)
    return keras.optimizers.Lamb(0.01)


def rmsprop(keras):
    return keras.optimizers.RMSprop(0.01, centered=True)


def sequence(keras, **settings):
    return keras.layers.Input((STEPS, FEATURES), **settings)


def sequential(keras, *layers):
    return keras.Sequential([sequence(keras), *layers])


@kind(clipped, in_graph=True)
def functional(keras):
    layers, x = keras.layers, sequence(keras)
    hidden = layers.LSTM(4, return_sequences=True, kernel_regularizer="l2")(x)
    return keras.Model(x, layers.Dense(1)(layers.LSTM(4)(layers.Dropout(0.0)(hidden))))


@kind(lamb)
def bidirectional_mean(keras):
    layers = keras.layers
    both = layers.Bidirectional(layers.LSTM(4, return_sequences=True), merge_mode="ave")
    return sequential(keras, both, layers.LSTM(3, go_backwards=True), layers.Dense(1))


@kind()
def merge_modes(keras):
    layers, x = keras.layers, sequence(keras)
    merged = []
    for mode in ("sum", "mul", "concat"):
        merged.append(layers.Bidirectional(layers.LSTM(2), merge_mode=mode)(x))
    pair = layers.Bidirectional(layers.LSTM(2), merge_mode=None)(x)
    return keras.Model(x, layers.Dense(1)(layers.Concatenate()(merged + list(pair))))


@kind()
def another_backward_layer(keras):
    layers = keras.layers
    backward = layers.LSTM(
        4, go_backwards=True, use_bias=False, kernel_regularizer="l1", return_sequences=True
    )
    both = layers.Bidirectional(
        layers.LSTM(4, return_sequences=True, unit_forget_bias=False), backward_layer=backward
    )
    return sequential(keras, both, layers.Flatten(), layers.Dense(1))


@kind(adafactor)
def nested(keras):
    layers = keras.layers
    inner = keras.Sequential([sequence(keras), layers.LSTM(4)])
    x = sequence(keras)
    return keras.Model(x, layers.Dense(1)(inner(x)))


@kind()
def time_distributed(keras):
    layers = keras.layers
    x = layers.Input((2, STEPS, FEATURES))
    hidden = layers.TimeDistributed(layers.LSTM(3))(x)
    return keras.Model(x, layers.Dense(1)(layers.Flatten()(hidden)))


@kind(in_graph=True)
def positional_states(keras):
    layers = keras.layers
    encoded, decoded = sequence(keras), layers.Input((4, 2))
    _, hidden, memory = layers.LSTM(4, return_state=True)(encoded)
    outputs = layers.LSTM(4, return_sequences=True)(decoded, initial_state=[hidden, memory])
    if is_keras3(keras):
        outputs = layers.LSTM(4, return_sequences=True)(outputs, [hidden, memory])
    return keras.Model([encoded, decoded], layers.Dense(1)(layers.Flatten()(outputs)))


@kind()
def states_of_gru(keras):
    layers = keras.layers
    encoded, decoded = sequence(keras), layers.Input((4, 2))
    _, state = layers.GRU(4, return_state=True)(encoded)
    outputs, last = layers.GRU(4, return_sequences=True, return_state=True)(
        decoded, initial_state=state
    )
    outputs = layers.Concatenate()([layers.Flatten()(outputs), last])
    return keras.Model([encoded, decoded], layers.Dense(1)(outputs))


@kind()
def states_of_both_directions(keras):
    layers, x = keras.layers, sequence(keras)
    both = layers.Bidirectional(layers.LSTM(3, return_state=True, return_sequences=True))
    outputs, *states = both(x)
    again = layers.Bidirectional(layers.LSTM(3))(outputs, initial_state=states)
    return keras.Model(x, layers.Dense(1)(layers.Concatenate()([again, *states])))


@kind()
def subclassed(keras):
    layers = keras.layers

    class Own(keras.Model):
        def __init__(self):
            super().__init__()
            self.recurrent = [layers.LSTM(4, return_sequences=True), layers.LSTM(3)]
            self.last = layers.Dense(1)

        def call(self, x):
            for layer in self.recurrent:
                x = layer(x)
            return self.last(x)

    model = Own()
    model(numpy.zeros((BATCH, STEPS, FEATURES), "float32"))
    return model


@kind(rmsprop)
def inside_a_layer_of_ones_own(keras):
    layers = keras.layers

    class Residual(layers.Layer):
        def __init__(self, **settings):
            super().__init__(**settings)
            self.inner = layers.LSTM(FEATURES, return_sequences=True)

        def build(self, shape):
            self.inner.build(shape)
            self.built = True

        def call(self, x):
            return x + self.inner(x)

        def compute_output_shape(self, shape):
            return shape

    return sequential(keras, Residual(), Residual(), layers.Flatten(), layers.Dense(1))


@kind()
def frozen_by_class(keras):
    model = functional(keras)
    for layer in model.layers:
        if isinstance(layer, keras.layers.LSTM):
            layer.trainable = False
    return model


@kind()
def one_frozen_by_name(keras):
    layers = keras.layers
    model = sequential(
        keras, layers.LSTM(4, return_sequences=True, name="below"), layers.LSTM(3), layers.Dense(1)
    )
    model.get_layer("below").trainable = False
    return model


@kind()
def pretrained(keras):
    model = functional(keras)
    layer = model.layers[1]
    stream = numpy.random.RandomState(3)
    layer.set_weights([stream.normal(size=weight.shape) * 0.3 for weight in layer.get_weights()])
    layer.trainable = False
    return model


@kind()
def copied_by_config(keras):
    model = functional(keras)
    return type(model).from_config(model.get_config())


@kind(without_decay_of_biases)
def penalty_by_name(keras):
    class ByName(keras.Model):
        def compute_loss(self, *values, **named):
            loss = super().compute_loss(*values, **named)
            for weight in self.trainable_variables:
                name = getattr(weight, "path", weight.name)
                if "recurrent_kernel" in name:
                    loss = loss + 0.1 * square(keras, weight)
            return loss

    model = functional(keras)
    return ByName(model.inputs, model.outputs)


@kind()
def stateful(keras):
    layers = keras.layers
    x = sequence(keras, batch_size=BATCH)
    settings = {"stateful": True}
    if is_keras3(keras):
        settings["use_cudnn"] = False  # with "auto", Keras 3.15 on torch raises in the gradient
    hidden = layers.LSTM(4, return_sequences=True, **settings)(x)
    return keras.Model(x, layers.Dense(1)(layers.LSTM(3, **settings)(hidden)))


@kind(loss=["mse", "mse"])
def a_second_model_on_a_cut_layer(keras):
    model = functional(keras)
    cut = model.get_layer(model.layers[1].name).output
    second = keras.layers.Dense(1)(keras.layers.Flatten()(cut))
    return keras.Model(model.inputs, [model.outputs[0], second])


@kind(clipped_together)
def one_layer_used_twice(keras):
    layers = keras.layers
    left, right = sequence(keras), sequence(keras)
    shared = layers.LSTM(4)
    both = layers.Concatenate()([shared(left), shared(right)])
    return keras.Model([left, right], layers.Dense(1)(both))


@kind()
def options_of_weights(keras):
    layers = keras.layers
    limit = keras.constraints.MaxNorm(0.5)
    layer = layers.LSTM(
        4,
        return_sequences=True,
        unit_forget_bias=False,
        bias_initializer="ones",
        kernel_constraint=limit,
        recurrent_constraint=limit,
        bias_constraint="non_neg",
        recurrent_regularizer=keras.regularizers.L1L2(0.01, 0.01),
        bias_regularizer="l2",
        activity_regularizer="l2",
    )
    return sequential(keras, layer, layers.LSTM(3, use_bias=False), layers.Dense(1))


@kind()
def activations_by_function(keras):
    layers, of = keras.layers, keras.activations
    return sequential(
        keras,
        layers.LSTM(4, activation=of.tanh, recurrent_activation=of.sigmoid, return_sequences=True),
        layers.SimpleRNN(3, activation=of.relu, return_sequences=True),
        layers.SimpleRNN(3, activation="tanh", use_bias=False),
        layers.Dense(1),
    )


@kind()
def cells_in_rnn(keras):
    layers = keras.layers
    return sequential(
        keras,
        layers.RNN(layers.LSTMCell(4), return_sequences=True),
        layers.Bidirectional(layers.RNN(layers.LSTMCell(3))),
        layers.Dense(1),
    )


@kind()
def gru_without_bias(keras):
    layers = keras.layers
    both = layers.Bidirectional(layers.GRU(3), merge_mode="sum")
    return sequential(
        keras, layers.GRU(4, return_sequences=True, use_bias=False), both, layers.Dense(1)
    )


@kind()
def gru_that_resets_before(keras):
    layers = keras.layers
    return sequential(
        keras,
        layers.GRU(4, reset_after=False, return_sequences=True),
        layers.GRU(3, reset_after=False, use_bias=False, go_backwards=True),
        layers.Dense(1),
    )


@kind()
def dropout(keras):
    layers = keras.layers
    return sequential(
        keras, layers.LSTM(4, dropout=0.5, seed=7, return_sequences=True), layers.Dense(1)
    )


@kind()
def recurrent_dropout(keras):
    layers = keras.layers
    return sequential(keras, layers.LSTM(4, recurrent_dropout=0.5, seed=7), layers.Dense(1))


@kind()
def a_mask(keras):
    layers, x = keras.layers, sequence(keras)
    hidden = layers.LSTM(4, return_sequences=True, name="reader")(layers.Masking()(x))
    return keras.Model(x, layers.Dense(1)(layers.GlobalAveragePooling1D()(hidden)))


@kind()
def unknown_length(keras):
    layers, x = keras.layers, keras.layers.Input((None, FEATURES))
    return keras.Model(x, layers.Dense(1)(layers.LSTM(4)(x)))


@kind()
def own_activation(keras):
    layers = keras.layers
    return sequential(
        keras, layers.LSTM(4, activation=lambda x: keras.activations.tanh(x) / 2), layers.Dense(1)
    )


@kind()
def own_cell(keras):
    layers = keras.layers

    class Scaled(layers.LSTMCell):
        def call(self, inputs, states, training=None):
            return super().call(0.5 * inputs, states, training=training)

    return sequential(keras, layers.RNN(Scaled(4)), layers.Dense(1))


@kind()
def doubles(keras):
    layers = keras.layers
    return sequential(keras, layers.LSTM(4, dtype="float64"), layers.Dense(1))


@kind()
def time_major(keras):
    layers = keras.layers
    x = layers.Input((BATCH, FEATURES), batch_size=STEPS)
    layer = layers.LSTM(4, time_major=True, return_sequences=True, return_state=True)
    outputs, hidden, _ = layer(x)
    return keras.Model(x, layers.Dense(1)(outputs) + layers.Dense(1)(hidden))


KERAS2_ONLY = ("time_major",)


def is_keras3(keras):
    return hasattr(keras, "ops")


def is_jax(keras):
    return is_keras3(keras) and keras.backend.backend() == "jax"


def square(keras, weight):
    if is_keras3(keras):
        return keras.ops.sum(keras.ops.square(weight))
    return keras.backend.sum(keras.backend.square(weight))


def data(model):
    stream = numpy.random.RandomState(0)
    shapes = [(STEPS, FEATURES)]
    if getattr(model, "inputs", None):
        shapes = [tuple(tensor.shape[1:]) for tensor in model.inputs]
    inputs = []
    for shape in shapes:
        shape = tuple(size or STEPS for size in shape)
        batch = model.inputs[0].shape[0] if getattr(model, "inputs", None) else BATCH
        inputs.append(stream.normal(size=(batch or BATCH,) + shape).astype("float32"))
        inputs[-1][0, -2:] = 0  # masked, where there is a mask
    return inputs if len(inputs) > 1 else inputs[0]


def trained(keras, name, kernel, in_graph=None):
    """[outputs before training, losses, all weights after it] of a kind."""
    import rnnlayers

    kind = KINDS[name]
    keras.utils.set_random_seed(1)
    model = kind.build(keras)
    is_eager = not (kind.in_graph or is_jax(keras))
    model.compile(kind.optimizer(keras), kind.loss, run_eagerly=is_eager)
    if kernel != "plain":
        rnnlayers.use(model, kernel)
    x = data(model)
    before = model.predict_on_batch(x)
    if isinstance(before, (list, tuple)):
        targets = [numpy.ones_like(each) for each in before]
    else:
        targets = numpy.ones_like(before)
        before = [before]
    losses = []
    for _ in range(TRAINED_STEPS):
        losses.append(float(numpy.ravel(model.train_on_batch(x, targets))[0]))
    return list(map(numpy.asarray, before)), losses, model.get_weights()


def apart(first, second):
    """(outputs, relative losses, weights): the largest differences."""
    outputs = max(float(abs(a - b).max()) for a, b in zip(first[0], second[0], strict=True))
    losses = max(abs(a - b) / abs(a) for a, b in zip(first[1], second[1], strict=True))
    assert [each.shape for each in first[2]] == [each.shape for each in second[2]]
    weights = max(float(abs(a - b).max()) for a, b in zip(first[2], second[2], strict=True))
    return outputs, losses, weights


def compared(keras, names, kernels):
    """{kind: {kernel: how far it is apart from plain Keras, or why it refuses}}"""
    import rnnlayers

    found = {}
    for name in names or KINDS:
        if name in KERAS2_ONLY and is_keras3(keras):
            continue
        # In tf.keras 2, the noise of dropout differs between Keras's own kernels.
        is_noisy = name == "dropout" and not is_keras3(keras)
        plain = trained(keras, name, "keras" if is_noisy else "plain")
        found[name] = {}
        for kernel in kernels:
            try:
                found[name][kernel] = apart(plain, trained(keras, name, kernel))
            except rnnlayers.CannotCompute as error:
                found[name][kernel] = str(error)
    return found
