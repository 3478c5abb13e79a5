"""A tiny version of every model, for every build that runs on a CPU."""

from __future__ import annotations

import hashlib
import io
import pickle
import tarfile
from pathlib import Path
from typing import Any

import numpy

from rnnbench.grid.expand import expand
from rnnbench.grid.experiment import Experiment
from rnnbench.grid.point import GridPoint
from tests.conftest import ROOT

SMALL = (
    "model.batch=4 device=cpu_2"
    " measure.warmup_steps=1 measure.evaluate_calls=0 measure.predict_calls=0"
)
GRIDS = (
    "model=mnist_mlp,mnist_cnn",
    "model=cifar10_cnn",
    "model=imdb_fasttext model.bigrams=10",
    "model=imdb_bilstm,imdb_lstm model.sequence=4 model.words=50 model.units=4",
    "model=lstm_textgen model.characters=5 model.sequence=4 model.units=4"
    " model.held_out=0.3 model.train_samples=8 model.val_samples=8",
    "model=mnist_rnn model.sequence=4 model.units=4",
    "model=digits_rnn model.units=4",
    "model=shape_short,shape_long,adding model.sequence=6 model.units=4"
    " model.train_samples=8 model.val_samples=8",
)
SAMPLES = 8  # two whole batches: XLA compiles for each size of one


def cpu_builds() -> list[str]:
    """The builds of ``conf/build`` that a machine without a GPU can make."""
    names = []
    for path in sorted((ROOT / "conf" / "build").glob("*.yaml")):
        if "cuda" not in path.stem:
            names.append(path.stem)
    return names


def grid_points(builds: list[str]) -> list[GridPoint]:
    """One grid point for each model and build."""
    axis = "build=" + ",".join(builds)
    grids = tuple(
        (*SMALL.split(), axis, f"model.epochs={1 + ('cifar10' in grid)}", *grid.split())
        for grid in GRIDS
    )
    experiment = Experiment(name="seeds", grids=grids, file=ROOT / "conf/experiment/seeds.yaml")
    return expand(experiment, [ROOT / "conf"])


def write_data(folder: Path) -> dict[str, dict[str, Any]]:
    """Writes some training and validation samples in the format of each dataset. Returns name of
    the choice → ``path`` and ``pinned_md5`` as in ``data.dvc``. The lists of ``imdb.npz`` are
    pickled by this interpreter's NumPy 2.x."""
    stream = numpy.random.RandomState(0)
    labelled = {}
    for part in ("train", "test"):
        labelled[f"x_{part}"] = stream.randint(0, 256, (SAMPLES, 28, 28)).astype("uint8")
        labelled[f"y_{part}"] = stream.randint(0, 10, SAMPLES).astype("uint8")
    numpy.savez(folder / "mnist.npz", **labelled)
    digits = {}
    for part in ("train", "val"):
        digits[f"x_{part}"] = stream.uniform(size=(SAMPLES, 8, 8)).astype("float32")
        digits[f"y_{part}"] = stream.randint(0, 10, SAMPLES)
    numpy.savez(folder / "digits.npz", **digits)
    numpy.savez(folder / "imdb.npz", **reviews(stream, SAMPLES))
    (folder / "nietzsche.txt").write_text("".join("abcde"[i % 5] for i in range(100)))
    _write_cifar10(folder / "cifar10.tar.gz", stream)
    return {
        path.name.partition(".")[0]: {
            "path": str(path),
            "pinned_md5": hashlib.md5(path.read_bytes()).hexdigest(),
        }
        for path in folder.iterdir()
    }


def reviews(stream: numpy.random.RandomState, samples: int) -> dict[str, numpy.ndarray]:
    """Lists of word ranks of different lengths, as in Keras's ``imdb.npz``."""
    arrays: dict[str, numpy.ndarray] = {}
    for part in ("train", "test"):
        lists = numpy.empty(samples, dtype=object)
        lists[:] = [stream.randint(1, 60, 5 + i).tolist() for i in range(samples)]
        arrays[f"x_{part}"], arrays[f"y_{part}"] = lists, numpy.arange(samples) % 2
    return arrays


def _write_cifar10(path: Path, stream: numpy.random.RandomState) -> None:
    names = [f"data_batch_{number}" for number in range(1, 6)] + ["test_batch"]
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            count = (
                SAMPLES if name == "test_batch" else 2 - (name in ("data_batch_4", "data_batch_5"))
            )
            images = stream.randint(0, 256, (count, 3072)).astype("uint8")
            batch = {b"data": images, b"labels": stream.randint(0, 10, count).tolist()}
            content = pickle.dumps(batch, protocol=2)
            member = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
