"""A folder that measures an experiment on a machine with nothing but Python."""

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

SCHEMA = 1
RUN = '''"""Measures this bundle's runs: python run.py [--limit SECONDS] [--python BUILD=PATH]."""

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
) -> int:
    """Writes worker, plan, datasets and runner into `folder`, which must be new or empty.

    **Arguments:**

    - `experiment`: what ``experiment.json`` holds.
    - `runs`: lines of the plan, in the order of measuring.
    - `datasets`: path in the bundle → file here.

    **Returns** the bytes written.
    """
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError("is not empty.", where=str(folder), remedy="name a new folder.")
    files = {
        "plan.jsonl": "".join(json.dumps(run) + "\n" for run in runs).encode(),
        "experiment.json": json.dumps(experiment, indent=1).encode(),
        "run.py": RUN.encode(),
        **{name: path.read_bytes() for name, path in datasets.items()},
        **_worker(),
    }
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    files["bundle.json"] = json.dumps(
        {"schema": SCHEMA, "experiment": experiment["name"], "files": digests}, indent=1
    ).encode()
    try:
        for name, content in files.items():
            write_bytes(folder / name, content)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return sum(map(len, files.values()))


def _worker() -> dict[str, bytes]:
    root = Path(rnnworker.__file__).parent
    return {
        f"rnnworker/{p.relative_to(root).as_posix()}": p.read_bytes() for p in root.rglob("*.py")
    }
