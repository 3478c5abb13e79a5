"""The kernel's files: processors, memory that is available, and the CPU quotas, memory limits and
memory kills of this process's own control groups, never those of the whole host."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rnnbench.running.verdict import failure_reason
from rnnbench.running.worker import Outcome
from rnnworker import proc_files
from rnnworker.proc_files import available_bytes, quota
from tests.conftest import ROOT
from tests.worker.building import write

# /proc/PID/cgroup, the mount (root, type, options), and the group's file with the counts.
SLURM_2 = ("0::/job_7/step_0", ("/", "cgroup2", "rw"), "job_7/step_0/memory.events")
SLURM_1 = ("4:memory:/job_7\n0::/", ("/", "cgroup", "rw,memory"), "job_7/memory.oom_control")
CONTAINER = ("0::/", ("/", "cgroup2", "rw"), "memory.events")
BIND = ("5:cpu,memory:/docker/x", ("/docker/x", "cgroup", "rw,memory"), "memory.oom_control")
WHOLE_HOST_2 = ("0::/", ("/", "cgroup2", "rw"), "job_7/memory.events")
WHOLE_HOST_1 = ("4:memory:/\n0::/", ("/", "cgroup", "rw,memory"), "memory.oom_control")
ELSEWHERE = ("4:memory:/docker/x", ("/docker/y", "cgroup", "rw,memory"), "memory.oom_control")
LIMITS = (
    ("memory.max", "memory.swap.max"),
    ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"),
)
COUNTS = "low 0\noom 9\noom_kill 3\noom_group_kill 0\n"


def fake_proc(folder: Path, groups: str, mount: tuple[str, str, str], files: dict) -> Path:
    """Writes a fake /proc/PID with `files` of control groups, and returns its folder."""
    root, kind, options = mount
    other = "22 1 0:4 / /proc rw - proc proc rw\n"
    line = f"31 1 0:5 {root} {folder}/groups rw shared:9 - {kind} {kind} {options}\n"
    write(folder / "self", {"cgroup": groups + "\n", "mountinfo": other + line})
    write(folder / "groups", files)
    return folder / "self"


@pytest.mark.parametrize(
    ("group", "others", "kills"),
    [
        *((group, {}, 3) for group in (SLURM_2, SLURM_1, CONTAINER, BIND)),
        *((group, {}, None) for group in (WHOLE_HOST_2, WHOLE_HOST_1, ELSEWHERE)),
        # Without those in groups below.
        (SLURM_2, {"job_7/step_0/memory.events.local": "oom_kill 1\n"}, 1),
    ],
)
def test_only_kills_in_the_own_group_count(tmp_path: Path, group, others, kills) -> None:
    groups, mount, file = group
    process = fake_proc(tmp_path, groups, mount, {file: COUNTS, **others})
    host = tmp_path / "vmstat"
    assert proc_files.oom_kills(process, host) == kills
    assert proc_files.oom_kills(tmp_path, host) is None, "without control groups"
    host.write_text("pgfault 9\noom_kill 7\n")
    assert proc_files.oom_kills(process, host) == (7 if kills is None else kills)


@pytest.mark.parametrize(("signal", "code"), [(9, "out_of_memory"), (11, "died")])
def test_only_a_sigkill_is_due_to_memory(signal: int, code: str) -> None:
    reason = failure_reason(Outcome(exit_code=-signal, oom_kill=True))
    assert reason is not None and reason.code == code


KILLED = """
import os, sys, subprocess; from pathlib import Path
from rnnworker import proc_files
Path(sys.argv[1], 'cgroup.procs').write_text(str(os.getpid()))
before = proc_files.oom_kills()
eat = [sys.executable, '-c', 'bytearray(b"x") * 2**28']
print(subprocess.run(eat).returncode, proc_files.oom_kills() - before)
"""


@pytest.fixture
def group() -> Iterator[Path]:
    """A new control group with 48 MB of memory."""
    for folder in map(Path, proc_files._groups("memory", "/proc/self")):
        made = folder / f"rnnbench-test-{os.getpid()}"
        try:
            made.mkdir()
        except OSError:
            continue
        try:
            # Including the group's swap if the kernel counts it.
            for limit, swap in LIMITS:
                if (made / limit).exists():
                    (made / limit).write_text("48000000")
                    if (made / swap).exists():
                        (made / swap).write_text("0" if swap.endswith(".max") else "48000000")
                    yield made
                    return
        finally:
            made.rmdir()
    pytest.skip("cannot create a control group on this host")


def test_a_real_kill_is_counted_in_its_own_group_only(group: Path) -> None:
    outside = proc_files.oom_kills()
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(group)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["-9", "1"], done.stderr
    assert proc_files.oom_kills() == outside


QUOTAS = [
    ("0::/", {"cpu.max": "250000 100000\n"}, 2.5),
    ("0::/", {"cpu.max": "max 100000\n"}, None),
    # The quotas of parents limit a group.
    ("0::/a/b", {"a/b/cpu.max": "800000 100000", "a/cpu.max": "400000 100000"}, 4.0),
    # In a container, the path may be that on the host, and the group's files are at the root.
    ("0::/docker/1234", {"cpu.max": "200000 100000\n"}, 2.0),
    ("4:cpu,cpuacct:/job\n1:name=systemd:/job",
     {"job/cpu.cfs_quota_us": "300000", "job/cpu.cfs_period_us": "100000"}, 3.0),
    ("4:cpu,cpuacct:/", {"cpu.cfs_quota_us": "150000", "cpu.cfs_period_us": "100000"}, 1.5),
    ("4:cpu,cpuacct:/", {"cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000"}, None),
    ("", {}, None),
]  # fmt: skip


@pytest.mark.parametrize(("groups", "files", "cores"), QUOTAS)
def test_the_quota_of_a_control_group(groups, files, cores, tmp_path: Path) -> None:
    kind = "cgroup" if groups.startswith("4") else "cgroup2"
    assert quota(fake_proc(tmp_path, groups, ("/", kind, "rw,cpu,cpuacct"), files)) == cores


@pytest.mark.parametrize(
    ("meminfo", "available"),
    [("MemTotal:  100 kB\nMemAvailable:   42 kB\n", 42 * 1024), ("MemTotal: 1 kB\n", None)],
)
@pytest.mark.parametrize(("limit", "most"), [("10240\n", 10240), ("max\n", None), (None, None)])
def test_a_job_has_no_more_memory_than_its_host_and_its_scheduler_allow(
    tmp_path: Path, meminfo: str, available: int | None, limit: str | None, most: int | None
) -> None:
    """As with Slurm: the job's group has the limit, its processes are in groups below."""
    groups, mount, _ = SLURM_2
    files = {"job_7/memory.max": limit, "job_7/step_0/memory.max": "max\n"} if limit else {}
    fake_proc(tmp_path, groups, mount, files)
    (tmp_path / "meminfo").write_text(meminfo)
    known = [number for number in (available, most) if number is not None]
    assert available_bytes(tmp_path) == min(known, default=None)
    assert available_bytes(tmp_path / "absent") is None


@pytest.mark.parametrize(
    ("listed", "count"), [("0", 1), ("0,64\n", 2), ("0-1", 2), ("0-3,8-9", 6), (None, 0)]
)
def test_a_list_of_processors(tmp_path: Path, listed: str | None, count: int) -> None:
    if listed is not None:
        (tmp_path / "list").write_text(listed)
    assert len(proc_files.processors(tmp_path / "list")) == count
