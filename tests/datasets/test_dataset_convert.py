"""``rnnbench convert``: the person is asked, and nothing but the pickles changes."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from rnnbench.commands.convert import main
from rnnbench.datasets.convert import convert, flat
from rnnbench.errors import ConfigError, DatasetError
from rnnworker.data import source as worker_source

LISTS = [[3, 1, 2], [], [2**20]]


@pytest.fixture
def pickled(tmp_path: Path) -> Path:
    lists = np.empty(3, dtype=object)
    lists[:] = LISTS
    file = tmp_path / "mine.npz"
    np.savez(file, x_train=lists, y_train=np.array([0, 1, 1], np.int8))
    return file


def test_there_and_back(pickled: Path, capsys: pytest.CaptureFixture) -> None:
    target = pickled.with_name("plain.npz")
    assert main([str(pickled), str(target), "--i-trust-this-file"]) == 0
    assert "Formerly pickled arrays: x_train" in capsys.readouterr().out
    arrays = worker_source(str(target))
    offsets, values = arrays["x_train_offsets"], arrays["x_train_values"]
    back = [values[a:b].tolist() for a, b in pairwise(offsets)]
    assert back == LISTS
    assert values.dtype == np.int32
    assert arrays["y_train"].tolist() == [0, 1, 1]
    assert arrays["y_train"].dtype == np.int8


def test_without_the_persons_word_nothing_is_opened(tmp_path: Path) -> None:
    file = tmp_path / "not_even_there.npz"
    with pytest.raises(ConfigError, match="may run code") as told:
        main([str(file), str(tmp_path / "new.npz")])
    assert "--i-trust-this-file" in told.value.remedy


def test_nothing_is_overwritten(pickled: Path) -> None:
    with pytest.raises(ConfigError, match="exists already"):
        main([str(pickled), str(pickled), "--i-trust-this-file"])


@pytest.mark.parametrize("content", [[{"a": 1}], ["words"], [[0.5]], [[[1], [2]]]])
def test_other_objects_are_refused(content: list) -> None:
    lists = np.empty(1, dtype=object)
    lists[:] = content
    with pytest.raises(DatasetError, match="something else than lists of whole numbers"):
        flat(lists, "here")


def test_lists_of_one_length_are_lists_too() -> None:
    values, offsets = flat(np.array([[1, 2], [3, 4]], dtype=object), "here")
    assert (values.tolist(), offsets.tolist()) == ([1, 2, 3, 4], [0, 2, 4])


def test_what_cannot_be_read_leaves_nothing(tmp_path: Path) -> None:
    file = tmp_path / "broken.npz"
    file.write_bytes(b"PK\x03\x04 no archive")
    with pytest.raises(DatasetError, match="cannot be read"):
        convert(file, tmp_path / "new.npz")
    assert list(tmp_path.iterdir()) == [file]
