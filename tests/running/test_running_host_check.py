from __future__ import annotations

import subprocess
import sys

import pytest

from rnnbench.running import host_check
from rnnbench.running.host_check import read_host_facts, warnings
from rnnworker import machine
from rnnworker.processors import KNOWN, reads_bytes

QUIET = {"busy": 0.1, "cores": 2, "slowness": 1.02, "governor": "performance"}
QUIET |= {"on_battery": False, "swapped_bytes": 0, "gpu_processes": ()}


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        ({"busy": 1.4}, "1.4 of 2 cores busy"),
        ({"slowness": 1.21}, "reads take 1.21 times as long"),
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
    facts = read_host_facts()
    assert set(facts) == set(QUIET)
    hardware = machine.fingerprint()
    known = (hardware["processor"], reads_bytes(hardware["caches"])) in KNOWN
    assert (facts["slowness"] is not None) == known
    assert not known or 0.9 < facts["slowness"] < 10


def test_the_time_of_our_own_processes_is_not_that_of_others(monkeypatch) -> None:
    idle = {"processors": {0: (0.0, 0.0)}}
    monkeypatch.setattr(host_check, "load_so_far", lambda: idle)
    before = host_check._others_seconds({0})
    code = "import time\nwhile time.process_time() < 0.3: pass"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert host_check._others_seconds({0}) < before - 0.25
