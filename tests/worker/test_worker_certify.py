"""The arithmetic of certificates: errors, and the difference between the gradients that a training
step applied and the computed ones, all by hand."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from types import SimpleNamespace

import numpy
import pytest

from rnnbench.sources.certificates import Batch, wrong
from rnnworker import (
    certify,
    differences,
    events,
    precision,
    reference,
    weights,
)
from rnnworker.initializers import drawn, stream


def first_weights(inputs: int, units: int) -> dict[str, numpy.ndarray]:
    """The canonical arrays of an LSTM as Keras initializes it."""
    arrays = {
        "kernel": drawn("GlorotUniform", (inputs, 4 * units), stream(0, "LSTM", 0), {}),
        "recurrent": drawn("Orthogonal", (units, 4 * units), stream(0, "LSTM", 1), {}),
        "bias": numpy.repeat([0.0, 1.0, 0.0, 0.0], units),
    }
    return {name: array.astype("float32") for name, array in arrays.items()}


def test_relative_error_is_on_the_scale_of_the_array() -> None:
    assert certify.relative_error([1e-9, 2.0], [0.0, 2.0]) == pytest.approx(5e-10)
    assert certify.relative_error([1.0, 3.0], [1.0, 2.0]) == 0.5
    assert certify.relative_error([0.0], [0.0]) == 0.0


@pytest.mark.parametrize(
    ("values", "expected", "fault"),
    [
        ([1.0], [0.0], "differ from the float64 reference by 1e+09"),
        ([1.0, 1.0], [1.0], "differ from the float64 reference by 1e+09"),
        ([float("nan")], [1.0], "are not finite at batch 1"),
        ([float("inf")], [1.0], "are not finite at batch 1"),
    ],
)
def test_what_cannot_be_compared_fails_after_the_way_to_the_controller(
    values: list[float], expected: list[float], fault: str
) -> None:
    error = events.to_json_data(certify.relative_error(values, expected))
    text = wrong([Batch(1, True, gradients=error)], precision.TOLERANCE["float32"], "cpu")
    assert text is not None and fault in text


def test_probe_weights_reveal_a_clip_and_leave_their_input_unchanged() -> None:
    stream = numpy.random.RandomState(0)
    arrays = {"kernel": stream.normal(size=(5, 24)), "recurrent": stream.normal(size=(6, 24))}
    arrays["bias"] = numpy.zeros(24)
    probe = certify.probe_weights("lstm", arrays, 0, "tanh")
    assert not arrays["bias"].any()
    assert len(set(probe["bias"].tolist())) == 24
    state = (numpy.zeros((16, 6)), numpy.zeros((16, 6)))
    layer = reference._Layer("lstm", probe, reference.function_of("lstm", {}, True))
    for _ in range(8):
        projected = stream.normal(size=(16, 5)) @ probe["kernel"] + probe["bias"]
        state, _ = reference._lstm(layer, projected, state)
    assert abs(state[1]).max() > 3.0


@pytest.mark.parametrize("gate", ["sigmoid", "hard_sigmoid"])
@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_probes_hardly_amplify_rounding_errors(activation: str, gate: str) -> None:
    """At the shapes of mnist_rnn: a change by one rounding, 6e-8, stays 50 times below what
    certificates tolerate."""
    options = {"activation": activation, "recurrent_activation": gate}
    function = reference.function_of("lstm", options, True)
    exact = certify.probe_weights("lstm", first_weights(28, 128), 0, activation)
    random = numpy.random.RandomState(0)
    x, upstream = random.normal(size=(32, 28, 28)), random.normal(size=(32, 128))
    exact["x"] = x
    rounded = {
        name: array * (1 + 6e-8 * random.uniform(-1, 1, array.shape))
        for name, array in exact.items()
    }
    (outputs, gradients), (expected, exact_gradients) = (
        reference.run("lstm", weights.pop("x"), weights, upstream, function)
        for weights in (rounded, exact)
    )
    assert certify.relative_error(outputs, expected) < 2e-7
    for name, gradient in gradients.items():
        assert certify.relative_error(gradient, exact_gradients[name]) < 2e-6


def arrays(*values: float) -> list[numpy.ndarray]:
    return [numpy.array(values, "float32")]


SMALL = numpy.array([1e-6, 3e-6], "float32")
DIFFERENCES = {
    "exact": (arrays(1.0, 2.0), arrays(0.5, 2.25), arrays(0.5, -0.25), 0.0),
    "on the scale of the gradient": (
        arrays(1.0, 2.0), arrays(0.5, 2.0), arrays(0.5, -0.25), pytest.approx(0.5, abs=1e-5)),
    "nothing applied": (
        arrays(1.0, 2.0), arrays(1.0, 2.0), arrays(0.5, -0.25), pytest.approx(1.0, abs=1e-5)),
    "not finite": (
        arrays(1.0, 2.0), arrays(float("nan"), 2.0), arrays(0.5, -0.25), float("inf")),
    # Subtraction from 1 in float32 rounds to 6e-8: several per cent of this gradient.
    "rounding": (arrays(1.0, 1.0), [numpy.ones(2, "float32") - SMALL], [SMALL], 0.0),
    # An array without a gradient must not change.
    "unchanged": (arrays(1.0) + arrays(0.0), arrays(0.5) + arrays(0.0),
                  arrays(0.5) + arrays(0.0), 0.0),
    "changed": (arrays(1.0) + arrays(0.0), arrays(0.5) + arrays(0.1),
                arrays(0.5) + arrays(0.0), pytest.approx(0.2, abs=1e-4)),
}  # fmt: skip


@pytest.mark.parametrize(
    ("before", "after", "gradients", "expected"), DIFFERENCES.values(), ids=DIFFERENCES
)
def test_the_difference_between_applied_and_computed_gradients(
    before: list, after: list, gradients: list, expected: float
) -> None:
    assert differences.difference(before, after, gradients) == expected


class Session:
    """Applies only half of its gradient in every third step."""

    threads = 1
    config = {"build": {"framework": "fake"}}  # noqa: RUF012

    def __init__(self) -> None:
        self.step, self.weights = 0, arrays(1.0, 1.0)
        self.load_weights = lambda weights: None
        self.draw_others = lambda: None
        self.without_randomness = nullcontext
        self.model = self
        self.trainable_weights = [self]
        self.keras = SimpleNamespace(models=SimpleNamespace(Model=object))

    def reset(self) -> None:
        self.weights = arrays(1.0, 1.0)

    def read(self, variables: list) -> list[numpy.ndarray]:
        return self.weights[:1]

    def train_batch(self, x, y) -> None:
        self.step += 1
        share = 0.5 if self.step % 3 == 0 else 1.0
        self.weights = [self.weights[0] - numpy.float32(share) * x[0]]

    def precision_facts(self) -> dict:
        return {"policy": "float32"}

    def loss_gradients(self):
        return lambda x, y: [x[0]]


def test_steps_that_are_off_are_counted() -> None:
    x = numpy.array([[0.5, 0.25]], "float32")
    config = {"model": {"batch": 1}, "seed": 0}
    trial = SimpleNamespace(session=Session(), weights=[], config=config, is_long=False)
    trial.session.arrays = {"x_train": x, "y_train": x}
    result = certify.applied(trial, {"gradients": 1e-4})
    worst = result.pop("worst")
    assert result == {"threads": 1, "steps": 30, "off": 10, "why": None}
    assert worst == pytest.approx(0.5, abs=1e-5)


@pytest.mark.parametrize(
    ("inputs", "is_long", "steps"),
    [
        (4, False, certify.APPLIED_STEPS),
        (12, False, certify.FEW_STEPS),
        (4, True, certify.FEW_STEPS),
    ],
)
def test_few_steps_of_a_large_model_are_compared(
    monkeypatch, inputs: int, is_long: bool, steps: int
) -> None:
    monkeypatch.setattr(certify, "MANY_WEIGHTS", 100)
    weights = [{"kernel": numpy.zeros((inputs, 8))}, {"bias": numpy.zeros(8)}]
    assert certify.applied_steps(weights, is_long) == steps


@pytest.mark.parametrize(
    ("samples", "batch", "served"),
    [
        (36, 16, 32),
        (32, 16, 32),
        (10, 16, 10),
        (10000, 128, 512),
        (10000, 100, 500),
        (900, 600, 512),
    ],
)
def test_a_trained_model_serves_whole_batches(samples: int, batch: int, served: int) -> None:
    assert certify.served_samples(samples, batch) == served


RUN = reference.run


class Layer:
    """A session whose only layer is the reference itself; `fault` changes its gradients of x."""

    def __init__(self, arrays: dict, fault) -> None:
        self.arrays, self.fault = arrays, fault
        made = SimpleNamespace(layer=SimpleNamespace(trainable=True), cell="lstm")
        self.recurrent = SimpleNamespace(made=[made])

    def probe_shapes(self, layer: str, steps: int) -> tuple:
        return (10, 3), (4,)

    def layer_outputs(self, layer: str, x: numpy.ndarray) -> numpy.ndarray:
        return RUN("lstm", x, self.arrays, numpy.zeros((len(x), 4)))[0]

    def layer_gradients(self, layer: str, x: numpy.ndarray, upstream: numpy.ndarray) -> tuple:
        outputs, gradients = RUN("lstm", x, self.arrays, upstream)
        self.fault(gradients["x"])
        return outputs, gradients


def leak(gradient: numpy.ndarray) -> None:
    gradient[-1] += 1.0


@pytest.mark.parametrize("rows", [3, 100])
@pytest.mark.parametrize("fault", [lambda gradient: None, leak], ids=["right", "leaks"])
def test_a_large_layer_is_compared_in_a_few_rows_of_each_whole_batch(
    monkeypatch, rows: int, fault
) -> None:
    """Its gradients are exact, because the others contribute nothing; what leaks there shows."""
    arrays = first_weights(3, 4)
    monkeypatch.setattr(certify, "MOST_PRODUCTS", rows * 10 * (3 + 4) * 16)
    computed = []

    def counted(cell, x, *others, **named):
        computed.append(len(x))
        return RUN(cell, x, *others, **named)

    trial = certify.Trial.__new__(certify.Trial)
    trial.config = {"device": {}}
    trial.session, trial.function = Layer(arrays, fault), None
    trial.saved = {"outputs": [], "gradients": []}
    sizes = [(16, True), (2, True), (5, False)]
    batches = [
        {"rows": size, "training": training, "outputs": [], "gradients": [], "compared": size}
        for size, training in sizes
    ]
    monkeypatch.setattr(certify.reference, "run", counted)
    trial._probe_layer(0, arrays, reference.function_of("lstm", {}, True), batches)
    assert max(computed) == min(rows, 16)
    assert [batch["compared"] for batch in batches] == [min(rows, size) for size, _ in sizes]
    errors = [max(batch["gradients"], default=0.0) for batch in batches]
    assert max(max(batch["outputs"]) for batch in batches) < 1e-12
    assert (max(errors) > 0.1) is (fault is leak), errors
    assert errors[2] == 0.0


TOLERANCE = {"weights": 1e-4}


def saved_of(outputs: list, **others: object) -> dict:
    """What a trial without weights saves."""
    changes = weights.Changes([], [], [], []).with_noise([], [])
    noise = {"first_loss": 0.0, "loss_curve": 0.0}
    curve = {"loss_curve": [1.0], "changes": changes, "noise": noise}
    return {"outputs": outputs, "gradients": [], **curve, **others}


class Growing:
    """A session whose one weight grows sixteenfold in each step, and with it any difference."""

    def __init__(self) -> None:
        self.start = [{"kernel": numpy.ones(1, "float32")}]
        self.weights = self.start

    model = None
    keras = SimpleNamespace(models=SimpleNamespace(Model=object))

    def reset(self) -> None:
        self.weights = self.start

    def set_weights(self, weights: list) -> None:
        self.weights = weights

    def dump_weights(self) -> list:
        return [{name: array.copy() for name, array in each.items()} for each in self.weights]

    def trained(self) -> list:
        return [{"kernel": True}]

    def loss_curve(self, orders: list) -> list:
        losses = []
        for _ in orders:
            losses.append(float(self.weights[0]["kernel"][0]) ** 8)
            self.weights = [{"kernel": self.weights[0]["kernel"] * 16}]
        return losses


def test_a_twin_trains_as_many_steps_as_the_loss_curve() -> None:
    """One rounding of the weight is eight of its eighth power, in each step."""
    trial = SimpleNamespace(session=Growing(), layers=[{"name": "lstm"}], saved={})
    trial.weights = trial.session.start
    trial.config = {"seed": 0}
    curve = certify.Trial._first_steps(trial, [None] * 4, 2)
    assert curve == [1.0, 2.0**32, 2.0**64, 2.0**96]
    noise = trial.saved["noise"]
    for part in ("first_loss", "loss_curve"):
        assert noise[part] == pytest.approx(8 / 2**23, rel=1e-3)
    short = certify.Trial._first_steps(trial, [None] * 2, 2)
    assert short == curve[:2]
    change = trial.saved["changes"].changes[0]["kernel"]
    assert change == pytest.approx(255.0)


def test_an_update_may_take_several_steps() -> None:
    plain = SimpleNamespace(gradient_accumulation_steps=None)
    added_up = SimpleNamespace(gradient_accumulation_steps=8)
    scaled = SimpleNamespace(inner_optimizer=added_up, gradient_accumulation_steps=None)
    found = [certify.steps_of_an_update(each) for each in (plain, added_up, scaled, object())]
    assert found == [1, 8, 8, 1]


def test_weights_are_exchanged_between_implementations_of_one_function() -> None:
    def trial(use_bias: bool, served: float, draws: bool = False) -> SimpleNamespace:
        saved = saved_of([], trained=[], trained_outputs=numpy.ones(2))
        made = SimpleNamespace(function={"use_bias": use_bias}, saved=saved, draws=draws)
        made.layers, made.weights = [], []
        made.session = SimpleNamespace(current=nullcontext)
        made.outputs_with = lambda weights: numpy.array([served, 1.0])
        made.error_of = partial(certify.Trial.error_of, made)
        return made

    trials = {"a": trial(True, 1.0), "b": trial(True, 1.5), "c": trial(False, 1.0)}
    pairs = certify.compare_pairs(trials, TOLERANCE)
    assert [pair["outputs"] for pair in pairs] == [0.5, None, None]
    random = {"a": trial(True, 1.0), "b": trial(True, 1.5, draws=True)}
    assert certify.compare_pairs(random, TOLERANCE)[0]["outputs"] is None


def test_a_comparison_that_raises_says_so_and_the_others_are_made() -> None:
    def trial(outputs: list) -> SimpleNamespace:
        made = SimpleNamespace(function=None, saved=saved_of(outputs), draws=False)
        made.layers, made.weights = [], []
        made.error_of = lambda other: {}["bias"] if "broken" in (made.name, other.name) else 0.0
        return made

    one = [numpy.ones(2)]
    trials = {"a": trial(one), "b": trial(one), "broken": trial(one), "layerless": trial([])}
    for name, each in trials.items():
        each.name = name
    found = {(pair["a"], pair["b"]): pair for pair in certify.compare_pairs(trials, TOLERANCE)}
    assert found["a", "b"]["why"] is None and found["a", "b"]["outputs"] == 0.0
    assert found["a", "broken"]["why"] == "KeyError: 'bias'"
    assert found["a", "broken"]["loss_curve"] is None
    assert found["a", "layerless"]["why"] == "ValueError: they have 1 and 0 of outputs"
