"""Certifies that the implementations of one model, cell and build compute the same function.

In one process per device, and with dropout off, it compares each implementation's layers with
`reference` at the model's shapes, for every size of a batch that ran, and the steps that it applies
with the gradients that it computes. On the first device it also compares the implementations with
each other: their layers; what a training with the model's own optimizer, and with its dropout where
the masks can be set, changes in each weight; and their outputs with the weights that the other has
trained. A model without a recurrent layer has one implementation, ``none``: its steps and its loss
are checked.

With plain SGD, a step subtracts learning rate × gradient from the weights. Each step starts from
the same weights with a new batch; before the step, the gradient of the loss is computed at these
weights without an update. The check exists because Keras 2.0.6 on TensorFlow 1.2 fails it
(``frameworks.keras206_tensorflow1``).
"""

import functools
import itertools
import traceback
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

import numpy

from rnnworker import (
    attest,
    canonical_weights,
    cards,
    data,
    frameworks,
    precision,
    reference,
    trees,
    user_functions,
    weights,
)
from rnnworker.arguments import Refusal
from rnnworker.canonical_weights import Arrays, Weights
from rnnworker.certified_samples import Size, first_batches, first_orders, not_finite, samples_of
from rnnworker.differences import (
    differences_of,
    draws_anew,
    gradient_errors,
    relative_error,
)
from rnnworker.events import Events
from rnnworker.frameworks import keras_checks
from rnnworker.json_types import Config, Job, Json
from rnnworker.precision import Tolerance
from rnnworker.recurrent import composed
from rnnworker.turns import Phases

PROBED = ("outputs", "gradients")  # the errors of a layer
STEPS = 20
CHANGED_STEPS = 6  # the first updates of a training, after which its weights are compared
TRAINED_STEPS = 60
APPLIED_STEPS = 30
# Where a step takes seconds: with sequences of more than `attest.LONGEST` time steps, or with so
# many weights, whose gradients are compared on the host.
FEW_STEPS = 5
MANY_WEIGHTS = 10**7
# Multiplications of the reference in its forward pass through a layer, for some seconds: all rows
# of 64 for 512 units over 100 steps, 4 rows for 4096 units over 25 steps.
MOST_PRODUCTS = 2**33
SERVED_SAMPLES = 512
UNKNOWN_STEPS = 20  # of a layer that takes sequences of any length
COMPARED_ROWS = 64  # of the outputs of two implementations; all are compared with the reference
# Each step subtracts exactly the gradient. Momentum has no other effect, because it starts from 0
# in each step; but with it, an embedding's gradient is summed before it is applied. Applied entry
# by entry, the updates of a frequent row would be lost in rounding.
OPTIMIZER = {"name": "sgd", "learning_rate": 1.0, "momentum": 0.5}
OWN_STEP = "not compared with the gradient: the model has a train_step of its own"
OWN_DRAWS = "not compared with the gradient: the model draws random numbers of its own in each step"
OWN_METHOD = "the float64 reference has no {}, which is not Keras's"
UNMEASURED = dict.fromkeys(
    (
        "code",
        "kernel",
        "outputs",
        "gradients",
        "loss_curve",
        "round_trip",
        "function",
        "no_reference",
    )
)
ERRORS = PROBED + ("loss_curve", "first_loss", "weights")  # the differences of a pair


