"""What a model must be so that its weights can be set, its layers exchanged and its steps checked.
Any other is refused, with the line of the model's file where it is known."""

import contextlib
import gc

from rnnlayers import CannotCompute
from rnnworker import precision, products, trees
from rnnworker.arguments import DECIDED, Refusal
from rnnworker.array_names import WEIGHTS
from rnnworker.frameworks import file_settings, keras_facts
from rnnworker.options import OF_MODEL
from rnnworker.recurrent import composed, in_place
from rnnworker.recurrent.composed import flat
from rnnworker.user_functions import caller

SET_BACK = "optimizer=…, can be set back to its first state before a timed training"
OF_CUDNN = ("CuDNNLSTM", "CuDNNGRU")  # of Keras 2
LOOPS = ("keras", "cell")  # the implementations that are Keras's loop over a cell


@contextlib.contextmanager
def refusals(place_of):
    """Raises the `Refusal` behind an error in the block, which TensorFlow 2.15 hides in one of its
    own; also in place of a kernel's `CannotCompute`, with the place where its layer was made, of
    which `place_of` is the function."""
    try:
        yield
    except Exception as error:
        behind = None
        each = error
        while each is not None:
            if isinstance(each, (Refusal, CannotCompute)):
                behind = each  # the first: Keras 3 raises a copy that has lost its layer
            each = each.__cause__ or each.__context__
        if isinstance(behind, CannotCompute):
            raise in_place.refused(behind, place_of) from error
        if behind is None or behind is error:
            raise
        raise behind from error


def check_kind(session):
    """Raises TypeError or `Refusal` if what the model's function returned is not a model that Keras
    trains with one optimizer."""
    model = session.model
    function = session.function
    if not hasattr(model, "compile"):
        fault = "build of {} returned {}, not a Keras model"
        raise TypeError(fault.format(function, type(model).__name__))
    for name, value in vars(model).items():
        is_of_tensorflow = name.startswith("_self_")  # names all objects a second time
        if name in ("optimizer", "_optimizer") or is_of_tensorflow:
            continue
        held = [value]
        if isinstance(value, dict):
            held = value.values()
        elif isinstance(value, (list, tuple)):
            held = value
        for each in held:
            if isinstance(each, keras_facts.optimizers(session.keras)):
                fault = "{}: the model has an optimizer of its own, {}: only that of compile, {}"
                raise Refusal(fault.format(session.place(each) or function, name, SET_BACK))


def check_strategy(session):
    """Raises `Refusal` if the model was made for other replicas than those of its device."""
    strategy = getattr(session.model, "distribute_strategy", None)
    if strategy is None:
        return
    wanted = session.tensorflow.distribute.get_strategy()
    if type(strategy) is not type(wanted):
        fault = "{}: build makes its model for {}: the device in the grid decides about replicas"
        place = file_settings.line_with(r"scope\(\)", session.function)
        raise Refusal(fault.format(place, type(strategy).__name__))


def has_own_step(session):
    """Whether the model overrides ``train_step``, so that its gradient is not known."""
    own = getattr(type(session.model), "train_step", None)
    return own is not getattr(session.keras.models.Model, "train_step", None)


@contextlib.contextmanager
def only_its_optimizer(session):
    """Raises `Refusal` if a model's own ``train_step`` takes a step in the block with an optimizer
    that is neither that of compile nor inside it: others are not set back before a timed
    training."""
    if not has_own_step(session):
        yield
        return
    kinds = keras_facts.optimizers(session.keras)
    before = {id(each): steps for each, steps in _steps_of_all(kinds)}
    with session.refusing_optimizers():
        yield
    known = keras_facts.attributes([session.model.optimizer], kinds, kinds)
    for each, steps in _steps_of_all(kinds):
        if steps == before.get(id(each), 0) or any(each is one for one in known):
            continue
        refuse_optimizer(session, each)


def refuse_optimizer(session, optimizer):
    """Raises the `Refusal` of an `optimizer` that a model's ``train_step`` applies."""
    fault = "{}: train_step applies an optimizer of its own, {}: only that of compile, {}"
    place = session.place(optimizer) or caller() or session.function
    raise Refusal(fault.format(place, type(optimizer).__name__, SET_BACK))


def _steps_of_all(kinds):
    """[(optimizer, its steps)] of all optimizers of the process."""
    found = [each for each in gc.get_objects() if issubclass(type(each), kinds)]
    return [(each, int(each.iterations)) for each in found]


def loss_in(logs, session):
    """The loss among the results of a training step. Raises `Refusal` if there is none."""
    if "loss" not in logs:
        fault = '{}: the model\'s train_step returns {}: return its loss too, as "loss"'
        returned = ", ".join(sorted(logs)) or "nothing"
        raise Refusal(fault.format(session.function, returned))
    return float(logs["loss"])


def check_stop(session):
    """Raises `Refusal` if the model has ended its last training itself."""
    if getattr(session.model, "stop_training", False):
        fault = (
            "{}: the model sets stop_training: remove that, so that all implementations train "
            "equally long"
        )
        raise Refusal(fault.format(session.function))


