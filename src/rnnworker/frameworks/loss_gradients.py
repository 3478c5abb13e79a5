"""The gradients of a model's loss in each framework, without an update."""

import numpy

from rnnworker import trees
from rnnworker.frameworks.names import FRAMEWORKS


def _loss(model, compute_loss, x, y, sample_weight=None):
    """The loss of a batch as a training step computes it, with a mean over its samples."""
    predicted = model(x, training=True)
    return compute_loss(
        x=x,
        y=y,
        y_pred=predicted,
        sample_weight=sample_weight,
    )


def _tensorflow1(session):
    model = session.model
    gradients = session.keras.backend.gradients(model.total_loss, model.trainable_weights)
    gradients = list(map(session.tensorflow.convert_to_tensor, gradients))
    return lambda *samples: session.session.run(gradients, feed_dict=session.step_feed(*samples))


def _tensorflow2(session):
    tensorflow = session.tensorflow
    model = session.model
    # A Keras 3 variable wraps a TensorFlow variable; a Keras 2 variable is one.
    variables = [getattr(variable, "_value", variable) for variable in model.trainable_variables]
    # With replicas, `compute_loss` would update metrics that only replicas may update.
    compute_loss = getattr(session, "loss_of_whole_batch", model.compute_loss)

    @tensorflow.function
    def gradients(*samples):
        with tensorflow.GradientTape() as tape:
            loss = _loss(model, compute_loss, *samples)
        return [tensorflow.convert_to_tensor(value) for value in tape.gradient(loss, variables)]

    def gradients_of(*samples):
        samples = trees.mapped(tensorflow.constant, samples)
        return [value.numpy() for value in gradients(*samples)]

    return gradients_of


def _torch(session):
    torch = session.torch
    model = session.model
    variables = [variable.value for variable in model.trainable_variables]

    def on_device(array):
        return torch.from_numpy(numpy.asarray(array)).to(variables[0].device)

    def gradients(*samples):
        loss = _loss(model, model.compute_loss, *trees.mapped(on_device, samples))
        return [value.float().cpu().numpy() for value in torch.autograd.grad(loss, variables)]

    return gradients


def _jax(session):
    jax = session.jax
    model = session.model
    variables = model.trainable_variables

    def loss(values, *samples):
        mapping = list(zip(variables, values))
        # With the losses that layers add, such as those of activity regularizers.
        with session.keras.StatelessScope(state_mapping=mapping, collect_losses=True):
            return _loss(model, model.compute_loss, *samples)

    gradient = jax.jit(jax.grad(loss))

    def gradients(*samples):
        values = [variable.value for variable in variables]
        return [numpy.asarray(value) for value in gradient(values, *samples)]

    return gradients


GRADIENTS = {  # a framework's engine → what `of` returns
    "tensorflow2": _tensorflow2,
    "tensorflow1": _tensorflow1,
    "torch": _torch,
    "jax": _jax,
}


def of(session):
    """The function of (x, y) or (x, y, weights) that returns the gradients of the loss with respect
    to the trained variables of the model of a `session`."""
    framework = FRAMEWORKS[session.config["build"]["framework"]]
    return GRADIENTS[framework.engine](session)