def certify(job: Job, events: Events, phases: Phases) -> None:
    """Emits ``facts`` with a ``certificate``: the worker's parts of it (see docs/formats.md).

    `job`: ``config`` of a run, ``implementations`` (list of ``{"name", "rnn"}``), ``device`` (its
    name), ``threads``, ``dataset``; optionally ``batches`` (list of the settings of the model on
    which the sizes of batches depend; that of the config), ``further_device`` (check only what is
    checked on every device) and ``tolerance`` (instead of that of the config's precision).
    """
    requested = precision.requested_precision(job["config"])
    tolerance = dict(precision.TOLERANCE[requested])
    tolerance.update(job.get("tolerance") or {})
    model = job["config"]["model"]
    device = job["device"]
    further = job.get("further_device")
    with phases.phase("data"):
        arrays, sizes, fault = _load(job)
    trials: Dict[str, Trial] = {}
    results: Json = {}
    for entry in job["implementations"]:
        name = entry["name"]
        with phases.phase("certify_" + name):
            try:
                if fault:
                    raise fault
                trial = Trial(job, entry["rnn"], arrays, OPTIMIZER)
                steps = applied(trial, tolerance)
                if not further:
                    trial.take_own_optimizer()
                batches = trial.probe(sizes)
                result: Json = {}
                if not further:
                    with keras_checks.refusals(trial.session.place):
                        result = trial.measure(tolerance)
                for part in PROBED:
                    errors = [batch[part] for batch in batches if batch[part] is not None]
                    result[part] = max(errors, default=None)
                result["function"] = trial.function
                result["no_reference"] = trial.no_reference
                result["probed"] = {device: {"batches": batches, "why": None}}
                result["applied"] = {device: steps}
                if not further:
                    trials[name] = trial
            except Refusal as error:
                result = dict(UNMEASURED, status="refused", why=user_functions.one_line(error))
            except Exception as error:  # the other implementations are still to be certified
                traceback.print_exc()
                why = user_functions.described(error, model["function"])
                code = user_functions.code_of(error)
                result = dict(UNMEASURED, status="failed", why=why, code=code)
            results[name] = result
        # Emitted at once, so that the results survive an implementation that hangs.
        found = {"precision": requested, "tolerance": tolerance, "implementations": results}
        events.emit("facts", certificate=found)
    if not further:
        with phases.phase("pairs"):
            pairs = compare_pairs(trials, tolerance)
        events.emit("facts", certificate={"pairs": pairs})


def _load(job: Job) -> Tuple[Dict[str, trees.Tree], List[Size], Optional[ValueError]]:
    """Returns what `samples_of` does, and why no implementation can be certified with it: an
    exception, or None."""
    try:
        # The framework first: a model's file may import it, and set what it would be.
        first = dict(job["config"], rnn=job["implementations"][0]["rnn"])
        frameworks.open_session(first, job["threads"]).settle()
        arrays, sizes = samples_of(job)
    except Refusal as error:
        return {}, [], error
    prepare = job["config"]["model"]["data"]["prepare"]
    found = not_finite(arrays, prepare)
    fault = None
    if found:
        fault = ValueError(found)
    return arrays, sizes, fault


def prepare_beside_build(config: Config, job: Job) -> None:
    """Calls ``prepare`` again if its file is that of the model, which was executed anew: what it
    has put into the file's globals is there in ``build``."""
    file = config["model"]["function"].rpartition(":")[0]
    if file.endswith(".py") and config["model"]["data"]["prepare"].rpartition(":")[0] == file:
        data.arrays(config, job["dataset"], job.get("pinned_md5"))


def compare_pairs(trials: Mapping[str, "Trial"], tolerance: Tolerance) -> List[Json]:
    """Returns the differences of each pair of implementations that ran, or why they could not be
    compared. `tolerance`: part → the largest error."""
    comparisons = []
    for a, b in itertools.combinations(trials, 2):
        try:
            _check_start(trials[a], trials[b], tolerance["weights"])
            comparison = _differences(trials[a], trials[b], tolerance)
            comparison["why"] = None
        except Refusal as error:
            comparison = dict.fromkeys(ERRORS)
            comparison["why"] = user_functions.one_line(error)
        except Exception as error:  # the other pairs are still to be compared
            traceback.print_exc()
            comparison = dict.fromkeys(ERRORS)
            comparison["why"] = user_functions.described(error)
        comparison.update(a=a, b=b)
        comparisons.append(comparison)
    return comparisons


def _check_start(first: "Trial", second: "Trial", tolerance: float) -> None:
    """Raises `Refusal` if two trials began with other weights: but for rounding in a training in
    ``build``, those of one name are equal unless the model's own file makes them differ."""
    for layer, ours, theirs in zip(first.layers, first.weights, second.weights):
        for name in sorted(set(ours) & set(theirs)):
            if relative_error(ours[name], theirs[name]) > tolerance:
                fault = (
                    "{} returns other weights in each call ({}/{} differs): seed what it draws, or "
                    "load them from a file"
                )
                function = first.config["model"]["function"]
                raise Refusal(fault.format(function, layer["name"], name))


