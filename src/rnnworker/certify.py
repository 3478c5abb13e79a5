"""Do the implementations compute the same function? One model, cell and build, in one process.

Each implementation's layers are held against `reference` at the model's own shapes; its training
against the others'; its trained weights are carried into every other one; the steps that it
applies against the gradients that it computes (`applied`). Dropout is off. A model without a
recurrent layer has one implementation, ``none``, which is judged by its steps and its loss.
"""

import traceback

import numpy

from rnnworker import applied_steps, attest, canonical_weights, frameworks, precision, reference

STEPS = 20
TRAINED_STEPS = 60
SERVED_SAMPLES = 512


def certify(job, events, phases):
    """Emits ``facts`` with a ``certificate``: the parts of ARCHITECTURE.md's certificate that the
    worker knows.

    `job`: ``config`` of a run, ``implementations`` (list of ``{"name", "rnn"}``), ``device`` (what
    the config's is called), ``threads``, ``dataset``, ``applied_only`` where nothing but the
    applied steps is asked for, and ``tolerance`` where it is not that of the config's precision.
    """
    asked = precision.asked(job["config"])
    tolerance = dict(precision.TOLERANCE[asked], **(job.get("tolerance") or {}))
    tried, found, arrays = {}, {}, None
    for entry in job["implementations"]:
        name = entry["name"]
        with phases.phase("certify_" + name):
            if job.get("applied_only"):
                found[name] = {}
            else:
                try:
                    tried[name] = Tried(job, entry["rnn"], arrays)
                    arrays = tried[name].session.arrays
                    found[name] = judged(tried[name].measure(), tolerance)
                except reference.NotKnown as error:
                    tried.pop(name, None)
                    found[name] = nothing("not_run", str(error))
                except Exception as error:  # one that fails is no verdict on the others
                    traceback.print_exc()
                    tried.pop(name, None)
                    found[name] = nothing("failed", applied_steps.told(error))
            # One that cannot be built cannot take a step either.
            if found[name].get("status") != "failed" or name in tried:
                one = applied_steps.Applied(job, entry["rnn"], arrays)
                found[name]["applied"] = {job["device"]: one.measure(tolerance["gradients"])}
                arrays = one.arrays
        # Told at once: one that never ends must not take the others' verdicts with it.
        part = {"precision": asked, "tolerance": tolerance, "implementations": found}
        events.emit("facts", certificate=part)
    if job.get("applied_only"):
        return
    with phases.phase("portability"):
        portability = portable(tried)
    events.emit(
        "facts",
        certificate={
            "pairs": pairs(tried, found, tolerance),
            "portability": portability,
        },
    )


def relative_error(ours, theirs):
    """max |ours − theirs| / max |theirs| over the whole array: the largest deviation on the
    scale of the array, not element by element, where a value near 0 would decide."""
    ours, theirs = numpy.asarray(ours, "float64"), numpy.asarray(theirs, "float64")
    if ours.shape != theirs.shape:
        return float("inf")
    difference, scale = numpy.abs(ours - theirs).max(), numpy.abs(theirs).max()
    if not numpy.isfinite(difference):
        return float("inf")
    return float(difference / scale) if scale else (float("inf") if difference else 0.0)


def judged(measured, tolerance):
    """``certified`` or ``failed`` with the reasons, from what `Tried.measure` returns."""
    why = [
        "{} differ from the float64 reference by {:.1e}, allowed are {:.0e}".format(
            part, measured[part], tolerance[part]
        )
        for part in ("outputs", "gradients")
        if measured[part] is not None and not measured[part] <= tolerance[part]
    ]
    if measured["round_trip"] is False:
        why.append("weights do not come back from it bit by bit")
    if not measured["started_canonical"]:
        why.append("it did not start from the canonical weights")
    if not numpy.all(numpy.isfinite(measured["loss_curve"])):
        why.append("its loss is not finite within {} steps".format(STEPS))
    told = measured["precision"]
    if not told["as_asked"]:
        why.append("it computed in {}, not in {}".format(told["policy"], told["asked"]))
    kernel = measured["attested"]
    if kernel is not None and attest.contradicts(kernel):
        ran, expected = (" and ".join(kernel[name]) for name in ("found", "expected"))
        why.append("it ran {} instead of {}".format(ran, expected))
    return {
        "status": "failed" if why else "certified",
        "why": "; ".join(why) or None,
        "kernel": kernel["found"] if kernel else None,
        "outputs": measured["outputs"],
        "gradients": measured["gradients"],
        "loss_curve": measured["loss_curve"],
        "round_trip": measured["round_trip"],
        "function": measured["function"],
    }


def nothing(status, why):
    empty = ("kernel", "outputs", "gradients", "loss_curve", "round_trip", "function")
    return dict(dict.fromkeys(empty), status=status, why=why)


def pairs(tried, found, tolerance):
    """Every two implementations that ran: how far apart, and whether they are equal."""
    listed, names = [], [name for name in found if name in tried]
    for index, a in enumerate(names):
        for b in names[index + 1 :]:
            one, other = tried[a].kept, tried[b].kept
            apart = {
                "outputs": _largest(one["outputs"], other["outputs"]),
                "gradients": _largest(one["gradients"], other["gradients"]),
                "loss_curve": relative_error(one["loss_curve"], other["loss_curve"]),
            }
            certified = found[a]["status"] == found[b]["status"] == "certified"
            equal = certified and found[a]["function"] == found[b]["function"]
            equal = equal and all(
                apart[part] is None or apart[part] <= tolerance[part] for part in apart
            )
            listed.append(dict(apart, a=a, b=b, equal=equal))
    return listed


