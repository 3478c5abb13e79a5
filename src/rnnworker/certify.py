"""Certifies that the implementations of one model, cell and build compute the same function.

In one process, and with dropout off, it compares each implementation's layers with `reference` at
the model's shapes, its training with that of the others, and the steps that it applies with the
gradients that it computes (`applied_steps`); and it loads its trained weights into every other
implementation. A model without a recurrent layer has a single implementation, ``none``, which is
judged by its steps and its loss.
"""

import traceback

import numpy

from rnnworker import applied_steps, attest, canonical_weights, frameworks, precision, reference

STEPS = 20
TRAINED_STEPS = 60
SERVED_SAMPLES = 512


def certify(job, events, phases):
    """Emits ``facts`` with a ``certificate``: the worker's parts of it (see docs/formats.md).

    `job`: ``config`` of a run, ``implementations`` (list of ``{"name", "rnn"}``), ``device`` (its
    name), ``threads``, ``dataset``; optionally ``applied_only`` (check only the applied steps) and
    ``tolerance`` (instead of that of the config's precision).
    """
    requested = precision.requested_precision(job["config"])
    tolerance = dict(precision.TOLERANCE[requested], **(job.get("tolerance") or {}))
    trials, results, arrays = {}, {}, None
    for entry in job["implementations"]:
        name = entry["name"]
        with phases.phase("certify_" + name):
            if job.get("applied_only"):
                results[name] = {}
            else:
                try:
                    trials[name] = Trial(job, entry["rnn"], arrays)
                    arrays = trials[name].session.arrays
                    results[name] = judge(trials[name].measure(), tolerance)
                except reference.UnknownFunction as error:
                    trials.pop(name, None)
                    results[name] = unmeasured("not_run", str(error))
                except Exception as error:  # the other implementations are still to be certified
                    traceback.print_exc()
                    trials.pop(name, None)
                    results[name] = unmeasured("failed", applied_steps.error_text(error))
            # An implementation that cannot be built cannot take a step either.
            if results[name].get("status") != "failed" or name in trials:
                applied = applied_steps.AppliedSteps(job, entry["rnn"], arrays)
                steps = applied.measure(tolerance["gradients"])
                results[name]["applied"] = {job["device"]: steps}
                arrays = applied.arrays
        # Emitted at once, so that the results survive an implementation that hangs.
        part = {"precision": requested, "tolerance": tolerance, "implementations": results}
        events.emit("facts", certificate=part)
    if job.get("applied_only"):
        return
    with phases.phase("portability"):
        portability = evaluate_portability(trials)
    compared = compare_pairs(trials, results, tolerance)
    events.emit("facts", certificate={"pairs": compared, "portability": portability})


def relative_error(values, expected):
    """Returns max |values − expected| / max |expected| over the whole array: the scale is that of
    the array, because relative errors of single elements near 0 mean nothing."""
    values, expected = numpy.asarray(values, "float64"), numpy.asarray(expected, "float64")
    if values.shape != expected.shape:
        return float("inf")
    difference, scale = numpy.abs(values - expected).max(), numpy.abs(expected).max()
    if not numpy.isfinite(difference):
        return float("inf")
    return float(difference / scale) if scale else (float("inf") if difference else 0.0)


def judge(measured, tolerance):
    """Returns an implementation's result, ``certified`` or ``failed`` with reasons, from what
    `Trial.measure` returned."""
    why = [
        "{} differ from the float64 reference by {:.1e} (tolerance {:.0e})".format(
            part, measured[part], tolerance[part]
        )
        for part in ("outputs", "gradients")
        if measured[part] is not None and not measured[part] <= tolerance[part]
    ]
    if measured["round_trip"] is False:
        why.append("its weights do not survive a round trip bit by bit")
    if not measured["started_canonical"]:
        why.append("it did not start from the canonical weights")
    if not numpy.all(numpy.isfinite(measured["loss_curve"])):
        why.append("its loss is not finite within {} steps".format(STEPS))
    facts = measured["precision"]
    if not facts["as_asked"]:
        why.append("it computed in {}, not in {}".format(facts["policy"], facts["asked"]))
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


def unmeasured(status, why):
    """Returns the result of an implementation that was not measured."""
    empty = ("kernel", "outputs", "gradients", "loss_curve", "round_trip", "function")
    return dict(dict.fromkeys(empty), status=status, why=why)