def _differences(first: "Trial", second: "Trial", tolerance: Tolerance) -> Json:
    """The differences of two trials. Those of one function also exchange their trained weights; in
    another function the same arrays mean something else or do not exist."""
    differences: Json = {}
    for part in PROBED:
        ours = first.saved[part]
        theirs = second.saved[part]
        if len(ours) != len(theirs):
            raise ValueError("they have {} and {} of {}".format(len(ours), len(theirs), part))
        differences[part] = list(map(relative_error, ours, theirs))
    if first.function == second.function and not first.draws and not second.draws:
        differences["outputs"].append(first.error_of(second))
        differences["outputs"].append(second.error_of(first))
    for part in PROBED:
        differences[part] = max(differences[part], default=None)
    curve = first.saved["loss_curve"]
    other = second.saved["loss_curve"]
    differences["loss_curve"] = relative_error(curve, other)
    differences["first_loss"] = relative_error(curve[:1], other[:1])
    found = weights.worst(
        first.saved["changes"],
        second.saved["changes"],
        tolerance["weights"],
    )
    noise = {"weights": found.noise}
    for part in ("first_loss", "loss_curve"):
        noise[part] = max(first.saved["noise"][part], second.saved["noise"][part])
    differences.update(
        weights=found.difference,
        worst_array=found.array,
        noise=noise,
    )
    return differences


def _error_of(outputs: trees.Tree, expected: trees.Tree) -> float:
    """The largest relative error of a model's `outputs`, a tree of arrays."""
    return max(map(relative_error, trees.leaves(outputs), trees.leaves(expected)))


def probe_weights(cell: str, arrays: Arrays, seed: int, activation: Optional[str]) -> Arrays:
    """Returns `arrays` (canonical) with biases that reveal every fault: all biases differ, and
    half of an LSTM's units keep their gates open, so that states grow beyond any clip. With relu
    they would grow exponentially, and rounding errors with them, 1000-fold within 28 steps."""
    stream = numpy.random.RandomState(seed)
    changed = {}
    for name in sorted(arrays):
        array = arrays[name]
        if name.split("_")[-1] == "bias":
            array = array + stream.normal(0.0, 0.5, array.shape).astype(array.dtype)
            if cell == "lstm" and activation != "relu":
                units = array.shape[-1] // 4
                array.reshape(4, units)[:3, ::2] += 2.0
        changed[name] = array.astype("float32")
    return changed


def compared_rows(rows: int, steps: int, arrays: Arrays) -> int:
    """Returns how many of the `rows` of a batch the reference computes, for a layer with these
    canonical `arrays` over so many `steps`: all of them unless that would take long."""
    products = sum(array.size for array in arrays.values() if array.ndim > 1)
    possible = MOST_PRODUCTS // (products * steps)
    return min(rows, max(possible, 1))


def applied_steps(weights: Weights, is_long: bool) -> int:
    """Returns the number of training steps that are compared with their gradient, for a model with
    these canonical `weights`; `is_long`: its sequences are."""
    count = 0
    for arrays in weights:
        count += sum(array.size for array in arrays.values())
    if is_long or count >= MANY_WEIGHTS:
        return FEW_STEPS
    return APPLIED_STEPS


def steps_of_an_update(optimizer: object) -> int:
    """Returns the number of steps whose gradients Keras 3's `optimizer` adds up before it changes a
    weight."""
    inner = getattr(optimizer, "inner_optimizer", optimizer)  # of one that scales the loss
    return getattr(inner, "gradient_accumulation_steps", None) or 1


def served_samples(samples: int, batch: int) -> int:
    """Returns how many of the `samples` of the validation set are given to a trained model: whole
    batches, because a framework traces or compiles each size, or all that there are."""
    rows = min(samples, SERVED_SAMPLES)
    if rows > batch:
        rows -= rows % batch
    return rows


