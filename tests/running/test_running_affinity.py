from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from rnnbench.errors import RunError
from rnnbench.running.worker import job_of
from rnnworker.affinity import Processor, choose, read_topology


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
    config = {"device": {"kind": "cpu", "threads": 4096}, "build": {}}
    with pytest.raises(RunError) as caught:
        job_of(config, tmp_path)
    assert re.search(r"^device\.threads: asks for 4096 .* Fix: .* with 1 to ", str(caught.value))


def test_the_topology_has_only_processors_that_this_process_may_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, socket, core in ((3, 0, 1), (7, 1, 5)):
        folder = tmp_path / f"cpu{number}" / "topology"
        folder.mkdir(parents=True)
        (folder / "physical_package_id").write_text(f"{socket}\n")
        (folder / "core_id").write_text(f"{core}\n")
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {9, 7, 3})
    # The kernel has no topology of processor 9, which counts as a core of the first socket.
    assert read_topology(tmp_path) == (
        Processor(3, 0, 1),
        Processor(7, 1, 5),
        Processor(9, 0, 9),
    )


def test_a_core_of_this_machine_is_chosen() -> None:
    assert set(choose(read_topology(), 1)) <= os.sched_getaffinity(0)
