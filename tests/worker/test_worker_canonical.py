from __future__ import annotations

import numpy
import pytest

from rnnworker import canonical_weights

INITIALIZERS = {
    "kernel": ("GlorotUniform", {}),
    "recurrent": ("Orthogonal", {}),
    "bias": ("Zeros", {}),
}
LSTM = {
    "name": "lstm",
    "kind": "recurrent",
    "cell": "lstm",
    "initializers": INITIALIZERS,
    "unit_forget_bias": True,
    "shapes": [("bias", [32]), ("kernel", [5, 32]), ("recurrent", [8, 32])],
}
DENSE = {
    "name": "dense",
    "kind": "other",
    "initializers": INITIALIZERS,
    "shapes": [("kernel", [8, 10]), ("bias", [10])],
}


def arrays_of(layer: dict, seed: int = 0) -> dict[str, numpy.ndarray]:
    return canonical_weights.initial([layer], seed)[0]


def test_the_values_never_change() -> None:
    """A change would make new runs incomparable with all earlier ones."""
    weights = canonical_weights.initial([LSTM, DENSE], 0)
    for layer, arrays in zip((LSTM, DENSE), weights, strict=True):
        assert {name: list(a.shape) for name, a in arrays.items()} == dict(layer["shapes"])
        assert {a.dtype.name for a in arrays.values()} == {"float32"}
    first = [arrays["kernel"][0, :3].tolist() for arrays in weights]
    assert first[0] == pytest.approx([0.18754503, -0.33897036, 0.2648012], abs=1e-7)
    assert first[1] == pytest.approx([-0.11807812, -0.18587577, 0.44106579], abs=1e-7)


def test_the_values_depend_on_the_seed_and_not_on_the_order_of_arrays() -> None:
    fewer = {**LSTM, "shapes": list(reversed(LSTM["shapes"]))}
    digests = [
        canonical_weights.digest(canonical_weights.initial([layer, DENSE], seed))
        for layer, seed in ((LSTM, 0), (LSTM, 0), (fewer, 0), (LSTM, 1))
    ]
    assert digests[0] == digests[1] == digests[2] != digests[3]


def test_each_array_of_each_layer_has_its_own_stream() -> None:
    names = ("kernel", "other")
    square = {"kind": "other", "shapes": [(name, [6, 6]) for name in names]}
    square["initializers"] = dict.fromkeys(names, ("GlorotUniform", {}))
    first, second = canonical_weights.initial([square, square], 0)
    arrays = [*first.values(), *second.values()]
    assert len({array.tobytes() for array in arrays}) == 4


def recurrent_kernel(shape: tuple[int, int], seed: int = 0) -> numpy.ndarray:
    layer = {"kind": "recurrent", "cell": "x", "shapes": [("recurrent", shape)]}
    layer["initializers"] = INITIALIZERS
    return arrays_of(layer, seed)["recurrent"]


@pytest.mark.parametrize(
    "shape", [(8, 32), (6, 18), (5, 5), (3, 24), (9, 4), (521, 2084), (514, 514), (600, 515)]
)
def test_recurrent_kernels_are_orthonormal(shape: tuple[int, int]) -> None:
    kernel = recurrent_kernel(shape).astype("float64")
    assert kernel.shape == shape
    kernel = kernel if shape[0] <= shape[1] else kernel.T
    assert numpy.allclose(kernel @ kernel.T, numpy.eye(min(shape)), atol=1e-6)


