"""Measures the peak performance of a device in a build, in float32 and in one process: the rates of
large matrix products. Also counts the products of the models' training steps."""

import statistics
import time
import traceback

import numpy

from rnnworker import frameworks, user_functions

SIZES = {"cpu": (1024, 2048), "gpu": (4096, 8192)}
MANY_THREADS, LARGER = 8, 4096
SAMPLES, LEAST_SAMPLES = 7, 3
SIZE_SECONDS = 1.8
SAMPLE_SECONDS = 0.02
RECURRENT = ("kernel", "recurrent")


def probe(job, events, phases):
    """Emits ``facts`` with a ``probe``: the worker's parts of the probe (see docs/formats.md).

    `job`: ``config`` (of any run on the device and build), ``models`` (list of ``{"model", "cell",
    "config", "settings"}``; ``settings`` is a run's config), ``threads``.
    """
    config, threads = job["config"], job["threads"]
    with phases.phase("import"):
        session = frameworks.open_session(config, threads)
        session.set_tf32(False)
    events.emit("facts", measured=session.device_facts())
    with phases.phase("large"):
        sizes = SIZES[config["device"]["kind"]]
        if config["device"]["kind"] == "cpu" and threads >= MANY_THREADS:
            sizes += (LARGER,)
        multiply = SQUARE[config["build"]["framework"]]
        large = [
            {"size": size, "gflops": sample_rates(multiply(session, size), 2 * size**3 / 1e9)}
            for size in sizes
        ]
    peak = max(statistics.median(product["gflops"]) for product in large)
    events.emit("facts", probe={"large": large, "peak_gflops": peak})
    models = []
    for entry in job["models"]:
        facts = {name: entry[name] for name in ("model", "cell", "config")}
        with phases.phase("model_{}-{}".format(entry["model"], entry["cell"])):
            try:
                facts.update(model_facts(entry["settings"], threads), error=None)
            except Exception as error:  # the other models are still to be probed
                traceback.print_exc()
                facts.update(error=user_functions.described(error))
            models.append(facts)
        events.emit("facts", probe={"models": models})


def model_facts(config, threads):
    session = frameworks.open_session(config, threads)
    session.build()
    layers, batch = weighted_layers(session), config["model"]["batch"]
    forward, complete = flops_of(layers, batch)
    return {
        "batch": batch,
        "timesteps": max((layer["steps"] for layer in layers if layer["steps"]), default=None),
        "complete": complete,
        "flops_per_step": {"forward": forward, "training": 3 * forward},
    }


def sample_rates(run, work):
    """Returns `work` per second for each sample, which consists of calls for `SAMPLE_SECONDS`: up
    to `SAMPLES` samples within `SIZE_SECONDS`, but at least `LEAST_SAMPLES`."""
    run()
    begin = time.monotonic()
    run()
    seconds_per_call = time.monotonic() - begin
    calls = max(1, int(SAMPLE_SECONDS / max(seconds_per_call, 1e-6)))
    rates, deadline = [], time.monotonic() + SIZE_SECONDS
    while len(rates) < LEAST_SAMPLES or (len(rates) < SAMPLES and time.monotonic() < deadline):
        begin = time.monotonic()
        for _ in range(calls):
            run()
        rates.append(work * calls / (time.monotonic() - begin))
    return rates


def weighted_layers(session):
    """Returns the weighted layers of a session's model: ``session.layers()`` with ``steps`` (length
    of a recurrent layer's sequences), ``rows`` (rows of a dense layer's output per sample) and
    ``dense``. Sizes that are not fixed are None."""
    by_name = {layer.name: layer for layer in session.model.layers}
    layers = []
    for described in session.layers():
        layer = by_name[described["name"]]
        inputs, outputs = map(_sizes, session.layer_shapes(layer))
        rows = None if None in outputs[:-1] else int(numpy.prod(outputs[:-1]))
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


def _in_tensorflow_1(session, size):
    """With the settings of the models' session, in a separate graph, because in a common graph each
    new operation would cause all others to be optimised again."""
    tensorflow = session.tensorflow
    with tensorflow.Graph().as_default() as graph:
        start = tensorflow.random_uniform((size, size), -1.0, 1.0)
        left, right = (tensorflow.Variable(start, trainable=False) for _ in range(2))
        operation = tensorflow.matmul(left, right).op
        own = tensorflow.Session(graph=graph, config=session.session._config)
        own.run([left.initializer, right.initializer])
        # Fetches the operation, not its value, because fetched values are copied.
        return own.make_callable(operation)


def _in_tensorflow_2(session, size):
    tensorflow = session.tensorflow
    compiled = bool(session.config["build"].get("jit_compile", False))
    left, right = (tensorflow.random.uniform((size, size), -1.0, 1.0) for _ in range(2))
    # The right operand is an argument, to prevent constant folding.
    multiply = tensorflow.function(
        lambda right: tensorflow.matmul(left, right), jit_compile=compiled
    ).get_concrete_function(right)

    def run():
        multiply(right)
        session.finish_device()

    return run


def _in_torch(session, size):
    torch = session.torch
    device = "cuda" if session.config["device"]["kind"] == "gpu" else "cpu"
    left, right = (torch.rand((size, size), device=device) for _ in range(2))
    out = torch.empty((size, size), device=device)

    def run():
        with torch.no_grad():
            torch.mm(left, right, out=out)
        session.finish_device()

    return run


def _in_jax(session, size):
    """Compiled by XLA like every step in jax."""
    jax = session.jax
    values = numpy.random.RandomState(0).uniform(-1.0, 1.0, (2, size, size))
    left, right = (jax.numpy.asarray(each.astype("float32")) for each in values)
    multiply = jax.jit(lambda left, right: left @ right)
    return lambda: multiply(left, right).block_until_ready()


# build.framework → a function that returns a function without arguments, which multiplies two
# square matrices of float32 with the framework's operations and returns when it is done.
SQUARE = {
    "keras3_tensorflow": _in_tensorflow_2,
    "keras2_tensorflow2": _in_tensorflow_2,
    "keras2_tensorflow1": _in_tensorflow_1,
    "keras206_tensorflow1": _in_tensorflow_1,
    "keras3_torch": _in_torch,
    "keras3_jax": _in_jax,
}
