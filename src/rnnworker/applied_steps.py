"""Does a training step apply the gradient that it computes? One model, step by step.

With plain SGD a step takes learning rate × gradient from the weights. Each step starts from the
same weights with another batch; before it the gradient of the loss is computed at these weights,
without any update. Source of the doubt: Keras 2.0.6 on TensorFlow 1.2
(``frameworks.keras206_tensorflow1``).
"""

import traceback

import numpy

from rnnworker import canonical_weights, data, frameworks, user_functions

STEPS = 30
# The gradient itself is what is taken. Momentum plays no part, as it starts from 0 in each step;
# but with it an embedding's gradient is added up before it is taken from the weights: taken one by
# one, what a frequent row gets is lost in the rounding.
OPTIMIZER = {"name": "sgd", "learning_rate": 1.0, "momentum": 0.5}
# before − after is exact to half a unit in the last place of the larger one.
ROUNDING = float(numpy.finfo("float32").eps)
SKIPPED = 20


def with_sgd(config):
    """`config` of a model that is trained as `measure` wants it."""
    return dict(config, certifying=True, model=dict(config["model"], optimizer=OPTIMIZER))


def measure(session, batches, tolerance):
    """``{"threads", "steps", "off", "worst"}``: how many steps applied something else, and by how
    much the worst did.

    **Arguments:**

    - `session`: built with the config of `with_sgd`, its weights loaded.
    - `batches`: (x, y) of each step.
    - `tolerance`: largest difference of a step that is not off, see `difference`.

    `worst` is None where a weight or gradient was not finite.
    """
    computed = GRADIENTS[session.config["build"]["framework"]](session)
    found = []
    for x, y in batches:
        session.reset()
        before, gradients = values(session), computed(x, y)
        session.train_batch(x, y)
        after = values(session)
        for _ in range(SKIPPED):
            # With float16 the loss is scaled up, and a step that overflows is left out.
            if not _overflowed(session, before, after):
                break
            session.train_batch(x, y)
            after = values(session)
        found.append(difference(before, after, gradients))
    worst = max(found)
    return {
        "threads": session.threads,
        "steps": len(found),
        "off": sum(not one <= tolerance for one in found),
        "worst": worst if numpy.isfinite(worst) else None,
    }


def difference(before, after, gradients):
    """max |applied − computed| / max |computed| of the array where that is largest, without what
    rounding can explain. Infinite where something is not finite.

    **Arguments:** lists of arrays, one for each trained variable.
    """
    scales = [_largest(gradient) for gradient in gradients]
    largest = 0.0
    for old, new, gradient, scale in zip(before, after, gradients, scales):
        off = _largest(old - new - gradient) - ROUNDING * max(_largest(old), _largest(new))
        if not numpy.isfinite(off):
            return float("inf")
        # An array without any gradient is measured on the scale of the others.
        largest = max(largest, off / (scale or max(scales) or 1.0))
    return largest


def _largest(array):
    return float(numpy.abs(array).max())


def values(session):
    """The trained variables' values, in the framework's own form."""
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
    gradients = [tensorflow.convert_to_tensor(one) for one in gradients]
    return lambda x, y: session.session.run(gradients, feed_dict=session.step_feed(x, y))


def _tensorflow2(session):
    tensorflow, model = session.tensorflow, session.model
    # Keras 3's variables hold TensorFlow's; Keras 2's are those.
    variables = [getattr(one, "_value", one) for one in model.trainable_variables]

    @tensorflow.function
    def gradients(x, y):
        with tensorflow.GradientTape() as tape:
            loss = model.compute_loss(x=x, y=y, y_pred=model(x, training=True))
        return [tensorflow.convert_to_tensor(one) for one in tape.gradient(loss, variables)]

    return lambda x, y: [one.numpy() for one in gradients(*map(tensorflow.constant, (x, y)))]


def _torch(session):
    torch, model = session.torch, session.model
    variables = [variable.value for variable in model.trainable_variables]

    def gradients(x, y):
        x, y = (torch.from_numpy(numpy.asarray(one)).to(variables[0].device) for one in (x, y))
        loss = model.compute_loss(x=x, y=y, y_pred=model(x, training=True))
        return [one.float().cpu().numpy() for one in torch.autograd.grad(loss, variables)]

    return gradients


def _jax(session):
    jax, model, variables = session.jax, session.model, session.model.trainable_variables

    def loss(values, x, y):
        with session.keras.StatelessScope(state_mapping=list(zip(variables, values))):
            return model.compute_loss(x=x, y=y, y_pred=model(x, training=True))

    gradient = jax.jit(jax.grad(loss))

    def gradients(x, y):
        return [numpy.asarray(one) for one in gradient([one.value for one in variables], x, y)]

    return gradients


# build.framework → a function of a session that gives (x, y) → the gradients of its loss.
GRADIENTS = {
    "keras3_tensorflow": _tensorflow2,
    "keras2_tensorflow2": _tensorflow2,
    "keras2_tensorflow1": _tensorflow1,
    "keras206_tensorflow1": _tensorflow1,
    "keras3_torch": _torch,
    "keras3_jax": _jax,
}


class Applied:
    """The steps that one implementation applies, in a model of its own."""

    def __init__(self, job, rnn, arrays=None):
        self.job, self.arrays = job, arrays
        self.config = with_sgd(dict(job["config"], rnn=rnn))

    def measure(self, tolerance):
        """What `measure` gives and ``why``: None, or why nothing was measured."""
        try:
            session = frameworks.open_session(self.config, self.job["threads"])
            if self.arrays is None:
                session.load_data(self.job["dataset"], self.job.get("pinned_md5"))
                self.arrays = session.arrays
            session.arrays = self.arrays
            session.build()
            session.load_weights(canonical_weights.initial(session.layers(), self.config["seed"]))
            batches = first_batches(self.arrays, self.config, STEPS)
            return dict(measure(session, batches, tolerance), why=None)
        except Exception as error:  # one that fails is no verdict on the others
            traceback.print_exc()
            empty = {"steps": 0, "off": None, "worst": None}
            return dict(empty, threads=self.job["threads"], why=told(error))


def first_batches(arrays, config, steps):
    """(x, y) of the first `steps` training batches, from the start again where there are fewer."""
    x, y, batch = arrays["x_train"], arrays["y_train"], config["model"]["batch"]
    order = numpy.resize(data.epoch_order(config["seed"], 0, len(x)), steps * batch)
    for chosen in numpy.split(order, steps):
        yield x[chosen], y[chosen]


def told(error):
    return "{}: {}".format(type(error).__name__, user_functions.one_line(error))