class Trial:
    """One implementation in a separate model, on the first device alive until all others have been
    compared with it. All trials share the data's `arrays`. The model is compiled with the stated
    `optimizer` until `take_own_optimizer`, with its own if that is None. Raises `Refusal` if the
    implementation cannot be measured.

    - `saved`: what is compared with other implementations: the ``outputs`` of the layers and their
      ``gradients``, lists of arrays; after `measure` also the ``loss_curve``, and the weights after
      a short training, ``trained``, with the ``trained_outputs`` of the model.
    - `function`: what the layers compute together, as text.
    - `round_trip`: whether the weights survived one bit by bit; None before `probe`.
    - `draws`: whether its outputs for the same samples differ, because the model draws random
      numbers of its own there: they are then not compared with those of others.
    """

    def __init__(
        self,
        job: Job,
        rnn: Config,
        arrays: Dict[str, trees.Tree],
        optimizer: Optional[Json] = None,
    ) -> None:
        self.config: Json = dict(job["config"], rnn=rnn, certifying=True)
        self.config["certifying_optimizer"] = optimizer
        self.saved: Json = {"outputs": [], "gradients": []}
        self.function: Optional[Json] = None
        self.round_trip: Optional[bool] = None
        self.draws = False
        # Why the layers are not compared with the reference.
        self.no_reference: Optional[str] = None
        user_functions.forget()  # what a file keeps belongs to one model
        session = frameworks.open_session(self.config, job["threads"])
        session.settle()
        prepare_beside_build(self.config, job)
        session.arrays = arrays
        session.build()
        if rnn["implementation"] != "none":
            keras_checks.check_has_layers(session)
        self.session = session
        self.layers: List[Json] = session.layers()
        self.weights: Weights = session.dump_weights()
        self.is_long = max(session.lengths(), default=0) > attest.LONGEST
        self.served = served_samples(session.validation_samples, self.config["model"]["batch"])

    def take_own_optimizer(self) -> None:
        """Compiles the model with the optimizer that it states, as it is timed."""
        self.session.compile()
        self.session.load_weights(self.weights)

    def outputs_with(self, weights: Weights) -> trees.Tree:
        """The outputs with these `weights`, from the first random states."""
        self.session.reset()
        self.session.set_weights(weights)
        return self.session.outputs(self.served)

    def measure(self, tolerance: Tolerance) -> Json:
        """Returns the result of this implementation on its own, ``certified`` or ``failed`` with
        reasons: all but its layers and steps, which each device judges separately. What is compared
        with others is stored in `saved`: loss curve, and the weights after a short training."""
        session = self.session
        why = []
        if self.round_trip is False:
            why.append("its weights do not survive a round trip bit by bit")
        session.load_weights(self.weights)
        if not self._has_loaded(self.weights):
            why.append("it did not start from the canonical weights")
        steps = FEW_STEPS if self.is_long else STEPS
        update = steps_of_an_update(session.model.optimizer)
        changed = min(CHANGED_STEPS, steps) * update
        steps = max(steps, changed)
        samples = trees.rows(session.arrays["x_train"])
        curve = self._first_steps(first_orders(self.config, samples, steps), changed)
        if not numpy.all(numpy.isfinite(curve)):
            why.append("its loss is not finite within {} steps".format(steps))
        facts = session.precision_facts()
        if not facts["as_asked"]:
            why.append("it computed in {policy}, not in {asked}".format(**facts))
        kernel = None
        attested = session.attest()
        if attested is not None:
            kernel = attested["found"]
            if attest.contradicts(attested):
                ran = " and ".join(kernel)
                expected = " and ".join(attested["expected"])
                why.append("it ran {} instead of {}".format(ran, expected))
        session.reset()
        batches = -(-samples // self.config["model"]["batch"])
        trained = FEW_STEPS if self.is_long else TRAINED_STEPS
        # Whole batches: jax compiles each size, and how it trains is compared in the loss curve.
        session.train_steps(min(trained, batches), last=False)
        after = session.dump_weights()
        outputs = self.outputs_with(after)
        error = _error_of(self.outputs_with(after), outputs)
        self.draws = tolerance["outputs"] < error < precision.NOT_FINITE
        self.saved.update(loss_curve=curve, trained=after, trained_outputs=outputs)
        result: Json = {
            "status": "certified",
            "why": None,
            "code": None,
            "kernel": kernel,
            "loss_curve": curve,
            "round_trip": self.round_trip,
            "draws": self.draws,
        }
        if why:
            result.update(status="failed", why="; ".join(why))
        return result

    def _first_steps(self, orders: List[numpy.ndarray], changed: int) -> List[float]:
        """The losses of a training, a step for each of the `orders`. Saves what the first `changed`
        steps change. Its noise, and that of the losses, is what a twin differs by: the same
        training after each initial weight was changed in its last place."""
        session = self.session
        few = orders[:changed]
        with keras_checks.only_its_optimizer(session):
            # Keras on torch draws random numbers when a `fit` is the first.
            session.loss_curve(few[:1])
        session.reset()
        curve: List[float] = session.loss_curve(few)
        trained = session.trained()
        changes = weights.Changes(self.layers, trained, self.weights, session.dump_weights())
        later = orders[changed:]
        if later:
            curve += session.loss_curve(later)

        session.reset()
        last_place = precision.LAST_PLACE[precision.requested_precision(self.config)]
        disturbed = weights.disturbed(self.weights, self.config["seed"], last_place)
        session.set_weights(disturbed)
        noisy = session.loss_curve(few)
        self.saved["changes"] = changes.with_noise(disturbed, session.dump_weights())
        if later:
            noisy += session.loss_curve(later)
        self.saved["noise"] = {
            "first_loss": weights.explained(relative_error(noisy[:1], curve[:1])),
            "loss_curve": weights.explained(relative_error(noisy, curve)),
        }
        return curve

    def error_of(self, trainer: "Trial") -> float:
        """Returns the relative error of the outputs with the weights that another trial has
        trained, against the outputs of that trial."""
        with self.session.current():
            outputs = self.outputs_with(trainer.saved["trained"])
        return _error_of(outputs, trainer.saved["trained_outputs"])

    def _has_loaded(self, weights: Weights) -> bool:
        dumped = self.session.dump_weights()
        return canonical_weights.digest(dumped) == canonical_weights.digest(weights)

    def probe(self, sizes: Sequence[Size]) -> List[Json]:
        """Returns the largest errors of all layers for each size of a batch: a list of ``{"rows",
        "training", "outputs", "gradients", "compared"}``, `compared` as `compared_rows` returns it
        (the fewest of any layer); no errors without a reference for one of the layers."""
        batches: List[Json] = []
        for rows, training in sizes:
            batch: Json = {
                "rows": rows,
                "training": training,
                "outputs": [],
                "gradients": [],
                "compared": rows,
            }
            batches.append(batch)
        made = self.session.recurrent.made
        if made:
            functions = self._functions()
        if made and all(map(self.session.recurrent.can_be_called, made)):
            probes = self._load_probes(functions)
            for index, arrays in enumerate(probes):
                layer = self.session.recurrent.layers[index]
                quiet = self.session.without_randomness()
                with quiet, composed.plain(layer), composed.unfrozen(layer):
                    self._probe_layer(index, arrays, functions[index], batches)
        elif self.config["rnn"]["implementation"] != "none":
            self._probe_model()
        for batch in batches:
            for part in PROBED:
                if self.no_reference:
                    batch[part] = None
                else:
                    batch[part] = max(batch[part], default=None)
        return batches

    def _probe_model(self) -> None:
        """Saves the gradients of the loss of one batch, in a model of which no layer is compared on
        its own."""
        session = self.session
        if keras_checks.has_own_step(session):
            return
        session.load_weights(self.weights)
        with session.without_randomness():
            gradients_of = session.loss_gradients()
            for samples in first_batches(session.arrays, self.config, 1):
                self.saved["gradients"] += gradients_of(*samples)

    def _load_probes(self, functions: Sequence[Optional[reference.Function]]) -> List[Arrays]:
        """Loads `probe_weights` into the recurrent layers, which compute these `functions`; returns
        them."""
        weights = list(self.weights)
        probes: List[Arrays] = []
        for index, layer in enumerate(self.layers):
            if layer["kind"] != "recurrent":
                continue
            function = functions[len(probes)]
            activation = None
            if function:
                activation = function["activation"]
            probe = probe_weights(layer["cell"], weights[index], index, activation)
            weights[index] = probe
            probes.append(probe)
        self.session.load_weights(weights)
        self.round_trip = self._has_loaded(weights)
        return probes

    def _functions(self) -> List[Optional[reference.Function]]:
        """The function of each recurrent layer, None where the reference has none."""
        keras_3 = hasattr(self.session.keras, "ops")
        functions: List[Optional[reference.Function]] = []
        for made in self.session.recurrent.made:
            function = None
            own = self.session.recurrent.not_of_keras(made)
            try:
                of_keras = reference.function_of(made.cell, made.options, keras_3)
                if own:
                    raise reference.UnknownFunction(OWN_METHOD.format(own))
                function = of_keras
            except reference.UnknownFunction as error:
                self.no_reference = str(error)
            functions.append(function)
        if not self.no_reference:
            known = [function for function in functions if function is not None]
            self.function = reference.combined(known)
        return functions

    def _probe_layer(
        self,
        index: int,
        arrays: Arrays,
        function: Optional[reference.Function],
        batches: List[Json],
    ) -> None:
        """Adds the errors of the recurrent layer number `index`, which has the canonical `arrays`,
        to each of the `batches`: of random inputs, outputs and, in training, the gradients.
        `function`: what the layer computes, or None without a reference. The results of the first
        batch are saved for the comparison with other implementations."""
        session = self.session
        made = session.recurrent.made[index]
        layer = made.layer
        stream = numpy.random.RandomState(index)
        shape, output_shape = session.probe_shapes(layer, UNKNOWN_STEPS)
        replicas = cards.replicas_of(self.config["device"])  # each takes a part of the batch
        most = max(batch["rows"] for batch in batches) // replicas
        x = stream.normal(size=(most,) + shape).astype("float32")
        upstream = stream.normal(size=(most,) + output_shape).astype("float32")
        # Rows do not depend on each other: with nothing from the others, the gradients of the
        # weights are those of the compared rows. Outputs of the largest batch serve all.
        first = compared_rows(most, shape[0], arrays)
        upstream[first:] = 0.0

        @functools.lru_cache(maxsize=None)
        def expected(size: int) -> Tuple[numpy.ndarray, Arrays]:
            rows = min(size, first)
            return reference.run(made.cell, x[:rows], arrays, upstream[:rows], function)

        for batch in batches:
            rows = batch["rows"] // replicas
            compared = min(rows, first)
            batch["compared"] = min(batch["compared"], compared * replicas)
            if batch["training"]:
                outputs, gradients = session.layer_gradients(layer, x[:rows], upstream[:rows])
            else:
                outputs = session.layer_outputs(layer, x[:rows])
            if batch is batches[0]:
                self.saved["outputs"].append(outputs[:COMPARED_ROWS])
                for name in sorted(gradients):
                    gradient = gradients[name]
                    if name == "x":
                        gradient = gradient[:COMPARED_ROWS]
                    self.saved["gradients"].append(gradient)
            if function is None:
                continue
            right_outputs, _ = expected(most)
            error = relative_error(outputs[:compared], right_outputs[:compared])
            batch["outputs"].append(error)
            if batch["training"]:
                _, right_gradients = expected(rows)
                batch["gradients"] += gradient_errors(gradients, right_gradients)


def applied(trial: Trial, tolerance: Tolerance) -> Json:
    """Returns ``{"threads", "steps", "off", "worst", "why"}``: `off` is the number of steps that
    applied something other than the gradient, `worst` the largest `difference`, None if it is not
    finite, and `why` is None, or why nothing was measured. `trial`: one with `OPTIMIZER`."""
    result: Json = {
        "threads": trial.session.threads,
        "steps": 0,
        "off": None,
        "worst": None,
        "why": None,
    }
    if keras_checks.has_own_step(trial.session):
        result["why"] = OWN_STEP
        return result
    trial.session.load_weights(trial.weights)
    trial.session.reset()
    (first,) = first_batches(trial.session.arrays, trial.config, 1)
    with trial.session.without_randomness():
        # The error of a model that cannot be trained is its own; on jax, Keras then loses weights.
        trial.session.train_batch(*first)
    try:
        steps = applied_steps(trial.weights, trial.is_long)
        batches = first_batches(trial.session.arrays, trial.config, steps)
        with trial.session.without_randomness():
            found = differences_of(trial.session, batches)
            off = [value for value in found if not value <= tolerance["gradients"]]
            if off and draws_anew(trial.session, first, tolerance["gradients"]):
                result["why"] = OWN_DRAWS
                return result
        worst = max(found)
        if numpy.isfinite(worst):
            result["worst"] = worst
        result["steps"] = len(found)
        result["off"] = len(off)
    except Exception as error:  # the other implementations are still to be checked
        traceback.print_exc()
        result["why"] = user_functions.described(error, trial.config["model"]["function"])
    return result
