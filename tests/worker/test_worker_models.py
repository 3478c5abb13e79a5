"""The models' preparation of their data, with NumPy only, on tiny synthetic files."""

from __future__ import annotations

import contextlib
import importlib
import io
import pickle
import tarfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy
import pytest

from rnnbench.datasets.pins import md5_of
from rnnworker import data, user_functions
from rnnworker.models import adding, cifar10_cnn
from rnnworker.readers import imdb


def config(**model: Any) -> dict[str, Any]:
    return {"model": {"train_samples": None, "val_samples": None, **model}, "seed": 0}


def prepare(model: str, source: Any, seed: int = 0, **settings: Any) -> dict[str, numpy.ndarray]:
    function = user_functions.function(f"rnnworker.models.{model}:prepare")
    return function(source, {**config(**settings), "seed": seed})


def assert_sizes(arrays: dict[str, numpy.ndarray], train: int, val: int, sample: tuple) -> None:
    """The samples have the shape `sample`, the labels are numbers."""
    sizes = {"x_train": (train, *sample), "y_train": (train,)}
    sizes |= {"x_val": (val, *sample), "y_val": (val,)}
    assert {name: array.shape for name, array in arrays.items()} == sizes


def mnist(train: int = 5, val: int = 3) -> dict[str, numpy.ndarray]:
    stream = numpy.random.RandomState(0)
    return {
        "x_train": stream.randint(0, 256, (train, 28, 28)).astype("uint8"),
        "y_train": numpy.arange(train, dtype="uint8"),
        "x_test": stream.randint(0, 256, (val, 28, 28)).astype("uint8"),
        "y_test": numpy.arange(val, dtype="uint8"),
    }


@contextlib.contextmanager
def names_of_numpy_1() -> Iterator[None]:
    """Lets NumPy 2 pickle with the names of NumPy 1, as the published files have them."""
    made = numpy._core.multiarray._reconstruct
    before = made.__module__
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        importlib.import_module("numpy.core.multiarray")
        made.__module__ = "numpy.core.multiarray"
        try:
            yield
        finally:
            made.__module__ = before


def write_cifar10(file: Path, batches: list[numpy.ndarray]) -> None:
    """`batches`: the images (number, 3072) of the five for training and of the one for tests."""
    names = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
    with tarfile.open(file, "w:gz") as archive:
        for name, rows in zip(names, batches, strict=True):
            labels = [(3 + 4 * number) % 10 for number in range(len(rows))]
            content = pickle.dumps({b"data": rows, b"labels": labels}, protocol=2)
            member = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


@pytest.mark.parametrize(
    ("model", "settings", "sample"),
    [
        ("mnist_mlp", {}, (784,)),
        ("mnist_cnn", {}, (28, 28, 1)),
        ("mnist_rnn", {"sequence": 28}, (28, 28)),
        ("mnist_rnn", {"sequence": 784}, (784, 1)),
    ],
)
def test_mnist_is_scaled_and_reshaped(model: str, settings: dict, sample: tuple) -> None:
    source = mnist()
    arrays = prepare(model, source, **settings)
    assert_sizes(arrays, 5, 3, sample)
    assert arrays["x_train"].dtype == "float32"
    assert arrays["y_train"].tolist() == [0, 1, 2, 3, 4]
    assert numpy.allclose(arrays["x_train"].ravel() * 255, source["x_train"].ravel())


REVIEWS = [[5, 9, 4], [1], [7, 8, 7, 8, 2]]


def reviews(**parts: list[list[int]]) -> dict[str, numpy.ndarray]:
    """The word ranks of `parts` as in Keras's ``imdb.npz``."""
    arrays: dict[str, numpy.ndarray] = {}
    for part, lists in (parts or {"train": REVIEWS, "test": REVIEWS}).items():
        arrays[f"x_{part}"] = numpy.empty(len(lists), dtype=object)
        arrays[f"x_{part}"][:] = lists
        arrays[f"y_{part}"] = (numpy.arange(len(lists)) > 0).astype(int)
    return arrays


def converted() -> dict[str, numpy.ndarray]:
    arrays = reviews()
    for part in ("train", "test"):
        arrays[f"x_{part}_values"] = numpy.concatenate(arrays.pop(f"x_{part}")).astype("int32")
        arrays[f"x_{part}_offsets"] = numpy.array([0, 3, 4, 9])
    return arrays


