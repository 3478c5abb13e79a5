"""The package works where nothing but itself and its dependencies is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import h5py
import numpy as np
import pytest
import uv

PACKAGE = Path(__file__).parents[1]


@pytest.mark.slow_tier("packages from a registry")
def test_an_installation_of_it_alone_converts_a_file(tmp_path: Path) -> None:
    source = tmp_path / "package"  # building writes beside the source
    shutil.copytree(PACKAGE, source, ignore=shutil.ignore_patterns("tests", "*.egg-info", "build"))
    tool = uv.find_uv_bin()
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment = tmp_path / "venv"

    def run(*command: str | Path) -> str:
        return subprocess.run(
            command, cwd=tmp_path, env=variables, check=True, capture_output=True, text=True
        ).stdout

    run(tool, "venv", "--python", "3.11", environment)
    python = environment / "bin/python"
    run(tool, "pip", "install", "--python", python, source)
    installed = run(tool, "pip", "freeze", "--python", python)
    names = {line.partition("==")[0].partition(" @")[0] for line in installed.splitlines()}
    assert names == {"rnnweights", "numpy", "h5py", "safetensors"}

    stream = np.random.default_rng(0)
    kernel, recurrent = stream.normal(size=(3, 8)), stream.normal(size=(2, 8))
    arrays = {"lstm/kernel": kernel, "lstm/recurrent_kernel": recurrent}
    np.savez(tmp_path / "x.npz", **arrays, **{"lstm/bias": np.zeros(16)})
    printed = run(environment / "bin/rnnweights", "x.npz", "--to", "keras", "-o", "y.h5")
    assert printed.startswith("3 arrays: 3 converted (1 LSTM of 2 units), 0 copied\n")
    with h5py.File(tmp_path / "y.h5") as file:
        layer = file["lstm"]["lstm"]
        of_gates = np.split(recurrent, 4, axis=1)
        expected = np.concatenate([gate.T for gate in of_gates], axis=1)
        np.testing.assert_array_equal(layer["recurrent_kernel:0"], expected)
    asked = subprocess.run(
        [python, "-m", "rnnweights", "y.h5", "--to", "keras", "-o", "y.h5"],
        cwd=tmp_path, env=variables, capture_output=True, text=True,
    )  # fmt: skip
    assert (asked.returncode, asked.stdout) == (1, "")
    assert "y.h5: is part of the source. Fix: name another file." in asked.stderr
