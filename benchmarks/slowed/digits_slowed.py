"""digits_rnn whose training step takes `rnn.slower` (a share) more than it would."""

import time

from rnnworker.models import digits_rnn


def build(keras, recurrent, config):
    model = digits_rnn.build(keras, recurrent, config)
    make, share = model.make_train_function, config["rnn"]["slower"]

    def made(force=False):
        fresh = force or model.train_function is None
        make(force)
        if fresh:  # else it is this one, or what the worker has put around it
            model.train_function = slowed(model.train_function, share)
        return model.train_function

    model.make_train_function = made
    return model


def slowed(step, share):
    """`step`, then `share` of the time that it took spent in a loop."""

    def longer(*values):
        begin = time.perf_counter()
        result = step(*values)
        now = time.perf_counter()
        end = now + share * (now - begin)
        while now < end:
            now = time.perf_counter()
        return result

    return longer
