"""A large checkpoint through `rnnweights`, in turns with ``cp``.

    .venv/bin/python benchmarks/large_weights.py [--gigabytes 2] [--repeats 3] [--folder DIR]

Goals: peak memory within 1.3 × the largest array, and 60 % of the throughput of ``cp``. Each
conversion runs beside a copy of its source, one after the other. CPU seconds (user and system) are
less disturbed by other processes and disks than seconds on the clock. The source is in the page
cache, and nothing waits for the disk. `--small` takes 20 MB.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src"), str(ROOT / "packages/rnnweights/src")]

import h5py  # noqa: E402
import numpy as np  # noqa: E402

from benchmarks import where  # noqa: E402
from benchmarks.small import add_small  # noqa: E402

# Converts, and prints the peak of this program's own memory, in kB: what `wait4` says also counts
# what its parent had.
CODE = """
import re, sys
from rnnweights.command import main
code = main()
print(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
sys.exit(code)
"""
UNITS = 4096
BYTES = 4  # of a number
# Source, layout and format of the target.
CONVERSIONS = (
    ("keras.h5", "keras", ".h5"),
    ("keras.h5", "keras", ".npz"),
    ("keras.h5", "keras", ".safetensors"),
    ("keras.h5", "torch", ".safetensors"),
    ("torch.npz", "keras", ".npz"),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--gigabytes", type=float, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path)
    add_small(parser)
    options = parser.parse_args()
    units = UNITS
    if options.small:
        options.gigabytes, options.repeats, units = 0.02, 1, 256
    print(where.heading())
    print("| conversion | cp: s, CPU s | rnnweights: s, CPU s | of cp: s, CPU s | peak / largest |")
    print("|---|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        layers = max(round(options.gigabytes * 2**30 / (8 * units * units * BYTES)), 1)
        for source, to, target in CONVERSIONS:
            path = folder / source
            if not path.exists():
                for other in folder.iterdir():
                    other.unlink()
                write(path, layers, units)
            largest = 4 * units * units * BYTES
            row = turns(path, to, folder / f"target{target}", options.repeats, largest)
            print(f"| `{source}` → {to} `{target}` | {row}", flush=True)
    return 0


def write(path: Path, layers: int, units: int) -> None:
    """Writes layers of an LSTM with as many inputs as units."""
    stream = np.random.default_rng(0)

    def matrix(*shape: int) -> np.ndarray:
        return stream.random(shape, "float32") - np.float32(0.5)

    if path.suffix == ".npz":
        arrays = {}
        for layer in range(layers):
            for name in ("weight_ih", "weight_hh"):
                arrays[f"rnn.{name}_l{layer}"] = matrix(4 * units, units)
            for name in ("bias_ih", "bias_hh"):
                arrays[f"rnn.{name}_l{layer}"] = matrix(4 * units)
        np.savez(path, **arrays)  # type: ignore[arg-type]
        return
    with h5py.File(path, "w") as file:
        file.attrs["layer_names"] = [f"lstm_{layer}".encode() for layer in range(layers)]
        for layer in range(layers):
            group = file.create_group(f"lstm_{layer}")
            cell = f"lstm_{layer}/lstm_cell"
            parts = {"kernel": (units, 4 * units), "recurrent_kernel": (units, 4 * units)}
            parts["bias"] = (4 * units,)
            group.attrs["weight_names"] = [f"{cell}/{part}:0".encode() for part in parts]
            for part, shape in parts.items():
                group[f"{cell}/{part}:0"] = matrix(*shape)


def turns(source: Path, to: str, target: Path, repeats: int, largest: int) -> str:
    """The cells of a row: medians of seconds and CPU seconds, of the ratios within turns, and the
    highest peak."""
    stated = ["--activation", "tanh", "--recurrent-activation", "sigmoid"]
    convert = [sys.executable, "-c", CODE, str(source), "--to", to, "-o", str(target)]
    if to == "torch":
        convert += stated
    copies, conversions = [], []
    for _ in range(repeats):
        for command, measured in ((["cp", source, target], copies), (convert, conversions)):
            target.unlink(missing_ok=True)
            measured.append(measure([str(word) for word in command]))
            assert target.stat().st_size > 0.99 * source.stat().st_size
    target.unlink()
    cells = []
    for column in (copies, conversions):
        medians = [statistics.median(values) for values in list(zip(*column, strict=True))[:2]]
        cells.append(", ".join(f"{value:.2f}" for value in medians))
    shares = []
    for place in (0, 1):
        ratios = [
            copy[place] / converted[place]
            for copy, converted in zip(copies, conversions, strict=True)
        ]
        shares.append(f"{100 * statistics.median(ratios):.0f} %")
    cells.append(", ".join(shares))
    cells.append(f"{max(converted[2] for converted in conversions) / largest:.2f}")
    return " | ".join(cells) + " |"


def measure(command: list[str]) -> tuple[float, float, int]:
    """Seconds, CPU seconds and the peak of its memory in bytes that a program prints, or 0."""
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path[:3])}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    out = subprocess.run(command, check=True, capture_output=True, text=True, env=variables).stdout
    seconds = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, used, int(out.split()[-1]) * 1024 if out else 0


if __name__ == "__main__":
    sys.exit(main())
