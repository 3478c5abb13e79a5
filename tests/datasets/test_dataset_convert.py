"""``rnnbench convert`` needs the user's consent and changes only the pickled arrays."""

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


def test_the_worker_reads_the_converted_lists(pickled: Path, capsys: pytest.CaptureFixture) -> None:
    target = pickled.with_name("plain.npz")
    assert main([str(pickled), str(target), "--i-trust-this-file"]) == 0
    assert "Formerly pickled arrays: x_train" in capsys.readouterr().out
    arrays = worker_source(str(target))
    offsets, values = arrays["x_train_offsets"], arrays["x_train_values"]
    lists = [values[start:end].tolist() for start, end in pairwise(offsets)]
    assert lists == LISTS
    assert values.dtype == np.int32
    assert arrays["y_train"].tolist() == [0, 1, 1]
    assert arrays["y_train"].dtype == np.int8


def test_without_consent_nothing_is_opened(tmp_path: Path) -> None:
    file = tmp_path / "missing.npz"
    with pytest.raises(ConfigError, match="may run code") as told:
        main([str(file), str(tmp_path / "new.npz")])
    assert "--i-trust-this-file" in told.value.remedy


def test_an_existing_file_is_not_overwritten(pickled: Path) -> None:
    with pytest.raises(ConfigError, match="exists already"):
        main([str(pickled), str(pickled), "--i-trust-this-file"])


@pytest.mark.parametrize("content", [[{"a": 1}], ["words"], [[0.5]], [[[1], [2]]]])
def test_other_objects_are_rejected(content: list) -> None:
    lists = np.empty(1, dtype=object)
    lists[:] = content
    with pytest.raises(DatasetError, match="something other than lists of integers"):
        flat(lists, "here")


def test_lists_of_equal_length_are_converted() -> None:
    values, offsets = flat(np.array([[1, 2], [3, 4]], dtype=object), "here")
    assert (values.tolist(), offsets.tolist()) == ([1, 2, 3, 4], [0, 2, 4])


def test_an_unreadable_file_leaves_no_target(tmp_path: Path) -> None:
    file = tmp_path / "broken.npz"
    file.write_bytes(b"PK\x03\x04 no archive")
    with pytest.raises(DatasetError, match="cannot be read"):
        convert(file, tmp_path / "new.npz")
    assert list(tmp_path.iterdir()) == [file]
