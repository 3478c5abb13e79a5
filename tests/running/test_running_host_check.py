from __future__ import annotations

import pytest

from rnnbench.running.host_check import look, warnings

QUIET = {
    "load": 0.1,
    "cores": 2,
    "governor": "performance",
    "on_battery": False,
    "swapped_bytes": 0,
    "gpu_processes": (),
}


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"load": 1.4}, "1.4 of 2 cores busy"),
        ({"governor": "powersave"}, "governor is powersave"),
        ({"on_battery": True}, "battery"),
        ({"swapped_bytes": 2**30}, "swapped"),
        ({"gpu_processes": ("4711, python",)}, "process 4711, python uses a GPU"),
    ],
)
def test_each_fault_is_one_warning(facts: dict, words: str) -> None:
    (warning,) = warnings({**QUIET, **facts})
    assert words in warning


def test_a_quiet_host_and_one_that_tells_nothing() -> None:
    assert warnings(QUIET) == []
    assert warnings(dict.fromkeys(QUIET)) == []


def test_this_host_can_be_looked_at() -> None:
    assert set(look()) == set(QUIET)
