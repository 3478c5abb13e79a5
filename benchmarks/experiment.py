"""Measures a benchmark's experiment with the workflow, in the results folder of this project."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from fnmatch import fnmatch
from pathlib import Path

from rnnbench.records.record import Record
from rnnbench.records.rounds import records_of

ROOT = Path(__file__).parents[1]


def measure_experiment(name: str, folder: Path, text: str, runs: str = "*") -> list[Record]:
    """Writes `text` as the experiment `name` below `folder`, measures it and returns the records of
    its `runs` (a pattern). If interrupted, the same call continues."""
    (folder / "experiment").mkdir(parents=True, exist_ok=True)
    (folder / f"experiment/{name}.yaml").write_text(text)
    start = time.monotonic()
    subprocess.run(
        [sys.executable, "-m", "snakemake", "--cores", "all", "--config", f"experiment={name}",
         f"conf={folder}"],
        cwd=ROOT, check=True,
    )  # fmt: skip
    print(f"the workflow took {time.monotonic() - start:.0f} s")
    os.chdir(ROOT)
    records, faults = records_of(sorted(Path("results").glob(f"*/{name}")))
    for fault in faults:
        print(fault)
    return [record for record in records if fnmatch(record.name, f"{runs}-s*-r*")]
