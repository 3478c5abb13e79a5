"""Pins, verification, user-supplied and generated files, without DVC or network."""

from pathlib import Path

import pytest

from rnnbench.datasets.generate import GENERATORS, digits, write_npz
from rnnbench.datasets.pins import Pinned, md5_of, own_md5, pin_of, pinned, verify
from rnnbench.errors import ConfigError, DatasetError
from rnnbench.project import read_yaml
from tests.conftest import ROOT


def test_the_pins_of_this_project() -> None:
    pins = pinned(ROOT)
    names = ("digits.npz", "mnist.npz", "imdb.npz", "nietzsche.txt", "cifar-10-python.tar.gz")
    published = {out["path"] for out in read_yaml(ROOT / "data.dvc")["outs"]}
    assert published == {f"data/{name}" for name in names}
    assert set(pins) - published == {"data/mnist_10k.npz", "data/imdb_from_text.npz"}
    assert all(pin.size for pin in pins.values())
    assert pins["data/nietzsche.txt"] == Pinned(
        "data/nietzsche.txt", "e9f26f67df51cb740a929f15d60f369e", 600901
    )
    assert pins["data/mnist.npz"].md5 == "8a61469f7ea1b51cbae51d4f78837e45"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("outs: [", "cannot be read as YAML"),
        ("a: 1", "missing required field `outs`"),
        (f"outs: [{{md5: {'0a' * 16}}}]", "outs[0]: Object missing required field `path`"),
        ("outs: [{path: data/a}]", "outs[0]: Object missing required field `md5`"),
        ("outs: [{path: data/a, md5: XYZ}]", "outs[0].md5: Expected `str` matching"),
        (f"outs: [{{path: data/a, md5: {'0a' * 16}, size: many}}]", "outs[0].size: Expected `int"),
        (
            f"outs: [{', '.join(['{path: data/a, md5: ' + '0a' * 16 + '}'] * 2)}]",
            "duplicate paths: data/a",
        ),
    ],
)
def test_a_faulty_entry_of_data_dvc_is_reported(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "data.dvc").write_text(text)
    with pytest.raises(ConfigError) as caught:
        pinned(tmp_path)
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / "data.dvc"))


def test_a_missing_data_dvc_or_entry_is_reported(tmp_path: Path, root: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/config.yaml").touch()
    with pytest.raises(ConfigError, match=r"data\.dvc: does not exist"):
        pinned(tmp_path)
    with pytest.raises(ConfigError, match=r"no entry for data/x; it has data/digits\.npz, "):
        pin_of("data/x", root)


def test_a_changed_byte_a_missing_file_and_a_folder_are_detected(tmp_path: Path) -> None:
    file = tmp_path / "imdb.npz"
    file.write_bytes(b"the right bytes")
    pin = Pinned("data/imdb.npz", md5_of(file))
    verify(file, pin, "x")
    file.write_bytes(b"the right bytfs")
    with pytest.raises(DatasetError) as caught:
        verify(file, pin, "imdb")
    message = str(caught.value)
    assert message.startswith(f"{file}: ")
    assert pin.md5 in message and md5_of(file) in message
    assert "`rnnbench dataset imdb`" in message
    with pytest.raises(DatasetError, match=r"does not exist.*`rnnbench dataset cifar10`"):
        verify(tmp_path / "a.tar.gz", pin, "cifar10")
    with pytest.raises(DatasetError, match="cannot be read"):
        verify(tmp_path, pin, "x")


def test_generated_digits_have_the_pinned_bytes(tmp_path: Path) -> None:
    GENERATORS["digits.npz"](tmp_path / "digits.npz")
    verify(tmp_path / "digits.npz", pinned(ROOT)["data/digits.npz"], "digits")


def test_digits_contain_all_images_of_scikit_learn(tmp_path: Path) -> None:
    from sklearn.datasets import load_digits

    data = digits()
    assert {name: (array.shape, array.dtype.name) for name, array in data.items()} == {
        "x_train": ((1437, 8, 8), "float32"),
        "y_train": ((1437,), "int64"),
        "x_val": ((360, 8, 8), "float32"),
        "y_val": ((360,), "int64"),
    }
    pairs = [
        (image.tobytes(), int(label))
        for part in ("train", "val")
        for image, label in zip(data[f"x_{part}"], data[f"y_{part}"], strict=True)
    ]
    bunch = load_digits()
    expected = [
        ((image / 16).astype("float32").tobytes(), int(label))
        for image, label in zip(bunch.images, bunch.target, strict=True)
    ]
    assert sorted(pairs) == sorted(expected)


def test_numpy_reads_a_written_npz(tmp_path: Path) -> None:
    import numpy as np

    arrays = {"a": np.arange(6.0).reshape(2, 3).T, "empty": np.zeros((0, 2), "int32")}
    arrays["scalar"], arrays["big"] = np.array(7), np.arange(3, dtype=">i4")
    write_npz(tmp_path / "x.npz", arrays)
    with np.load(tmp_path / "x.npz", allow_pickle=False) as file:
        for name, array in arrays.items():
            np.testing.assert_array_equal(file[name], array)
            assert file[name].shape == array.shape


def test_an_unreadable_user_file_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"dataset\.path: .*No such file"):
        own_md5(tmp_path / "none.npz")
    with pytest.raises(ConfigError, match="cannot be read"):
        own_md5(tmp_path)
