"""Plain Keras models as people write them, which import nothing of rnnbench; the tests give them to
every implementation. Functions with a default have no other use of it."""

import keras
import numpy
from beside import tower
from keras import layers

SAVED = [
    numpy.random.RandomState(3).normal(0, 0.3, shape).astype("float32")
    for shape in ((3, 16), (4, 16), (16,))
]


def sequential(*parts, optimizer=None):
    model = keras.Sequential([layers.Input((3, 3)), *parts, layers.Dense(1)])
    model.compile(optimizer or keras.optimizers.Adam(0.01), "mse")
    return model


def stack(**settings):
    return sequential(layers.LSTM(4, return_sequences=True), layers.LSTM(3), **settings)


def frozen_by_class(rate=0.01):
    model = stack()
    for layer in model.layers:
        if isinstance(layer, layers.LSTM):
            layer.trainable = False
    model.compile(keras.optimizers.Adam(rate), "mse")
    return model


def frozen_by_name():
    model = stack()
    model.get_layer("lstm_1").trainable = False
    model.compile(keras.optimizers.RMSprop(0.01), "mse")
    return model


def frozen_by_index():
    model = stack()
    model.layers[0].trainable = False
    model.compile(keras.optimizers.Nadam(0.01), "mse")
    return model


def frozen_in_part():
    model = sequential(layers.LSTM(4))
    for weight in model.layers[0].weights:
        if "kernel" in weight.name:
            weight.trainable = False
    return model


def set_weights():
    model = sequential(layers.LSTM(4, name="encoder"))
    model.get_layer("encoder").set_weights(SAVED)
    return model


def set_and_frozen():
    model = set_weights()
    model.get_layer("encoder").trainable = False
    model.compile("sgd", "mse")
    return model


def cut_at_a_default_name():
    features = stack().get_layer("lstm").output
    base = features._keras_history.operation  # the first of two recurrent layers
    assert base.name == "lstm"
    model = keras.Model(base.input, layers.Dense(1)(layers.GlobalAveragePooling1D()(features)))
    model.compile("adam", "mse")
    return model


def copied_by_config():
    copied = keras.Sequential([layers.Input((3, 3))])
    for layer in stack().layers[:-1]:
        copy = layer.__class__.from_config(layer.get_config())
        copied.add(copy)
    copied.layers[0].trainable = False
    copied.add(layers.Dense(1))
    copied.compile("adam", "mse")
    return copied


class Penalized(keras.Model):
    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        loss = super().compute_loss(x, y, y_pred, sample_weight, training)
        for variable in self.trainable_variables:
            if "bias" not in variable.name:
                loss = loss + 0.1 * keras.ops.sum(keras.ops.square(variable))
        return loss


def penalty_by_name():
    inputs = layers.Input((3, 3))
    model = Penalized(inputs, layers.Dense(1)(layers.LSTM(4)(inputs)))
    model.compile("adam", "mse")
    return model


def clipped_by_norm():
    return stack(optimizer=keras.optimizers.Adam(0.01, clipnorm=0.01))


def clipped_together():
    return stack(optimizer=keras.optimizers.SGD(0.1, momentum=0.9, global_clipnorm=0.05))


def no_decay_of_biases():
    optimizer = keras.optimizers.AdamW(0.01, weight_decay=0.1)
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    return stack(optimizer=optimizer)


def scaled_by_each_variable():
    return stack(optimizer=keras.optimizers.Lamb(0.01))


def positional_states():
    encoded, decoded = layers.Input((3, 3)), layers.Input((3, 3))
    _, hidden, memory = layers.LSTM(4, return_state=True)(encoded)
    outputs = layers.LSTM(4, return_sequences=True)(decoded, [hidden, memory])
    model = keras.Model([encoded, decoded], layers.Dense(1)(layers.Flatten()(outputs)))
    model.compile("rmsprop", "mse")
    return model


