"""What rounding does to a model, how good its answers are, and what an export is tried for."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy
import pytest

from rnnbench.report.section import WORDS
from rnnworker.serving import accuracy, cases, equality, prepare, rounding

REFUSES = """
from pathlib import Path
from rnnserve.refusals import Refused

FIXED_SHAPES, CODE = False, ""


def export(model, arrays, folder):
    with Path(model).open("a") as file:
        file.write("x")
    raise Refused("it cannot")


def load(folder, threads, speed=1):
    pass
"""


def test_a_refused_export_is_tried_once_for_all_that_share_it(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(REFUSES)
    runtimes = []
    for speed in (1, 2, 3):
        own = {"implementation": str(tmp_path / "own.py"), "options": {"speed": speed}}
        runtimes.append(dict(own, name=f"own{speed}"))
    tried = tmp_path / "tried"
    found = prepare.export_all(str(tried), runtimes, [[]], tmp_path)
    assert tried.read_text() == "x"
    assert [each["refused"] for each in found.values()] == ["it cannot"] * 3


def test_a_runtime_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    broken = {"bad": "def", "lacking": "import no_such_module", "own": REFUSES}
    runtimes = []
    for name, text in broken.items():
        (tmp_path / f"{name}.py").write_text(text)
        file = str(tmp_path / f"{name}.py")
        runtimes.append({"name": name, "implementation": file, "options": {"sped": 1}})
    found = prepare.export_all("", runtimes, [[]], tmp_path)
    assert found["bad"]["refused"].startswith("SyntaxError: ")
    assert found["lacking"]["refused"] == "no_such_module is not installed"
    assert "has no option sped" in found["own"]["refused"]


def test_rounding_keeps_as_many_digits_as_the_precision_has() -> None:
    array = numpy.array([1.0, -0.3, 0.001], "float32")
    for precision, step in (("float16", 2.0**-11), ("bfloat16", 2.0**-8)):
        found = rounding.rounded(array, precision)
        assert found.dtype == "float32" and (found != array).any()
        assert (numpy.abs(found - array) <= step * numpy.abs(array)).all()
    found = rounding.rounded(array, "int8")
    assert found.tolist() == pytest.approx([1.0, -38 / 127, 0.0])
    assert rounding.rounded(numpy.zeros(3), "int8").tolist() == [0.0] * 3


def test_eight_bits_are_for_matrices() -> None:
    weights = {"a/kernel": [[1.0, 0.3]], "a/bias": [[1.0, 0.3]], "b/gamma": [1.0, 0.3]}
    model = SimpleNamespace(weights=[Variable(path, array) for path, array in weights.items()])
    kernel, bias, gamma = rounding.rounded_weights(model, "int8")
    assert kernel.tolist() == [pytest.approx([1.0, 38 / 127])]
    assert bias.tolist() == [[1.0, 0.3]] and gamma.tolist() == [1.0, 0.3]
    _, bias, gamma = rounding.rounded_weights(model, "float16")
    assert bias[0, 1] == gamma[1] == numpy.float16(0.3)


class Variable:
    def __init__(self, path: str, array: object) -> None:
        self.path = path
        self.array = numpy.array(array)

    def __array__(self, *arguments: object, **options: object) -> numpy.ndarray:
        return self.array


def test_a_masked_step_stays_masked_when_inputs_are_rounded() -> None:
    steps = numpy.array([[[-0.3], [1.0], [0.7]]], "float32")
    indices = numpy.array([[1, 2]])
    found, same = rounding.rounded_inputs([steps, indices], "int8", {0: numpy.float32(-0.3)})
    assert found[0, :, 0].tolist() == pytest.approx([-0.3, 1.0, 89 / 127])
    assert same is indices


def test_the_page_says_how_much_rounding_explains() -> None:
    """The controller does not import what needs NumPy."""
    assert f"at most {equality.OF_ROUNDING} times" in WORDS["prediction"]["lower"]


def test_rounding_explains_eight_times_itself_but_no_difference_between_samples() -> None:
    expected = [numpy.array([[0.0], [2.0]])]  # standard deviation 1
    assert equality.lower_bounds_of(expected, [0.01], [1e-4]) == [pytest.approx(0.08)]
    assert equality.lower_bounds_of(expected, [0.5], [1e-4]) == [1.0]
    assert equality.lower_bounds_of(expected, [0.0], [1e-4]) == [1e-4]


@pytest.mark.parametrize(
    ("loss", "outputs", "labels", "name", "value"),
    [
        ("sparse_categorical_crossentropy", [[0.1, 0.9], [0.8, 0.2]], [1, 1], "accuracy", 0.5),
        ("sparse_categorical_crossentropy", [[[0.1, 0.9], [0.8, 0.2]]], [[1, 0]], "accuracy", 1.0),
        ("categorical_crossentropy", [[0.1, 0.9], [0.8, 0.2]], [[0, 1], [0, 1]], "accuracy", 0.5),
        ("binary_crossentropy", [[0.7], [0.6], [0.2], [0.1]], [1, 0, 0, 0], "accuracy", 0.75),
        ("mse", [[1.0], [2.0]], [1, 4], "mean squared error", 2.0),
        ("mean_absolute_error", [[1.0], [2.0]], [1, 4], "mean absolute error", 1.0),
    ],
)
def test_how_good_answers_are(
    loss: str, outputs: list, labels: list, name: str, value: float
) -> None:
    assert accuracy.name_of(loss) == name
    assert accuracy.value_of(loss, numpy.array(outputs), labels) == pytest.approx(value)


def test_another_loss_says_nothing() -> None:
    assert accuracy.name_of("poisson") is None


def test_validation_samples_are_asked_in_whole_batches() -> None:
    sizes = []

    def answer(arrays: list) -> list:
        sizes.append(len(arrays[0]))
        return [arrays[0] + 1]

    samples = numpy.arange(5.0)
    assert accuracy.outputs_of(answer, [samples], 3).tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert sizes == [3, 3]


def test_labels_are_those_beside_the_samples() -> None:
    both = {"x_test.a": 0, "x_train": 0, "y_test": 7, "y_train": 8}
    assert cases.labels_of(both) == 7
    assert cases.labels_of({"x": 0, "y": 9}) == 9
    assert cases.labels_of({"x_val": 0, "x": 0, "y": 9}) is None


def test_a_trained_bias_of_one_element_stays() -> None:
    trained, zero, many = (Assigned("d/bias", each) for each in ([0.5], [0.0], [0.5, 0.5]))
    assert cases.give_biases(SimpleNamespace(weights=[trained, zero, many])) == 2
    assert trained.array.tolist() == [0.5]
    assert zero.array.any() and len(set(many.array)) == 2


class Assigned(Variable):
    def assign(self, array: numpy.ndarray) -> None:
        self.array = array


class Trained:
    """A session whose model learns the weight `weight`."""

    def __init__(self, weight: float, **data: str) -> None:
        self.config = {"seed": 0, "model": {"epochs": 2, "batch": 2, "data": data}}
        self.arrays = {"x_train": numpy.zeros((4, 3)), "y_train": numpy.zeros(4)}
        self.weight = weight
        self.model = Assigned("d/kernel", [0.0])
        self.model.get_weights = lambda: [self.model.array]
        self.model.set_weights = lambda arrays: self.model.assign(arrays[0])
        self.epochs: list[int] = []

    def compile(self) -> None:
        pass

    def train(self, samples: object, orders: list, batch: int, epochs: int) -> None:
        self.epochs += [len(orders), epochs]
        self.model.array = numpy.array([self.weight])

    def construct(self) -> None:
        self.model.array = numpy.array([0.0])


def test_a_model_keeps_what_it_has_learnt_in_all_its_epochs() -> None:
    session = Trained(0.5)
    prepare.train(session)
    assert session.model.array.tolist() == [0.5] and session.epochs == [2, 2]


def test_a_training_that_failed_or_would_be_another_one_is_refused() -> None:
    with pytest.raises(ValueError, match="not finite after the training"):
        prepare.train(Trained(float("nan")))
    augmented = Trained(0.5, augment="mine.py:flip")
    with pytest.raises(ValueError, match=r"does not augment data, as mine\.py:flip would"):
        prepare.train(augmented)
    assert augmented.epochs == []
