"""Counts the work of the matrix products of a training step. No side effects except in `read`."""

RECURRENT = ("kernel", "recurrent")


def read(session):
    """Returns the weighted layers of a session's model: ``session.layers()`` with ``steps`` (length
    of a recurrent layer's sequences), ``rows`` (rows of a dense layer's output per sample) and
    ``dense``. Sizes that are not fixed are None."""
    by_name = {layer.name: layer for layer in session.model.layers}
    layers = []
    for described in session.layers():
        layer = by_name[described["name"]]
        inputs, outputs = map(_sizes, session.layer_shapes(layer))
        rows = 1
        for size in outputs[:-1]:
            rows = None if rows is None or size is None else rows * size
        steps = inputs[0] if described["kind"] == "recurrent" else None
        dense = type(layer).__name__ == "Dense"
        layers.append(dict(described, steps=steps, rows=rows, dense=dense))
    return layers


def flops_of(layers, batch):
    """Returns (2·m·k·n over the forward products (m, k) × (k, n) of one step with `batch` samples,
    whether all layers are counted). Training counts three times that, as usual.

    A recurrent layer multiplies inputs and state at each time step, in each direction; a dense
    layer multiplies once. Embeddings and element-wise operations are not products."""
    flops, complete = 0, True
    for layer in layers:
        if layer["kind"] == "recurrent" and layer["steps"]:
            for name, shape in layer["shapes"]:
                if name.split("_")[-1] in RECURRENT:
                    flops += 2 * batch * shape[0] * shape[1] * layer["steps"]
        elif layer["kind"] == "other" and layer["dense"] and layer["rows"]:
            k, n = next(shape for name, shape in layer["shapes"] if name == "kernel")
            flops += 2 * batch * layer["rows"] * k * n
        elif layer["kind"] != "embedding" and any(len(shape) > 1 for _, shape in layer["shapes"]):
            complete = False
    return flops, complete


def _sizes(shape):
    """Returns a shape as integers; TensorFlow 1 has ``Dimension`` objects instead."""
    sizes = [getattr(size, "value", size) for size in shape]
    return [None if size is None else int(size) for size in sizes]