class Sampling(layers.Layer):
    def __init__(self, **settings):
        super().__init__(**settings)
        self.random = keras.random.SeedGenerator(11)

    def call(self, parts):
        mean, variance = parts
        self.add_loss(0.05 * keras.ops.mean(keras.ops.square(mean) + keras.ops.exp(variance)))
        noise = keras.random.normal(keras.ops.shape(mean), seed=self.random)
        return mean + noise * keras.ops.exp(variance / 2)


def sampling():
    inputs = layers.Input((3, 3))
    hidden = layers.LSTM(4)(inputs)
    drawn = Sampling()([layers.Dense(2)(hidden), layers.Dense(2)(hidden)])
    decoded = layers.LSTM(3)(layers.RepeatVector(3)(drawn))
    model = keras.Model(inputs, layers.Dense(1)(decoded))
    model.compile("adam", "mse")
    return model


def dropout():
    both = layers.Bidirectional(layers.LSTM(3, dropout=0.5, return_sequences=True))
    return sequential(both, layers.LSTM(4, dropout=0.3))


def out_of_a_sibling_module():
    inputs = layers.Input((3, 3))
    model = keras.Model(inputs, tower(inputs))
    model.compile("adam", "mse")
    return model


def derived_class():
    class Named(layers.LSTM):
        def __init__(self, units):
            super().__init__(units, kernel_regularizer="l2")

    return sequential(Named(4))


def own_layer_around_one():
    class Gated(layers.Layer):
        def __init__(self):
            super().__init__()
            self.inner = layers.LSTM(3, return_sequences=True)

        def build(self, shape):
            self.scale = self.add_weight(shape=(3,), initializer="ones", name="scale")
            self.inner.build(shape)
            self.built = True

        def call(self, inputs):
            return self.scale * self.inner(inputs) + inputs

    return sequential(Gated(), layers.Flatten())


def inside_time_distributed():
    inner = keras.Sequential([layers.Input((3, 3)), layers.LSTM(4), layers.Dense(2)])
    inputs = layers.Input((3, 3))
    windows = layers.Reshape((2, 3, 3))(layers.Concatenate(1)([inputs, inputs]))
    hidden = layers.Flatten()(layers.TimeDistributed(inner)(windows))
    model = keras.Model(inputs, layers.Dense(1)(hidden))
    model.compile("adam", "mse")
    return model


def two_kinds_of_directions():
    backward = layers.GRU(4, go_backwards=True)
    return sequential(layers.Bidirectional(layers.LSTM(4), backward_layer=backward))


def recurrent_dropout():
    return sequential(layers.LSTM(4, recurrent_dropout=0.2))


def masked():
    return sequential(layers.Masking(), layers.LSTM(4))


def unrolled():
    return sequential(layers.LSTM(4, unroll=True))


def without_cudnn():
    return sequential(layers.LSTM(4, use_cudnn=False))


def with_cudnn():
    return sequential(layers.LSTM(4, use_cudnn=True))


def own_call():
    class Doubled(layers.LSTM):
        def call(self, sequences, initial_state=None, mask=None, training=False):
            return 2 * super().call(sequences, initial_state, mask, training)

    return sequential(Doubled(4))


class Distilled(keras.Model):
    """Its `compile` has arguments of its own."""

    def __init__(self, student, teacher):
        super().__init__()
        self.student = student
        self.teacher = teacher
        self.teacher.trainable = False

    def compile(self, optimizer, between, share=0.3):
        super().compile(optimizer=optimizer, loss="mae")
        self.between = between
        self.share = share

    def call(self, inputs, training=None):
        return self.student(inputs, training=training)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        of_data = super().compute_loss(x, y, y_pred, sample_weight, training)
        return self.share * of_data + self.between(self.teacher(x), y_pred)


def one_of_two(name):
    parts = [layers.Input((3, 3)), layers.LSTM(4, name="rnn"), layers.Dense(1)]
    return keras.Sequential(parts, name=name)


