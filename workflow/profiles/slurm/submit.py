#!/usr/bin/env python
"""Snakemake's job script → sbatch; prints the Slurm job's id.

A run that a killed Snakemake left in Slurm's queue is not submitted beside itself: its job's id
is printed, and Snakemake waits for that one.
"""

import contextlib
import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

import yaml
from snakemake.utils import read_job_properties

from rnnbench.errors import RnnbenchError
from rnnbench.running.train import read_round

TRIES, PAUSE = 20, 6  # slurmctld may be away for two minutes


def main(script: str) -> int:
    job = read_job_properties(script)
    target = job["output"][0]
    digest = str(job.get("params", {}).get("digest", ""))
    here = f"{os.getcwd()} {target} {digest}"
    # Slurm finds a job by its name alone.
    name = f"rnnbench-{hashlib.sha256(here.encode()).hexdigest()[:16]}"
    running = asked(["squeue", "--me", "--noheader", "--format=%i", f"--name={name}"]).split()
    if running:
        print(f"{target} is Slurm job {running[0]} already.", file=sys.stderr)
        print(running[0])
        return 0
    logs = Path(target).parents[1] / "logs" / "slurm"
    logs.mkdir(parents=True, exist_ok=True)
    command = ["sbatch", "--parsable", "--no-requeue", f"--job-name={name}", f"--comment={target}"]
    command += [f"--output={logs}/%j.log", f"--nice={place_in_plan(Path(target))}"]
    command += options(job["resources"].get("device"))
    print(asked([*command, script]).partition(";")[0].strip())
    return 0


def place_in_plan(target: Path) -> int:
    """Snakemake submits what is ready in any order; this is the order to measure in. What is no
    round, a certificate, comes first."""
    with contextlib.suppress(OSError, RnnbenchError):
        return read_round(target.parents[1] / "plan.jsonl", target.stem)[1] + 1
    return 0


def options(device) -> list[str]:
    """What devices.yaml says about a device, as options of sbatch."""
    place = os.environ.get("RNNBENCH_DEVICES", Path(__file__).with_name("devices.yaml"))
    known = yaml.safe_load(Path(place).read_text())
    chosen = {**(known.get("default") or {}), **(known.get(device) or {})}
    return [
        f"--{name}" if value is True else f"--{name}={value}"
        for name, value in chosen.items()
        if value is not None and value is not False
    ]


def asked(command: list[str]) -> str:
    """The answer of one of Slurm's commands, asked again while slurmctld is away."""
    for left in reversed(range(TRIES)):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode == 0:
            return done.stdout
        away = "connect" in done.stderr or "Socket timed out" in done.stderr
        if not (away and left):
            sys.exit(f"{command[0]}: {done.stderr.strip()}")
        time.sleep(PAUSE)
    return ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