def compare_pairs(trials, results, tolerance):
    """Returns the differences of each pair of implementations that ran, and whether it is equal."""
    comparisons, names = [], [name for name in results if name in trials]
    for index, a in enumerate(names):
        for b in names[index + 1 :]:
            first, second = trials[a].saved, trials[b].saved
            errors = {
                "outputs": _largest_error(first["outputs"], second["outputs"]),
                "gradients": _largest_error(first["gradients"], second["gradients"]),
                "loss_curve": relative_error(first["loss_curve"], second["loss_curve"]),
            }
            certified = results[a]["status"] == results[b]["status"] == "certified"
            equal = certified and results[a]["function"] == results[b]["function"]
            equal = equal and all(
                errors[part] is None or errors[part] <= tolerance[part] for part in errors
            )
            comparisons.append(dict(errors, a=a, b=b, equal=equal))
    return comparisons


def evaluate_portability(trials):
    """Evaluates the weights that each implementation has trained in every implementation of the
    same function; in another function the same arrays mean something else or do not exist.
    `difference`: relative error of the outputs against those in the implementation that trained
    the weights."""
    evaluations = []
    for trained, trainer in trials.items():
        weights, outputs = trainer.saved["trained"], trainer.saved["trained_outputs"]
        for served, server in trials.items():
            if server.function != trainer.function:
                continue
            metrics, served_outputs = server.serve(weights)
            evaluations.append(
                {
                    "trained": trained,
                    "served": served,
                    "accuracy": metrics.get("acc"),
                    "loss": metrics.get("loss"),
                    "difference": relative_error(served_outputs, outputs),
                }
            )
    return evaluations


def probe_weights(cell, arrays, seed):
    """Returns `arrays` (canonical) with biases that reveal every fault: all biases differ, and
    half of an LSTM's units keep their gates open, so that states grow beyond any clip."""
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


class Trial:
    """One implementation in a separate model, alive until all others have been compared with it.
    All trials share the data's `arrays`."""

    def __init__(self, job, rnn, arrays=None):
        config = dict(job["config"], rnn=rnn, certifying=True)
        self.config, self.saved = config, {}
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
        """Measures this implementation on its own. Values for comparison with others are stored
        in `saved`: outputs, gradients, loss curve, and the weights after a short training."""
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
        self.saved.update(
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
        """Returns (metrics on the validation set, outputs) with `weights`."""
        self.session.load_weights(weights)
        return self.session.evaluate(SERVED_SAMPLES), self.session.outputs(SERVED_SAMPLES)

    def _probe_layers(self):
        """Returns the largest errors of the layers, and whether weights survive a round trip."""
        cell, recurrent = self.config["cell"]["name"], self.session.recurrent
        self.saved.update(outputs=[], gradients=[])
        if not recurrent.layers:
            return dict.fromkeys(("outputs", "gradients", "round_trip"))
        errors = {"outputs": [], "gradients": []}
        described = self.session.layers()
        probes = [
            probe_weights(cell, arrays, index) if layer["kind"] == "recurrent" else arrays
            for index, (layer, arrays) in enumerate(zip(described, self.weights))
        ]
        self.session.load_weights(probes)
        dumped = canonical_weights.digest(self.session.dump_weights())
        exact = dumped == canonical_weights.digest(probes)
        recurrent_probes = [
            arrays for layer, arrays in zip(described, probes) if layer["kind"] == "recurrent"
        ]
        for index, (layer, arrays) in enumerate(zip(recurrent.layers, recurrent_probes)):
            stream = numpy.random.RandomState(index)
            batch = min(self.config["model"]["batch"], 64)
            shape, output_shape = self.session.layer_shapes(layer)
            x = stream.normal(0.0, 1.0, (batch,) + tuple(shape)).astype("float32")
            upstream = stream.normal(0.0, 1.0, (batch,) + tuple(output_shape)).astype("float32")
            outputs, gradients = self.session.layer_gradients(layer, x, upstream)
            expected, expected_gradients = reference.run(cell, x, arrays, upstream, self.function)
            errors["outputs"].append(relative_error(outputs, expected))
            errors["gradients"] += [
                relative_error(gradients.get(name, 0.0), expected_gradients[name])
                for name in expected_gradients
            ]
            self.saved["outputs"].append(outputs)
            self.saved["gradients"] += [gradients[name] for name in sorted(gradients)]
        return {
            "outputs": max(errors["outputs"]),
            "gradients": max(errors["gradients"]),
            "round_trip": exact,
        }


def _largest_error(values, expected):
    return max((relative_error(a, b) for a, b in zip(values, expected)), default=None)
