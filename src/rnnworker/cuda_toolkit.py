"""Prints what jax would lack of a CUDA toolkit in this Python: ``python cuda_toolkit.py``.

To compile for a GPU, XLA needs libdevice and ptxas. jax tells it one folder: ``CUDA_ROOT``, else
that of the packages ``nvidia-cuda-nvcc``; a folder in ``XLA_FLAGS`` is overridden. XLA also looks
into /usr/local/cuda, and for ptxas along ``PATH``. Sources: ``_cuda_path`` in jax/_src/lib, since
jax 0.4; ``CandidateCudaRoots`` and ``FindCudaExecutable`` in XLA.
"""

import importlib.util
import os
import shutil
import subprocess
from typing import Callable, Dict, List, Optional, Sequence

DEFAULT = "/usr/local/cuda"
PACKAGES = ("nvidia.cu13", "nvidia.cuda_nvcc")
LIBDEVICE, PTXAS = "nvvm/libdevice/libdevice.10.bc", "bin/ptxas"
SECONDS = 60
ADVICE = (
    "jax finds no {} of a CUDA toolkit, without which it compiles nothing for a GPU: set the "
    "variable CUDA_ROOT to a toolkit's folder that has them (not XLA_FLAGS, which jax overrides)"
)


def advice_for(launcher: Sequence[str], environment: Dict[str, str]) -> Optional[str]:
    """Returns what to do about what jax would lack in a build's Python, or None. `launcher`: the
    first arguments of its command, the last one its Python; `environment`: that of a worker."""
    command = list(launcher) + [os.path.abspath(__file__)]
    try:
        output = subprocess.check_output(
            command,
            stdin=subprocess.DEVNULL,
            env=environment,
            timeout=SECONDS,
        )
    except (OSError, subprocess.SubprocessError):
        return None  # the check of the build's packages says what is wrong with its Python
    names = output.decode("utf-8", "replace").split()
    if not names:
        return None
    return ADVICE.format(" and no ".join(names))


def lacking(roots: Sequence[str], path: Optional[str] = None) -> List[str]:
    """Returns which of `LIBDEVICE` and `PTXAS` none of the folders `roots` has, the second one also
    along `path` (None: ``PATH``)."""
    names = []
    for name in (LIBDEVICE, PTXAS):
        found = [root for root in roots if os.path.exists(os.path.join(root, name))]
        if name == PTXAS and shutil.which("ptxas", path=path):
            found.append("along the path")
        if not found:
            names.append(name)
    return names


def roots(variable: Optional[str], folders_of: Callable[[str], List[str]]) -> List[str]:
    """Returns the folders that XLA searches. `variable`: CUDA_ROOT or None; `folders_of`: a
    function that returns the folders of a package, none if it is not installed."""
    if variable is not None:
        return [variable, DEFAULT]
    for package in PACKAGES:
        folders = folders_of(package)
        if folders:
            return folders + [DEFAULT]
    return [DEFAULT]


def _folders_of(package: str) -> List[str]:
    try:
        spec = importlib.util.find_spec(package)
    except ImportError:
        return []
    if spec is None:
        return []
    return list(spec.submodule_search_locations or ())


if __name__ == "__main__":
    searched = roots(os.environ.get("CUDA_ROOT"), _folders_of)
    print("\n".join(lacking(searched)))
