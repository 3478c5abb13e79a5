#!/usr/bin/env python
"""Submits Snakemake's job script with sbatch and prints the id of the Slurm job.

If a killed Snakemake left the same job in Slurm's queue, the script prints the id of that job
instead of submitting another one, and Snakemake waits for it.
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
from rnnbench.records.plan_file import read_rounds

TRIES, PAUSE_SECONDS = 20, 6  # slurmctld may be unreachable for two minutes


def main(script: str) -> int:
    job = read_job_properties(script)
    target = job["output"][0]
    digest = str(job.get("params", {}).get("digest", ""))
    identity = f"{os.getcwd()} {target} {digest}"
    # Slurm can find a job only by its name.
    name = f"rnnbench-{hashlib.sha256(identity.encode()).hexdigest()[:16]}"
    running = output(["squeue", "--me", "--noheader", "--format=%i", f"--name={name}"]).split()
    if running:
        print(f"{target} is already in Slurm job {running[0]}.", file=sys.stderr)
        print(running[0])
        return 0
    logs = Path(target).parents[1] / "logs" / "slurm"
    logs.mkdir(parents=True, exist_ok=True)
    command = ["sbatch", "--parsable", "--no-requeue", f"--job-name={name}", f"--comment={target}"]
    command += [f"--output={logs}/%j.log", f"--nice={order(Path(target))}"]
    command += options(job["resources"].get("device"))
    print(output([*command, script]).partition(";")[0].strip())
    return 0


def order(target: Path) -> int:
    """The round's position in the order of measurement; 0 for certificates."""
    with contextlib.suppress(OSError, RnnbenchError):
        return read_rounds(target.parents[1] / "plan.jsonl", [target.stem])[0].number + 1
    return 0


def options(device) -> list[str]:
    """The options of sbatch for a device, from devices.yaml."""
    file = os.environ.get("RNNBENCH_DEVICES", Path(__file__).with_name("devices.yaml"))
    try:
        devices = yaml.safe_load(Path(file).read_text())
        chosen = {**(devices.get("default") or {}), **(devices.get(device) or {})}
    except (OSError, ValueError, TypeError, AttributeError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        sys.exit(f"{file}: is unusable ({reason}). Fix: write DEVICE: {{OPTION: VALUE}}.")
    return [
        f"--{name}" if value is True else f"--{name}={value}"
        for name, value in chosen.items()
        if value is not None and value is not False
    ]


def output(command: list[str]) -> str:
    """The output of a Slurm command, which is repeated while slurmctld is unreachable."""
    for tries_left in reversed(range(TRIES)):
        process = subprocess.run(command, capture_output=True, text=True)
        if process.returncode == 0:
            return process.stdout
        unreachable = "connect" in process.stderr or "Socket timed out" in process.stderr
        if not (unreachable and tries_left):
            sys.exit(f"{command[0]}: {process.stderr.strip()}")
        time.sleep(PAUSE_SECONDS)
    return ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