def portable(tried):
    """The weights that each implementation has trained, evaluated in each other one of the same
    function: another one means something else by them, and may have others. `difference`: relative
    error of the outputs against those in the implementation that trained them."""
    listed = []
    for trained, trainer in tried.items():
        weights, own = trainer.kept["trained"], trainer.kept["trained_outputs"]
        for served, server in tried.items():
            if server.function != trainer.function:
                continue
            metrics, outputs = server.serve(weights)
            listed.append(
                {
                    "trained": trained,
                    "served": served,
                    "accuracy": metrics.get("acc"),
                    "loss": metrics.get("loss"),
                    "difference": relative_error(outputs, own),
                }
            )
    return listed


def probe_weights(cell, arrays, seed):
    """`arrays` (canonical) with biases that show every fault: all of them differ, and half of an
    LSTM's units keep their gates open, so that states grow beyond any clip."""
    stream = numpy.random.RandomState(seed)
    changed = {}
    for name in sorted(arrays):
        array = arrays[name]
        if name.split("_")[-1] == "bias":
            array = array + stream.normal(0.0, 0.5, array.shape).astype(array.dtype)
            if cell == "lstm":
                units = array.shape[-1] // 4
                array.reshape(4, units)[:3, ::2] += 2.0
        changed[name] = array.astype("float32")
    return changed


class Tried:
    """One implementation: a model of its own, kept until the others were compared with it. The
    data's `arrays` are those of the first."""

    def __init__(self, job, rnn, arrays=None):
        config = dict(job["config"], rnn=rnn, certifying=True)
        self.config, self.kept = config, {}
        self.session = frameworks.open_session(config, job["threads"])
        if arrays is None:
            self.session.load_data(job["dataset"], job.get("pinned_md5"))
        else:
            self.session.arrays = arrays
        self.session.build()
        self.weights = canonical_weights.initial(self.session.layers(), config["seed"])
        self.function = None
        if self.session.recurrent.layers:
            self.function = reference.function_of(
                config["cell"]["name"],
                config["rnn"].get("options") or {},
                hasattr(self.session.keras, "ops"),
            )

    def measure(self):
        """Everything about this implementation alone; what the others are compared with stays
        in `kept`: outputs, gradients, loss curve, and the weights after a short training."""
        session = self.session
        probed = self._probe_layers()
        session.load_weights(self.weights)
        started = canonical_weights.digest(session.dump_weights()) == canonical_weights.digest(
            self.weights
        )
        batches = applied_steps.first_batches(session.arrays, self.config, STEPS)
        curve = [session.train_batch(*batch) for batch in batches]
        kernel = session.attest() if hasattr(session, "attest") else None
        session.reset()
        batches = -(-len(session.arrays["x_train"]) // self.config["model"]["batch"])
        session.train_steps(min(TRAINED_STEPS, batches))
        self.kept.update(
            loss_curve=curve,
            trained=session.dump_weights(),
            trained_outputs=session.outputs(SERVED_SAMPLES),
        )
        return dict(
            probed,
            started_canonical=started,
            loss_curve=curve,
            attested=kernel,
            precision=session.precision_facts(),
            function=self.function,
        )

    def serve(self, weights):
        """(metrics on the validation set, outputs) with `weights`."""
        self.session.load_weights(weights)
        return self.session.evaluate(SERVED_SAMPLES), self.session.outputs(SERVED_SAMPLES)

    def _probe_layers(self):
        """The layers' largest errors against the reference, and whether weights come back."""
        cell, recurrent = self.config["cell"]["name"], self.session.recurrent
        self.kept.update(outputs=[], gradients=[])
        if not recurrent.layers:
            return dict.fromkeys(("outputs", "gradients", "round_trip"))
        errors, exact = {"outputs": [], "gradients": []}, True
        described = self.session.layers()
        probes = [
            probe_weights(cell, arrays, index) if layer["kind"] == "recurrent" else arrays
            for index, (layer, arrays) in enumerate(zip(described, self.weights))
        ]
        self.session.load_weights(probes)
        if canonical_weights.digest(self.session.dump_weights()) != canonical_weights.digest(
            probes
        ):
            exact = False
        chosen = [arrays for one, arrays in zip(described, probes) if one["kind"] == "recurrent"]
        for index, (layer, arrays) in enumerate(zip(recurrent.layers, chosen)):
            stream = numpy.random.RandomState(index)
            batch = min(self.config["model"]["batch"], 64)
            shape, output_shape = self.session.layer_shapes(layer)
            x = stream.normal(0.0, 1.0, (batch,) + tuple(shape)).astype("float32")
            upstream = stream.normal(0.0, 1.0, (batch,) + tuple(output_shape)).astype("float32")
            outputs, gradients = self.session.layer_gradients(layer, x, upstream)
            wanted, wanted_gradients = reference.run(cell, x, arrays, upstream, self.function)
            errors["outputs"].append(relative_error(outputs, wanted))
            errors["gradients"] += [
                relative_error(gradients.get(name, 0.0), wanted_gradients[name])
                for name in wanted_gradients
            ]
            self.kept["outputs"].append(outputs)
            self.kept["gradients"] += [gradients[name] for name in sorted(gradients)]
        return {
            "outputs": max(errors["outputs"]),
            "gradients": max(errors["gradients"]),
            "round_trip": exact,
        }


def _largest(ours, theirs):
    return max((relative_error(one, other) for one, other in zip(ours, theirs)), default=None)