def test_a_large_recurrent_kernel_is_cheap_and_as_random_as_a_small_one(monkeypatch) -> None:
    """A QR decomposition takes 100 CPU seconds at 4096 units."""
    monkeypatch.setattr(numpy.linalg, "qr", None)
    shape = (1030, 4120)
    kernel, other = recurrent_kernel(shape), recurrent_kernel(shape, seed=1)
    assert kernel.shape == shape and kernel.dtype == "float32"
    assert numpy.array_equal(kernel, recurrent_kernel(shape))
    assert abs((kernel * other).sum()) < 5 * numpy.sqrt(shape[0] / shape[1])
    values = kernel * numpy.sqrt(shape[1])
    within = [(abs(values) < deviations).mean() for deviations in (0.5, 1, 2, 3)]
    assert within == pytest.approx([0.383, 0.683, 0.954, 0.997], abs=0.003), "normal"
    # No two rows or columns repeat each other, and a gate is no rotation of another.
    assert abs(numpy.corrcoef(values[:64, :1030])[numpy.triu_indices(64, 1)]).max() < 0.2
    assert abs(numpy.corrcoef(values[:64, 1030:2060], values[:64, :1030])[:64, 64:]).max() < 0.2


def test_the_forget_gate_of_an_lstm_starts_open_and_all_other_biases_at_zero() -> None:
    assert arrays_of(LSTM)["bias"].tolist() == [0.0] * 8 + [1.0] * 8 + [0.0] * 16
    layer = {**LSTM, "cell": "gru", "shapes": [("bias", [2, 24])], "unit_forget_bias": False}
    assert not arrays_of(layer)["bias"].any()


@pytest.mark.parametrize(
    ("initializer", "shape", "limit"),
    [
        ("GlorotUniform", [100, 50], numpy.sqrt(6.0 / 150)),
        # The fans of a convolution include its kernel size: 3 × 3 × 8 in, 3 × 3 × 16 out.
        ("GlorotUniform", [3, 3, 8, 16], numpy.sqrt(6.0 / (9 * 24))),
        ("RandomUniform", [1000, 8], 0.05),
        ("HeUniform", [100, 50], numpy.sqrt(6.0 / 100)),
    ],
)
def test_limits_of_kernels_and_embeddings(initializer: str, shape: list[int], limit: float) -> None:
    layer = {"kind": "other", "shapes": [("kernel", shape)]}
    layer["initializers"] = {"kernel": (initializer, {})}
    values = arrays_of(layer)["kernel"]
    assert 0.98 * limit < abs(values).max() <= limit * (1 + 1e-6)
    assert abs(values.mean()) < 0.05 * limit


def test_what_the_model_has_set_stays_and_the_rest_is_drawn() -> None:
    mine = numpy.arange(4.0)
    layer = {
        "name": "norm",
        "kind": "other",
        "shapes": [(name, [4]) for name in ("gamma", "beta", "moving_mean")],
        "initializers": {"gamma": ("Ones", {}), "beta": ("Constant", {"value": mine})},
        "kept": {"moving_mean": 2 * mine},
    }
    found = {name: array.tolist() for name, array in arrays_of(layer).items()}
    assert found == {"gamma": [1.0] * 4, "beta": [0, 1, 2, 3], "moving_mean": [0, 2, 4, 6]}
    kept = ["norm/beta", "norm/moving_mean"]
    assert canonical_weights.origin([layer]) == {"drawn": ["norm/gamma"], "kept": kept}
    assert canonical_weights.is_drawn(("HeNormal", {"seed": None}))
    assert not canonical_weights.is_drawn(("HeNormal", {"seed": 3}))
    assert not canonical_weights.is_drawn(("mine", {}))


def test_the_digest_depends_on_values_names_and_shapes_and_not_on_memory_layout() -> None:
    zeros = {"kernel": numpy.zeros((2, 3)), "bias": numpy.zeros(3)}
    changed = {**zeros, "kernel": numpy.array([[0, 0, 0], [0, 0, 1e-7]])}
    reshaped = {**zeros, "kernel": numpy.zeros((3, 2))}
    renamed = {"weights": zeros["kernel"], "bias": zeros["bias"]}
    different = [canonical_weights.digest([w]) for w in (zeros, changed, reshaped, renamed)]
    assert len(set(different)) == 4
    array = numpy.arange(6, dtype="float32").reshape(2, 3)
    layouts = (array, numpy.asfortranarray(array), array.astype("float64"))
    assert len({canonical_weights.digest([{"kernel": stored}]) for stored in layouts}) == 1