def own_compile():
    model = Distilled(one_of_two("student"), one_of_two("teacher"))
    model(numpy.zeros((1, 3, 3), "float32"))
    model.compile("adam", keras.losses.MeanSquaredError(), share=0.5)
    return model


def two_layers_of_one_name():
    inputs = layers.Input((3, 3))
    both = [one_of_two(name)(inputs) for name in ("first", "second")]
    model = keras.Model(inputs, layers.Average()(both))
    model.compile("adam", "mse")
    return model


class Normalized(layers.LSTMCell):
    """A cell that normalizes its state, with weights of its own before and after Keras's."""

    def build(self, shape):
        self.scale = self.add_weight(shape=(1,), initializer="ones", name="scale")
        super().build(shape)
        self.norm = layers.LayerNormalization()
        self.norm.build((None, self.units))

    def call(self, inputs, states, training=False):
        hidden, (_, memory) = super().call(inputs, states, training=training)
        hidden = self.scale * self.norm(hidden)
        return hidden, [hidden, memory]


def own_cell():
    return sequential(layers.RNN(Normalized(4)))


def one_cell_in_two_loops():
    inputs = layers.Input((3, 3))
    cell = layers.LSTMCell(4)
    both = [layers.RNN(cell)(inputs), layers.RNN(cell, go_backwards=True)(inputs)]
    model = keras.Model(inputs, layers.Dense(1)(layers.Concatenate()(both)))
    model.compile("adam", "mse")
    return model


class Unused(keras.Model):
    """Has layers that it never calls, beside one in a dict."""

    def __init__(self):
        super().__init__()
        self.parts = {"used": layers.LSTM(4), "left over": layers.LSTM(4)}
        self.older = layers.GRU(4)
        self.last = layers.Dense(1)

    def call(self, inputs):
        return self.last(self.parts["used"](inputs))


def never_called():
    model = Unused()
    model(numpy.zeros((1, 3, 3), "float32"))
    model.compile("adam", "mse")
    return model


def stack_of_cells():
    return sequential(layers.RNN([layers.LSTMCell(4), layers.LSTMCell(3)]))


def unrolled_stack_of_cells():
    return sequential(layers.RNN([layers.LSTMCell(4)], unroll=True))


def hidden_from_keras():
    inputs = layers.Input((3, 3))
    lost = layers.LSTM(4)
    hidden = layers.Lambda(lambda inputs: lost(inputs), output_shape=(4,))(inputs)
    model = keras.Model(inputs, layers.Dense(1)(hidden))
    model.compile("adam", "mse")
    return model


def compiled_for_debugging():
    model = stack()
    model.compile("adam", "mse", run_eagerly=True)
    return model


def in_half_precision():
    return sequential(layers.LSTM(4, dtype="mixed_bfloat16"))


def output_without_targets():
    inputs = layers.Input((3, 3))
    hidden = layers.LSTM(4, return_sequences=True)(inputs)
    shares = layers.Softmax(axis=1, name="shares")(layers.Dense(1)(hidden))
    y = layers.Dense(1, name="y")(layers.Flatten()(layers.Dot(1)([shares, hidden])))
    model = keras.Model(inputs, {"y": y, "shares": shares})
    model.compile("adam", {"y": "mse"})
    return model


def tanh(x):
    return 1.7159 * keras.ops.tanh(2 / 3 * x)


def own_tanh():
    return sequential(layers.LSTM(4, activation=tanh))


def activation_with_weights():
    return sequential(layers.LSTM(4, activation=layers.PReLU("ones")))


class FeedBack(keras.Model):
    """Goes on with the cell of its layer, as in TensorFlow's tutorial on time series."""

    def __init__(self):
        super().__init__()
        self.cell = layers.LSTMCell(4)
        self.warming_up = layers.RNN(self.cell, return_state=True)
        self.last = layers.Dense(3)

    def call(self, inputs, training=None):
        hidden, *states = self.warming_up(inputs)
        for _ in range(2):
            hidden, states = self.cell(self.last(hidden), states, training=training)
        return keras.ops.sum(self.last(hidden), axis=1, keepdims=True)


