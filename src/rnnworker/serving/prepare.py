"""The process that makes everything for a comparison of runtimes: the model, what it is asked, what
the answers should be, and each runtime's files.

    python path/to/rnnworker --serving JOB.json

The job has ``config`` (of a run; see `model_of`), ``data`` (the path of its dataset, or null),
``batches``, ``runtimes`` (each with ``name``, ``implementation`` and ``options``), ``threads``,
``train`` (whether the model is trained first) and ``folder``. Written into the folder:
``cases.npz``, ``validation.npz`` (of a trained model if a runtime has a lower precision),
``prepared.json`` and a folder for each runtime, with one inside it for each shape if its files are
for one shape.
"""

import json
import os
import time
from pathlib import Path

import numpy

from rnnserve import FULL_PRECISION, keras_models, precision_of, runtime
from rnnserve.refusals import Refused, first_words
from rnnworker import data, trees, user_functions
from rnnworker.frameworks import open_session
from rnnworker.options import SAVED
from rnnworker.serving import accuracy, cases, equality, float64, formulas, rounding

CALLS = 2  # of each case: a second one shows whether states are kept as they should be


def main(path):
    """Prepares the job in the file `path`. A fault of the user's is a line of ``prepared.json``."""
    with open(path) as file:
        job = json.load(file)
    folder = Path(job["folder"])
    try:
        prepared = prepare(job, folder)
    except (ValueError, OSError) as error:
        prepared = {"fault": user_functions.one_line(error)}
    with open(str(folder / "prepared.json"), "w") as file:
        json.dump(prepared, file, indent=1)


def prepare(job, folder):
    """Returns what ``prepared.json`` has; see `main`."""
    model, source = model_of(job)
    samples = cases.inputs_of(source, model)
    changed = cases.give_biases(model)
    made = cases.cases_of(model, samples, job["batches"])
    asked = [case.arrays for case in made]
    expected, reference = expected_of(model, asked)
    keras_models.reset_states(model)
    of_keras = answers(lambda arrays: by_keras(model, arrays), asked)
    roundings = largest_differences(of_keras, expected)
    # The first one of the largest size: no other case has more samples than a batch.
    largest = max(range(len(made)), key=lambda number: len(asked[number][0]))
    outputs = outputs_of(asked, expected, largest)
    bounds = equality.bounds_of(outputs, roundings)
    precisions = {precision_of(each["options"]) for each in job["runtimes"]} - {FULL_PRECISION}
    lower_bounds = {}
    for precision in sorted(precisions):
        moved = moved_by_rounding(model, asked, expected, precision)
        lower_bounds[precision] = equality.lower_bounds_of(outputs, moved, bounds)
    validation = None
    if precisions:
        validation = validate(job, model, source, largest, len(asked[largest][0]), folder)
    shapes, shape_of = shapes_in(asked)
    write_cases(folder / "cases.npz", asked, expected)
    listed = []
    for case, shape in zip(made, shape_of):
        facts = {"name": case.name, "batch": len(case.arrays[0]), "shape": shape}
        listed.append(dict(facts, is_timed=case.is_timed))
    return {
        "model": model.name,
        "reference": reference,
        "biases_changed": changed,
        "bounds": bounds,
        "lower_bounds": lower_bounds,
        "validation": validation,
        "roundings": roundings,
        "cases": listed,
        "steps": steps_of(asked[0]),
        "runtimes": export_all(model, job["runtimes"], shapes, folder),
    }


def outputs_of(asked, expected, largest):
    """What the outputs of the case `largest` should be, and of all of its shape if it has too few
    samples to show what outputs differ by: those of a model with a fixed batch."""
    shapes = [[array.shape for array in arrays] for arrays in asked]
    alike = [largest]
    if len(asked[largest][0]) < cases.SEVERAL:
        alike = [case for case, shape in enumerate(shapes) if shape == shapes[largest]]
    return [numpy.concatenate(parts) for parts in zip(*(expected[case][0] for case in alike))]


