from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from rnnbench.running import host_check
from rnnbench.running.host_check import HostFacts, read_host_facts, warnings
from rnnworker import machine
from rnnworker.processors import KNOWN, LoadSoFar, reads_bytes

QUIET = HostFacts(
    busy=0.1,
    cores=2,
    slowness=1.02,
    governor="performance",
    on_battery=False,
    swapped_bytes=0,
    gpu_processes=(),
)


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        ({"busy": 1.4}, "1.4 of 2 cores busy"),
        ({"busy": 0.3, "cores": 1}, "0.3 of 1 cores busy"),
        ({"slowness": 1.21}, "reads take 1.21 times as long"),
        ({"governor": "powersave"}, "governor is powersave"),
        ({"on_battery": True}, "battery"),
        ({"swapped_bytes": 2**30}, "swapped"),
        ({"gpu_processes": ("4711, python",)}, "process 4711, python uses a GPU"),
    ],
)
def test_each_fault_gives_one_warning(facts: dict, text: str) -> None:
    (warning,) = warnings(replace(QUIET, **facts))
    assert text in warning


def test_a_quiet_or_unknown_host_gives_no_warning() -> None:
    assert warnings(QUIET) == []
    assert warnings(replace(QUIET, busy=None, slowness=None, governor=None)) == []
    limits = {"busy": 0.5, "slowness": host_check.SLOWED, "swapped_bytes": 64 * 2**20}
    assert warnings(replace(QUIET, **limits)) == []


def test_facts_of_this_host_can_be_read() -> None:
    facts = read_host_facts()
    hardware = machine.fingerprint()
    known = (hardware["processor"], reads_bytes(hardware["caches"])) in KNOWN
    assert (facts.slowness is not None) == known
    # The machine may be stopped during one of the readings.
    readings = [read_host_facts().slowness for _ in range(3 if known else 0)]
    assert not known or 0.9 < min(readings) < 10


def test_the_time_of_our_own_processes_is_not_that_of_others(monkeypatch) -> None:
    idle = LoadSoFar(0.0, {0: (0.0, 0.0)})
    monkeypatch.setattr(host_check, "load_so_far", lambda: idle)
    before = host_check._others_seconds({0})
    code = "import time\nwhile time.process_time() < 0.3: pass"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert host_check._others_seconds({0}) < before - 0.25


def executable(folder: Path, name: str, script: str) -> Path:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return file


@pytest.mark.parametrize(
    ("earlier", "others", "battery", "busy", "on_battery"),
    [
        (0.0, (10.0, 10.5), None, 0.5, False),
        (0.5, (10.0, 99.0), SimpleNamespace(power_plugged=True), "all", False),
        (0.0, (10.0, 9.0), SimpleNamespace(power_plugged=False), 0.0, True),
        (1.6, (10.0, 11.0), None, 0.5, False),
        (0.0, (None, 9.0), None, None, False),
        (0.0, (9.0, None), None, None, False),
    ],
)
def test_what_others_used_is_counted_for_a_second_at_least(
    tmp_path: Path,
    monkeypatch,
    earlier: float,
    others: tuple,
    battery: object,
    busy: object,
    on_battery: bool,
) -> None:
    """By a clock on which measuring the slowness takes 0.4 s; `earlier`: seconds from the first
    sample to it."""
    now, slept = [100.0], []

    def slowness() -> float:
        now[0] += 0.4
        return 1.25

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    values = iter(others)
    monkeypatch.setattr(host_check, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    monkeypatch.setattr(host_check, "_slowness", slowness)
    monkeypatch.setattr(host_check, "_others_seconds", lambda cores: next(values))
    monkeypatch.setattr(psutil, "sensors_battery", lambda: battery)
    monkeypatch.setattr(host_check, "GOVERNOR", tmp_path / "governor")
    (tmp_path / "governor").write_text("powersave\n")
    before = host_check.sample()
    now[0] += earlier
    facts = read_host_facts(before)
    assert facts.busy == (facts.cores if busy == "all" else pytest.approx(busy))
    assert slept == [pytest.approx(max(0.0, 0.6 - earlier))] and facts.slowness == 1.25
    assert (facts.governor, facts.on_battery) == ("powersave", on_battery)
    assert facts.cores >= 1 and facts.swapped_bytes >= 0


@pytest.mark.parametrize(
    ("script", "slowness"),
    [('test "$*" = "-m rnnworker.processors" && echo 1.25', 1.25), ("echo 1.25; exit 1", None),
     ("echo None", None)],
)  # fmt: skip
def test_the_slowness_is_measured_by_another_process(
    tmp_path: Path, monkeypatch, script: str, slowness: float | None
) -> None:
    monkeypatch.setattr(sys, "executable", str(executable(tmp_path, "python", script)))
    assert host_check._slowness() == slowness


@pytest.mark.parametrize(
    ("script", "has_driver", "found"),
    [("echo '4711, python'; echo; echo ' 12, x'", True, ("4711, python", "12, x")),
     ("echo '4711, python'; exit 9", True, ()), ("echo '4711, python'", False, ()),
     ('test "$1" = --query-compute-apps=pid,name && test "$2" = --format=csv,noheader && echo 7',
      True, ("7",))],
)  # fmt: skip
def test_processes_on_cards_are_listed(
    tmp_path: Path, monkeypatch, script: str, has_driver: bool, found: tuple
) -> None:
    executable(tmp_path, "nvidia-smi", script)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    driver = tmp_path if has_driver else tmp_path / "none"
    monkeypatch.setattr(host_check, "Path", lambda name: driver)
    assert host_check._gpu_processes() == found


def test_the_load_of_others_is_unknown_where_the_kernel_does_not_count_it(monkeypatch) -> None:
    monkeypatch.setattr(host_check, "load_so_far", lambda: LoadSoFar(0.0, {}))
    assert host_check._others_seconds({0}) is None


def test_the_load_of_others_is_that_of_the_cores_without_our_processes(monkeypatch) -> None:
    busy = LoadSoFar(0.0, {0: (50.0, 7.0), 1: (30.0, 7.0), 2: (1000.0, 7.0)})
    times = [(3.0, 2.0, 1.0, 0.5, 99.0), (0.5, 0.5, 0.0, 0.0, 99.0)]

    class Process:
        def cpu_times(self) -> tuple[float, ...]:
            return times[0]

        def children(self, recursive: bool) -> list[object]:
            assert recursive
            gone = SimpleNamespace(cpu_times=lambda: (_ for _ in ()).throw(psutil.NoSuchProcess(1)))
            return [gone, SimpleNamespace(cpu_times=lambda: times[1])]

    monkeypatch.setattr(host_check, "load_so_far", lambda: busy)
    monkeypatch.setattr(psutil, "Process", Process)
    assert host_check._others_seconds({0, 1, 7}) == 50.0 + 30.0 - 6.5 - 1.0
