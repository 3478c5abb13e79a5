"""The processors of a machine: those that a run and a GPU get, and how busy they are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rnnbench.errors import RunError
from rnnbench.running.worker import job_of
from rnnworker import processors
from rnnworker.processors import LoadSoFar, Processor, choose, read_topology
from tests.worker.building import write


def machine(sockets: int, cores: int, siblings: int) -> list[Processor]:
    """Numbered as Linux does on x86: the first hyper-threads of all cores, then the second ones."""
    positions = [(socket, core) for socket in range(sockets) for core in range(cores)]
    return [
        Processor(sibling * len(positions) + index, socket, core)
        for sibling in range(siblings)
        for index, (socket, core) in enumerate(positions)
    ]


@pytest.mark.parametrize(
    ("topology", "threads", "chosen"),
    [
        (machine(1, 4, 1), 1, (0,)),
        (machine(1, 4, 1), 3, (0, 1, 2)),
        (machine(1, 4, 2), 4, (0, 1, 2, 3)),
        (machine(1, 4, 2), 5, (0, 1, 2, 3, 4)),
        (machine(2, 2, 1), 2, (0, 1)),
        # A core of the other socket comes before a hyper-thread sibling.
        (machine(2, 2, 2), 3, (0, 1, 2)),
        (machine(2, 2, 2), 5, (0, 1, 2, 3, 4)),
        # Siblings numbered next to each other, as on some ARM and AMD machines.
        ([Processor(n, 0, n // 2) for n in range(8)], 4, (0, 2, 4, 6)),
        # Alternating sockets: both threads go to one socket.
        ([Processor(n, n % 2, n // 2) for n in range(8)], 2, (0, 2)),
        # The same core number on two sockets is two cores.
        ([Processor(0, 0, 0), Processor(1, 0, 0), Processor(2, 1, 0)], 2, (0, 2)),
        # A container with 3 of 64 cores, two of them siblings.
        ([Processor(17, 0, 17), Processor(40, 1, 8), Processor(49, 0, 17)], 2, (17, 40)),
        ([Processor(17, 0, 17), Processor(40, 1, 8), Processor(49, 0, 17)], None, (17, 40, 49)),
        (machine(2, 2, 2), None, tuple(range(8))),
    ],
)
def test_threads_get_separate_cores(
    topology: list[Processor], threads: int | None, chosen: tuple[int, ...]
) -> None:
    assert choose(topology, threads) == chosen
    assert choose(list(reversed(topology)), threads) == chosen


@pytest.mark.parametrize("threads", [4, 64, 0, -1])
def test_an_unavailable_number_of_threads_is_refused(threads: int) -> None:
    container = [Processor(17, 0, 17), Processor(40, 1, 8), Processor(49, 0, 17)]
    with pytest.raises(ValueError, match=f"asks for {threads} threads; .* 3 cores"):
        choose(container, threads)


def test_a_job_with_too_many_threads_is_refused(tmp_path: Path) -> None:
    message = r"^device\.threads: asks for 4096 .* Fix: .* with 1 to "
    with pytest.raises(RunError, match=message):
        job_of({"device": {"kind": "cpu", "threads": 4096}, "build": {}}, tmp_path)


def test_the_topology_has_only_processors_that_this_process_may_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "cpu3/topology", {"physical_package_id": "0\n", "core_id": "1\n"})
    write(tmp_path / "cpu7/topology", {"physical_package_id": "1\n", "core_id": "5\n"})
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {9, 7, 3})
    # The kernel has no topology of processor 9, which counts as a core of the first socket.
    listed = (Processor(3, 0, 1), Processor(7, 1, 5), Processor(9, 0, 9))
    assert read_topology(tmp_path) == listed


CARD = {"name": "NVIDIA H200", "uuid": "GPU-1", "bus": "00000000:AF:00.0"}
GPU = {"kind": "gpu", "threads": None}
SERVER = machine(2, 16, 2)  # 0-15 and 32-47 on node 0, 16-31 and 48-63 on node 1


@pytest.fixture
def sys(tmp_path: Path) -> Path:
    """The /sys of a machine whose GPU is on node 1."""
    nodes = "devices/system/node"
    files = {f"{nodes}/node0/cpulist": "0-15,32-47\n", f"{nodes}/node1/cpulist": "16-31,48-63\n"}
    write(tmp_path, {**files, "bus/pci/devices/0000:af:00.0/numa_node": "1\n"})
    return tmp_path


def test_a_gpu_run_gets_a_few_cores_of_its_node_and_a_cpu_run_all(sys: Path) -> None:
    assert processors.for_device(SERVER, GPU, CARD, sys) == tuple(range(16, 24))
    assert processors.for_device(SERVER, {**GPU, "threads": 2}, CARD, sys) == (16, 17)
    # More than the node has: chosen from the whole machine.
    assert len(processors.for_device(SERVER, {**GPU, "threads": 40}, CARD, sys)) == 40
    # A job without cores near its GPU uses its other cores.
    assert processors.for_device(machine(1, 4, 1), GPU, CARD, sys) == (0, 1, 2, 3)
    assert len(processors.for_device(SERVER, {"kind": "cpu", "threads": None}, None, sys)) == 64


@pytest.mark.parametrize("card", [None, {}, {"bus": None}, {"bus": "00000000:3B:00.0"}, CARD])
def test_all_processors_count_as_near_if_the_node_is_unknown(card, sys: Path) -> None:
    (sys / "bus/pci/devices/0000:af:00.0/numa_node").write_text("-1\n")
    assert processors.for_device(SERVER, GPU, card, sys) == tuple(range(8))


@pytest.mark.parametrize(("quota", "cores"), [(2.5, 2), (0.5, 1), (100.0, 64)])
def test_the_quota_limits_the_number_of_cores(monkeypatch, quota: float, cores: int) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)))
    assert len(processors.read_topology("/nowhere", cores=quota)) == cores


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        # Processor 1 does not belong to this run and is not counted.
        (
            LoadSoFar(1.0, {0: (10.0, 0.5), 1: (20.0, 0.0), 2: (30.0, 1.0)}),
            LoadSoFar(4.0, {0: (13.0, 0.75), 1: (99.0, 9.0), 2: (31.5, 1.5)}),
            {"own": 3.0, "busy": 4.5, "foreign": 1.5, "steal": 0.75},
        ),
        # The load of others is never negative.
        (
            LoadSoFar(0.0, {0: (1.0, 0.0)}),
            LoadSoFar(2.005, {0: (3.0, 0.0)}),
            {"own": 2.005, "busy": 2.0, "foreign": 0.0, "steal": 0.0},
        ),
        # A processor that comes online is not counted.
        (
            LoadSoFar(0.0, {0: (1.0, 0.0)}),
            LoadSoFar(0.0, {0: (2.0, 0.0), 2: (500.0, 5.0)}),
            {"own": 0.0, "busy": 1.0, "foreign": 1.0, "steal": 0.0},
        ),
        # Without /proc/stat.
        (LoadSoFar(0.0, {}), LoadSoFar(2.0, {}), {"own": 2.0}),
    ],
)
def test_load_of_the_run_and_of_others(before, after, expected, monkeypatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 2})
    assert processors.load_between(before, after) == expected


def test_work_of_this_process_counts_as_own() -> None:
    before = processors.load_so_far()
    total = 0
    while processors.load_so_far().own - before.own < 0.05:
        total += sum(range(10_000))
    assert processors.load_between(before, processors.load_so_far())["own"] >= 0.05


TICKS = os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize(
    ("text", "busy_and_stolen"),
    [
        ("cpu  1 0 0 9\ncpu0 200 0 100 900 0 0 0 50 0 0\n", {0: (300 / TICKS, 50 / TICKS)}),
        # Missing data does not count as an idle machine.
        ("cpu  0 0 0 0 0 0 0 0 0 0\ncpu0 0 0 0 0 0 0 0 0 0 0\n", {}),
        ("", {}),
        (None, {}),
    ],
)
def test_busy_and_stolen_time_of_processors(text, busy_and_stolen, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "stat").write_text(text)
    assert processors.load_so_far(str(tmp_path / "stat")).processors == busy_and_stolen


def test_ticks_counted_in_the_next_turn_are_not_foreign() -> None:
    total: dict = {}
    for busy in (0.01, 0.03) * 50:  # ticks are counted late
        used = {"own": 0.02, "busy": busy, "foreign": max(0.0, busy - 0.02)}
        total = processors.total_load(total, used)
    assert total["foreign"] == pytest.approx(0.0)
    assert processors.total_load({}, {"own": 1.0, "busy": 1.5})["foreign"] == pytest.approx(0.5)


@pytest.mark.parametrize("cores", [(), tuple(os.sched_getaffinity(0))])
def test_the_seconds_of_random_reads(cores: tuple[int, ...]) -> None:
    seconds, usual = processors.RandomReads(cores).seconds, os.sched_getaffinity(0)
    # The machine may be stopped during one of the readings.
    assert 1e-6 < min(seconds() for _ in range(3)) < 1
    assert os.sched_getaffinity(0) == usual
    assert processors.mean_reads(2.0, 8.0) == 4.0 and processors.mean_reads(None, None) is None


@pytest.mark.parametrize(
    ("caches", "size"),
    [
        ({"L1": "32K", "L2": "512K"}, 2**18),
        ({"L2": "1024K"}, 2**19),
        ({"L2": "2048K"}, 2**19),
        ({"L2": None}, 2**19),
        ({}, 2**19),
    ],
)
def test_the_reads_stay_in_the_l2_cache(caches: dict, size: int) -> None:
    assert processors.reads_bytes(caches) == size
