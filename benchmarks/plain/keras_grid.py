"""What Keras 3's recurrent layers compute with one backend, asked by ``grid_of_keras.py``.

    KERAS_BACKEND=torch python keras_grid.py ANSWERS.npz [small]

Writes an array for each output, gradient and loss, named ``layer|option|form|part|number``; an
error is a text named ``layer|option|form|error``. Weights and data come from NumPy with fixed
seeds, so what differs between two files is the layer's doing. It needs Keras 3, its backend and
NumPy only.
"""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np

BACKEND = keras.backend.backend()
BATCH, STEPS, FEATURES, UNITS = 4, 7, 3, 5
LAYERS = ("LSTM", "GRU", "GRU reset before", "SimpleRNN", "Bidirectional", "RNN of cells")
# Option → arguments of the layer, and four that are no arguments: mask, states, dtype, training.
OPTIONS = {
    "last output": {},
    "sequences": {"return_sequences": True},
    "mask": {"mask": "right"},
    "mask, sequences": {"mask": "right", "return_sequences": True},
    "mask on the left, sequences": {"mask": "left", "return_sequences": True},
    "mask with gaps, sequences": {"mask": "gaps", "return_sequences": True},
    "mask, zero_output_for_mask": {"mask": "right", "zero_output_for_mask": True},
    "go_backwards, sequences": {"go_backwards": True, "return_sequences": True},
    "go_backwards, mask": {"go_backwards": True, "mask": "right"},
    "return_state, mask": {"return_state": True, "mask": "right"},
    "initial_state": {"states": True, "return_state": True},
    "stateful, second call": {"stateful": True},
    "dropout": {"dropout": 0.5, "seed": 7, "training": True},
    "recurrent_dropout": {"recurrent_dropout": 0.5, "seed": 7, "training": True},
    "mixed_float16": {"dtype": "mixed_float16", "return_sequences": True},
    "mixed_float16, stateful": {"dtype": "mixed_float16", "stateful": True},
    "mixed_bfloat16": {"dtype": "mixed_bfloat16", "return_sequences": True},
    "implementation=1": {"implementation": 1, "return_sequences": True},
    "use_cudnn=True on a CPU": {"use_cudnn": True},
}
NO_ARGUMENTS = ("mask", "states", "dtype", "training")
# What a layer does not take. A Bidirectional layer has go_backwards and zero_output_for_mask.
OF_CELLS = ("implementation", "use_cudnn", "dropout", "recurrent_dropout", "zero_output_for_mask")
LACKS = {
    "SimpleRNN": ("implementation", "use_cudnn"),
    "Bidirectional": ("go_backwards", "zero_output_for_mask"),
    "RNN of cells": OF_CELLS,
}
# The small form: a part of the layers and options, short sequences and no training.
SMALL_LAYERS = ("LSTM", "Bidirectional", "RNN of cells")
SMALL_OPTIONS = (
    *("last output", "mask, sequences", "mask, zero_output_for_mask", "go_backwards, mask"),
    *("stateful, second call", "mixed_float16, stateful", "use_cudnn=True on a CPU"),
)


def asked(small):
    """Layers and options that are asked, as pairs."""
    for name in SMALL_LAYERS if small else LAYERS:
        for option in SMALL_OPTIONS if small else OPTIONS:
            if not set(LACKS.get(name, ())) & set(OPTIONS[option]):
                yield name, option


def forms(small):
    """``loop`` and ``unroll`` as the backend runs them by default: jax compiles. ``jit``: the loop
    compiled by XLA on TensorFlow."""
    if BACKEND == "tensorflow" and not small:
        return ["loop", "unroll", "jit"]
    return ["loop", "unroll"]


def mask_of(kind, steps):
    """Bool array (BATCH, steps): which steps count."""
    lengths = np.array([steps, steps - 2, 2, 1])
    if kind == "right":
        return np.arange(steps) < lengths[:, None]
    if kind == "left":
        return np.arange(steps) >= steps - lengths[:, None]
    return np.random.default_rng(5).random((BATCH, steps)) < 0.6


def layer_of(name, options, form):
    layers = keras.layers
    arguments = {key: value for key, value in options.items() if key not in NO_ARGUMENTS}
    if form == "unroll":
        arguments["unroll"] = True
    if name == "RNN of cells":
        return layers.RNN([layers.LSTMCell(4), layers.GRUCell(UNITS)], **arguments)
    if name == "GRU reset before":
        return layers.GRU(UNITS, reset_after=False, **arguments)
    if name == "Bidirectional":
        return layers.Bidirectional(layers.LSTM(UNITS, **arguments))
    return getattr(layers, name)(UNITS, **arguments)


def states_of(name):
    """Initial states as the layer takes them."""
    stream = np.random.default_rng(2)
    units = {"LSTM": [UNITS] * 2, "Bidirectional": [UNITS] * 4, "RNN of cells": [[4, 4], [UNITS]]}

    def state(count):
        return keras.ops.convert_to_tensor(stream.normal(size=(BATCH, count)).astype("float32"))

    return keras.tree.map_structure(state, units.get(name, [UNITS]))