@pytest.mark.parametrize("source", [reviews(), converted()], ids=["lists", "converted"])
def test_reviews_equal_those_of_keras_load_data(source) -> None:
    """Calculated by hand: shuffled with seed 113 (training) and 226 (test), ranks + 3, start 1, 2
    for words of rank `words` or more; then padded and cut at the beginning. ``test_worker_seeds``
    compares them with Keras."""
    arrays = imdb.word_indices(source, config(words=11, sequence=4))
    for part, seed in (("train", 113), ("val", 226)):
        order = numpy.arange(3)
        numpy.random.RandomState(seed).shuffle(order)
        rows = [[1, 8, 2, 7], [0, 0, 1, 4], [2, 10, 2, 5]]
        assert arrays["x_" + part].tolist() == [rows[i] for i in order]
        assert arrays["y_" + part].ravel().tolist() == [[0, 1, 1][i] for i in order]
    assert arrays["x_train"].dtype == "int32"
    assert arrays["y_train"].shape == (3, 1)


def test_fewer_samples_are_the_first_of_the_same_order() -> None:
    settings = {"words": 11, "sequence": 4}
    full = imdb.word_indices(reviews(), config(**settings))
    limited = imdb.word_indices(reviews(), config(**settings, train_samples=2, val_samples=1))
    assert limited["x_train"].tolist() == full["x_train"][:2].tolist()
    assert limited["x_val"].tolist() == full["x_val"][:1].tolist()


def test_the_most_frequent_pairs_get_an_index_and_follow_the_words() -> None:
    arrays = prepare("imdb_fasttext", reviews(), words=20, bigrams=1, sequence=9)
    # 7 8 is the only pair that occurs twice: it is pair 0, index 20.
    assert [0, 1, 10, 11, 10, 11, 5, 20, 20] in arrays["x_train"].tolist()
    assert arrays["x_train"].max() == 20
    none = prepare("imdb_fasttext", reviews(), words=20, bigrams=0, sequence=9)
    assert none["x_train"].max() == 12


def test_windows_and_their_next_characters(tmp_path: Path) -> None:
    file = tmp_path / "text.txt"
    file.write_text("ABcabcabcabcabcabcab", encoding="utf-8")
    settings = {"characters": 3, "sequence": 4, "step": 3, "held_out": 0.5}
    arrays = prepare("lstm_textgen", str(file), **settings)
    assert_sizes(arrays, 2, 2, (4, 3))
    assert arrays["x_train"][0].argmax(-1).tolist() == [0, 1, 2, 0]
    assert arrays["x_train"].sum(-1).tolist() == [[1] * 4] * 2
    assert arrays["y_train"].tolist() == [1, 1]
    with pytest.raises(ValueError, match=r"3 different characters: write model\.characters=3"):
        prepare("lstm_textgen", str(file), **{**settings, "characters": 57})


def test_cifars_archive_is_read_only_if_it_is_pinned(tmp_path: Path) -> None:
    file = tmp_path / "cifar-10-python.tar.gz"
    rows = numpy.arange(2 * 3072).reshape(2, 3072).astype("uint8")
    write_cifar10(file, [rows] * 6)
    with pytest.raises(ValueError, match=r"holds pickles and is not pinned in data\.dvc"):
        data.source(str(file))
    source = data.source(str(file), md5_of(file))
    arrays = prepare("cifar10_cnn", source)
    assert arrays["x_train"].shape == (10, 32, 32, 3)
    assert arrays["y_val"].tolist() == [3, 7]
    assert arrays["x_train"][0, 0, 1].tolist() == pytest.approx([1 / 255, 1 / 255, 1 / 255])
    assert arrays["x_train"][1, 0, 0, 0] == 0.0
    assert source["x_train"][0, 1, 0].tolist() == [32, 32, 32]


def test_pickles_are_loaded_only_from_the_pinned_bytes(tmp_path: Path) -> None:
    file = tmp_path / "imdb.npz"
    numpy.savez(file, **reviews())
    assert data.source(str(file), md5_of(file))["x_train"][1] == [1]
    for md5 in (None, "0" * 32):
        with pytest.raises(ValueError, match=r"\(allow_pickle\) .* not pinned in .*: save its"):
            data.source(str(file), md5)


def test_samples_can_be_limited_for_any_model(tmp_path: Path) -> None:
    file = tmp_path / "mnist.npz"
    numpy.savez(file, **mnist())
    settings = config(train_samples=4, val_samples=2)
    settings["model"]["data"] = {"prepare": "rnnworker.models.mnist_mlp:prepare"}
    assert_sizes(data.arrays(settings, str(file)), 4, 2, (784,))


