"""No timed phase traces, compiles or copies the data to the device; the training uses the canonical
batches, also on replicas."""

from __future__ import annotations

import json
import os
import subprocess
from functools import cache
from pathlib import Path

import pytest

from rnnbench.grid.expand import expand
from rnnbench.grid.experiment import Experiment
from tests.conftest import ROOT
from tests.worker.building import python_of, write_digits

SCRIPT = Path(__file__).parent / "timed_phases.py"
# The last batch of an epoch and of a validation is smaller: XLA compiles for each size.
GRID = (
    "model=digits_rnn rnn=keras device=cpu_1 model.units=4 model.epochs=3"
    " measure.warmup_steps=3 measure.warmup_seconds=0.1"
)
LOCAL = ("current", "tf_2_21_xla")  # these run in the interpreter of the tests, in one process
BUILDS = (*LOCAL, "tf_2_21_keras2", "tf_2_15", "tf_1_15", "tf_1_2", "keras3_torch", "keras3_jax")
# With augmentation, each epoch is a separate training call on new images.
AUGMENTED = ("current augmented", "tf_1_15 augmented")
ON_DEVICE = tuple(f"{build} on_device" for build in ("current", "keras3_torch", "keras3_jax"))
# Two logical devices of the CPU, each of which trains one half of each batch.
REPLICAS = ("current replicas", "tf_2_15 replicas")
TRAINED = (*BUILDS, *AUGMENTED, *ON_DEVICE, *REPLICAS)
AUGMENT = """
def augment(images, stream, config):
    return images + stream.normal(0.0, 0.1, images.shape).astype(images.dtype)
"""
COMPILING = ("tf_2_21_xla", "keras3_jax")


def configured(name: str, folder: Path) -> dict:
    (folder / "augment.py").write_text(AUGMENT)
    variants = {
        "on_device": ["+device.feed=device"],
        "replicas": ["+device.replicas=2"],
        "augmented": [f"+model.data.augment={folder}/augment.py:augment"],
    }
    build, _, variant = name.partition(" ")
    grid = (*GRID.split(), f"build={build}", *variants.get(variant, []))
    experiment = Experiment(name="timed", grids=(grid,), file=ROOT / "conf/experiment/timed.yaml")
    (point,) = expand(experiment, [ROOT / "conf"])
    return dict(point.config)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory):
    """Returns the result of `timed_phases` for a build and variant. Those of one interpreter run in
    one process, but for replicas, into which TensorFlow divides its device when it starts."""
    run = cache(lambda process: _run(process, tmp_path_factory))
    return lambda name: run(process_of(name))[name]


def process_of(name: str) -> str:
    build, _, variant = name.partition(" ")
    build = "current" if build in LOCAL else build
    return f"{build} replicas" if variant == "replicas" else build


def _run(process: str, temporary: pytest.TempPathFactory) -> dict[str, dict]:
    folder = temporary.mktemp(process.replace(" ", "_"))
    write_digits(folder / "digits.npz", 44, 20)
    names = [name for name in TRAINED if process_of(name) == process]
    for name in names:
        config = configured(name, folder)
        job = {"config": config, "threads": 1, "dataset": str(folder / "digits.npz")}
        (folder / name).write_text(json.dumps(job))
    python, variables = python_of(process.split()[0], temporary)
    with (folder / "log").open("wb") as log:
        done = subprocess.run(
            [python, SCRIPT, folder / "log", *(folder / name for name in names)],
            env={**os.environ, **variables, "PYTHONPATH": str(ROOT / "src")},
            stdout=subprocess.PIPE,
            stderr=log,
            timeout=900,
        )
    assert done.returncode == 0, (folder / "log").read_text()[-3000:]
    return dict(zip(names, json.loads(done.stdout.splitlines()[-1]), strict=True))


@pytest.mark.parametrize("build", TRAINED)
def test_nothing_is_traced_compiled_or_copied_in_a_timed_phase(trained, build: str) -> None:
    phases = trained(build)["phases"]
    timed = {name: phase for name, phase in phases.items() if phase["timed"]}
    assert set(timed) == {"train", "evaluate", "predict"}
    before = [phase for phase in phases.values() if not phase["timed"]]
    # Tracing and compilation are detected in the phases before.
    assert any(phase["traced"] for phase in before) == ("keras3_torch" not in build)
    assert any(phase["compiled"] for phase in before) == (build.split()[0] in COMPILING)
    for phase in timed.values():
        assert (phase["traced"], phase["compiled"], phase["copied"]) == (0, 0, 0)


@pytest.mark.parametrize("build", TRAINED)
def test_epochs_train_the_canonical_batches_from_the_canonical_weights(trained, build) -> None:
    result = trained(build)
    assert len(result["loss"]) == len(result["val_loss"]) == 3
    assert result["apart"] < 1e-4


@pytest.mark.parametrize("replicas", REPLICAS)
def test_replicas_report_the_losses_of_one_device(trained, replicas: str) -> None:
    result, alone = trained(replicas), trained(replicas.split()[0])
    assert (result["replicas"], alone["replicas"]) == ([2, 2], [None, 1])
    for name in ("loss", "val_loss"):
        assert result[name] == pytest.approx(alone[name], rel=1e-5)


@pytest.mark.parametrize("build", [*BUILDS[1:], *AUGMENTED[1:], *ON_DEVICE])
def test_frameworks_report_the_same_losses(trained, build: str) -> None:
    result, reference = trained(build), trained(AUGMENTED[0] if build in AUGMENTED else BUILDS[0])
    for name in ("loss", "val_loss"):
        assert result[name] == pytest.approx(reference[name], rel=2e-3)
