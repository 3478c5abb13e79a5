"""Where jax and XLA look for libdevice and ptxas, and what to do if they are nowhere."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rnnbench.commands import machine as commands
from rnnbench.grid.choices import Build
from rnnworker import cuda_toolkit
from rnnworker.cuda_toolkit import LIBDEVICE, PTXAS


@pytest.fixture(autouse=True)
def no_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cuda_toolkit, "DEFAULT", str(tmp_path / "absent"))


def toolkit(folder: Path, *names: str) -> str:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch(mode=0o755)
    return str(folder)


@pytest.mark.parametrize(
    ("names", "lacking"),
    [((LIBDEVICE, PTXAS), []), ((LIBDEVICE,), [PTXAS]), ((), [LIBDEVICE, PTXAS])],
)
def test_what_a_folder_lacks(tmp_path: Path, names: tuple[str, ...], lacking: list[str]) -> None:
    root = toolkit(tmp_path / "root", *names)
    assert cuda_toolkit.lacking([str(tmp_path / "other"), root], path="/no/bin") == lacking


def test_ptxas_may_be_on_the_path(tmp_path: Path) -> None:
    root = toolkit(tmp_path / "root", LIBDEVICE)
    path = os.path.dirname(toolkit(tmp_path / "tools", "ptxas") + "/ptxas")
    assert cuda_toolkit.lacking([root], path=path) == []


def test_the_variable_comes_before_packages_and_the_default_last() -> None:
    packages = {"nvidia.cuda_nvcc": ["/site/nvidia/cuda_nvcc"]}
    default = cuda_toolkit.DEFAULT

    def folders_of(package: str) -> list[str]:
        return packages.get(package, [])

    assert cuda_toolkit.roots("/mine", folders_of) == ["/mine", default]
    assert cuda_toolkit.roots(None, folders_of) == ["/site/nvidia/cuda_nvcc", default]
    assert cuda_toolkit.roots(None, lambda package: []) == [default]


def test_the_program_reads_the_variable_of_the_build(tmp_path: Path) -> None:
    command = [sys.executable, cuda_toolkit.__file__]
    environment = {"PATH": "/no/bin", "CUDA_ROOT": toolkit(tmp_path / "root", LIBDEVICE, PTXAS)}
    output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert (output.stdout.split(), output.stderr) == ([], "")


ANSWER = "#!/bin/sh\nprintf 'nvvm/libdevice/libdevice.10.bc\\nbin/ptxas\\n'\n"


def answering(path: Path, text: str = ANSWER) -> str:
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def test_the_advice_names_the_variable_that_helps(tmp_path: Path) -> None:
    advice = cuda_toolkit.advice_for([answering(tmp_path / "python")], {})
    assert f"no {LIBDEVICE} and no {PTXAS}" in advice
    assert "CUDA_ROOT" in advice and "not XLA_FLAGS" in advice
    assert cuda_toolkit.advice_for([answering(tmp_path / "all", "#!/bin/sh\n")], {}) is None
    assert cuda_toolkit.advice_for([str(tmp_path / "no_python")], {}) is None


@pytest.mark.parametrize(("cards", "said"), [([{"name": "NVIDIA H200"}], 1), ([], 0)])
def test_doctor_says_so_on_a_machine_with_a_gpu(tmp_path: Path, monkeypatch, cards, said) -> None:
    monkeypatch.setattr(commands.machine, "gpus", lambda: cards)
    python = answering(tmp_path / "python")
    jax = Build(name="keras3_jax_cuda", framework="keras3_jax", python=python)
    torch = Build(name="keras3_torch_cuda", framework="keras3_torch", python=python)
    monkeypatch.setattr(commands, "missing", lambda build, root: None)
    states, *lines = commands._builds([jax, torch], tmp_path)
    assert states == "builds     keras3_jax_cuda, keras3_torch_cuda"
    assert len(lines) == said
    assert all(line.startswith("warning    keras3_jax_cuda: jax finds no ") for line in lines)