def numbers(outputs):
    """The arrays of a structure of tensors, float32."""
    arrays = []
    for output in keras.tree.flatten(outputs):
        arrays.append(np.asarray(keras.ops.convert_to_numpy(keras.ops.cast(output, "float32"))))
    return arrays


def weighted_sum(outputs):
    """A number that depends on all outputs, each with another weight."""
    total = 0.0
    for output in keras.tree.flatten(outputs):
        weights = np.cos(np.arange(np.prod(output.shape))).reshape(output.shape)
        weights = keras.ops.convert_to_tensor(weights.astype("float32"))
        total = total + keras.ops.sum(keras.ops.cast(output, "float32") * weights)
    return total


def computed(call, layer, x, compiled):
    """Outputs of `call`, and the gradients of their weighted sum by the weights and `x`."""
    variables = layer.trainable_variables
    if BACKEND == "tensorflow":
        import tensorflow as tf

        def both(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                outputs = call(x)
                total = weighted_sum(outputs)
            return outputs, tape.gradient(total, [*[v.value for v in variables], x])

        if compiled:
            both = tf.function(both, jit_compile=True)
        outputs, gradients = both(tf.constant(x))
    elif BACKEND == "jax":
        import jax

        def total_of(values, x):
            with keras.StatelessScope(zip(variables, values, strict=True)):
                outputs = call(x)
            return weighted_sum(outputs), outputs

        both = jax.jit(jax.value_and_grad(total_of, argnums=(0, 1), has_aux=True))
        (_, outputs), gradients = both([variable.value for variable in variables], x)
    else:
        import torch

        x = torch.tensor(x, requires_grad=True)
        outputs = call(x)
        gradients = torch.autograd.grad(
            weighted_sum(outputs), [*[variable.value for variable in variables], x]
        )
        outputs = keras.tree.map_structure(torch.Tensor.detach, outputs)
    return numbers(outputs), numbers(gradients)


def answers(name, option, form, steps, train):
    """Part → its arrays: outputs, gradients, and the losses of five steps of ``train_on_batch`` if
    they are asked for and the layer has one output."""
    options = OPTIONS[option]
    x = np.random.default_rng(1).normal(size=(BATCH, steps, FEATURES)).astype("float32")
    # Wrappers and cells take the policy of their time.
    keras.config.set_dtype_policy(options.get("dtype", "float32"))
    layer = layer_of(name, options, form)
    layer.build(x.shape)
    stream = np.random.default_rng(3)
    for variable in layer.trainable_variables:
        variable.assign(stream.uniform(-0.7, 0.7, variable.shape).astype("float32"))
    arguments = {}
    if "mask" in options:
        arguments["mask"] = keras.ops.convert_to_tensor(mask_of(options["mask"], steps))
    if "states" in options:
        arguments["initial_state"] = states_of(name)
    if "training" in options:
        arguments["training"] = True

    def call(inputs):
        return layer(inputs, **arguments)

    parts = {}
    if options.get("stateful"):
        layer.reset_state()
        call(keras.ops.convert_to_tensor(x[:, ::-1].copy()))
        kept = keras.tree.flatten(getattr(layer, "states", None) or layer.forward_layer.states)
        parts["kept"] = [np.array(str(keras.backend.standardize_dtype(kept[0].dtype)))]
    parts["outputs"], parts["gradients"] = computed(call, layer, x, form == "jit")
    is_alone = not {"stateful", "return_state", "training"} & set(options)
    if train and is_alone:
        parts["losses"] = [losses_of(layer, options, x, form)]
    return parts


def losses_of(layer, options, x, form):
    steps = x.shape[1]
    inputs = keras.Input((steps, FEATURES), batch_size=BATCH)
    masks = keras.Input((steps,), batch_size=BATCH, dtype="bool")
    outputs = layer(inputs, mask=masks) if "mask" in options else layer(inputs)
    dense = keras.layers.Dense(1, dtype="float32")
    model = keras.Model([inputs, masks], dense(outputs))
    stream = np.random.default_rng(4)
    for variable in dense.trainable_variables:
        variable.assign(stream.uniform(-0.7, 0.7, variable.shape).astype("float32"))
    compiled = BACKEND == "jax" or form == "jit"
    model.compile(keras.optimizers.SGD(0.05), "mse", jit_compile=compiled)
    mask = mask_of(options.get("mask", "right"), steps)
    target = np.ones(model.output_shape, "float32")
    losses = []
    for _ in range(5):
        model.reset_metrics()
        losses.append(model.train_on_batch([x, mask], target))
    return np.array(losses, "float32")


def main(path, small):
    found = {}
    for name, option in asked(small):
        for form in forms(small):
            key = f"{name}|{option}|{form}"
            try:
                parts = answers(name, option, form, steps=4 if small else STEPS, train=not small)
            except Exception as error:
                found[f"{key}|error"] = np.array(f"{type(error).__name__}: {error}"[:300])
                continue
            for part, arrays in parts.items():
                for number, array in enumerate(arrays):
                    found[f"{key}|{part}|{number}"] = array
    np.savez_compressed(path, **found)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:] == ["small"])
