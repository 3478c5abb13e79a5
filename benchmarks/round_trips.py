"""Framework → Keras → framework: what a layer computes with its arrays, and with the arrays that
`rnnweights` has converted to Keras's layout and back.

    .venv/bin/python benchmarks/round_trips.py [keras torch onnx jax] [--environments DIR] [--small]

Each framework runs in an environment of its own, made from its lock (`round_trips/*.lock`; torch's
is that of the build), in DIR, by default a temporary folder. Goal: outputs within 1e-6. The small
form is Keras in the environment that runs this script.
"""

from __future__ import annotations

import argparse
import io
import os
import subprocess
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src"), str(ROOT / "packages/rnnweights/src")]

import numpy as np  # noqa: E402
import uv  # noqa: E402

from benchmarks import where  # noqa: E402
from benchmarks.small import add_small  # noqa: E402
from rnnbench.builds.environments import make  # noqa: E402
from rnnbench.builds.pins import LOCKS, pins  # noqa: E402
from rnnweights.command import main as convert  # noqa: E402

SCRIPT = ROOT / "benchmarks/round_trips/in_framework.py"
FRAMEWORKS = ("keras", "torch", "onnx", "jax")
SHOWN = {"torch": ("torch",), "onnx": ("onnxruntime",), "keras": ("keras",)}
SHOWN["jax"] = ("flax", "dm-haiku", "equinox", "jax")
LIMIT = 1e-6


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("frameworks", nargs="*", default=FRAMEWORKS)
    parser.add_argument("--environments", type=Path)
    add_small(parser)
    options = parser.parse_args()
    if options.small:
        options.frameworks = ["keras"]
    print(where.heading())
    print("| layer | versions | largest difference of outputs |")
    print("|---|---|--:|")
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for framework in options.frameworks:
            environments = options.environments or Path(folder, "environments")
            python = environment(framework, environments)
            versions = ", ".join(versions_of(python, SHOWN[framework]))
            own = Path(folder, framework)
            own.mkdir()
            for layer, difference in round_trips(framework, python, own).items():
                failed |= not difference <= LIMIT
                print(f"| `{layer}` | {versions} | {difference:.1e} |", flush=True)
    return int(failed)


def environment(framework: str, folder: Path) -> Path:
    """The Python of a framework, in an environment below `folder` that has what its lock names.
    Keras is in the environment that runs this script."""
    if framework == "torch":  # a build of rnnbench
        wanted = pins(ROOT / LOCKS / "keras3_torch.lock", "3.11", None)
        if (wanted.folder(ROOT) / "rnnbench.json").exists():
            return wanted.folder(ROOT) / "bin/python"
        folder.mkdir(exist_ok=True)
        make(wanted, folder)
        return wanted.folder(folder) / "bin/python"
    if framework == "keras":
        return Path(sys.executable)
    python = folder / framework / "bin/python"
    if not python.exists():
        tool = uv.find_uv_bin()
        subprocess.run([tool, "venv", "-q", "--python", "3.11", folder / framework], check=True)
        command = [tool, "pip", "sync", "-q", "--python", python, "--require-hashes"]
        subprocess.run([*command, SCRIPT.with_name(f"{framework}.lock")], check=True)
    return python


def versions_of(python: Path, names: tuple[str, ...]) -> list[str]:
    code = "import sys, importlib.metadata as m; print(*map(m.version, sys.argv[1:]))"
    found = subprocess.check_output([python, "-c", code, *names], text=True).split()
    return [f"{name} {version}" for name, version in zip(names, found, strict=True)]


def round_trips(framework: str, python: Path, folder: Path) -> dict[str, float]:
    """Layer → the largest difference between what it computes before and after the round trip.

    `python`: of the framework; `folder`: an empty one. Raises RuntimeError with the converter's
    words if it refuses.
    """
    variables = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    variables.pop("PYTHONPATH", None)
    command = [str(python), str(SCRIPT), framework, str(folder)]
    subprocess.run(command, check=True, env=variables)
    again = {}
    for before in sorted(folder.glob("*.y.npy")):
        layer = before.name.removesuffix(".y.npy")
        suffix = ".onnx" if framework == "onnx" else ".npz"
        source = folder / f"{layer}{suffix}"
        to_keras, stated = [], []
        if framework != "onnx":
            to_keras = ["--layout", layer]
            is_plain = layer.endswith(("RNN", "RNNCell", "SimpleCell"))
            stated = ["--activation", "tanh"]
            if not is_plain:
                stated += ["--recurrent-activation", "sigmoid"]
        keras = folder / f"{layer}.keras.npz"
        target = folder / f"{layer}.again{suffix}"
        to = {"onnx": "onnx", "keras": "keras"}.get(framework, layer)
        run(source, "keras", keras, *to_keras, *stated)
        run(keras, to, target)
        again[layer] = target
    pairs = [f"{layer}={file}" for layer, file in again.items()]
    subprocess.run([*command, *pairs], check=True, env=variables)
    differences = {}
    for layer in again:
        before = np.load(folder / f"{layer}.y.npy")
        after = np.load(folder / f"{layer}.again.npy")
        differences[layer] = float(np.max(np.abs(before - after)))
    return differences


def run(source: Path, to: str, target: Path, *options: str) -> None:
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        code = convert([str(source), "--to", to, "-o", str(target), *options])
    if code:
        raise RuntimeError(said.getvalue())


if __name__ == "__main__":
    sys.exit(main())
