"""What a runtime is asked before it is timed: batches of each size, longer and shorter sequences,
masks, and everything twice."""

import collections

import numpy

from rnnworker import trees

# Cases with masked steps.
BEHIND = "padded behind"
BEFORE = "padded before"
GAPS = "gaps"
LONGER = 3  # time steps more, and fewer
LARGEST = 64  # samples that are kept for batches
PARTS = ("_val", "_test", "_train", "")  # of a data set, the first one that there is
SEVERAL = 4  # samples at least, of which some are masked

Case = collections.namedtuple("Case", "name arrays is_timed")


def labels_of(source):
    """The labels beside the samples that `inputs_of` returns, or None."""
    for part in PARTS:
        if any(name.partition(".")[0] == "x" + part for name in source):
            return source.get("y" + part)
    return None


def inputs_of(source, model, samples=LARGEST):
    """Returns the first `samples` of a model as a list of arrays in the order of its inputs.

    `source`: the arrays of a data set by name: ``x_val``, ``x_test``, ``x_train`` or ``x``, with
    ``x_val.NAME`` or ``x_val.0`` for several inputs. Raises ValueError if none fits.
    """
    names = [tensor.name for tensor in model.inputs]
    parts = ["x" + part for part in PARTS]
    nested = trees.nested(source, parts)
    for part in parts:
        tree = nested.get(part, ())
        if isinstance(tree, dict):
            order = names if set(tree) == set(names) else sorted(tree)
            tree = [tree[name] for name in order]
        found = trees.leaves(tree)
        if len(found) == len(names):
            return _as_the_model_has_them(model, found, samples)
    raise ValueError(
        "the data have no x_val, x_test, x_train or x for the inputs {} of the model, only "
        "{}".format(", ".join(names), ", ".join(sorted(source)))
    )


def _as_the_model_has_them(model, arrays, samples):
    found = []
    for tensor, array in zip(model.inputs, arrays):
        array = numpy.asarray(array)
        shape = tuple(tensor.shape)
        fits = array.ndim == len(shape)
        for size, wanted in zip(array.shape[1:], shape[1:]):
            fits = fits and wanted in (None, size)
        if not fits:
            raise ValueError(
                "the data of the input {} have the shape {}, but the model takes {}".format(
                    tensor.name, array.shape, shape
                )
            )
        found.append(numpy.ascontiguousarray(array[:samples], tensor.dtype))
    return found


def cases_of(model, samples, batches):
    """Returns the cases. Those with a batch come first, one for each size; a few samples are asked
    for in any case, because a single one does not show what outputs differ by.

    - `samples`: from `inputs_of`.
    - `batches`: sizes that are timed; a model with a fixed size of batch has that one only.
    """
    fixed = model.inputs[0].shape[0]
    if fixed:
        batches = [fixed]
    sizes = list(batches)
    if not fixed and max(batches) < SEVERAL:
        sizes.append(SEVERAL)
    cases = []
    for batch in sizes:
        cases.append(Case("batch {}".format(batch), _batch(samples, batch), batch in batches))
    for first in range(fixed or SEVERAL, SEVERAL, fixed or SEVERAL):
        name = "batch {} from sample {}".format(fixed, first + 1)
        cases.append(Case(name, _batch(samples, fixed, first), False))
    few = _batch(samples, fixed or 2)
    free = [number for number, tensor in enumerate(model.inputs) if is_free(tensor)]
    if free:
        cases.append(Case("longer", _with_length(few, free, LONGER), False))
        cases.append(Case("shorter", _with_length(few, free, -LONGER), False))
    values = mask_values(model)
    if values:
        # A size that is timed, so that files for one shape are asked masks themselves.
        some = _batch(samples, fixed or min(batch for batch in sizes if batch >= SEVERAL))
        for name in (BEHIND, BEFORE, GAPS):
            cases.append(Case(name, _masked(some, values, name), False))
    return cases


def is_free(tensor):
    """Whether an input of the model takes sequences of any length."""
    return len(tensor.shape) > 1 and tensor.shape[1] is None


def _batch(samples, batch, first=0):
    """Samples from the `first` one on, again from the very first one if there are too few."""
    numbers = range(first, first + batch)
    return [numpy.take(array, numbers, axis=0, mode="wrap") for array in samples]


def _with_length(arrays, free, more):
    """Sequences with `more` steps (or fewer), again from the first step."""
    found = list(arrays)
    for number in free:
        steps = max(1, arrays[number].shape[1] + more)
        found[number] = numpy.take(arrays[number], range(steps), axis=1, mode="wrap")
    return found


def mask_values(model):
    """Returns {number of an input: the value that masks a step}: of inputs that a ``Masking`` or an
    ``Embedding`` with ``mask_zero`` reads directly."""
    found = {}
    layers = model._flatten_layers(include_self=False)
    for layer in layers:
        kind = type(layer).__name__
        if kind == "Masking":
            value = layer.mask_value
        elif kind == "Embedding" and layer.mask_zero:
            value = 0
        else:
            continue
        read = []
        for node in layer._inbound_nodes:
            read += node.input_tensors
        for number, tensor in enumerate(model.inputs):
            if len(model.inputs) == 1 or any(tensor is each for each in read):
                found[number] = value
    return found


def _masked(arrays, values, name):
    """The arrays with masked steps, other ones in each sample; the first of several has none, and
    with ``gaps`` the last one has nothing else."""
    found = list(arrays)
    for number, value in values.items():
        array = arrays[number].copy()
        steps = array.shape[1]
        for sample in range(min(1, len(array) - 1), len(array)):
            masked = 1 + sample % max(1, steps - 1)
            if name == BEHIND:
                array[sample, steps - masked :] = value
            elif name == BEFORE:
                array[sample, :masked] = value
            else:
                array[sample, 1 :: 1 + sample] = value
        if name == GAPS:
            array[-1] = value
        found[number] = array
    return found


def give_biases(model, seed=0):
    """Adds noise to each bias of `model` of which all elements are equal, and to the parameters of
    normalization: a conversion that loses or exchanges zeros would not show. Returns the number of
    changed arrays."""
    stream = numpy.random.RandomState(seed)
    changed = 0
    for variable in model.weights:
        name = variable.path.rpartition("/")[2]
        if name not in ("bias", "beta", "gamma", "moving_mean"):
            continue
        array = numpy.asarray(variable)
        is_forget_gate = set(numpy.unique(array)) == {0.0, 1.0}
        is_trained = array.size == 1 and array.any()  # a single element has no other to differ from
        if is_forget_gate or (numpy.ptp(array) == 0 and not is_trained):
            variable.assign(array + 0.1 * stream.normal(size=array.shape).astype(array.dtype))
            changed += 1
    return changed
