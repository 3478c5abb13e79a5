"""Certifies that the implementations of one model, cell and build compute the same function.

In one process per device, and with dropout off, it compares each implementation's layers with
`reference` at the model's shapes, for every size of a batch that ran, and the steps that it applies
with the gradients that it computes (`applied_steps`). On the first device it also compares the
implementations with each other: their layers, their training, and their outputs with the weights
that the other has trained. A model without a recurrent layer has a single implementation, ``none``,
which is judged by its steps and its loss.
"""

import traceback

import numpy

from rnnworker import (
    applied_steps,
    attest,
    canonical_weights,
    cards,
    certificate_jobs,
    data,
    frameworks,
    precision,
    reference,
)

INCOMPARABLE = 1e9  # JSON has no infinity, and a missing error reads as not measured
STEPS = 20
TRAINED_STEPS = 60
SERVED_SAMPLES = 512
COMPARED_ROWS = 64  # of the outputs of two implementations; all are compared with the reference


def certify(job, events, phases):
    """Emits ``facts`` with a ``certificate``: the worker's parts of it (see docs/formats.md).

    `job`: ``config`` of a run, ``implementations`` (list of ``{"name", "rnn"}``), ``device`` (its
    name), ``threads``, ``dataset``; optionally ``batches`` (list of the settings of the model on
    which the sizes of batches depend; that of the config), ``further_device`` (check only what is
    checked on every device) and ``tolerance`` (instead of that of the config's precision).
    """
    requested = precision.requested_precision(job["config"])
    tolerance = dict(precision.TOLERANCE[requested], **(job.get("tolerance") or {}))
    further, device = job.get("further_device"), job["device"]
    with phases.phase("data"):
        arrays, sizes = samples_of(job)
    trials, results = {}, {}
    for entry in job["implementations"]:
        name, rnn, trial = entry["name"], entry["rnn"], None
        with phases.phase("certify_" + name):
            try:
                trial = Trial(job, rnn, arrays, with_sgd=further)
                probed = trial.probe(sizes, tolerance, device)
                results[name] = {} if further else judge(trial.measure())
                results[name].update(
                    certificate_jobs.worst(probed["batches"]), function=trial.function
                )
                results[name]["probed"] = {device: probed}
                if not further:
                    trials[name] = trial
            except reference.UnknownFunction as error:
                results[name] = unmeasured("not_run", str(error))
            except Exception as error:  # the other implementations are still to be certified
                traceback.print_exc()
                results[name] = unmeasured("failed", applied_steps.error_text(error))
                trial = None
            # An implementation that cannot be built cannot take a step either.
            if trial is not None:
                steps = applied(trial if further else None, job, rnn, arrays, tolerance)
                results[name]["applied"] = {device: steps}
        # Emitted at once, so that the results survive an implementation that hangs.
        part = {"precision": requested, "tolerance": tolerance, "implementations": results}
        events.emit("facts", certificate=part)
    if further:
        return
    with phases.phase("pairs"):
        pairs = compare_pairs(trials, results, tolerance)
    events.emit("facts", certificate={"pairs": pairs})


def relative_error(values, expected):
    """Returns max |values − expected| / max |expected| over the whole array: the scale is that of
    the array, because relative errors of single elements near 0 mean nothing. `INCOMPARABLE` is
    the most: the error of other shapes, of what is not finite, and of anything where 0 is right."""
    values, expected = numpy.asarray(values, "float64"), numpy.asarray(expected, "float64")
    if values.shape != expected.shape:
        return INCOMPARABLE
    difference, scale = numpy.abs(values - expected).max(), numpy.abs(expected).max()
    if not difference:
        return 0.0
    if not numpy.isfinite(difference) or not scale:
        return INCOMPARABLE
    return float(min(difference / scale, INCOMPARABLE))


def judge(measured):
    """Returns an implementation's result, ``certified`` or ``failed`` with reasons, from what
    `Trial.measure` returned: all but its layers and steps, which each device judges separately."""
    why = []
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
        "loss_curve": measured["loss_curve"],
        "round_trip": measured["round_trip"],
    }


def unmeasured(status, why):
    """Returns the result of an implementation that was not measured."""
    empty = ("kernel", "outputs", "gradients", "loss_curve", "round_trip", "function")
    return dict(dict.fromkeys(empty), status=status, why=why)


