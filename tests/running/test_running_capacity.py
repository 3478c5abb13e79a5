"""How many runs live at the same time, and in which company."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from rnnbench.running.capacity import available_bytes, most, sittings
from rnnworker import cards
from rnnworker.rounds import GUESS_BYTES, starting_order

GB = 10**9


def run(
    name: str,
    kind: str = "cpu",
    members: int | None = None,
    turns: bool = True,
    on_gpu: bool = False,
) -> dict:
    return {
        "name": name,
        "config": {
            "device": {"kind": kind, "turns": on_gpu},
            "measure": {"turns": turns},
            "limits": {"members": members},
        },
    }


def names(groups) -> list[str]:
    return ["".join(one["name"] for one in group) for group in groups]


A, B, C, D, E = (run(name) for name in "abcde")


@pytest.mark.parametrize(
    ("missing", "reference", "available", "groups"),
    [
        ([A, B, C], A, 64 * GB, ["abc"]),
        ([B, C], A, 64 * GB, ["abc"]),  # the reference is there, and comes along
        ([A], A, 64 * GB, ["a"]),
        ([], A, 64 * GB, []),
        ([A, B, C, D, E], C, 6.5 * GB, ["cab", "cde"]),  # room for three
        ([A, B, C], A, 1 * GB, ["ab", "ac"]),  # never without the reference
        ([A, B, C], None, 4.4 * GB, ["ab", "c"]),
        ([A, run("g", "gpu"), B, run("h", turns=False)], A, 64 * GB, ["g", "h", "ab"]),
        ([run("g", "gpu"), run("h", "gpu")], run("g", "gpu"), 64 * GB, ["g", "h"]),
    ],
)
def test_who_is_measured_with_whom(missing, reference, available, groups) -> None:
    assert names(sittings(missing, reference, [], int(available))) == groups


def test_known_peaks_and_a_stated_maximum_decide() -> None:
    assert most([A] * 9, [], 10 * GB) == int(0.7 * 10 * GB // GUESS_BYTES)
    assert most([A] * 9, [GB // 2, GB], 10 * GB) == 7
    assert most([A, run("x", members=3)], [GB], 64 * GB) == 3
    assert most([A], [GB], 100) == 1
    assert most([A] * 40, [1], 64 * GB) == 16


def test_memory_as_the_kernel_says_it(tmp_path: Path) -> None:
    file = tmp_path / "meminfo"
    file.write_text("MemTotal:  100 kB\nMemAvailable:   42 kB\n")
    assert available_bytes(tmp_path) == 42 * 1024
    file.write_text("MemTotal: 100 kB\n")
    assert available_bytes(tmp_path) is None
    assert available_bytes(tmp_path / "absent") is None


@pytest.mark.parametrize(("allowed", "room"), [("10240\n", 10240), ("max\n", 42 * 1024)])
def test_a_job_has_no_more_than_its_scheduler_allows(tmp_path: Path, allowed, room) -> None:
    """As Slurm lays it down: the limit is the job's, its processes are some groups below."""
    step = tmp_path / "groups/job_7/step_0/user/task_0"
    step.mkdir(parents=True)
    (step / "memory.max").write_text("max\n")
    (tmp_path / "groups/job_7/memory.max").write_text(allowed)
    (tmp_path / "meminfo").write_text("MemAvailable:   42 kB\n")
    (tmp_path / "self").mkdir()
    (tmp_path / "self/cgroup").write_text("0::/job_7/step_0/user/task_0\n")
    mount = f"31 1 0:5 / {tmp_path}/groups rw shared:9 - cgroup2 cgroup2 rw\n"
    (tmp_path / "self/mountinfo").write_text(mount)
    assert available_bytes(tmp_path) == room


ON_GPU = [run(name, "gpu", on_gpu=True) for name in "ghij"]


@pytest.mark.parametrize(
    ("told", "groups"),
    [
        ("Default, 81079", ["ghij"]),
        ("Default, 17500", ["ghi", "gj"]),  # room for three: 4 GB each, of 70 %
        ("Default, 9000", ["g", "h", "i", "j"]),  # no room for two
        ("Exclusive_Process, 81079", ["g", "h", "i", "j"]),
        ("Prohibited, 81079", ["g", "h", "i", "j"]),
        ("[N/A], 81079", ["g", "h", "i", "j"]),  # nobody knows
        ("Default, [Insufficient Permissions]", ["g", "h", "i", "j"]),
        ("", ["g", "h", "i", "j"]),
    ],
)
def test_a_gpu_takes_those_for_whom_it_has_room(told: str, groups: list[str]) -> None:
    card = cards.contexts(told)
    assert names(sittings(ON_GPU, ON_GPU[0], [], 640 * GB, card=card)) == groups


def test_a_slice_and_no_card_are_not_asked() -> None:
    assert cards.ask_contexts(None) is None
    assert cards.ask_contexts({"name": "x", "uuid": "MIG-1", "slice": True}) is None


def test_nobody_always_starts_first() -> None:
    def started(repeat: int, cells: str = "abcd") -> str:
        runs = [{"name": f"{cell}-s0-r{repeat}", "repeat": repeat} for cell in cells]
        return "".join(one["name"][0] for one in starting_order(runs))

    orders = [started(repeat) for repeat in range(40)]
    assert all(one == other[::-1] for one, other in zip(orders[::2], orders[1::2], strict=True))
    assert all(sorted(one) == list("abcd") for one in orders)
    firsts = Counter(order[0] for order in orders)
    assert set(firsts) == set("abcd") and max(firsts.values()) < 20
    assert started(4, "dcba") == started(4), "not by the order in which they are planned"
