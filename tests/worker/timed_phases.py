"""Runs one job of the worker in the Python it is started with: timed_phases.py JOB LOG, where LOG
takes its standard error. Says as JSON, last, what was traced and compiled in each phase, the
losses, and how far the trained weights are from those of the same training batch by batch."""

import json
import os
import sys

import numpy

from rnnworker import data, frameworks, run
from rnnworker.events import Events
from rnnworker.phases import Phases
from rnnworker.turns import Turns

counts = {"traced": 0, "compiled": 0}
opened = []


def count_tensorflow():
    """Every function that TensorFlow traces is a graph, those of tf.data pipelines too."""
    from tensorflow.python.framework import func_graph

    made = func_graph.FuncGraph.__init__

    def counted(self, *arguments, **settings):
        counts["traced"] += 1
        return made(self, *arguments, **settings)

    func_graph.FuncGraph.__init__ = counted


def count_jax():
    import jax

    def heard(name, seconds, **more):
        counts["traced"] += "trace" in name
        counts["compiled"] += "backend_compile" in name

    jax.monitoring.register_event_duration_secs_listener(heard)


class Counting(Events):
    """Counts instead of telling."""

    def __init__(self, log):
        super().__init__(None)
        self.log, self.before, self.phases, self.epochs = log, None, {}, []

    def emit(self, event, **fields):
        if event == "phase_begin":
            self.before = self._now()
        if event == "phase_end":
            now = self._now()
            changed = {name: now[name] - self.before[name] for name in now}
            self.phases[fields["phase"]] = dict(changed, timed=fields["timed"])

    def epochs_begin(self):
        """What the training makes before its first epoch is not timed."""
        self.before = self._now()

    def emit_soon(self, event, **fields):
        self.epochs.append(fields)

    def _now(self):
        found = dict(counts)
        # XLA in TensorFlow says so with TF_CPP_VMODULE=device_compilation_profiler=2.
        with open(self.log) as file:
            found["compiled"] += file.read().count("device_compilation_profiler.cc")
        if opened and hasattr(opened[0], "session"):  # TensorFlow 1: one graph, which grows
            found["traced"] += opened[0].session.graph.version
        return found


def open_session(config, threads, opening=frameworks.open_session):
    session = opening(config, threads)
    opened.append(session)
    prepare = session.prepare_epochs

    def prepare_epochs():
        prepare()
        events.epochs_begin()

    session.prepare_epochs = prepare_epochs
    if config["build"]["framework"].endswith(("tensorflow", "tensorflow2")):
        count_tensorflow()
    if config["build"]["framework"] == "keras3_jax":
        count_jax()
    return session


def batch_by_batch(session):
    """The largest difference of any weight after the epochs as ``fit`` has trained them from those
    after the same batches, one by one."""
    fitted = session.dump_weights()
    session.reset()
    model, seed = session.config["model"], session.config["seed"]
    x, y = session.arrays["x_train"], session.arrays["y_train"]
    for epoch in range(1, model["epochs"] + 1):
        images = data.epoch_images(x, session.config, epoch)
        order = data.epoch_order(seed, epoch, len(x))
        for start in range(0, len(x), model["batch"]):
            chosen = order[start : start + model["batch"]]
            session.train_batch(images[chosen], y[chosen])
    return max(
        float(numpy.abs(one[name] - other[name]).max())
        for one, other in zip(fitted, session.dump_weights())  # noqa: B905 (Python 3.6)
        for name in one
    )


def main(job):
    frameworks.open_session = open_session
    with open(job) as file:
        turns = Turns(events)
        run._run(json.load(file), events, Phases(events, turns), turns)
    found = {
        "phases": events.phases,
        "losses": [epoch["loss"] for epoch in events.epochs],
        "validation": [epoch["val_loss"] for epoch in events.epochs],
        "apart": batch_by_batch(opened[0]),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    os.environ["TF_CPP_VMODULE"] = "device_compilation_profiler=2"
    events = Counting(sys.argv[2])
    main(sys.argv[1])