def test_images_are_shifted_and_mirrored_by_the_drawn_numbers() -> None:
    images = numpy.arange(2 * 9, dtype="float32").reshape(2, 3, 3, 1)
    drawn = ([0.3, 0.0], [0.0, -0.4], [0.9, 0.1])
    stream = Mock(uniform=Mock(side_effect=list(map(numpy.array, drawn))))
    down, mirrored = cifar10_cnn.augment(images, stream, config(shift=0.4))[..., 0]
    assert down.tolist() == [[3, 4, 5], [6, 7, 8], [6, 7, 8]]
    assert mirrored.tolist() == [[10, 9, 9], [13, 12, 12], [16, 15, 15]]


def test_every_epoch_has_different_and_reproducible_images() -> None:
    images = numpy.random.RandomState(1).uniform(size=(20, 32, 32, 3)).astype("float32")
    settings = config(shift=0.1, data={"augment": "rnnworker.models.cifar10_cnn:augment"})
    first, again, second = (data.epoch_images(images, settings, epoch) for epoch in (1, 1, 2))
    assert first.tobytes() == again.tobytes() != second.tobytes()
    assert (first.shape, first.dtype) == (images.shape, images.dtype)
    assert first.tobytes() != images.tobytes()
    settings["model"]["data"] = {}
    assert data.epoch_images(images, settings, 1) is images


def test_targets_of_the_adding_problem_equal_a_calculation_by_hand() -> None:
    x, y = adding.sequences(500, 12, numpy.random.RandomState(3))
    assert (x.shape, y.shape) == ((500, 12, 2), (500, 1))
    for sequence, target in zip(x.astype(float), y[:, 0], strict=True):
        marked = [step for step in range(12) if sequence[step, 1] == 1.0]
        assert len(marked) == 2
        assert max(marked) < 5
        values = [0.0 if step == 0 else sequence[step, 0] for step in marked]
        assert target == pytest.approx(0.5 + sum(values) / 4)
        assert sequence[-1, 1] == -1.0
        assert sequence[0, 1] == (1.0 if 0 in marked else -1.0)
    assert abs(x[..., 0]).max() <= 1.0


def test_the_constant_answer_one_half_has_the_documented_error() -> None:
    settings = {"train_samples": 20000, "val_samples": 10, "sequence": 100, "data_seed": 0}
    y = prepare("adding", None, **settings)["y_train"]
    first_step = 0.1 + 0.9 / 48
    assert ((y - 0.5) ** 2).mean() == pytest.approx((2 - first_step) / 48, rel=0.03)


def test_synthetic_data_depends_on_the_data_seed_only() -> None:
    settings = {"train_samples": 6, "val_samples": 2, "sequence": 7, "features": 3}
    for model in ("adding", "shape"):
        arrays, same, other = (
            prepare(model, None, seed, **settings, data_seed=data_seed)
            for seed, data_seed in ((1, 0), (2, 0), (1, 1))
        )
        assert arrays["x_train"].tobytes() == same["x_train"].tobytes()
        assert arrays["x_train"].tobytes() != other["x_train"].tobytes()
    assert_sizes(arrays, 6, 2, (7, 3))


@pytest.mark.parametrize("padding", ["none", "right", "left"])
def test_sentences_are_padded_on_the_chosen_side(padding: str) -> None:
    settings = {"words": 50, "sequence": 8, "train_samples": 200, "val_samples": 3, "data_seed": 0}
    arrays = prepare("padded", {}, padding=padding, **settings)
    x, empty = arrays["x_train"], arrays["x_train"] == 0
    assert (x.shape, arrays["y_val"].shape) == ((200, 8), (3, 1))
    assert x.max() < 50 and empty.any() == (padding != "none")
    # Zeros are at one end and fill at most half of a sentence.
    assert empty.sum(axis=1).max() == (0 if padding == "none" else 4)
    at_end = empty[:, ::-1] if padding == "left" else empty
    assert (numpy.diff(at_end.astype(int), axis=1) >= 0).all()
    mean = [(x[arrays["y_train"][:, 0] == label] > 25).mean() for label in (0, 1)]
    assert mean[1] > mean[0] + 0.1


@pytest.mark.parametrize(
    ("model", "settings", "message"),
    [
        ("mnist_rnn", {"sequence": 30}, r"model\.sequence=30 does not divide"),
        ("adding", {"sequence": 5, "train_samples": 1}, r"model\.sequence=5"),
        ("padded", {"padding": "both", "words": 9, "sequence": 2}, "must be one of none, right, l"),
    ],
)
def test_an_impossible_setting_is_an_error(model: str, settings: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        prepare(model, mnist(), **settings, data_seed=0)
