"""Models whose training step changes more than the variables of Keras, on torch."""

import enum
import logging

import keras
import numpy
import torch
from keras import layers


class Adding(keras.Model):
    def __init__(self, *parts):
        super().__init__(*parts)
        self.steps = 0

    def train_step(self, data):
        x, y = data
        loss = self.compute_loss(y=y, y_pred=self(x, training=True))
        loss.backward()
        self.steps += 1
        if self.steps % 3 == 0:
            variables = self.trainable_weights
            with torch.no_grad():
                self.optimizer.apply([each.value.grad for each in variables], variables)
            self.zero_grad()
        return {"loss": loss.detach()}


class Centred(layers.Layer):
    def __init__(self):
        super().__init__()
        self.register_buffer("centre", torch.zeros(4))
        self.kept = {"scale": torch.ones(())}

    def call(self, inputs, training=None):
        if training and not isinstance(inputs, keras.KerasTensor):
            with torch.no_grad():
                self.centre += 0.5 * inputs.mean(0)
                self.kept["scale"] = self.kept["scale"] * 0.5
        return (inputs - self.centre) * self.kept["scale"]

    def compute_output_shape(self, shape):
        return shape


class Counter:
    def __init__(self):
        self.count = 0


class Warmed(layers.Layer):
    """Gives less of the first three batches that it is trained with."""

    def __init__(self):
        super().__init__()
        self.has_begun = False
        self._batches = Counter()

    def call(self, inputs, training=None):
        factor = 1.0
        if training and not isinstance(inputs, keras.KerasTensor):
            if not self.has_begun:
                factor = 0.5
            elif self._batches.count < 3:
                factor = 0.75
            self.has_begun = True
            self._batches.count += 1
        return factor * inputs

    def compute_output_shape(self, shape):
        return shape


class Ways(enum.Enum):
    PLAIN = 1


class Kind(type):
    pass


class Way(metaclass=Kind):
    steps = 0


class Holding(layers.Layer):
    """Its attributes cannot be written to in place, or not as other arrays are."""

    def __init__(self):
        super().__init__()
        self.register_buffer("sparse", torch.eye(4).to_sparse())
        self.register_buffer("shared", torch.ones(1).expand(4))
        self.read_only = numpy.broadcast_to(numpy.ones(1, "float32"), (4,))
        self.kinds = [Ways.PLAIN, Ways, Way, logging.getLogger("held")]

    def call(self, inputs):
        scale = torch.from_numpy(self.read_only.copy()).to(inputs.device)
        return torch.sparse.mm(self.sparse, inputs.T).T * self.shared * scale

    def compute_output_shape(self, shape):
        return shape


class WithModules(keras.Model):
    def __init__(self, module):
        super().__init__()
        self.inner = layers.LSTM(4)
        self.module = module
        self.last = layers.Dense(1)

    def call(self, inputs, training=None):
        return self.last(self.module(self.inner(inputs)))


class OwnSteps(keras.Model):
    def train_step(self, data):
        x, y = data
        self.own.zero_grad()
        loss = self.compute_loss(y=y, y_pred=self(x, training=True))
        loss.backward()
        self.own.step()
        return {"loss": loss.detach()}


def compiled(kind, *between, first=None):
    inputs = layers.Input((3, 3))
    outputs = (first or layers.LSTM(4))(inputs)
    for layer in between:
        outputs = layer(outputs)
    model = kind(inputs, layers.Dense(1)(outputs))
    model.compile("adam", "mse")
    return model


def called(module):
    torch.manual_seed(0)
    model = WithModules(module)
    model(torch.zeros((2, 3, 3)))
    model.compile("adam", "mse")
    return model


def adding():
    return compiled(Adding)


class OfTorch(keras.Model):
    def __init__(self):
        super().__init__()
        self.inner = layers.GRU(4, return_sequences=True)
        self.module = torch.nn.LSTM(4, 4, batch_first=True)
        self.last = layers.Dense(1)

    def call(self, inputs):
        return self.last(self.module(self.inner(inputs))[0][:, -1])


def beside_torch():
    torch.manual_seed(0)
    model = OfTorch()
    model(torch.zeros((2, 3, 3)))
    model.compile("adam", "mse")
    return model


def hooked():
    model = compiled(keras.Model)
    lstm = model.layers[1]
    lstm.cell.recurrent_kernel.value.register_hook(lambda gradient: gradient / 2)
    return model


def hooked_layer():
    model = compiled(keras.Model)
    model.layers[1].register_forward_hook(lambda layer, inputs, outputs: 2 * outputs)
    return model


def hooked_cell():
    model = compiled(keras.Model)
    model.layers[1].cell.register_forward_pre_hook(lambda cell, inputs: None)
    return model


def hooked_directions():
    model = compiled(keras.Model, first=layers.Bidirectional(layers.LSTM(4)))
    model.layers[1].register_forward_hook(lambda layer, inputs, outputs: 2 * outputs)
    return model


def centred():
    return compiled(keras.Model, Centred())


def warmed():
    return compiled(keras.Model, Warmed())


def holding():
    return called(Holding())


def normalized():
    return called(layers.TorchModuleWrapper(torch.nn.BatchNorm1d(4)))


def dropped():
    return called(torch.nn.Dropout(0.5))


def own_optimizer():
    model = compiled(OwnSteps)
    model.own = torch.optim.Adam([each.value for each in model.trainable_variables])
    return model
