"""Certifies that the implementations of one model, cell and build compute the same function.

In one process per device, and with dropout off, it compares each implementation's layers with
`reference` at the model's shapes, for every size of a batch that ran, and the steps that it applies
with the gradients that it computes (`applied_steps`). On the first device it also compares the
training of the implementations, and loads the trained weights of each into every other one. A model
without a recurrent layer has a single implementation, ``none``, which is judged by its steps and
its loss.
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
    with phases.phase("data"):
        samples = Samples(job)
    trials, results = {}, {}
    for entry in job["implementations"]:
        name, device_check = entry["name"], None
        with phases.phase("certify_" + name):
            results[name] = {}
            try:
                if not job.get("further_device"):
                    trials[name] = Trial(job, entry["rnn"], samples)
                    results[name] = judge(trials[name].measure())
                device_check = DeviceCheck(job, entry["rnn"], samples)
                probed = device_check.probe(tolerance)
                results[name].update(worst(probed), function=device_check.function)
                results[name]["probed"] = {job["device"]: probed}
                if name in trials:
                    trials[name].saved.update(device_check.saved)
                    trials[name].function = device_check.function
            except reference.UnknownFunction as error:
                trials.pop(name, None)
                results[name] = unmeasured("not_run", str(error))
            except Exception as error:  # the other implementations are still to be certified
                traceback.print_exc()
                trials.pop(name, None)
                results[name] = unmeasured("failed", applied_steps.error_text(error))
                device_check = None
            if device_check is not None:
                steps = device_check.steps(tolerance["gradients"])
                results[name]["applied"] = {job["device"]: steps}
        # Emitted at once, so that the results survive an implementation that hangs.
        part = {"precision": requested, "tolerance": tolerance, "implementations": results}
        events.emit("facts", certificate=part)
    if job.get("further_device"):
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


def worst(probed):
    """Returns the largest errors of all sizes of a batch; None if nothing was measured."""
    errors = {
        part: [entry[part] for entry in probed["batches"] if entry[part] is not None]
        for part in ("outputs", "gradients")
    }
    return {part: max(values, default=None) for part, values in errors.items()}


def wrong(batches, tolerance, device):
    """Returns which errors of a device's `batches` exceed the `tolerance`, and where they are
    largest, as text; None if none does."""
    texts = []
    for part in ("outputs", "gradients"):
        exceeding = [
            entry
            for entry in batches
            if entry[part] is not None and not entry[part] <= tolerance[part]
        ]
        if exceeding:
            entry = max(exceeding, key=lambda entry: entry[part])
            texts.append(
                "{} differ from the float64 reference by {:.0e} (tolerance {:.0e}) at batch {} "
                "with training={} on {}".format(
                    part, entry[part], tolerance[part], entry["rows"], entry["training"], device
                )
            )
    return "; ".join(texts) or None


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


class Samples:
    """The data of a job, loaded once, and the sizes of its batches."""

    def __init__(self, job):
        self.job = job
        self.arrays = self._load(job["config"])

    def sizes(self):
        """Returns [(rows, training)] of all batches that runs on the device take, whole and last
        ones: with ``training=True`` from the training set, with False from the validation set. The
        largest of the training come first."""
        config, found = self.job["config"], set()
        for settings in self.job.get("batches") or [{}]:
            model = dict(config["model"], **settings)
            same = all(
                config["model"].get(name) == model[name] for name in set(settings) - {"batch"}
            )
            arrays = self.arrays if same else self._load(dict(config, model=model))
            for part, training in (("x_train", True), ("x_val", False)):
                sizes = certificate_jobs.batch_sizes(len(arrays[part]), model["batch"])
                found.update((rows, training) for rows in sizes)
        return sorted(found, key=lambda size: (size[1], size[0]), reverse=True)

    def _load(self, config):
        return data.arrays(config, self.job["dataset"], self.job.get("pinned_md5"))


def opened(job, config, arrays):
    """Returns (a session with a built model, its canonical weights)."""
    session = frameworks.open_session(config, job["threads"])
    session.arrays = arrays
    session.build()
    return session, canonical_weights.initial(session.layers(), config["seed"])


def probes_of(session, weights):
    """Returns `weights` with the recurrent layers' changed by `probe_weights`, and those alone."""
    kinds = [layer["kind"] == "recurrent" for layer in session.layers()]
    cell = session.config["cell"]["name"]
    probes = [
        probe_weights(cell, arrays, index) if recurrent else arrays
        for index, (recurrent, arrays) in enumerate(zip(kinds, weights))
    ]
    return probes, [arrays for recurrent, arrays in zip(kinds, probes) if recurrent]


