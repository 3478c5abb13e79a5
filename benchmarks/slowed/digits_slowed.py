"""digits_rnn whose training step takes longer by the fraction `rnn.options.slower`."""

import time

from rnnworker.models import digits_rnn


def build(keras, recurrent, config):
    model = digits_rnn.build(keras, recurrent, config)
    make, fraction = model.make_train_function, config["rnn"]["options"]["slower"]

    def make_slowed(force=False):
        is_new = force or model.train_function is None
        make(force)
        if is_new:  # otherwise it is slowed already, perhaps wrapped by the worker
            model.train_function = slowed(model.train_function, fraction)
        return model.train_function

    model.make_train_function = make_slowed
    return model


def slowed(step, fraction):
    """`step` followed by a loop that takes `fraction` of the step's time."""

    def slowed_step(*values):
        begin = time.perf_counter()
        result = step(*values)
        now = time.perf_counter()
        end = now + fraction * (now - begin)
        while now < end:
            now = time.perf_counter()
        return result

    return slowed_step
