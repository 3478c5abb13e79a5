"""Cores that feed a GPU, quotas of control groups, and kernels without data on CPU use."""

from __future__ import annotations

from pathlib import Path

import pytest

from rnnworker import affinity, cpu_load
from rnnworker.quota import quota
from tests.running.test_running_affinity import machine

CARD = {"name": "NVIDIA H200", "uuid": "GPU-1", "bus": "00000000:AF:00.0"}
GPU = {"kind": "gpu", "threads": None}
SERVER = machine(2, 16, 2)  # 0-15 and 32-47 on node 0, 16-31 and 48-63 on node 1


@pytest.fixture
def sys(tmp_path: Path) -> Path:
    """The /sys of a machine whose GPU is on node 1."""
    for node, cores in enumerate(("0-15,32-47\n", "16-31,48-63\n")):
        folder = tmp_path / f"devices/system/node/node{node}"
        folder.mkdir(parents=True)
        (folder / "cpulist").write_text(cores)
    card = tmp_path / "bus/pci/devices/0000:af:00.0"
    card.mkdir(parents=True)
    (card / "numa_node").write_text("1\n")
    return tmp_path


def test_a_gpu_run_gets_a_few_cores_of_its_node(sys: Path) -> None:
    assert affinity.for_device(SERVER, GPU, CARD, sys) == tuple(range(16, 24))
    assert affinity.for_device(SERVER, {**GPU, "threads": 2}, CARD, sys) == (16, 17)
    # More than the node has: chosen from the whole machine.
    assert len(affinity.for_device(SERVER, {**GPU, "threads": 40}, CARD, sys)) == 40


@pytest.mark.parametrize("card", [None, {}, {"bus": None}, {"bus": "00000000:3B:00.0"}])
def test_all_processors_count_as_near_if_the_node_is_unknown(card, sys: Path) -> None:
    assert affinity.for_device(SERVER, GPU, card, sys) == tuple(range(8))


def test_all_processors_count_as_near_if_the_node_is_minus_one(sys: Path) -> None:
    (sys / "bus/pci/devices/0000:af:00.0/numa_node").write_text("-1\n")
    assert affinity.processors_near(SERVER, CARD, sys) == tuple(SERVER)


def test_a_job_without_cores_near_its_gpu_uses_its_other_cores(sys: Path) -> None:
    assert affinity.for_device(machine(1, 4, 1), GPU, CARD, sys) == (0, 1, 2, 3)


def test_a_cpu_run_uses_all_processors_by_default(sys: Path) -> None:
    cpu = {"kind": "cpu", "threads": None}
    assert len(affinity.for_device(SERVER, cpu, None, sys)) == 64
    with pytest.raises(ValueError, match="asks for 65 threads"):
        affinity.for_device(SERVER, {**cpu, "threads": 65}, None)


@pytest.mark.parametrize(
    ("groups", "files", "cores"),
    [
        ("0::/\n", {"cpu.max": "250000 100000\n"}, 2.5),
        ("0::/\n", {"cpu.max": "max 100000\n"}, None),
        # The quotas of parents limit a group.
        (
            "0::/a/b\n",
            {"a/b/cpu.max": "800000 100000\n", "a/cpu.max": "400000 100000\n"},
            4.0,
        ),
        # In a container, the path is that on the host, and the group's files are at the root.
        ("0::/docker/1234\n", {"cpu.max": "200000 100000\n"}, 2.0),
        (
            "4:cpu,cpuacct:/job\n1:name=systemd:/job\n",
            {"cpu/job/cpu.cfs_quota_us": "300000", "cpu/job/cpu.cfs_period_us": "100000"},
            3.0,
        ),
        (
            "4:cpu,cpuacct:/\n",
            {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"},
            None,
        ),
        ("", {}, None),
    ],
)
def test_the_quota_of_a_control_group(groups, files, cores, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / "cgroup" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "cgroup" / name).write_text(text)
    (tmp_path / "own").write_text(groups)
    assert quota(str(tmp_path / "cgroup"), str(tmp_path / "own")) == cores


def test_the_quota_limits_the_number_of_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(affinity.os, "sched_getaffinity", lambda pid: set(range(64)))
    assert len(affinity.read_topology("/nowhere", cores=2.5)) == 2
    assert len(affinity.read_topology("/nowhere", cores=0.5)) == 1
    assert len(affinity.read_topology("/nowhere", cores=100.0)) == 64


NOTHING = "cpu  0 0 0 0 0 0 0 0 0 0\ncpu0 0 0 0 0 0 0 0 0 0 0\n"


@pytest.mark.parametrize("text", [NOTHING, "", None])
def test_missing_data_does_not_count_as_an_idle_machine(text, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "stat").write_text(text)
    assert cpu_load._processors(str(tmp_path / "stat")) == {}
    nothing = {**cpu_load.snapshot(), "processors": {}}
    assert "foreign" not in cpu_load.difference(nothing, nothing)


def test_busy_and_stolen_time_of_a_processor(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text("cpu  1 0 0 9\ncpu0 200 0 100 900 0 0 0 50 0 0\n")
    ticks = cpu_load.os.sysconf("SC_CLK_TCK")
    assert cpu_load._processors(str(tmp_path / "stat")) == {0: (300 / ticks, 50 / ticks)}