class Trial:
    """One implementation in a separate model, alive until all others have been compared with it.
    All trials share the data's arrays."""

    def __init__(self, job, rnn, samples):
        self.config = dict(job["config"], rnn=rnn, certifying=True)
        self.session, self.weights = opened(job, self.config, samples.arrays)
        self.saved, self.function = {}, None

    def measure(self):
        """Measures this implementation on its own. Values for comparison with others are stored
        in `saved`: loss curve, and the weights after a short training."""
        session = self.session
        exact = self._survives_round_trip()
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
            "round_trip": exact,
            "started_canonical": started,
            "loss_curve": curve,
            "attested": kernel,
            "precision": session.precision_facts(),
        }

    def serve(self, weights):
        """Returns (metrics on the validation set, outputs) with `weights`."""
        self.session.load_weights(weights)
        return self.session.evaluate(SERVED_SAMPLES), self.session.outputs(SERVED_SAMPLES)

    def _survives_round_trip(self):
        """Returns whether the layers return the weights that they were given; None without any."""
        if not self.session.recurrent.layers:
            return None
        probes, _ = probes_of(self.session, self.weights)
        self.session.load_weights(probes)
        dumped = canonical_weights.digest(self.session.dump_weights())
        return dumped == canonical_weights.digest(probes)


class DeviceCheck:
    """What is checked on every device, in a separate model: the layers of one implementation for
    all sizes of a batch, and the steps that it applies. Values for comparison with others are
    stored in `saved`."""

    def __init__(self, job, rnn, samples):
        self.samples, self.device = samples, job["device"]
        config = applied_steps.with_sgd(dict(job["config"], rnn=rnn))
        self.session, self.weights = opened(job, config, samples.arrays)
        self.saved, self.function = {"outputs": [], "gradients": []}, None

    def steps(self, tolerance):
        """Returns the result of `applied_steps.measure` with ``why``: None, or why nothing was
        measured."""
        session = self.session
        try:
            session.load_weights(self.weights)
            batches = applied_steps.first_batches(
                session.arrays, session.config, applied_steps.STEPS
            )
            return dict(applied_steps.measure(session, batches, tolerance), why=None)
        except Exception as error:  # the other implementations are still to be checked
            traceback.print_exc()
            empty = {"steps": 0, "off": None, "worst": None}
            return dict(empty, threads=session.threads, why=applied_steps.error_text(error))

    def probe(self, tolerance):
        """Returns ``{"batches": [{"rows", "training", "outputs", "gradients"}], "wrong", "why"}``:
        the largest errors of all layers for each size of a batch, and how they exceed `tolerance`.
        Raises `reference.UnknownFunction`."""
        session, config = self.session, self.session.config
        sizes = self.samples.sizes()
        errors = [{"outputs": [], "gradients": []} for _ in sizes]
        if session.recurrent.layers:
            self.function = reference.function_of(
                config["cell"]["name"],
                config["rnn"].get("options") or {},
                hasattr(session.keras, "ops"),
            )
            probes, arrays_of_layers = probes_of(session, self.weights)
            session.load_weights(probes)
            for index, arrays in enumerate(arrays_of_layers):
                self._probe_layer(index, arrays, sizes, errors)
        batches = [
            {
                "rows": rows,
                "training": training,
                "outputs": max(found["outputs"], default=None),
                "gradients": max(found["gradients"], default=None),
            }
            for (rows, training), found in zip(sizes, errors)
        ]
        differing = wrong(batches, tolerance, self.device)
        return {"batches": batches, "wrong": differing, "why": None}

    def _probe_layer(self, index, arrays, sizes, errors):
        """Appends the errors of a layer to those of each size."""
        session, cell = self.session, self.session.config["cell"]["name"]
        layer, stream = session.recurrent.layers[index], numpy.random.RandomState(index)
        shape, output_shape = map(tuple, session.layer_shapes(layer))
        replicas = cards.replicas_of(session.config["device"])  # each takes a part of the batch
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
