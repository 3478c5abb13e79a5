"""How many runs are alive at the same time, and which of them together."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rnnbench.records.store import write_record
from rnnbench.running.round import LocalRound
from rnnworker import cards
from rnnworker.cohorts import GUESS_BYTES, cohorts, max_size, starting_order
from tests.factory import make_record, replace

GB = 10**9


def run(name: str, kind: str = "cpu", members: int | None = None, **turns: bool) -> dict[str, Any]:
    """`turns`: whether the `device` has its runs take turns, and whether this run is to (`own`)."""
    device = {"kind": kind, "turns": turns.get("device", False)}
    measure = {"turns": turns.get("own", True)}
    return {
        "name": name,
        "config": {"device": device, "measure": measure, "limits": {"members": members}},
    }


def names(groups) -> list[str]:
    return ["".join(run["name"] for run in group) for group in groups]


A, B, C, D, E = (run(name) for name in "abcde")


@pytest.mark.parametrize(
    ("missing", "reference", "available", "groups"),
    [
        ([A, B, C], A, 64 * GB, ["abc"]),
        ([B, C], A, 64 * GB, ["abc"]),  # the reference has a record and becomes a companion
        ([A], A, 64 * GB, ["a"]),
        ([], A, 64 * GB, []),
        ([A, B, C, D, E], C, 6.5 * GB, ["cab", "cde"]),  # room for three
        ([A, B, C], A, 1 * GB, ["ab", "ac"]),  # always with the reference
        ([A, B, C], None, 4.4 * GB, ["ab", "c"]),
        ([A, run("g", "gpu"), B, run("h", own=False)], A, 64 * GB, ["g", "h", "ab"]),
        ([run("g", "gpu"), run("h", "gpu")], run("g", "gpu"), 64 * GB, ["g", "h"]),
    ],
)
def test_which_runs_are_measured_together(missing, reference, available, groups) -> None:
    assert names(cohorts(missing, reference, [], int(available))) == groups


def test_known_peaks_and_a_configured_maximum_limit_a_cohort() -> None:
    assert max_size([A] * 9, [], 10 * GB) == int(0.7 * 10 * GB // GUESS_BYTES)
    assert max_size([A] * 2, [GB // 2, GB], 2 * GB) == 1
    assert max_size([A] * 9, [GB // 2] * 8 + [GB], 10 * GB) == 7
    assert max_size([A] * 9, [GB // 2, GB], 10 * GB) == 4, "the others are guessed"
    assert max_size([A] * 9, [2 * GB], 10 * GB) == 3
    assert max_size([A, run("x", members=3)], [GB], 64 * GB) == 3
    assert max_size([A], [GB], 100) == 1
    assert max_size([A] * 40, [1] * 40, 64 * GB) == 16


def test_a_known_peak_is_of_the_same_configuration(tmp_path: Path) -> None:
    """The name of a configuration begins that of others with further overrides."""
    plain, other = make_record(), make_record(overrides={"model.stateful": True})
    assert other.run.configuration.startswith(plain.run.configuration)
    for record, peak in ((plain, 3 * GB), (other, 5 * GB)):
        measured = {**record.facts, "peak_memory_bytes": peak}
        started = f"20261121T07500{peak // GB}_000000Z"  # the other one was measured later
        write_record(tmp_path, replace(record, facts=measured, started=started))
    runner = SimpleNamespace(
        place=SimpleNamespace(results=tmp_path),
        hardware={"machine": plain.machine},
        by_name={each.name: each.run for each in (plain, other)},
    )
    peaks = [LocalRound.peaks(runner, [each.run.as_dict()]) for each in (plain, other)]  # type: ignore[arg-type]
    assert peaks == [[3 * GB], [5 * GB]]


ALONE = ["g", "h", "i", "j"]
ON_GPU = [run(name, "gpu", device=True) for name in "ghij"]


@pytest.mark.parametrize(
    ("reported", "groups"),
    [
        ("Default, 81079", ["ghij"]),
        ("Default, 17500", ["ghi", "gj"]),  # room for three: 4 GB each, of 70 %
        ("Default, 9000", ALONE),  # too little memory for two
        ("Exclusive_Process, 81079", ALONE),
        ("Prohibited, 81079", ALONE),
        ("[N/A], 81079", ALONE),  # unknown
        ("Default, [Insufficient Permissions]", ALONE),
        ("", ALONE),
    ],
)
def test_runs_share_a_gpu_as_its_memory_allows(reported: str, groups: list[str]) -> None:
    card = cards.parse_contexts(reported)
    assert names(cohorts(ON_GPU, ON_GPU[0], [], 640 * GB, card=card)) == groups


def test_without_a_whole_card_no_contexts_are_queried() -> None:
    assert cards.query_contexts(None) is None
    assert cards.query_contexts({"name": "x", "uuid": None}) is None


def test_the_starting_order_alternates() -> None:
    def started(repeat: int, configurations: str = "abcd") -> str:
        runs = [{"name": f"{name}-s0-r{repeat}", "repeat": repeat} for name in configurations]
        return "".join(run["name"][0] for run in starting_order(runs))

    orders = [started(repeat) for repeat in range(40)]
    assert all(even == odd[::-1] for even, odd in zip(orders[::2], orders[1::2], strict=True))
    assert all(sorted(order) == list("abcd") for order in orders)
    firsts = Counter(order[0] for order in orders)
    assert set(firsts) == set("abcd") and max(firsts.values()) < 20
    assert started(4, "dcba") == started(4), "it does not depend on the planned order"
