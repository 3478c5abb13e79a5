"""Lists the matrix products of a training step. No side effects except in `read`."""

from rnnworker.canonical_weights import layer_number

RECURRENT = ("kernel", "recurrent")
BYTES = 4


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


def products_of(layers, batch):
    """Returns (products of one training step with `batch` samples, whether all layers are counted).

    A recurrent layer multiplies inputs and state at each time step, in each direction; a dense
    layer multiplies once. The forward pass is (m, k) × (k, n), the gradient of the inputs
    (m, n) × (n, k), except for the inputs of the model, and the gradient of the weights
    (k, m) × (m, n). Embeddings and element-wise operations are not products."""
    products, complete, first = [], True, True
    for layer in layers:
        if layer["kind"] == "recurrent" and layer["steps"]:
            for name, shape in layer["shapes"]:
                part = name.split("_")[-1]
                if part in RECURRENT:
                    outer = first and part == "kernel" and layer_number(name) == 0
                    products += _three(layer["name"], name, batch, shape, layer["steps"], outer)
        elif layer["kind"] == "other" and layer["dense"] and layer["rows"]:
            shape = next(shape for name, shape in layer["shapes"] if name == "kernel")
            products += _three(layer["name"], "kernel", batch * layer["rows"], shape, 1, first)
        elif layer["kind"] != "embedding" and any(len(shape) > 1 for _, shape in layer["shapes"]):
            complete = False
        first = False
    return products, complete


def flops_per_step(products):
    """Returns 2·m·k·n over the forward products; training counts three times that, as usual."""
    forward = sum(flops(p) * p["times"] for p in products if p["pass"] == "forward")
    return {"forward": forward, "training": 3 * forward}


def bytes_per_step(products):
    """Returns the float32 memory traffic of all products, assuming no caching between them."""
    return sum(
        BYTES * p["times"] * (p["m"] * p["k"] + p["k"] * p["n"] + p["m"] * p["n"]) for p in products
    )


def flops(product):
    return 2 * product["m"] * product["k"] * product["n"]


def _three(layer, of, m, shape, times, outer):
    """Forward product and both gradients; an `outer` one, of the model's inputs, has only one."""
    k, n = shape
    shapes = [("forward", (m, k, n)), ("inputs", (m, n, k)), ("weights", (k, m, n))]
    return [
        {"layer": layer, "of": of, "pass": step, "m": a, "k": b, "n": c, "times": times}
        for step, (a, b, c) in shapes
        if not (outer and step == "inputs")
    ]


def _sizes(shape):
    """Returns a shape as integers; TensorFlow 1 has ``Dimension`` objects instead."""
    sizes = [getattr(size, "value", size) for size in shape]
    return [None if size is None else int(size) for size in sizes]
