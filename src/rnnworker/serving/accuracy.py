"""How good a model's answers are: one number, from its outputs for validation samples and their
labels."""

import numpy

SAMPLES = 1000  # of the validation set, at most


def _classes(outputs, labels):
    return outputs.argmax(axis=-1) == labels.reshape(outputs.shape[:-1])


def _one_hot(outputs, labels):
    return outputs.argmax(axis=-1) == labels.argmax(axis=-1)


def _binary(outputs, labels):
    return (outputs > 0.5) == (labels.reshape(outputs.shape) > 0.5)


def _squared(outputs, labels):
    return numpy.square(outputs - labels.reshape(outputs.shape))


def _absolute(outputs, labels):
    return numpy.abs(outputs - labels.reshape(outputs.shape))


# Loss → (the name of the number, its value for each sample). Of a classifier it is the accuracy.
OF_LOSS = {
    "sparse_categorical_crossentropy": ("accuracy", _classes),
    "categorical_crossentropy": ("accuracy", _one_hot),
    "binary_crossentropy": ("accuracy", _binary),
    "mean_squared_error": ("mean squared error", _squared),
    "mse": ("mean squared error", _squared),
    "mean_absolute_error": ("mean absolute error", _absolute),
    "mae": ("mean absolute error", _absolute),
}


def name_of(loss):
    """What is computed for a model with this loss; None if nothing is."""
    if loss not in OF_LOSS:
        return None
    return OF_LOSS[loss][0]


def value_of(loss, outputs, labels):
    """The mean over all samples and elements, for one array of outputs."""
    outputs = numpy.asarray(outputs, "float64")
    return float(numpy.mean(OF_LOSS[loss][1](outputs, numpy.asarray(labels))))


def outputs_of(answer, arrays, batch):
    """The outputs of `answer` for all samples, asked in batches of that size; the last one is
    filled up from the first sample."""
    samples = len(arrays[0])
    found = []
    for first in range(0, samples, batch):
        places = range(first, first + batch)
        asked = [numpy.take(array, places, axis=0, mode="wrap") for array in arrays]
        (output,) = answer(asked)
        found.append(numpy.array(output))
    return numpy.concatenate(found)[:samples]