def goes_on_with_the_cell():
    model = FeedBack()
    model(numpy.zeros((1, 3, 3), "float32"))
    model.compile("adam", "mse")
    return model


class OwnLoop(layers.Layer):
    def __init__(self):
        super().__init__()
        self.cell = layers.LSTMCell(4)

    def call(self, inputs):
        states = [inputs[:, 0, :1] * keras.ops.zeros((1, 4))] * 2
        for step in range(inputs.shape[1]):
            hidden, states = self.cell(inputs[:, step], states)
        return hidden


def own_loop():
    return sequential(OwnLoop())


class Bounded(layers.Wrapper):
    """Divides the weights of a layer when it is called, as Keras's SpectralNormalization does."""

    def call(self, inputs, training=False):
        if training:
            kernel = self.layer.kernel
            kernel.assign(kernel / keras.ops.maximum(1.0, keras.ops.norm(kernel)))
        return self.layer(inputs)


def sets_its_weights():
    return sequential(layers.LSTM(4), Bounded(layers.Dense(4)))


class Unseeded(keras.initializers.Initializer):
    def __call__(self, shape, dtype=None):
        drawn = numpy.random.default_rng().normal(0, 0.1, shape)
        return keras.ops.convert_to_tensor(drawn.astype("float32"))


def without_a_seed():
    return sequential(layers.LSTM(4, kernel_initializer=Unseeded()))


class Measured(keras.Model):
    """Its loss needs the tensors that `fit` gives it."""

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return keras.ops.mean((y_pred - y) ** 2)


def own_loss():
    inputs = layers.Input((3, 3))
    model = Measured(inputs, layers.Dense(1)(layers.LSTM(4)(inputs)))
    model.compile("adam")
    return model


class NumpyNoise(layers.Layer):
    """Draws its noise when the step is made, once and for all."""

    def call(self, inputs):
        return inputs + numpy.random.normal(size=inputs.shape[-1:]).astype("float32")


def noise_of_numpy():
    return sequential(layers.LSTM(4), NumpyNoise())


class Scaled(layers.LSTMCell):
    """Its recurrent weights have unit columns, as with weight normalization."""

    def build(self, shape):
        super().build(shape)
        self.scale = self.add_weight(shape=(4 * self.units,), initializer="ones", name="scale")

    @property
    def recurrent_kernel(self):
        if not hasattr(self, "scale"):
            return self.direction
        return self.scale * self.direction / keras.ops.norm(self.direction, axis=0)

    @recurrent_kernel.setter
    def recurrent_kernel(self, variable):
        self.direction = variable


def computed_weights():
    return sequential(layers.RNN(Scaled(4)))


class Around(layers.Layer):
    def __init__(self):
        super().__init__()
        self.inner = layers.LSTMCell(4)
        self.state_size = self.inner.state_size

    def build(self, shape):
        self.inner.build(shape)
        self.built = True

    def call(self, inputs, states):
        return self.inner(inputs, states)


def loop_around_an_own_cell():
    return sequential(layers.RNN(Around()))


class LeftOver(keras.Model):
    """Calls a layer on which its loss does not depend."""

    def __init__(self):
        super().__init__()
        self.inner = layers.LSTM(4)
        self.last = layers.Dense(1)
        self.left_over = layers.Dense(2)

    def call(self, inputs):
        hidden = self.inner(inputs)
        self.left_over(hidden)
        return self.last(hidden)


def without_influence_on_the_loss():
    model = LeftOver()
    model(numpy.zeros((1, 3, 3), "float32"))
    model.compile("adam", "mse")
    return model