def model_of(job):
    """Returns the model of a config as its ``build`` makes it, trained if ``train`` says so, and
    its arrays by name.

    Without ``model.data``, the dataset is the arrays that are asked. Raises ValueError if the
    model cannot be exported.
    """
    config = job["config"]
    session = open_session(config, job["threads"])
    if config["model"].get("data"):
        session.load_data(job["data"], job.get("pinned_md5"))
        source = dict(trees.named(session.arrays["x_val"], "x_val"))
        if "sample_weight_val" not in session.arrays:
            source.update(trees.named(session.arrays["y_val"], "y_val"))
    else:
        with numpy.load(job["data"]) as arrays:
            source = dict(arrays)
    session.construct()
    if not getattr(session.model, "inputs", None):
        name = config["model"].get("file") or config["model"]["function"]
        raise ValueError("{}: only models with declared inputs can be exported".format(name))
    if job["train"]:
        train(session)
    return session.model, source


def train(session):
    """Trains the session's model for all epochs of its config. Its model is then a new one with the
    trained weights, without an optimizer. Raises ValueError if its training data are augmented, or
    if a weight is not finite afterwards."""
    settings = session.config["model"]
    augment = settings["data"].get("augment")
    if augment:
        what = "predict.train does not augment data, as {} would: leave it out".format(augment)
        raise ValueError(what + ", or give a trained .keras file")
    samples = data.samples(session.arrays, "train")
    rows = trees.rows(samples)
    epochs = settings["epochs"]
    orders = []
    for epoch in range(epochs):
        orders.append(data.epoch_order(session.config["seed"], epoch + 1, rows))
    session.compile()
    session.train(samples, orders, settings["batch"], epochs=epochs)
    weights = session.model.get_weights()
    if not all(numpy.isfinite(array).all() for array in weights):
        raise ValueError("a weight is not finite after the training: lower the learning rate")
    session.construct()
    session.model.set_weights(weights)


def moved_by_rounding(model, asked, expected, precision):
    """For each output, its largest difference in any call with weights and inputs rounded."""
    exact = model.get_weights()
    values = cases.mask_values(model)
    keras_models.reset_states(model)
    model.set_weights(rounding.rounded_weights(model, precision))
    coarse = [rounding.rounded_inputs(arrays, precision, values) for arrays in asked]
    try:
        found = answers(lambda arrays: by_keras(model, arrays), coarse)
    finally:
        model.set_weights(exact)
    return largest_differences(found, expected)


def validate(job, model, source, case, batch, folder):
    """Writes validation samples and their labels. Returns what says how good the model is, or None
    if that is unknown: weights that nobody trained, no labels, or a loss without such a number.

    `case`: the number of the one with the largest `batch`, of the shape that is asked.
    """
    settings = job["config"]["model"]
    loss = settings.get("loss") or getattr(model, "loss", None)
    labels = cases.labels_of(source)
    is_trained = job["train"] or settings["function"] == SAVED
    name = accuracy.name_of(loss) if isinstance(loss, str) else None
    has_one_answer = len(model.outputs) == 1 and not keras_models.stateful_layers(model)
    if not (is_trained and has_one_answer) or name is None or labels is None:
        return None
    arrays = cases.inputs_of(source, model, accuracy.SAMPLES)
    labels = numpy.asarray(labels)[: len(arrays[0])]
    outputs = accuracy.outputs_of(lambda asked: by_keras(model, asked), arrays, batch)
    kept = {"inputs": arrays, "labels": labels}
    numpy.savez(str(folder / "validation.npz"), **dict(trees.named(kept)))
    return {
        "name": name,
        "loss": loss,
        "value": accuracy.value_of(loss, outputs, labels),
        "samples": len(labels),
        "case": case,
    }


def steps_of(arrays):
    """The number of time steps of the longest sequence among the inputs; None without one."""
    lengths = []
    for array in arrays:
        if array.ndim > 2 or (array.ndim == 2 and array.dtype.kind in "iu"):
            lengths.append(array.shape[1])
    return max(lengths) if lengths else None


