"""Memory kills are counted in the run's own control group, never on the whole host."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rnnbench.running.verdict import failure_reason
from rnnbench.running.worker import Outcome
from rnnworker import memory
from tests.conftest import ROOT

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


def fake_proc(folder: Path, groups: str, mount: tuple[str, str, str], file: str) -> Path:
    """Writes a fake /proc/PID and returns its folder."""
    (folder / "proc").mkdir()
    (folder / "proc/cgroup").write_text(groups + "\n")
    root, kind, options = mount
    other = "22 1 0:4 / /proc rw - proc proc rw\n"
    line = f"31 1 0:5 {root} {folder}/groups rw shared:9 - {kind} {kind} {options}\n"
    (folder / "proc/mountinfo").write_text(other + line)
    path = folder / "groups" / file
    path.parent.mkdir(parents=True)
    path.write_text(COUNTS)
    return folder / "proc"


@pytest.mark.parametrize("group", [SLURM_2, SLURM_1, CONTAINER, BIND])
def test_kills_in_the_own_group_count(tmp_path: Path, group) -> None:
    assert memory.oom_kills(fake_proc(tmp_path, *group)) == 3


@pytest.mark.parametrize("group", [WHOLE_HOST_2, WHOLE_HOST_1, ELSEWHERE])
def test_kills_on_the_whole_host_do_not_count(tmp_path: Path, group) -> None:
    assert memory.oom_kills(fake_proc(tmp_path, *group)) is None


def test_kills_in_groups_below_do_not_count(tmp_path: Path) -> None:
    process = fake_proc(tmp_path, *SLURM_2)
    (tmp_path / "groups/job_7/step_0/memory.events.local").write_text("oom_kill 1\n")
    assert memory.oom_kills(process) == 1


def test_without_control_groups_kills_are_unknown(tmp_path: Path) -> None:
    assert memory.oom_kills(tmp_path) is None


@pytest.mark.parametrize(
    ("meminfo", "available"),
    [("MemTotal:  100 kB\nMemAvailable:   42 kB\n", 42 * 1024), ("MemTotal: 1 kB\n", None)],
)
@pytest.mark.parametrize(("limit", "most"), [("10240\n", 10240), ("max\n", None), (None, None)])
def test_a_job_has_no_more_memory_than_its_host_and_its_scheduler_allow(
    tmp_path: Path, meminfo: str, available: int | None, limit: str | None, most: int | None
) -> None:
    """As with Slurm: the job's group has the limit, its processes are in groups below."""
    process = fake_proc(tmp_path, *SLURM_2)
    process.rename(process.with_name("self"))
    (tmp_path / "meminfo").write_text(meminfo)
    if limit:
        (tmp_path / "groups/job_7/memory.max").write_text(limit)
        (tmp_path / "groups/job_7/step_0/memory.max").write_text("max\n")
    known = [number for number in (available, most) if number is not None]
    assert memory.available_bytes(tmp_path) == min(known, default=None)
    assert memory.available_bytes(tmp_path / "absent") is None


@pytest.mark.parametrize(("signal", "code"), [(9, "out_of_memory"), (11, "died")])
def test_only_a_sigkill_is_due_to_memory(signal: int, code: str) -> None:
    reason = failure_reason(Outcome((), -signal, oom_kill=True))
    assert reason is not None and reason.code == code


@pytest.fixture
def group() -> Iterator[Path]:
    """A new control group with 48 MB of memory."""
    for folder in map(Path, memory._groups("/proc/self")):
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
    script = (
        "import os, sys, subprocess; from pathlib import Path\n"
        "from rnnworker import memory\n"
        "Path(sys.argv[1], 'cgroup.procs').write_text(str(os.getpid()))\n"
        "before = memory.oom_kills()\n"
        "eat = [sys.executable, '-c', 'bytearray(b\"x\") * 2**28']\n"
        "code = subprocess.run(eat).returncode\n"
        "print(code, memory.oom_kills() - before)\n"
    )
    outside = memory.oom_kills()
    done = subprocess.run(
        [sys.executable, "-c", script, str(group)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["-9", "1"], done.stderr
    assert memory.oom_kills() == outside
