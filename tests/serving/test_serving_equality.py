"""What a runtime is asked, and when its answers count as equal: without a framework."""

from __future__ import annotations

from types import SimpleNamespace

import numpy
import pytest

from rnnworker.serving import cases, equality, prepare


def model_of(*shapes: tuple[int | None, ...], layers: object = ()) -> SimpleNamespace:
    inputs = []
    for number, shape in enumerate(shapes):
        inputs.append(SimpleNamespace(shape=shape, name=f"in{number}", dtype="float32"))
    return SimpleNamespace(inputs=inputs, _flatten_layers=lambda include_self: list(layers))


class Masking:
    mask_value = 0.0
    _inbound_nodes = ()


def test_the_difference_is_the_largest_one() -> None:
    assert equality.difference([[1.0, 2.5]], [[1.0, 2.0]]) == 0.5
    assert equality.difference([[1.0]], [[1.0, 2.0]]) is None
    assert equality.difference([float("nan")], [1.0]) == float("inf")


def test_the_bound_follows_what_samples_differ_by() -> None:
    expected = [numpy.array([[1.0, 5.0], [3.0, 5.0]])]  # standard deviations 1 and 0
    spread = numpy.sqrt(0.5)
    assert equality.bounds_of(expected, [1e-9]) == [pytest.approx(1e-4 * spread)]
    assert equality.bounds_of(expected, [1e-3]) == [pytest.approx(8e-3)]


def test_a_large_constant_beside_the_samples_hides_nothing() -> None:
    expected = numpy.array([[1000.0], [1000.001]])
    assert equality.bounds_of([expected], [0.0])[0] < 1e-6


def test_outputs_that_never_change_show_nothing() -> None:
    with pytest.raises(equality.NothingToSee):
        equality.bounds_of([numpy.ones((3, 2))], [0.0])


def test_a_fixed_length_has_no_longer_case() -> None:
    asked = cases.cases_of(model_of((None, 9, 3)), [numpy.ones((5, 9, 3))], [1, 8])
    assert [(case.name, case.arrays[0].shape, case.is_timed) for case in asked] == [
        ("batch 1", (1, 9, 3), True),
        ("batch 8", (8, 9, 3), True),
    ]


def test_a_free_length_is_asked_longer_and_shorter() -> None:
    samples = [numpy.arange(10.0).reshape(1, 5, 2)]
    made = cases.cases_of(model_of((None, None, 2)), samples, [1])
    assert [case.is_timed for case in made] == [True, False, False, False]
    asked = {case.name: case.arrays for case in made}
    assert asked["longer"][0].shape == (2, 8, 2)
    assert asked["shorter"][0].shape == (2, 2, 2)
    assert asked["longer"][0][0, 5:].tolist() == asked["longer"][0][0, :3].tolist()


def test_a_single_sample_is_asked_beside_a_few_that_are_not_timed() -> None:
    """``--batch 1`` was refused for a model with one output, which one sample does not vary."""
    samples = [numpy.arange(30.0).reshape(5, 3, 2)]
    made = cases.cases_of(model_of((None, 3, 2)), samples, [1])
    assert [(case.name, case.is_timed) for case in made] == [("batch 1", True), ("batch 4", False)]
    assert equality.bounds_of([made[1].arrays[0][:, :1, :1]], [0.0])[0] > 0


def test_a_fixed_batch_is_the_only_one() -> None:
    asked = cases.cases_of(model_of((4, 9, 3)), [numpy.ones((5, 9, 3))], [1, 8])
    assert [case.name for case in asked] == ["batch 4"]


def test_a_fixed_batch_of_one_is_asked_other_samples_too() -> None:
    """A model with one output was refused: all samples were said to have the same outputs."""
    samples = [numpy.arange(30.0).reshape(5, 3, 2)]
    made = cases.cases_of(model_of((1, 3, 2), layers=[Masking()]), samples, [1, 8])
    names = ["batch 1", *(f"batch 1 from sample {number}" for number in (2, 3, 4))]
    assert [case.name for case in made] == [*names, cases.BEHIND, cases.BEFORE, cases.GAPS]
    assert [case.is_timed for case in made] == [True] + [False] * 6
    assert not made[4].arrays[0][0, -1].any() and not made[5].arrays[0][0, 0].any()

    asked = [case.arrays for case in made[:4]]
    expected = [[[arrays[0][:, :1, 0]]] * 2 for arrays in asked]
    (outputs,) = prepare.outputs_of(asked, expected, 0)
    assert outputs.ravel().tolist() == [0.0, 6.0, 12.0, 18.0]
    assert equality.bounds_of([outputs], [0.0])[0] > 0
    several = [[numpy.ones((size, 3, 2))] for size in (1, 4, 4)]
    assert len(prepare.outputs_of(several, [[arrays] for arrays in several], 1)[0]) == 4


def test_masked_cases_have_whole_samples_padding_gaps_and_nothing() -> None:
    model = model_of((None, 6, 2), layers=[Masking()])
    asked = {case.name: case.arrays for case in cases.cases_of(model, [numpy.ones((4, 6, 2))], [1])}
    behind = asked["padded behind"][0].any(axis=-1)
    before = asked["padded before"][0].any(axis=-1)
    gaps = asked["gaps"][0].any(axis=-1)
    for kind in (behind, before, gaps):
        assert kind[0].all()
        assert not kind[1:].all(axis=1).any()
    assert behind[:, 0].all() and before[:, -1].all()
    assert gaps[1].tolist() == [True, False, True, False, True, False]
    assert not gaps[-1].any()
    assert len({tuple(row) for row in behind.tolist()}) == 4


@pytest.mark.parametrize(("batches", "size"), [([1, 8, 64], 8), ([1, 2], 4), ([4, 5], 4)])
def test_masks_are_asked_with_a_size_that_is_timed(batches: list[int], size: int) -> None:
    model = model_of((None, 6, 2), layers=[Masking()])
    made = cases.cases_of(model, [numpy.ones((4, 6, 2))], batches)
    masked = [case.arrays[0].shape for case in made if not case.name.startswith("batch ")]
    assert masked == [(size, 6, 2)] * 3


@pytest.mark.parametrize("name", ["x_val", "x_test", "x_train", "x"])
def test_samples_are_found_by_name(name: str) -> None:
    found = cases.inputs_of({name: numpy.ones((100, 9, 3)), "y_val": 0}, model_of((None, 9, 3)))
    assert found[0].shape == (cases.LARGEST, 9, 3)
    assert found[0].dtype == "float32"


def test_several_inputs_have_names_or_numbers() -> None:
    model = model_of((None, 2), (None, 3))
    two, three = numpy.ones((4, 2)), numpy.ones((4, 3))
    for names in (("in1", "in0"), ("1", "0")):
        source = {f"x_val.{names[0]}": three, f"x_val.{names[1]}": two}
        assert [each.shape[1] for each in cases.inputs_of(source, model)] == [2, 3]


def test_data_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"input in0 have the shape \(4, 8, 3\)"):
        cases.inputs_of({"x": numpy.ones((4, 8, 3))}, model_of((None, 9, 3)))
    with pytest.raises(ValueError, match="no x_val"):
        cases.inputs_of({"z": numpy.ones((4, 8, 3))}, model_of((None, 9, 3)))
