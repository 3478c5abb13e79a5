"""An experiment of a benchmark's own, measured by the workflow in this project's results/."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from rnnbench.records.record import Record
from rnnbench.records.store import records_of

ROOT = Path(__file__).parents[1]


def measured(name: str, folder: Path, text: str, runs: str = "*") -> list[Record]:
    """Writes the experiment `name` with `text` below `folder`, has it measured, and returns the
    records of the `runs` (a pattern) that it has. Stopped, the same call goes on."""
    (folder / "experiment").mkdir(parents=True, exist_ok=True)
    (folder / f"experiment/{name}.yaml").write_text(text)
    began = time.monotonic()
    subprocess.run(
        [sys.executable, "-m", "snakemake", "--cores", "all", "--config", f"experiment={name}",
         f"conf={folder}"],
        cwd=ROOT, check=True,
    )  # fmt: skip
    print(f"the workflow took {time.monotonic() - began:.0f} s")
    os.chdir(ROOT)
    pointers = sorted(Path("results").glob(f"*/{name}/{runs}-s*-r*.json"))
    records, faults = records_of(Path("results"), pointers)
    for fault in faults:
        print(fault)
    return records
