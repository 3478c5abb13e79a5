"""Interpreters of locked builds, for tests that need the real framework."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy
import pytest
import yaml

from rnnbench.builds import environments
from rnnbench.builds.launcher import environment
from rnnbench.builds.pins import LOCKS, build_of, pins
from rnnbench.builds.uv import find
from rnnbench.errors import BuildError
from rnnbench.sources.certificates import Pair
from rnnworker.frameworks.names import FRAMEWORKS
from rnnworker.precision import TOLERANCE
from tests.conftest import ROOT, shared_folder
from tests.worker import forked

# Of scripts: without a GPU, without TensorFlow's log, and without threads of libraries that wait in
# loops; a session of the worker sets its own number of threads. XLA compiles in two thirds of its
# time; users' certificates judge what it optimises.
VARIABLES = {
    "CUDA_VISIBLE_DEVICES": "-1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "XLA_FLAGS": "--xla_backend_optimization_level=0",
}
# The XLA beside Keras 3 compiles in a third of the remaining time without two parts that make its
# programs faster; older ones end at flags that they do not know.
KERAS_3_XLA = (
    f"{VARIABLES['XLA_FLAGS']} --xla_cpu_use_fusion_emitters=false"
    " --xla_cpu_parallel_codegen_split_count=1"
)
# Begins a script: ``certificate(job)`` returns what `certify` reports about a job.
CERTIFY = """
import json, sys
from types import SimpleNamespace
from rnnworker import certify
from rnnworker.turns import Phases, Turns

certify.STEPS = certify.APPLIED_STEPS = 5
certify.TRAINED_STEPS = 4


def certificate(job):
    reported = {}

    def emit(event, **fields):
        reported.update(fields.get("certificate", {}))

    events = SimpleNamespace(emit=emit, handshake=lambda: None)
    certify.certify(job, events, Phases(events, Turns(events)))
    return reported
