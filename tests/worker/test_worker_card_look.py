"""Reading the state of a GPU before and after a turn, through a fake of the driver's library."""

from __future__ import annotations

from pathlib import Path

import pynvml
import pytest

from rnnworker import card_look
from rnnworker.turns import Turns

LIBRARY = """
from types import SimpleNamespace

class NVMLError(Exception):
    pass

NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0
NVML_PERF_POLICY_POWER, NVML_PERF_POLICY_THERMAL = 0, 1
NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC = 1, 0
nvmlClocksThrottleReasonSwPowerCap = 0x4
nvmlClocksThrottleReasonHwSlowdown = 0x8
nvmlClocksThrottleReasonSyncBoost = 0x10
nvmlClocksThrottleReasonSwThermalSlowdown = 0x20
nvmlClocksThrottleReasonHwThermalSlowdown = 0x40
nvmlClocksThrottleReasonHwPowerBrakeSlowdown = 0x80
nvmlClocksThrottleReasonApplicationsClocksSetting = 0x2
failures = FAILURES

def nvmlInit():
    global failures
    if failures:
        failures -= 1
        raise NVMLError("Driver Not Loaded")

def nvmlDeviceGetHandleByUUID(uuid):
    if not uuid.startswith("GPU-a"):
        raise NVMLError("Not Found")
    return uuid

def nvmlDeviceGetTotalEnergyConsumption(handle):
    return 5000

def nvmlDeviceGetPowerUsage(handle):
    return 300500

def nvmlDeviceGetClockInfo(handle, kind):
    return {1: 1980, 2: 2619}[kind]

def nvmlDeviceGetTemperature(handle, sensor):
    return 45

def nvmlDeviceGetCurrentClocksThrottleReasons(handle):
    return 0x45

def nvmlDeviceGetViolationStatus(handle, policy):
    return SimpleNamespace(violationTime={0: 2500000000, 1: 0}[policy])

def nvmlDeviceGetTotalEccErrors(handle, error, counter):
    raise NVMLError("Not Supported")

def nvmlDeviceGetMemoryInfo(handle):
    return SimpleNamespace(used=2**30)

def nvmlDeviceGetComputeRunningProcesses(handle):
    return PROCESSES
"""
STATE = {
    "joules": 5.0,
    "watts": 300.5,
    "sm_mhz": 1980,
    "memory_mhz": 2619,
    "celsius": 45,
    "slowed": ["SwPowerCap", "HwThermalSlowdown"],
    "thermal_s": 0.0,
    "power_s": 2.5,
    "ecc": None,
    "memory_bytes": 2**30,
}


@pytest.fixture
def library(tmp_path: Path):
    def make(failures: int = 0, processes: str = "['this one']") -> str:
        file = tmp_path / "pynvml.py"
        text = LIBRARY.replace("FAILURES", str(failures)).replace("PROCESSES", processes)
        file.write_text(text)
        return str(file)

    return make


def job(file: str | None, uuid: str = "GPU-a1") -> dict:
    return {"card": {"name": "NVIDIA H200", "uuid": uuid}, "nvml": file}


@pytest.mark.parametrize(
    ("processes", "others"), [("[]", 0), ("['this one']", 0), ("['this one', 1, 2]", 2)]
)
def test_state_of_a_card(library, processes: str, others: int) -> None:
    state = card_look.card_reader(job(library(processes=processes)))()
    assert state.pop("t") > 0
    assert state == {**STATE, "others": others}


def test_a_driver_that_fails_once_is_queried_again(library) -> None:
    assert card_look.card_reader(job(library(failures=1)))()["joules"] == 5.0


def test_the_state_of_further_cards_is_read_too(library) -> None:
    pair = job(library())
    pair["card"]["further"] = [{"name": "NVIDIA H200", "uuid": "GPU-a2"}]
    state = card_look.card_reader(pair)()
    (second,) = state["further"]
    assert (state["joules"], second["joules"]) == (5.0, 5.0)
    assert set(second) == set(state) - {"further"}


def test_nothing_is_read_if_one_of_two_cards_cannot_be_read(library, capsys) -> None:
    pair = job(library())
    pair["card"]["further"] = [{"name": "NVIDIA H200", "uuid": "GPU-of another"}]
    assert card_look.card_reader(pair)() is None
    assert "The state of the GPU is not read: " in capsys.readouterr().err


@pytest.mark.parametrize("case", ["driver", "card", "library"])
def test_a_card_that_cannot_be_read_is_logged(library, case: str, capsys) -> None:
    file = library(failures=9 if case == "driver" else 0)
    faulty = job("/nowhere/pynvml.py" if case == "library" else file)
    if case == "card":
        faulty = job(file, uuid="GPU-of another")
    assert card_look.card_reader(faulty)() is None
    assert "The state of the GPU is not read: " in capsys.readouterr().err


def test_nothing_is_read_on_a_cpu(capsys) -> None:
    assert card_look.card_reader({"card": None, "nvml": None})() is None
    assert card_look.card_reader({})() is None
    assert capsys.readouterr().err == ""


def test_the_real_library_has_every_queried_name() -> None:
    called: list[str] = []

    class Recorder:
        def __getattr__(self, name):
            attribute = getattr(pynvml, name)
            if not name.startswith("nvml") or isinstance(attribute, int):
                return attribute
            called.append(name)
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    card = card_look.Card.__new__(card_look.Card)
    card.library, card.handle = Recorder(), None
    assert set(card.read().values()) - {card.read()["t"]}
    assert len(set(called)) == 9
    assert card._reasons(0xFF) == list(card_look.REASONS[:6]) + [card_look.REASONS[6]]


class Supervisor:
    def __init__(self) -> None:
        self.log: list = []

    def gate(self, **fields):
        self.log.append("gate")
        return "turn 0\n"

    def emit_later(self, event, **fields):
        self.log.append((event, fields.get("card")))


def test_reads_before_and_after_a_turn_are_not_part_of_it(monkeypatch) -> None:
    now = [100.0]
    for name in ("rnnworker.turns.time.monotonic", "rnnworker.turns.second_clock"):
        monkeypatch.setattr(name, lambda: now[0])
    supervisor = Supervisor()

    def read():
        now[0] += 5.0
        supervisor.log.append("read")
        return {"t": now[0]}

    turns = Turns(supervisor, read)
    turns.begin("train")
    turns.take()
    now[0] += 1.0  # the training
    turns.end()
    assert supervisor.log == ["gate", "read", "read", ("turn", [{"t": 105.0}, {"t": 111.0}])]
    assert (turns.waited, turns.waited_second) == (10.0, 10.0)
