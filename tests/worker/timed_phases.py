"""``timed_phases.py LOG JOB …``: runs jobs of the worker in this interpreter, one after another.

LOG is the file of its standard error. The last line of output is a JSON list, for each job: the
numbers of replicas and devices, the numbers of traces, compilations and copies to the device in
each phase, the losses, and the largest difference between the trained weights and those of the same
training batch by batch."""

import json
import os
import sys

import numpy

from rnnworker import data, frameworks, run
from rnnworker.events import Events
from rnnworker.turns import Phases, Turns

counts = {"traced": 0, "compiled": 0, "copied": 0}
opened = []  # the sessions of the job
patched = []  # the frameworks whose traces are counted


def count(framework):
    """Begins to count traces and, in jax, compilations and copies to the device. In TensorFlow each
    function that it traces is a graph, also in tf.data pipelines."""
    if framework in patched:
        return
    patched.append(framework)
    if framework.endswith(("tensorflow", "tensorflow2")):
        from tensorflow.python.framework import func_graph

        original = func_graph.FuncGraph.__init__

        def counted(self, *arguments, **settings):
            counts["traced"] += 1
            return original(self, *arguments, **settings)

        func_graph.FuncGraph.__init__ = counted
    if framework == "keras3_jax":
        import jax

        def listen(name, seconds, **more):
            counts["traced"] += "trace" in name
            counts["compiled"] += "backend_compile" in name

        jax.monitoring.register_event_duration_secs_listener(listen)
        put = jax.device_put

        def counted_put(*arguments, **settings):
            counts["copied"] += 1
            return put(*arguments, **settings)

        jax.device_put = counted_put


class Counting(Events):
    """Counts traces and compilations per phase instead of emitting events."""

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
        """Restarts the count: preparations before the first epoch are not timed."""
        self.before = self._now()

    def emit_soon(self, event, **fields):
        self.epochs.append(fields)

    def _now(self):
        now = dict(counts)
        # XLA in TensorFlow logs compilations with TF_CPP_VMODULE=device_compilation_profiler=2.
        with open(self.log) as file:
            now["compiled"] += file.read().count("device_compilation_profiler.cc")
        if opened and hasattr(opened[0], "session"):  # TensorFlow 1 has a single, growing graph
            now["traced"] += opened[0].session.graph.version
        return now


def open_session(config, threads, opening=frameworks.open_session):
    session = opening(config, threads)
    opened.append(session)
    prepare = session.prepare_epochs

    def prepare_epochs(**options):
        prepare(**options)
        events.epochs_begin()

    session.prepare_epochs = prepare_epochs
    count(config["build"]["framework"])
    return session


def batch_by_batch(session, opening=frameworks.open_session):
    """Returns the largest difference between the weights trained by ``fit`` and those after
    training on the same batches one by one, which come from the host."""
    fitted = session.dump_weights()
    if session.feed == "device":
        config = dict(session.config, device=dict(session.config["device"], feed="host"))
        arrays, session = session.arrays, opening(config, session.threads)
        session.arrays = arrays
        session.build()
        session.load_weights(session.dump_weights())
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
        float(numpy.abs(arrays[name] - others[name]).max())
        for arrays, others in zip(fitted, session.dump_weights())  # noqa: B905 (Python 3.6)
        for name in arrays
    )


def result_of(job):
    opened.clear()
    with open(job) as file:
        turns = Turns(events)
        run._run(json.load(file), events, Phases(events, turns), turns)
    facts = opened[0].device_facts()
    replicas = [facts.get("replicas"), len(facts.get("framework_devices", ()))]
    result = {name: [epoch[name] for epoch in events.epochs] for name in ("loss", "val_loss")}
    result.update(phases=events.phases, replicas=replicas, apart=batch_by_batch(opened[0]))
    return result


if __name__ == "__main__":
    os.environ["TF_CPP_VMODULE"] = "device_compilation_profiler=2"
    frameworks.open_session = open_session
    results = []
    for name in sys.argv[2:]:
        events = Counting(sys.argv[1])
        results.append(result_of(name))
    print(json.dumps(results))