class WeightNormalization(layers.Wrapper):
    """Puts a tensor in place of a weight in each call, as TensorFlow Addons' layer does."""

    def build(self, shape):
        self.layer.build(shape)
        self.direction = self.layer.cell.recurrent_kernel
        shape = self.direction.shape[-1:]
        self.scale = self.add_weight(shape=shape, initializer="ones", name="scale")
        self.built = True

    def call(self, inputs):
        lengths = keras.ops.norm(self.direction, axis=0)
        self.layer.cell.recurrent_kernel = self.scale * self.direction / lengths
        return self.layer(inputs)

    def compute_output_shape(self, shape):
        return self.layer.compute_output_shape(shape)


def given_weights():
    return sequential(WeightNormalization(layers.LSTM(4)))


class Peephole(layers.LSTMCell):
    """Overrides what Keras's own cell computes with, as Keras 2's PeepholeLSTMCell did."""

    def build(self, shape):
        super().build(shape)
        self.peephole = self.add_weight(shape=(self.units,), initializer="ones", name="peephole")

    def _compute_carry_and_output_fused(self, gates, memory):
        i, f, c, o = gates
        memory = self.recurrent_activation(f + self.peephole * memory) * memory
        memory = memory + self.recurrent_activation(i) * self.activation(c)
        return memory, self.recurrent_activation(o + self.peephole * memory)


def peepholes():
    return sequential(layers.RNN(Peephole(4)))


class Counted(layers.LSTM):
    def build(self, shape):
        super().build(shape)
        self.calls = self.add_weight(shape=(), initializer="zeros", name="calls", trainable=False)


def further_weight():
    return sequential(Counted(4))


class WithoutTraining(keras.Model):
    """Keras trains it in the form that it has in a prediction: it has nowhere to say otherwise."""

    def __init__(self):
        super().__init__()
        self.inner = layers.LSTM(4)
        self.normalization = layers.BatchNormalization()
        self.last = layers.Dense(1)

    def call(self, inputs):
        return self.last(self.normalization(self.inner(inputs)))


def without_training_argument():
    model = WithoutTraining()
    model(numpy.zeros((2, 3, 3)))
    model.compile("adam", "mse")
    return model


class Weighed(layers.Bidirectional):
    """Multiplies the outputs of both directions by a weight of its own."""

    def build(self, shape):
        super().build(shape)
        self.share = self.add_weight(shape=(), initializer="ones", name="share")

    def call(self, sequences, initial_state=None, mask=None, training=None):
        return 2 * self.share * super().call(sequences, initial_state, mask, training)


def derived_bidirectional():
    return sequential(Weighed(layers.LSTM(4)))


def toggled():
    """Its only layer was called with ``return_sequences=True`` before."""
    lstm, last = sequential(layers.LSTM(4, return_sequences=True)).layers
    lstm.return_sequences = False
    inputs = layers.Input((3, 3))
    model = keras.Model(inputs, last(lstm(inputs)))
    model.compile("adam", "mse")
    return model


class Twice(layers.LSTMCell):
    def __call__(self, *arguments, **settings):
        outputs, states = super().__call__(*arguments, **settings)
        return 2 * outputs, states


def called_cell():
    return sequential(layers.RNN(Twice(4)))


EQUAL = (
    frozen_by_class,
    frozen_by_name,
    frozen_by_index,
    frozen_in_part,
    set_weights,
    set_and_frozen,
    cut_at_a_default_name,
    copied_by_config,
    penalty_by_name,
    clipped_by_norm,
    clipped_together,
    no_decay_of_biases,
    scaled_by_each_variable,
    positional_states,
    sampling,
    dropout,
    out_of_a_sibling_module,
    derived_class,
    own_layer_around_one,
    inside_time_distributed,
    two_kinds_of_directions,
    recurrent_dropout,
    masked,
    unrolled,
    without_cudnn,
    with_cudnn,
    own_call,
    own_compile,
    two_layers_of_one_name,
    own_cell,
    one_cell_in_two_loops,
    never_called,
    stack_of_cells,
    goes_on_with_the_cell,
    sets_its_weights,
    computed_weights,
)