"""
ALL_CERTIFICATES = CERTIFY + "\nprint(json.dumps(list(map(certificate, json.loads(sys.argv[1])))))"
# Whole batches only, because each size of a batch is traced. `LAST`: with smaller last ones.
MODEL = {
    "function": "rnnworker.models.shape:build",
    "data": {"prepare": "rnnworker.models.shape:prepare"},
    **{"sequence": 5, "features": 3, "units": 4, "recurrent_dropout": 0.0, "batch": 16},
    **{"train_samples": 64, "val_samples": 32, "data_seed": 0, "metrics": ["accuracy"]},
    "optimizer": {"name": "adam", "learning_rate": 0.01},
    "loss": "sparse_categorical_crossentropy",
}
LAST = {"train_samples": 72, "val_samples": 36}


def certificate_job(
    framework: str, cell: str, rnn: Mapping[str, Any], precision: str = "float32", **model: Any
) -> dict[str, Any]:
    """A job of `certify`. `rnn`: the name of each implementation → its choice; `model`: settings in
    place of those of `MODEL`."""
    config = {
        "model": {**MODEL, **model},
        "cell": {"name": cell},
        "device": {"kind": "cpu", "threads": 1},
        "build": {"framework": framework},
        "precision": precision,
        "seed": 0,
    }
    entries = [{"name": name, "rnn": choice} for name, choice in rnn.items()]
    common = {"threads": 1, "device": "cpu_1", "dataset": None}
    return {"config": config, "implementations": entries, **common}


def equal(pair: Mapping[str, Any], precision: str = "float32") -> bool:
    """Whether the differences of a pair in a certificate were measured and are within the
    tolerance."""
    if pair["why"] is not None:
        return False
    judged = Pair(pair["a"], pair["b"], noise=pair["noise"])
    for part in TOLERANCE[precision]:
        allowed = judged.allowed(part, TOLERANCE[precision])
        if pair[part] is None or pair[part] > allowed:
            return False
    return True


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Writes text files (name below `folder` → content) and their folders."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def write_digits(file: Path, train: int, val: int) -> None:
    """Writes so many random training and validation samples in the format of the digits."""
    stream, arrays = numpy.random.RandomState(0), {}
    for part, samples in (("train", train), ("val", val)):
        arrays[f"x_{part}"] = stream.uniform(size=(samples, 8, 8)).astype("float32")
        arrays[f"y_{part}"] = stream.randint(0, 10, samples)
    numpy.savez(file, **arrays)


def build_python(build: str, version: str, temporary: pytest.TempPathFactory) -> Path:
    """Returns the interpreter of `build`'s environment with Python `version`, in this checkout or
    made from the lock. Skips the test if that Python or the packages are unavailable.

    That of a session of tests has links to uv's cache, and no bytecode of what no test imports:
    those of all builds would take 10 GB, and a minute of a processor."""
    if find(version) is None:
        pytest.skip(f"no Python {version} on this machine: pyenv install {version}")
    wanted = pins(ROOT / LOCKS / f"{build}.lock", version, None)
    home = ROOT
    if not (wanted.folder(ROOT) / "rnnbench.json").exists():
        home = shared_folder(temporary)  # one for all processes: `make` takes a lock
        brief = mock.patch.multiple(
            environments, LINK_MODE="hardlink", compile_packages=lambda *_: None
        )
        try:
            with brief:
                environments.make(wanted, home)
        except BuildError as error:
            if "connect" in str(error).lower() or "fetch" in str(error).lower():
                pytest.skip(f"the packages are unavailable: {error}")
            raise
    return wanted.folder(home) / "bin" / "python"


def answer(
    python: Path | str,
    script: str,
    *arguments: object,
    imports: Sequence[str] = (),
    timeout: float = 300,
    **variables: str,
) -> Any:
    """Runs `script` with the interpreter `python`, the worker's code on its path, and these
    environment variables; returns its last line of output, parsed as JSON. It is forked from a
    process that has done the `imports`, if any; in this interpreter, those of TensorFlow."""
    own = {**VARIABLES, "PYTHONPATH": str(ROOT / "src"), **variables}
    texts = list(map(str, arguments))
    if str(python) == sys.executable and not variables:
        own |= {"KERAS_BACKEND": "tensorflow", "XLA_FLAGS": KERAS_3_XLA}
        imports = FRAMEWORKS["keras3_tensorflow"].imports
    if imports:
        done = forked.run(python, imports, script, texts, own, timeout)
    else:
        done = subprocess.run(
            [python, "-W", "ignore", "-c", script, *texts],
            capture_output=True,
            text=True,
            env={**forked.inherited(os.environ), **own},
            timeout=timeout,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def settings_of(build: str) -> dict[str, Any]:
    """The file of a build in ``conf/build``, with those that it extends."""
    settings = yaml.safe_load((ROOT / "conf" / "build" / f"{build}.yaml").read_text())
    for base in settings.pop("defaults", []):
        settings = {**settings_of(base), **settings}
    return settings


def python_of(build: str, temporary: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """The interpreter of a build in ``conf/build``, and its environment variables."""
    settings, python = settings_of(build), Path(sys.executable)
    if settings.get("lock"):
        python = build_python(settings["lock"], settings["python"], temporary)
    return python, environment(build_of({"name": build, **settings}))


def answer_of(
    build: str, script: str, *arguments: object, temporary: pytest.TempPathFactory
) -> Any:
    """`answer` of the interpreter of a build in ``conf/build``, with its environment variables and
    its backend of Keras."""
    python, own = python_of(build, temporary)
    name = settings_of(build)["framework"]
    framework = FRAMEWORKS[name]
    own["KERAS_BACKEND"] = framework.backend
    if name.startswith("keras3_"):
        own["XLA_FLAGS"] = KERAS_3_XLA
    return answer(python, script, *arguments, imports=framework.imports, timeout=1200, **own)
