"""Bundles: folders that measure an experiment on a machine with nothing but Python."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Packages:
    """The packages that a build carries: `name` and `digest` of their lock, and the `parts` of the
    archive that holds them."""

    name: str
    digest: str
    parts: tuple[Path, ...]

    def as_json(self) -> dict[str, Any]:
        hashes = {}
        for part in self.parts:
            with part.open("rb") as file:
                hashes[part.name] = hashlib.file_digest(file, "sha256").hexdigest()
        return {"name": self.name, "digest": self.digest, "parts": hashes}


def write_bundle(
    folder: Path,
    experiment: Mapping[str, Any],
    runs: Iterable[Mapping[str, Any]],
    datasets: Mapping[str, Path],
    certificates: Mapping[str, Any] | None = None,
    probes: Mapping[str, Any] | None = None,
    packages: Mapping[str, Packages] | None = None,
    own: Iterable[Path] = (),
) -> int:
    """Writes the worker, the plan, the planned certificates and probes, datasets, packages and
    ``run.py`` into `folder`, which must be new or empty.

    **Arguments:**

    - `experiment`: content of ``experiment.json``.
    - `runs`: lines of the plan, in the order of measurement.
    - `datasets`: path in the bundle → local file.
    - `certificates`, `probes`: content of ``certificates.json`` and ``probes.json``.
    - `packages`: the packages that builds carry, by name. An archive in several parts is written
      to a separate folder, ``FOLDER-parts``, whose files are copied one by one.
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
            "packages": {name: entry.as_json() for name, entry in (packages or {}).items()},
        },
        indent=1,
    ).encode()
    try:
        size = _copy_packages(folder, packages or {})
        for name, content in files.items():
            write_bytes(folder / name, content)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return size + sum(map(len, files.values()))


def parts_folder(folder: Path) -> Path:
    """The folder of the archive parts that do not fit into the bundle in `folder`."""
    return folder.with_name(f"{folder.name}-parts")


def _copy_packages(folder: Path, packages: Mapping[str, Packages]) -> int:
    """Copies the archives. Returns the number of bytes inside the bundle."""
    size = 0
    for name, entry in packages.items():
        fits = len(entry.parts) == 1
        target = (folder / "packages" if fits else parts_folder(folder)) / name
        target.mkdir(parents=True, exist_ok=True)
        for part in entry.parts:
            shutil.copyfile(part, target / part.name)
            size += part.stat().st_size if fits else 0
    return size


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _worker_files() -> dict[str, bytes]:
    root, library = Path(rnnworker.__file__).parent, nvml()
    files = {f"rnnworker/{path.relative_to(root).as_posix()}": path for path in root.rglob("*.py")}
    if library:
        files[NVML] = Path(library)
    return {name: path.read_bytes() for name, path in files.items()}
