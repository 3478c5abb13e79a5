"""The matrix products of one training step, from a model's layers. Pure but for `read`."""

RECURRENT = ("kernel", "recurrent")
BYTES = 4


def read(session):
    """The weighted layers of a session's model: those of ``session.layers()`` with ``steps`` (of a
    recurrent layer's sequences), ``rows`` (per sample, of a dense layer's outputs) and ``dense``;
    a size that is not fixed is None."""
    by_name = {layer.name: layer for layer in session.model.layers}
    found = []
    for described in session.layers():
        layer = by_name[described["name"]]
        inputs, outputs = map(_sizes, session.layer_shapes(layer))
        rows = 1
        for size in outputs[:-1]:
            rows = None if rows is None or size is None else rows * size
        steps = inputs[0] if described["kind"] == "recurrent" else None
        dense = type(layer).__name__ == "Dense"
        found.append(dict(described, steps=steps, rows=rows, dense=dense))
    return found


def products_of(layers, batch):
    """(products of one training step with `batch` samples, whether every layer is counted).

    A recurrent layer multiplies inputs and state at each timestep, in each direction; a dense
    layer once. Forward (m, k) × (k, n); back to the inputs (m, n) × (n, k), but not to the
    model's own; back to the weights (k, m) × (m, n). Embeddings and what is done element by
    element are no products."""
    found, complete, first = [], True, True
    for layer in layers:
        if layer["kind"] == "recurrent" and layer["steps"]:
            for name, shape in layer["shapes"]:
                part = name.split("_")[-1]
                if part in RECURRENT:
                    outer = first and part == "kernel"
                    found += _three(layer["name"], name, batch, shape, layer["steps"], outer)
        elif layer["kind"] == "other" and layer["dense"] and layer["rows"]:
            shape = next(shape for name, shape in layer["shapes"] if name == "kernel")
            found += _three(layer["name"], "kernel", batch * layer["rows"], shape, 1, first)
        elif layer["kind"] != "embedding" and any(len(shape) > 1 for _, shape in layer["shapes"]):
            complete = False
        first = False
    return found, complete


def flops_per_step(products):
    """2·m·k·n for each product forward; training is thrice that, the usual approximation."""
    forward = sum(flops(one) * one["times"] for one in products if one["pass"] == "forward")
    return {"forward": forward, "training": 3 * forward}


def bytes_per_step(products):
    """What all products read and write, in float32, if nothing stayed in a cache between them."""
    return sum(
        BYTES * one["times"] * (one["m"] * one["k"] + one["k"] * one["n"] + one["m"] * one["n"])
        for one in products
    )


def flops(product):
    return 2 * product["m"] * product["k"] * product["n"]


def _three(layer, of, m, shape, times, outer):
    k, n = shape
    shapes = [("forward", (m, k, n)), ("inputs", (m, n, k)), ("weights", (k, m, n))]
    return [
        {"layer": layer, "of": of, "pass": step, "m": a, "k": b, "n": c, "times": times}
        for step, (a, b, c) in shapes
        if not (outer and step == "inputs")
    ]


def _sizes(shape):
    """Plain numbers: TensorFlow 1 has dimensions instead."""
    sizes = [getattr(size, "value", size) for size in shape]
    return [None if size is None else int(size) for size in sizes]
