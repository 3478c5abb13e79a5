from __future__ import annotations

import pytest

from rnnbench.running.host_check import read_host_facts, warnings

QUIET = {
    "load": 0.1,
    "cores": 2,
    "governor": "performance",
    "on_battery": False,
    "swapped_bytes": 0,
    "gpu_processes": (),
}


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        ({"load": 1.4}, "1.4 of 2 cores busy"),
        ({"governor": "powersave"}, "governor is powersave"),
        ({"on_battery": True}, "battery"),
        ({"swapped_bytes": 2**30}, "swapped"),
        ({"gpu_processes": ("4711, python",)}, "process 4711, python uses a GPU"),
    ],
)
def test_each_fault_gives_one_warning(facts: dict, text: str) -> None:
    (warning,) = warnings({**QUIET, **facts})
    assert text in warning


def test_a_quiet_or_unknown_host_gives_no_warning() -> None:
    assert warnings(QUIET) == []
    assert warnings(dict.fromkeys(QUIET)) == []


def test_facts_of_this_host_can_be_read() -> None:
    assert set(read_host_facts()) == set(QUIET)
