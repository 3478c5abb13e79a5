"""Generates datasets locally, without network access and with the same bytes everywhere."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

TRAINING_IMAGES = 1437  # of digits


def digits() -> dict[str, np.ndarray]:
    """scikit-learn's bundled handwritten digits (Alpaydin & Kaynak, UCI 1998; 1,797 images).

    ``x_*`` are float32 images of shape ``(n, 8, 8)`` with values in 0…1; ``y_*`` are int64 labels
    0…9. There are 1,437 samples for training and 360 for validation, split by a fixed permutation
    (NumPy's legacy generator, whose stream is frozen).
    """
    from sklearn.datasets import load_digits

    bunch = load_digits()
    order = np.random.RandomState(0).permutation(len(bunch.target))
    images = (bunch.images / 16).astype(np.float32)[order]
    labels = bunch.target.astype(np.int64)[order]
    return {
        "x_train": images[:TRAINING_IMAGES],
        "y_train": labels[:TRAINING_IMAGES],
        "x_val": images[TRAINING_IMAGES:],
        "y_val": labels[TRAINING_IMAGES:],
    }


def write_npz(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes an uncompressed ``.npz`` file. Its bytes depend only on the names, order, types,
    shapes and values, not on the time, the platform or NumPy's version."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            member = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            member.create_system = 3
            member.external_attr = 0o644 << 16  # the file's mode
            archive.writestr(member, _npy(array))


def _npy(array: np.ndarray) -> bytes:
    """The array in NPY format 1.0, little-endian, in C order. The header is written here because
    NumPy's padding of it has changed between versions.
    Source: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html"""
    array = np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")
    header = (
        f"{{'descr': '{array.dtype.str}', 'fortran_order': False, 'shape': {array.shape}, }}"
    ).encode("ascii")
    magic = np.lib.format.MAGIC_PREFIX + b"\x01\x00"
    # Two bytes for the length, and one for the newline: together a multiple of 64 bytes.
    length = len(magic) + 2 + len(header) + 1
    header += b" " * (-length % 64) + b"\n"
    return magic + len(header).to_bytes(2, "little") + header + array.tobytes()


# File name → function that writes the file.
GENERATORS: Mapping[str, Callable[[Path], None]] = {
    "digits.npz": lambda path: write_npz(path, digits())
}
