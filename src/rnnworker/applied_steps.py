"""Checks that a training step applies the gradient that it computes, for one model, step by step.

With plain SGD, a step subtracts learning rate × gradient from the weights. Each step starts from
the same weights with a new batch; before the step, the gradient of the loss is computed at these
weights without an update. The check exists because Keras 2.0.6 on TensorFlow 1.2 fails it
(``frameworks.keras206_tensorflow1``).
"""

import numpy

from rnnworker import data, user_functions

STEPS = 30
# Each step subtracts exactly the gradient. Momentum has no other effect, because it starts from 0
# in each step; but with it, an embedding's gradient is summed before it is applied. Applied entry
# by entry, the updates of a frequent row would be lost in rounding.
OPTIMIZER = {"name": "sgd", "learning_rate": 1.0, "momentum": 0.5}
# before − after is exact to half a unit in the last place of the larger value.
ROUNDING = float(numpy.finfo("float32").eps)
SKIPPED = 20


def with_sgd(config):
    """Returns `config` with the optimizer that `measure` needs."""
    return dict(config, certifying=True, model=dict(config["model"], optimizer=OPTIMIZER))


def measure(session, batches, tolerance):
    """Returns ``{"threads", "steps", "off", "worst"}``: `off` is the number of steps that applied
    something other than the gradient, `worst` the largest difference.

    **Arguments:**

    - `session`: built with a config from `with_sgd`, its weights loaded.
    - `batches`: (x, y) of each step.
    - `tolerance`: the largest `difference` that does not count as off.

    `worst` is None if a weight or gradient is not finite.
    """
    gradients_of = GRADIENTS[session.config["build"]["framework"]](session)
    differences = []
    for x, y in batches:
        session.reset()
        before, gradients = values(session), gradients_of(x, y)
        session.train_batch(x, y)
        after = values(session)
        for _ in range(SKIPPED):
            # With float16 the loss is scaled up, and the framework skips a step that overflows.
            if not _overflowed(session, before, after):
                break
            session.train_batch(x, y)
            after = values(session)
        differences.append(difference(before, after, gradients))
    worst = max(differences)
    return {
        "threads": session.threads,
        "steps": len(differences),
        "off": sum(not value <= tolerance for value in differences),
        "worst": worst if numpy.isfinite(worst) else None,
    }


def difference(before, after, gradients):
    """Returns the largest max |applied − computed| / max |computed| over all arrays, less what
    rounding can explain; infinity if a value is not finite.

    **Arguments:** lists of arrays, one per trained variable.
    """
    scales = [_largest(gradient) for gradient in gradients]
    largest = 0.0
    for old, new, gradient, scale in zip(before, after, gradients, scales):
        off = _largest(old - new - gradient) - ROUNDING * max(_largest(old), _largest(new))
        if not numpy.isfinite(off):
            return float("inf")
        # An array whose gradient is zero is measured on the scale of the others.
        largest = max(largest, off / (scale or max(scales) or 1.0))
    return largest


def _largest(array):
    return float(numpy.abs(array).max())


def values(session):
    """Returns the values of the trained variables, in the framework's layout."""
    model = session.model
    if hasattr(session, "session"):  # TensorFlow 1
        return session.keras.backend.batch_get_value(model.trainable_weights)
    return [numpy.array(variable.numpy()) for variable in model.trainable_variables]


def _overflowed(session, before, after):
    half = session.precision_facts()["policy"] == "mixed_float16"
    return half and all((old == new).all() for old, new in zip(before, after))


def _tensorflow1(session):
    tensorflow, model = session.tensorflow, session.model
    gradients = session.keras.backend.gradients(model.total_loss, model.trainable_weights)
    gradients = [tensorflow.convert_to_tensor(gradient) for gradient in gradients]
    return lambda x, y: session.session.run(gradients, feed_dict=session.step_feed(x, y))


def _tensorflow2(session):
    tensorflow, model = session.tensorflow, session.model
    # A Keras 3 variable wraps a TensorFlow variable; a Keras 2 variable is one.
    variables = [getattr(variable, "_value", variable) for variable in model.trainable_variables]
    # With replicas, `compute_loss` would update metrics that only replicas may update.
    compute_loss = getattr(session, "loss_of_whole_batch", model.compute_loss)

    @tensorflow.function
    def gradients(x, y):
        with tensorflow.GradientTape() as tape:
            loss = compute_loss(x=x, y=y, y_pred=model(x, training=True))
        return [tensorflow.convert_to_tensor(value) for value in tape.gradient(loss, variables)]

    return lambda x, y: [value.numpy() for value in gradients(*map(tensorflow.constant, (x, y)))]


def _torch(session):
    torch, model = session.torch, session.model
    variables = [variable.value for variable in model.trainable_variables]

    def gradients(x, y):
        x, y = (torch.from_numpy(numpy.asarray(part)).to(variables[0].device) for part in (x, y))
        loss = model.compute_loss(x=x, y=y, y_pred=model(x, training=True))
        return [value.float().cpu().numpy() for value in torch.autograd.grad(loss, variables)]

    return gradients


def _jax(session):
    jax, model, variables = session.jax, session.model, session.model.trainable_variables

    def loss(values, x, y):
        with session.keras.StatelessScope(state_mapping=list(zip(variables, values))):
            return model.compute_loss(x=x, y=y, y_pred=model(x, training=True))

    gradient = jax.jit(jax.grad(loss))

    def gradients(x, y):
        values = [variable.value for variable in variables]
        return [numpy.asarray(value) for value in gradient(values, x, y)]

    return gradients


# build.framework → a function of a session that returns a function (x, y) → gradients of the loss.
GRADIENTS = {
    "keras3_tensorflow": _tensorflow2,
    "keras2_tensorflow2": _tensorflow2,
    "keras2_tensorflow1": _tensorflow1,
    "keras206_tensorflow1": _tensorflow1,
    "keras3_torch": _torch,
    "keras3_jax": _jax,
}


def first_batches(arrays, config, steps):
    """Yields (x, y) of the first `steps` training batches; repeats the data if necessary."""
    x, y, batch = arrays["x_train"], arrays["y_train"], config["model"]["batch"]
    order = numpy.resize(data.epoch_order(config["seed"], 0, len(x)), steps * batch)
    for chosen in numpy.split(order, steps):
        yield x[chosen], y[chosen]


def error_text(error):
    return "{}: {}".format(type(error).__name__, user_functions.one_line(error))