def check_axes_of_weights(session):
    """Raises `Refusal` if samples have one weight each and the compiled loss of Keras is one of
    each time step. Keras 3 multiplies a batch that is as long as its sequences along the steps,
    and refuses others; Keras 2 multiplies along the samples."""
    model = session.model
    loss = getattr(model, "loss", None)
    module = str(getattr(loss, "__module__", None))
    is_of_keras = isinstance(loss, str) or module.startswith("keras")
    outputs = getattr(model, "outputs", None) or []
    if session.arrays is None or not is_of_keras or len(outputs) != 1:
        return
    axes_of_loss = len(outputs[0].shape) - 1
    for name in WEIGHTS:
        for weights in trees.leaves(session.arrays.get(name, ())):
            if weights.ndim == 1 and axes_of_loss > 1:
                fault = (
                    "{}: {} has one weight for each sample, and the model has a loss for each of "
                    "its {} axes: repeat the weights over the time steps, as "
                    "numpy.repeat(weights[:, None], steps, axis=1)"
                )
                raise Refusal(fault.format(session.function, name, axes_of_loss))


def check(session):
    """Raises `Refusal` if the built model of a `session` cannot be measured: if it does not fit its
    data, if another than the named implementation would run, or if weights could not be set."""
    _check_counts(session)
    _check_shape(session)
    _check_sample_weights(session)
    if session.config["rnn"]["implementation"] != "none":
        _check_layers(session)
        _check_cells(session)
        _check_dtypes(session)
    _check_states(session)
    _check_weights(session)


def _check_counts(session):
    """The model and the data must have equally many inputs and outputs. A subclassed model states
    none."""
    if session.arrays is None:
        return
    for part, name in (("inputs", "x_train"), ("outputs", "y_train")):
        tensors = getattr(session.model, part, None)
        if not tensors:
            continue
        stated = len(tensors)
        arrays = session.arrays[name]
        given = len(trees.leaves(arrays))
        # Keras has no loss of an output that a dict of targets leaves out.
        is_part = part == "outputs" and isinstance(arrays, dict) and given < stated
        if stated != given and not is_part:
            fault = "{}: the model has {} {}, and the data have {} in {}"
            raise Refusal(fault.format(session.function, stated, part, given, name))


def _check_shape(session):
    """The only input of a model must have the shape of a sample."""
    inputs = getattr(session.model, "inputs", None) or []
    if session.arrays is None or len(inputs) != 1:
        return
    stated = products.sizes(inputs[0].shape)[1:]
    (array,) = trees.leaves(session.arrays["x_train"])
    given = array.shape[1:]
    # Keras adds or drops a last axis of length 1.
    read = given
    if len(given) == len(stated) - 1:
        read = given + (1,)
    elif given[len(stated) :] == (1,):
        read = given[:-1]
    fits = len(stated) == len(read)
    for size, other in zip(stated, read):
        fits = fits and size in (None, other)
    if not fits:
        fault = "{}: the model takes samples of the shape {}, and x_train has {}"
        raise Refusal(fault.format(session.function, stated, given))


def _check_sample_weights(session):
    """Samples may have weights only where the session passes them on."""
    has_weights = set(WEIGHTS) & set(session.arrays or ())
    if has_weights and not session.takes_sample_weights:
        raise Refusal(
            "sample weights and class_weight are for one device and for Keras 3 or Keras 2 on "
            "TensorFlow 2, such as build=current, keras3_torch or tf_2_15"
        )


def _check_layers(session):
    """The implementation must compute each recurrent layer as the model and the grid state it, and
    unroll no more time steps than it may."""
    for made in session.recurrent.made:
        reason = session.recurrent.unmet(made)
        if reason:
            raise Refusal("{}: {}".format(made.place, reason))
        steps = products.sizes(session.input_shape(made.layer))[1]
        session.recurrent.check_steps(made.place, steps)
    if session.recurrent.kernel is None:
        return
    for layer in flat(session.model.layers):
        if type(layer).__name__ in OF_CUDNN:
            fault = "{}: the layer {} is cuDNN itself: write keras.layers.{} and rnn=auto or cudnn"
            place = session.place(layer) or session.function
            usual = type(layer).__name__[len("CuDNN") :]
            raise Refusal(fault.format(place, layer.name, usual))
    for layer in in_place.kernels_given(session.model):
        reason = session.recurrent.stated_otherwise(layer)
        if reason:
            place = session.place(layer) or "layer " + layer.name
            raise Refusal("{}: {}".format(place, reason))


def _check_dtypes(session):
    """The layers must compute in the precision of the grid."""
    wanted = precision.computed_in(session.config)
    for made in session.recurrent.made:
        for layer in composed.inner_layers(made.layer):
            cell = getattr(layer, "cell", layer)  # Keras 2.0.6 has no cells
            computed = getattr(cell, "compute_dtype", None) or wanted
            if computed != wanted:
                fault = "{}: the layer {} computes in {}, and this run in {}: {}"
                decides = DECIDED["dtype"]
                shown = fault.format(made.place, layer.name, computed, wanted, decides)
                raise Refusal(shown)


