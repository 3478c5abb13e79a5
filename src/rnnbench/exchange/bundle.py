"""Bundles: folders that measure an experiment on a machine with nothing but Python."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import rnnworker
from rnnbench.errors import ConfigError
from rnnbench.records.store import write_bytes
from rnnbench.running.worker import nvml

SCHEMA = 1
NVML = "pynvml.py"  # from nvidia-ml-py
RUN = '''"""Measures this bundle's runs: python run.py [--stop-after SECONDS]; see also --help."""

import os
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, FOLDER)

from rnnworker import bundle

sys.exit(bundle.main(FOLDER, sys.argv[1:]))
'''


def write_bundle(
    folder: Path,
    experiment: Mapping[str, Any],
    runs: Iterable[Mapping[str, Any]],
    datasets: Mapping[str, Path],
    certificates: Mapping[str, Any] | None = None,
    probes: Mapping[str, Any] | None = None,
    own: Iterable[Path] = (),
) -> int:
    """Writes the worker, the plan, the planned certificates and probes, datasets and ``run.py``
    into `folder`, which must be new or empty.

    **Arguments:**

    - `experiment`: content of ``experiment.json``.
    - `runs`: lines of the plan, in the order of measurement.
    - `datasets`: path in the bundle → local file.
    - `certificates`, `probes`: content of ``certificates.json`` and ``probes.json``.
    - `own`: the user's Python files, which runs name by their local paths.

    **Returns** the number of bytes written into the bundle.
    """
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError("is not empty.", where=str(folder), remedy="name a new folder.")
    own_paths = {str(file): f"own/{_short_hash(str(file))}/{file.name}" for file in sorted(own)}
    files = {
        "plan.jsonl": "".join(json.dumps(run) + "\n" for run in runs).encode(),
        "experiment.json": json.dumps(experiment, indent=1).encode(),
        "certificates.json": json.dumps(certificates or {}, indent=1).encode(),
        "probes.json": json.dumps(probes or {}, indent=1).encode(),
        "run.py": RUN.encode(),
        **{name: path.read_bytes() for name, path in datasets.items()},
        **{name: Path(path).read_bytes() for path, name in own_paths.items()},
        **_worker_files(),
    }
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    files["bundle.json"] = json.dumps(
        {
            "schema": SCHEMA,
            "experiment": experiment["name"],
            "files": digests,
            "own": own_paths,
        },
        indent=1,
    ).encode()
    try:
        for name, content in files.items():
            write_bytes(folder / name, content)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return sum(map(len, files.values()))


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _worker_files() -> dict[str, bytes]:
    root, library = Path(rnnworker.__file__).parent, nvml()
    files = {f"rnnworker/{path.relative_to(root).as_posix()}": path for path in root.rglob("*.py")}
    if library:
        files[NVML] = Path(library)
    return {name: path.read_bytes() for name, path in files.items()}
