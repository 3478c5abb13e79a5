"""Framework → Keras → framework: what a layer computes with its arrays, and with the arrays that
`rnnweights` has converted to Keras's layout and back.

    .venv/bin/python benchmarks/round_trips.py [keras torch …] [--environments DIR] [--small]

Each framework runs in an environment of its own, made from its lock (`round_trips/*.lock`; torch's
is that of the build), in DIR, by default a temporary folder. Goal: outputs within 1e-6, after the
way back in the framework itself, and on the way by the formula of Keras's layer in float64. The
small form is Keras in the environment that runs this script.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src"), str(ROOT / "packages/rnnweights/src")]

import numpy as np  # noqa: E402
import uv  # noqa: E402

from benchmarks import where  # noqa: E402
from benchmarks.small import add_small  # noqa: E402
from rnnbench.builds.environments import make  # noqa: E402
from rnnbench.builds.pins import LOCKS, pins  # noqa: E402
from rnnweights.cells import cells_of, items_of  # noqa: E402
from rnnweights.command import main as convert  # noqa: E402
from rnnweights.formulas import FUNCTIONS, formula_of  # noqa: E402
from rnnweights.reading import read  # noqa: E402

SCRIPT = ROOT / "benchmarks/round_trips/in_framework.py"
# Framework → the packages whose versions are shown.
SHOWN = {
    "keras": ("keras",),
    "torch": ("torch",),
    "onnx": ("onnxruntime",),
    "jax": ("flax", "orbax-checkpoint", "dm-haiku", "equinox", "jax"),
    "paddle": ("paddlepaddle",),
    "mxnet": ("mxnet",),
    "mindspore": ("mindspore",),
    "chainer": ("chainer",),
    "nnabla": ("nnabla",),
    "dynet": ("dynet38",),
    "lasagne": ("lasagne", "Theano"),
    "tinygrad": ("tinygrad",),
}
FRAMEWORKS = tuple(SHOWN)
# Those that have no version for Python 3.11 → the last one that they have.
PYTHONS = {"mxnet": "3.7", "chainer": "3.7", "lasagne": "3.7", "dynet": "3.8", "nnabla": "3.9"}
# Layers of frameworks → the layout that their arrays have, if it is called otherwise.
LAYOUTS = {
    "mxnet.LSTMCell": "mxnet.LSTM",
    "mxnet.GRUCell": "mxnet.GRU",
    "dynet.CompactVanillaLSTMBuilder": "dynet.LSTMBuilder",
}
PLAIN = ("RNN", "RNNCell", "SimpleCell", "SimpleRNNBuilder", ".rnn")
LIMIT = 1e-6
APPROXIMATE = 1e-4  # how far MindSpore's tanh on a CPU may be off


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("frameworks", nargs="*", default=FRAMEWORKS)
    parser.add_argument("--environments", type=Path)
    add_small(parser)
    options = parser.parse_args()
    if options.small:
        options.frameworks = ["keras"]
    print(where.heading())
    print("| layer | versions | in Keras | after the way back |")
    print("|---|---|--:|--:|")
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for framework in options.frameworks:
            environments = options.environments or Path(folder, "environments")
            python = environment(framework, environments)
            versions = ", ".join(versions_of(python, SHOWN[framework]))
            own = Path(folder, framework)
            own.mkdir()
            limit = APPROXIMATE if framework == "mindspore" else LIMIT
            for layer, (in_keras, back) in round_trips(framework, python, own).items():
                failed |= not (in_keras <= limit and back <= LIMIT)
                print(f"| `{layer}` | {versions} | {in_keras:.1e} | {back:.1e} |", flush=True)
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
        version = PYTHONS.get(framework, "3.11")
        subprocess.run([tool, "venv", "-q", "--python", version, folder / framework], check=True)
        command = [tool, "pip", "sync", "-q", "--python", python, "--require-hashes"]
        subprocess.run([*command, SCRIPT.with_name(f"{framework}.lock")], check=True)
    return python


def versions_of(python: Path, names: tuple[str, ...]) -> list[str]:
    command = [uv.find_uv_bin(), "pip", "list", "-q", "--format", "json", "--python", str(python)]
    listed = json.loads(subprocess.check_output(command))
    found = {each["name"].lower(): each["version"] for each in listed}
    return [f"{name} {found[name.lower()]}" for name in names]


def round_trips(framework: str, python: Path, folder: Path) -> dict[str, tuple[float, float]]:
    """Layer → the largest differences from what it computes: of Keras's formula with the converted
    arrays, and of the layer itself after the way back.

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
        layout = LAYOUTS.get(layer, layer)
        (source,) = set(folder.glob(f"{layer}.*")) - {before}
        to_keras, stated = [], []
        if framework != "onnx":
            to_keras = ["--layout", layout]
            stated = ["--activation", "tanh"]
            if not layer.endswith(PLAIN):
                stated += ["--recurrent-activation", "sigmoid"]
        keras = folder / f"{layer}.keras.npz"
        target = folder / f"{layer}.again{'.onnx' if framework == 'onnx' else '.npz'}"
        to = {"onnx": "onnx", "keras": "keras"}.get(framework, layout)
        run(source, "keras", keras, *to_keras, *stated, "--python", str(python))
        run(keras, to, target)
        again[layer] = target
    pairs = [f"{layer}={file}" for layer, file in again.items()]
    subprocess.run([*command, *pairs], check=True, env=variables)
    inputs = np.load(folder / "x.npy")
    differences = {}
    for layer in again:
        before = np.load(folder / f"{layer}.y.npy")
        after = np.load(folder / f"{layer}.again.npy")
        in_keras = by_formula(folder / f"{layer}.keras.npz", inputs)
        differences[layer] = (largest(before, in_keras), largest(before, after))
    return differences


def largest(first: np.ndarray, second: np.ndarray) -> float:
    return float(np.max(np.abs(first - second)))


def by_formula(file: Path, inputs: np.ndarray) -> np.ndarray:
    """What Keras's layer computes in float64 with the arrays of a file: (batch, steps, outputs of
    both directions)."""
    functions = FUNCTIONS["tanh"], FUNCTIONS["sigmoid"]
    outputs = []
    for cell in cells_of(items_of(read(file, no_framework).arrays)):
        way = -1 if cell.direction == "backward" else 1
        outputs.append(formula_of(cell).outputs(inputs[:, ::way], *functions)[:, ::way])
    return np.concatenate(outputs, axis=-1)


def no_framework(*_: object, **__: object) -> NoReturn:
    raise RuntimeError("no framework is needed")


def run(source: Path, to: str, target: Path, *options: str) -> None:
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        code = convert([str(source), "--to", to, "-o", str(target), *options])
    if code:
        raise RuntimeError(said.getvalue())


if __name__ == "__main__":
    sys.exit(main())