def _check_cells(session):
    """The layers must have the cell of the grid, if it names one."""
    cell = session.config["cell"]["name"]
    cells = {made.cell for made in session.recurrent.made}
    for made in session.recurrent.made:
        if cell not in (OF_MODEL, made.cell):
            fault = "{}: the layer has the cell {}, and the grid cell={}: write cell={}"
            right = OF_MODEL
            if len(cells) == 1:
                right = made.cell
            raise Refusal(fault.format(made.place, made.cell, cell, right))


def _check_states(session):
    """No layer may have stateful=True where a training does not keep its states."""
    places = {id(made.layer): made.place for made in session.recurrent.made}
    for layer in flat(session.model.layers):
        if not getattr(layer, "stateful", False):
            continue
        why = session.loses_states(layer)
        if why:
            place = places.get(id(layer), session.function)
            fault = "{}: the layer {} has stateful=True: {}"
            raise Refusal(fault.format(place, layer.name, why))


def _check_weights(session):
    """Each layer that ``recurrent`` made must be in the model, and each weight in a layer: others
    could not be set."""
    inside = session.weighted()
    for made in session.recurrent.made:
        if not any(layer is made.layer for layer in inside):
            raise Refusal(
                "{}: the layer that recurrent made is not part of the model; in place of "
                "keras.layers.Bidirectional(recurrent(…)) write recurrent.bidirectional(…), "
                "and call every layer".format(made.place)
            )
    found = sum(session.count_of(layer) for layer in inside)
    if found != len(session.model.weights):
        fault = "{}: of the model's {} weights, {} are in its layers: make each weight in a layer"
        raise Refusal(fault.format(session.function, len(session.model.weights), found))


def check_has_layers(session):
    """Raises `Refusal` if no layer of the model can be another one's: it has no recurrent layer, or
    Keras does not know that it has."""
    recurrent = session.recurrent
    if recurrent.layers or has_own_loop(session):
        return
    if recurrent.kernel is not None and in_place.kernels_given(session.model):
        return
    # Loops first: a cell may be inside another one.
    loops = getattr(session.keras.layers, "RNN", ())
    made = sorted(session.made_in_build(), key=lambda each: not isinstance(each, loops))
    for layer in made:
        why = _why_not_found(session, layer, loops)
        if why:
            raise Refusal("{}: {}".format(session.place(layer), why))
    fault = (
        "build of {} makes no LSTM, GRU or SimpleRNN: add one, or write recurrent: "
        "false in the model's YAML and use rnn=none"
    )
    raise Refusal(fault.format(session.function.rpartition(":")[0]))


def _why_not_found(session, layer, loops):
    """Why a `layer` that the model's file has made is none that an implementation can compute; None
    if it is another kind of layer. `loops`: Keras's class of loops over a cell."""
    if in_place.kind_of(session.keras, layer):
        fault = (
            "the layer {} is not part of the model, and not trained: Keras finds layers in "
            "attributes of models and layers, not in a Lambda or in another object"
        )
        return fault.format(layer.name)
    if isinstance(layer, loops):
        fault = (
            "rnn={} cannot compute the cell {}, only those of LSTM, GRU and SimpleRNN: keras and "
            "cell can"
        )
        return fault.format(session.recurrent.name, type(layer.cell).__name__)
    if in_place.is_cell(session.keras, layer):
        fault = (
            "the model calls the cell {} in a loop of its own, which no implementation can "
            "compute: give it to keras.layers.RNN"
        )
        return fault.format(layer.name)
    return None


def has_own_loop(session):
    """Whether the model has Keras's loop over cells of its own, and that is what runs."""
    if session.recurrent.kernel not in LOOPS:
        return False
    loop = getattr(session.keras.layers, "RNN", ())  # Keras 2.0.6 has no such layer
    return any(isinstance(layer, loop) for layer in flat(session.model.layers))


DECIDED_OF_COMPILE = {
    "jit_compile": "the build decides that: remove it, and choose a build with XLA, such as "
    "build=tf_2_21_xla",
    "run_eagerly": "each build compiles its steps",
}


def check_own_compile(place, model, arguments, settings):
    """Raises `Refusal` if the `arguments` with which a model compiles itself in `place` contradict
    its YAML (`model`), or the grid's `settings`."""
    stated = [key for key in ("loss", "optimizer", "metrics") if model.get(key) is not None]
    if stated:
        fault = "{}: build compiles its model, and its YAML states {} too: remove one of them"
        raise Refusal(fault.format(place, " and ".join(stated)))
    for argument, decides in DECIDED_OF_COMPILE.items():
        asked = arguments.get(argument)
        if asked in (True, False) and asked != settings.get(argument, asked):
            fault = "{}: build compiles its model with {}={}: {}"
            raise Refusal(fault.format(place, argument, asked, decides))
    if arguments.get("steps_per_execution") not in (None, 1):
        fault = (
            "{}: build compiles its model with steps_per_execution={}: each step is timed, so it "
            "must be 1"
        )
        raise Refusal(fault.format(place, arguments["steps_per_execution"]))