def compare_pairs(trials, results, tolerance):
    """Returns the differences of each pair of implementations that ran, and whether it is equal.
    Implementations of one function also exchange their trained weights; in another function the
    same arrays mean something else or do not exist."""
    comparisons, names = [], [name for name in results if name in trials]
    for index, a in enumerate(names):
        for b in names[index + 1 :]:
            first, second = trials[a].saved, trials[b].saved
            outputs = [_largest_error(first["outputs"], second["outputs"])]
            if trials[a].function == trials[b].function:
                outputs += [trials[a].error_of(trials[b]), trials[b].error_of(trials[a])]
            errors = {
                "outputs": max((each for each in outputs if each is not None), default=None),
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


def samples_of(job):
    """Returns (the arrays of the config's data, the sizes of all batches that runs on the device
    take): [(rows, training)], whole and last batches, with True from the training set and with
    False from the validation set, the largest of the training first."""
    sizes, model = set(), job["config"]["model"]

    def load(**settings):
        config = dict(job["config"], model=dict(model, **settings))
        return data.arrays(config, job["dataset"], job.get("pinned_md5"))

    arrays = load()
    for settings in job.get("batches") or [{}]:
        other = {name: settings[name] for name in settings if settings[name] != model.get(name)}
        batch = other.pop("batch", model["batch"])
        found = load(**other) if other else arrays
        for part, training in (("x_train", True), ("x_val", False)):
            rows = certificate_jobs.batch_sizes(len(found[part]), batch)
            sizes.update((size, training) for size in rows)
    return arrays, sorted(sizes, key=lambda size: (size[1], size[0]), reverse=True)


def applied(trial, job, rnn, arrays, tolerance):
    """Returns the result of `applied_steps.measure` with ``why``: None, or why nothing was
    measured. `trial`: None, or one with plain SGD."""
    try:
        trial = trial or Trial(job, rnn, arrays, with_sgd=True)
        trial.session.load_weights(trial.weights)
        batches = applied_steps.first_batches(arrays, trial.config, applied_steps.STEPS)
        steps = applied_steps.measure(trial.session, batches, tolerance["gradients"])
        return dict(steps, why=None)
    except Exception as error:  # the other implementations are still to be checked
        traceback.print_exc()
        empty = {"steps": 0, "off": None, "worst": None}
        return dict(empty, threads=job["threads"], why=applied_steps.error_text(error))


class Trial:
    """One implementation in a separate model, on the first device alive until all others have been
    compared with it. All trials share the data's `arrays`."""

    def __init__(self, job, rnn, arrays, with_sgd=False):
        config = dict(job["config"], rnn=rnn, certifying=True)
        self.config = applied_steps.with_sgd(config) if with_sgd else config
        self.saved, self.function, self.round_trip = {"outputs": [], "gradients": []}, None, None
        self.session = frameworks.open_session(self.config, job["threads"])
        self.session.arrays = arrays
        self.session.build()
        self.weights = canonical_weights.initial(self.session.layers(), self.config["seed"])

    def measure(self):
        """Measures this implementation on its own. Values for comparison with others are stored
        in `saved`: loss curve, and the weights after a short training."""
        session = self.session
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
        return {
            "round_trip": self.round_trip,
            "started_canonical": started,
            "loss_curve": curve,
            "attested": kernel,
            "precision": session.precision_facts(),
        }

    def error_of(self, trainer):
        """Returns the relative error of the outputs with the weights that another trial has
        trained, against the outputs of that trial."""
        self.session.load_weights(trainer.saved["trained"])
        outputs = self.session.outputs(SERVED_SAMPLES)
        return relative_error(outputs, trainer.saved["trained_outputs"])

    def probe(self, sizes, tolerance, device):
        """Returns ``{"batches": [{"rows", "training", "outputs", "gradients"}], "wrong", "why"}``:
        the largest errors of all layers for each size of a batch, and how they exceed `tolerance`.
        Raises `reference.UnknownFunction`."""
        session, cell = self.session, self.config["cell"]["name"]
        errors = [{"outputs": [], "gradients": []} for _ in sizes]
        if session.recurrent.layers:
            options, keras_3 = (
                self.config["rnn"].get("options") or {},
                hasattr(session.keras, "ops"),
            )
            self.function = reference.function_of(cell, options, keras_3)
            kinds = [layer["kind"] == "recurrent" for layer in session.layers()]
            probes = [
                probe_weights(cell, arrays, index) if recurrent else arrays
                for index, (recurrent, arrays) in enumerate(zip(kinds, self.weights))
            ]
            session.load_weights(probes)
            dumped = canonical_weights.digest(session.dump_weights())
            self.round_trip = dumped == canonical_weights.digest(probes)
            probes = [arrays for recurrent, arrays in zip(kinds, probes) if recurrent]
            for index, arrays in enumerate(probes):
                self._probe_layer(index, arrays, sizes, errors)
        batches = [
            dict(
                {part: max(found[part], default=None) for part in found},
                rows=rows,
                training=training,
            )
            for (rows, training), found in zip(sizes, errors)
        ]
        why = certificate_jobs.wrong(batches, tolerance, device)
        return {"batches": batches, "wrong": why, "why": None}

    def _probe_layer(self, index, arrays, sizes, errors):
        """Appends the errors of a layer to those of each size."""
        session, cell = self.session, self.config["cell"]["name"]
        layer, stream = session.recurrent.layers[index], numpy.random.RandomState(index)
        shape, output_shape = map(tuple, session.layer_shapes(layer))
        replicas = cards.replicas_of(self.config["device"])  # each takes a part of the batch
        most = max(rows for rows, _ in sizes) // replicas
        x = stream.normal(0.0, 1.0, (most,) + shape).astype("float32")
        upstream = stream.normal(0.0, 1.0, (most,) + output_shape).astype("float32")
        expected = {}
        for (size, training), found in zip(sizes, errors):
            rows = size // replicas
            # Rows do not depend on each other, so that outputs of the largest batch serve all.
            for needed in {most, rows} if training else {most}:
                if needed not in expected:
                    expected[needed] = reference.run(
                        cell, x[:needed], arrays, upstream[:needed], self.function
                    )
            if training:
                outputs, gradients = session.layer_gradients(layer, x[:rows], upstream[:rows])
                found["gradients"] += [
                    relative_error(gradients.get(name, 0.0), values)
                    for name, values in expected[rows][1].items()
                ]
            else:
                outputs = session.layer_outputs(layer, x[:rows])
            found["outputs"].append(relative_error(outputs, expected[most][0][:rows]))
            if (size, training) == sizes[0]:
                gradients["x"] = gradients["x"][:COMPARED_ROWS]
                self.saved["outputs"].append(outputs[:COMPARED_ROWS])
                self.saved["gradients"] += [gradients[name] for name in sorted(gradients)]


def _largest_error(values, expected):
    return max((relative_error(a, b) for a, b in zip(values, expected)), default=None)
