"""Do Keras 3's recurrent layers compute the same with every backend, in a loop and unrolled?

    .venv/bin/python benchmarks/grid_of_keras.py [--python jax=PATH] [--small]

Each build's Keras (`plain/keras_grid.py`) is asked for outputs, gradients and the losses of five
training steps of each layer with each option. They are compared with the loop on TensorFlow, masks
of dropout with the backend's own loop. The table has the rows in which something differs by more
than a certificate tolerates. The environments of the builds are those in results/envs, or named
with --python.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from benchmarks import where  # noqa: E402
from benchmarks.small import add_small  # noqa: E402
from rnnbench.builds.pins import LOCKS, pins  # noqa: E402
from rnnworker.precision import TOLERANCE  # noqa: E402
from tests.worker.building import KERAS_3_XLA  # noqa: E402

BACKENDS = ("tensorflow", "torch", "jax")
FORMS = ("loop", "unroll", "jit")
PARTS = {"outputs": "outputs", "gradients": "gradients", "losses": "loss_curve"}
USE_CUDNN = "use_cudnn=True on a CPU"  # the loop on TensorFlow refuses it
Answers = dict[str, np.ndarray]


class Difference(NamedTuple):
    """How the answers of a layer differ from the reference: ``kind`` is "same", the name of an
    error, or the first part that differs, then by at most ``largest``."""

    kind: str
    largest: float = 0.0


class Row(NamedTuple):
    layers: list[str]
    option: str
    cells: list[list[Difference]]  # of each column, of each layer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--python", action="append", default=[], metavar="BACKEND=PATH", help="an interpreter"
    )
    add_small(parser)
    options = parser.parse_args()
    named = dict(each.split("=", 1) for each in options.python)
    print(where.heading())
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for backend in BACKENDS:
            python = named.get(backend) or interpreter(backend)
            found[backend] = ask(python, backend, Path(folder), options.small)
    report(found)


def interpreter(backend: str) -> str:
    if backend == "tensorflow":
        return sys.executable
    lock = ROOT / LOCKS / f"keras3_{backend}.lock"
    return str(pins(lock, "3.11", None).folder(ROOT) / "bin" / "python")


def ask(python: str, backend: str, folder: Path, small: bool) -> Answers:
    """The answers of a backend; see `plain/keras_grid.py`."""
    path = folder / f"{backend}.npz"
    variables = {
        "KERAS_BACKEND": backend,
        "CUDA_VISIBLE_DEVICES": "-1",
        "JAX_PLATFORMS": "cpu",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    if small:
        variables["XLA_FLAGS"] = KERAS_3_XLA
    script = str(ROOT / "benchmarks/plain/keras_grid.py")
    command = [python, "-W", "ignore", script, str(path), *(["small"] if small else [])]
    subprocess.run(command, env={**os.environ, **variables}, check=True)
    with np.load(path) as arrays:
        return dict(arrays)


def report(found: dict[str, Answers]) -> None:
    columns = []
    for backend in BACKENDS:
        for form in FORMS:
            if any(f"|{form}|" in name for name in found[backend]):
                columns.append((backend, form))
    rows, same, worst = compared(found, columns)
    titles = [f"{backend} {form}" for backend, form in columns]
    print(f"| layer | option | {' | '.join(titles)} |")
    print("|---|---" + "|---" * len(titles) + "|")
    for row in rows:
        cells = [cell_text(differences) for differences in row.cells]
        print(f"| {', '.join(row.layers)} | {row.option} | {' | '.join(cells)} |")
    print(f"\n{same} other answers agree; in float32, outputs within {worst:.0e}.")
    kept = set()
    for answers in found.values():
        for name, dtype in answers.items():
            if "mixed_float16, stateful" in name and name.endswith("|kept|0"):
                kept.add(str(dtype))
    print(f"States that a stateful layer keeps under mixed_float16: {', '.join(sorted(kept))}.")


def compared(
    found: dict[str, Answers], columns: list[tuple[str, str]]
) -> tuple[list[Row], int, float]:
    """The rows in which an answer differs, how many answers agree, and the largest difference of
    their outputs in float32. Layers that differ in the same way share a row."""
    rows: dict[tuple[str, ...], Row] = {}
    same, worst = 0, 0.0
    for layer, option in dict.fromkeys(tuple(name.split("|")[:2]) for name in found["tensorflow"]):
        cells = []
        for backend, form in columns:
            reference = reference_of(found, layer, option, backend)
            cells.append(difference(*reference, found[backend], f"{layer}|{option}|{form}", option))
        agree = [cell for cell in cells if cell.kind == "same"]
        same += len(agree)
        if "mixed" not in option:
            worst = max([worst, *(cell.largest for cell in agree)])
        if len(agree) == len(cells):
            continue
        kinds = (option, *(cell.kind for cell in cells))
        row = rows.setdefault(kinds, Row([], option, [[] for _ in columns]))
        row.layers.append(layer)
        for column, cell in zip(row.cells, cells, strict=True):
            column.append(cell)
    return list(rows.values()), same, worst


def reference_of(
    found: dict[str, Answers], layer: str, option: str, backend: str
) -> tuple[Answers, str]:
    """The answers that are right, and the beginning of their names."""
    if option in ("dropout", "recurrent_dropout"):
        return found[backend], f"{layer}|{option}|loop"
    if option == USE_CUDNN:
        return found["tensorflow"], f"{layer}|last output|loop"
    return found["tensorflow"], f"{layer}|{option}|loop"


def difference(
    reference: Answers, expected: str, answers: Answers, asked: str, option: str
) -> Difference:
    if f"{asked}|error" in answers:
        return Difference(str(answers[f"{asked}|error"]).partition(":")[0])
    policy = option.partition(",")[0] if option.startswith("mixed") else "float32"
    outputs = 0.0
    for part, tolerance in PARTS.items():
        largest = 0.0
        for name in reference:
            if not name.startswith(f"{expected}|{part}|"):
                continue
            number = name.rpartition("|")[2]
            right, seen = reference[name], answers.get(f"{asked}|{part}|{number}")
            if seen is None or seen.shape != right.shape:
                return Difference(f"other {part}")
            scale = 1.0 if part == "outputs" else max(float(np.abs(right).max()), 1e-6)
            largest = max(largest, float(np.abs(seen - right).max()) / scale)
        if part == "outputs":
            outputs = largest
        if not largest <= TOLERANCE[policy][tolerance]:
            return Difference(part, largest)
    return Difference("same", outputs)


def cell_text(differences: list[Difference]) -> str:
    kind = differences[0].kind
    if kind in PARTS:
        return f"{kind} by {max(each.largest for each in differences):.2g}"
    return kind


if __name__ == "__main__":
    main()
