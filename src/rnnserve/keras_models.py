"""What the runtimes that run Keras itself share: the file of the model, its threads, and its inputs
and outputs as flat lists."""

import numpy

from rnnserve.refusals import Refused, first_words

FILE = "model.keras"


def save(model, folder):
    """Writes the model to a file of Keras, with its states at zero."""
    reset_states(model)
    try:
        model.save(folder / FILE)
    except (TypeError, ValueError, NotImplementedError) as error:
        raise Refused(f"Keras cannot save the model: {first_words(error)}") from error


def load(folder, threads):
    """The saved model, with TensorFlow on that number of threads. Classes of a user's own are known
    if their file has been imported."""
    set_threads(threads)
    import keras

    try:
        model = keras.saving.load_model(
            folder / FILE, compile=False, custom_objects=own_classes(keras.layers.Layer)
        )
    except (TypeError, ValueError) as error:
        raise Refused(f"Keras cannot load what it saved: {first_words(error)}") from error
    reset_states(model)
    return model


def set_threads(threads):
    """Must come before TensorFlow computes anything. Raises `Refused` if TensorFlow has others."""
    import tensorflow

    threading = tensorflow.config.threading
    try:
        threading.set_intra_op_parallelism_threads(threads)
        threading.set_inter_op_parallelism_threads(1)
    except RuntimeError:
        pass  # TensorFlow runs already: what counts is whether it has the same numbers
    intra = threading.get_intra_op_parallelism_threads()
    inter = threading.get_inter_op_parallelism_threads()
    if (intra, inter) != (threads, 1):
        raise Refused(f"TensorFlow has {intra} and {inter} threads, not {threads} and 1")


def own_classes(base):
    """Name → class, for the classes derived from `base` that are not Keras's."""
    found = {}
    waiting = [base]
    while waiting:
        derived = waiting.pop()
        waiting.extend(derived.__subclasses__())
        if derived.__module__.partition(".")[0] != "keras":
            found[derived.__name__] = derived
    return found


def reset_states(model):
    """Sets the states of layers that keep them between calls to zero."""
    for layer in stateful_layers(model):
        if getattr(layer, "states", None) is not None:
            layer.reset_states()


def states_of(model):
    """The variables of the states that layers keep between calls. They are not among those of the
    model."""
    import keras

    states = [getattr(layer, "states", None) for layer in stateful_layers(model)]
    return [state for state in keras.tree.flatten(states) if state is not None]


def stateful_layers(model):
    """The layers that keep their states between calls."""
    return [layer for layer in model._flatten_layers() if getattr(layer, "stateful", False)]


def packed(model, arrays):
    """Arrays in the structure that the model is called with."""
    import keras

    structure = getattr(model, "_inputs_struct", None)
    if structure is None and hasattr(model, "_functional"):
        structure = model._functional._inputs_struct
    if structure is None:
        return arrays[0] if len(arrays) == 1 else list(arrays)
    return keras.tree.pack_sequence_as(structure, list(arrays))


def flat(outputs):
    """The outputs as a list of NumPy arrays."""
    import keras

    return [numpy.asarray(output) for output in keras.tree.flatten(outputs)]


def specifications(model, arrays, is_fixed):
    """TensorFlow's specifications of the inputs, packed as the model takes them. Batch and length
    are free where the model leaves them free, unless `is_fixed`."""
    import tensorflow

    found = []
    for number, (tensor, array) in enumerate(zip(model.inputs, arrays, strict=True)):
        shape = array.shape if is_fixed else tuple(tensor.shape)
        found.append(tensorflow.TensorSpec(shape, tensor.dtype, name=f"input_{number}"))
    return found