def by_keras(model, arrays):
    return keras_models.flat(model.predict_on_batch(keras_models.packed(model, arrays)))


def answers(answer, asked):
    """The outputs of all calls: for each case, for each call, a list of arrays."""
    found = []
    for arrays in asked:
        calls = []
        for _ in range(CALLS):
            calls.append([numpy.array(output) for output in answer(arrays)])
        found.append(calls)
    return found


def expected_of(model, asked):
    """Returns (what the outputs of all calls should be, what says so)."""
    try:
        alone = [formulas.outputs(model, arrays) for arrays in asked]
        return [[outputs] * CALLS for outputs in alone], "float64 formulas"
    except Refused as error:
        why = str(error)
    try:
        copied = float64.copy_of(model)
    except float64.NoCopy as error:
        keras_models.reset_states(model)
        found = answers(lambda arrays: by_keras(model, arrays), asked)
        return found, "Keras in float32 ({}; {})".format(why, error)
    keras_models.reset_states(copied)
    wide = []
    for arrays in asked:
        floats = []
        for array in arrays:
            if array.dtype == numpy.float32:
                array = array.astype("float64")
            floats.append(array)
        wide.append(floats)
    found = answers(lambda arrays: by_keras(copied, arrays), wide)
    return found, "Keras in float64 ({})".format(why)


def largest_differences(found, expected):
    """For each output, its largest difference in any call."""
    worst = [0.0] * len(expected[0][0])
    for calls, wanted in zip(found, expected):
        for outputs, right in zip(calls, wanted):
            for number, (output, expected_output) in enumerate(zip(outputs, right)):
                apart = equality.difference(output, expected_output)
                if apart is None or not numpy.isfinite(apart):
                    raise ValueError(
                        "Keras's own output {} differs in shape from the reference, or is not "
                        "finite".format(number)
                    )
                worst[number] = max(worst[number], apart)
    return worst


def shapes_in(asked):
    """Returns (the first arrays of each shape, the number of the shape of each case)."""
    known = []
    shapes = []
    shape_of = []
    for arrays in asked:
        shape = [array.shape for array in arrays]
        if shape not in known:
            known.append(shape)
            shapes.append(arrays)
        shape_of.append(known.index(shape))
    return shapes, shape_of


def write_cases(path, asked, expected):
    made = []
    for inputs, calls in zip(asked, expected):
        calls = trees.mapped(lambda array: numpy.asarray(array, "float64"), calls)
        made.append({"inputs": inputs, "calls": calls})
    numpy.savez(str(path), **dict(trees.named({"cases": made})))


def export_all(model, runtimes, shapes, folder):
    """Returns {name: {"refused": why} or {"seconds", "folder", "imports"}}. Runtimes with the same
    export share its files, and its refusal."""
    found = {}
    done = {}
    for each in runtimes:
        name = each["name"]
        try:
            chosen = runtime(each["implementation"], **each["options"])
        except Exception as error:  # of any class: the file may be a user's own
            found[name] = {"refused": refusal_of(error)}
            continue
        if chosen.export_key not in done:
            print("exports for {}".format(name), flush=True)  # the log's last line if it hangs
            done[chosen.export_key] = _export(model, chosen, name, shapes, folder)
        found[name] = dict(done[chosen.export_key], imports=list(chosen.imports))
    return found


def _export(model, chosen, name, shapes, folder):
    begun = time.monotonic()
    wanted = shapes[:1]
    if chosen.has_fixed_shapes:
        wanted = shapes
    try:
        for number, arrays in enumerate(wanted):
            place = folder / name / str(number)
            os.makedirs(str(place))
            chosen.export(model, arrays, place)
    except Exception as error:  # of any class of a converter
        return {"refused": refusal_of(error)}
    return {"seconds": time.monotonic() - begun, "folder": name}


def refusal_of(error):
    """Why a runtime cannot answer, in one line."""
    if isinstance(error, Refused):
        return user_functions.one_line(error)
    if isinstance(error, ImportError):
        return "{} is not installed".format(error.name)
    return "{}: {}".format(type(error).__name__, first_words(error))
