"""A private Slurm on loopback: munged, slurmctld and the nodes n1 and n2, all on this host.

All its files are in DIR, including the process ids of its daemons, by which they are stopped. Must
be started by root, because the nodes start jobs; needs the packages munge, slurmctld, slurmd and
slurm-client.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol", "sinfo")
CONFIGURATION = """\
ClusterName=pretend
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/run/munge.sock
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd.%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
# Cores, not memory: a job without a memory option would get all memory of a node.
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=bf_interval=2,sched_min_interval=200000
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
MinJobAge=3600
KillWait=2
# A node that cannot report the end of a job for this long is drained, even if slurmctld was down.
UnkillableStepTimeout=600
OverTimeLimit=0
SlurmctldTimeout=30
SlurmdTimeout=10
GresTypes=gpu
NodeName=DEFAULT CPUs=2 RealMemory=8000 Gres=gpu:h200:1
NodeName=n[1-2] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first}-{last}]
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE
PartitionName=gpu Nodes=n1 MaxTime=INFINITE
"""


def missing() -> str | None:
    """Why Slurm cannot run on this machine, or None."""
    lacking = [name for name in PROGRAMS if shutil.which(name, path=_path()) is None]
    if lacking:
        return f"no {', '.join(lacking)}: apt-get install munge slurmctld slurmd slurm-client"
    return None if os.geteuid() == 0 else "Slurm's nodes can start jobs only as root"


class Slurm:
    def __init__(self, folder: Path):
        self.folder = folder
        configuration = {"SLURM_CONF": str(folder / "etc/slurm.conf")}
        self.environment = {**os.environ, "PATH": _path(), **configuration}

    def up(self) -> None:
        for name in ("etc", "run", "state", "spool", "log", "munge"):
            (self.folder / name).mkdir(mode=0o700 if name in ("log", "munge") else 0o755)
        key = self.folder / "munge" / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        port = _free_ports(3)
        host = socket.gethostname().partition(".")[0]
        ports = {"port": port, "first": port + 1, "last": port + 2}
        text = CONFIGURATION.format(host=host, folder=self.folder, **ports)
        (self.folder / "etc/slurm.conf").write_text(text)
        gres = "NodeName=n[1-2] Name=gpu Type=h200 File=/dev/null\n"
        (self.folder / "etc/gres.conf").write_text(gres)
        self.call(
            *("munged", f"--socket={self.folder}/run/munge.sock", f"--key-file={key}"),
            *(f"--pid-file={self.folder}/run/munged.pid", f"--log-file={self.folder}/log/munged"),
            f"--seed-file={self.folder}/munge/seed",
        )
        self.call("slurmctld")
        for name in ("n1", "n2"):
            self.call("slurmd", "-N", name)
        self.wait_for_nodes()

    def wait_for_nodes(self, seconds: float = 90) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with suppress(subprocess.CalledProcessError):
                states = self.call("sinfo", "-h", "-N", "-p", "main", "-o", "%T").split()
                if states == ["idle", "idle"]:
                    return
            time.sleep(0.1)
        raise TimeoutError(f"Slurm's nodes are not idle: see {self.folder}/log")

    def call(self, *command: str) -> str:
        output = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        result = subprocess.run(command, env=self.environment, check=True, timeout=60, **output)
        return result.stdout

    def kill(self, daemon: str, number: int = signal.SIGTERM) -> None:
        """Sends a signal to ``slurmctld``, ``slurmd.n1`` or ``munged`` and waits for its end."""
        file = self.folder / "run" / f"{daemon}.pid"
        with suppress(FileNotFoundError, ValueError, ProcessLookupError):
            process = int(file.read_text())
            os.kill(process, number)
            for _ in range(100):
                if not Path(f"/proc/{process}").exists():
                    break
                time.sleep(0.1)

    def jobs(self, *options: str) -> list[list[str]]:
        """Id, state and comment of each job, including ended ones."""
        output = self.call("squeue", "-h", "-t", "all", "-o", "%i|%T|%k", *options)
        return [line.split("|") for line in output.splitlines()]

    def facts(self, job: str) -> dict[str, str]:
        output = self.call("scontrol", "-o", "show", "job", job)
        return dict(word.split("=", 1) for word in output.split() if "=" in word)

    def down(self) -> None:
        """Cancels all jobs, then stops the daemons that have a pid file in the folder."""
        with suppress(subprocess.SubprocessError):
            self.call("scancel", "--user=root")
            time.sleep(1)
        for daemon in ("slurmd.n1", "slurmd.n2", "slurmctld", "munged"):
            self.kill(daemon)


def _path() -> str:
    return os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])


def _free_ports(count: int) -> int:
    """The first of `count` consecutive free ports."""
    for first in range(16830, 19000, count):
        with suppress(OSError):
            for port in range(first, first + count):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
            return first
    raise OSError("no free ports")
