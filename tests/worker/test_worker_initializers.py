"""What NumPy draws for Keras's initializers, without Keras. Which weights get it in each build:
`test_worker_seeds`, `test_worker_kept_weights`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy
import pytest

from rnnworker import initializers
from rnnworker.initializers import stream


def drawn(initializer: str, shape: Sequence[int], seed: int = 0) -> numpy.ndarray:
    return initializers.drawn(initializer, tuple(shape), stream(seed, "Dense", 0), {})


def test_the_values_never_change() -> None:
    """A change would make new runs incomparable with all earlier ones."""
    first = drawn("GlorotUniform", (5, 32))[0, :3].tolist()
    assert first == pytest.approx([0.37970108, -0.30994961, 0.16349748], abs=1e-7)


def test_the_values_depend_on_the_seed_the_layer_and_the_number_of_the_draw() -> None:
    streams = [(0, "Dense", 0), (1, "Dense", 0), (0, "LSTM", 0), (0, "Dense", 1), (0, "Dense", 0)]
    arrays = [
        initializers.drawn("Orthogonal", (6, 6), stream(*seeds), {}).tobytes() for seeds in streams
    ]
    assert len(set(arrays)) == 4 and arrays[0] == arrays[-1]


@pytest.mark.parametrize(
    "shape", [(8, 32), (6, 18), (5, 5), (3, 24), (9, 4), (521, 2084), (514, 514), (600, 515)]
)
def test_recurrent_kernels_are_orthonormal(shape: tuple[int, int]) -> None:
    kernel = drawn("Orthogonal", shape).astype("float64")
    assert kernel.shape == shape
    kernel = kernel if shape[0] <= shape[1] else kernel.T
    assert numpy.allclose(kernel @ kernel.T, numpy.eye(min(shape)), atol=1e-6)


def test_a_large_recurrent_kernel_is_cheap_and_as_random_as_a_small_one(monkeypatch) -> None:
    """A QR decomposition takes 100 CPU seconds at 4096 units."""
    monkeypatch.setattr(numpy.linalg, "qr", None)
    shape = (1030, 4120)
    kernel, other = drawn("Orthogonal", shape), drawn("Orthogonal", shape, seed=1)
    assert kernel.shape == shape and kernel.dtype == "float32"
    assert numpy.array_equal(kernel, drawn("Orthogonal", shape))
    assert abs((kernel * other).sum()) < 5 * numpy.sqrt(shape[0] / shape[1])
    values = kernel * numpy.sqrt(shape[1])
    within = [(abs(values) < deviations).mean() for deviations in (0.5, 1, 2, 3)]
    assert within == pytest.approx([0.383, 0.683, 0.954, 0.997], abs=0.003), "normal"
    # No two rows or columns repeat each other, and a gate is no rotation of another.
    assert abs(numpy.corrcoef(values[:64, :1030])[numpy.triu_indices(64, 1)]).max() < 0.2
    assert abs(numpy.corrcoef(values[:64, 1030:2060], values[:64, :1030])[:64, 64:]).max() < 0.2


def test_the_smallest_kernels_from_a_rotation_are_nearly_normal(monkeypatch) -> None:
    monkeypatch.setattr(numpy.linalg, "qr", None)
    units = initializers.MOST_BY_QR + 1
    kernels = [drawn("Orthogonal", (units, 4 * units), seed=seed) for seed in range(50)]
    values = abs(numpy.stack(kernels)) * numpy.sqrt(4 * units)
    within = [(values < deviations).mean() for deviations in (0.5, 1, 2, 3)]
    assert within == pytest.approx([0.383, 0.683, 0.954, 0.997], abs=0.005)
    assert len(numpy.unique(values.round(5))) > 10_000


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
    values = drawn(initializer, shape)
    assert 0.98 * limit < abs(values).max() <= limit * (1 + 1e-6)
    assert abs(values.mean()) < 0.05 * limit
