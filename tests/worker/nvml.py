"""A copy of the installed nvidia-ml-py on a made-up driver: all but the C library is real."""

from __future__ import annotations

from pathlib import Path

import pynvml

# Appended to the package's own source. Each function of the C library takes pointers and returns an
# error code. `FAILURES`: how often initialising fails; `PROCESSES`: process numbers on the card.
DRIVER = """

class _Driver:
    failures = FAILURES

    def __getattr__(self, name):
        if name not in VALUES:
            raise AttributeError(name)
        return lambda handle, *arguments: VALUES[name](*arguments) or NVML_SUCCESS

    def nvmlInitWithFlags(self, flags):
        if self.failures:
            self.failures -= 1
            return NVML_ERROR_UNINITIALIZED
        return NVML_SUCCESS

    def nvmlDeviceGetHandleByUUID(self, uuid, handle):
        return NVML_SUCCESS if uuid.value.startswith(b"GPU-a") else NVML_ERROR_NOT_FOUND


def _number(value):
    def write(pointer):
        pointer._obj.value = value() if callable(value) else value
    return write

def _clock(kind, pointer):
    pointer._obj.value = {NVML_CLOCK_SM: 1980, NVML_CLOCK_MEM: 2619}[kind.value]

def _temperature(sensor, pointer):
    pointer._obj.value = 45

def _violation(policy, pointer):
    pointer._obj.violationTime = 2500000000 * (policy.value == NVML_PERF_POLICY_POWER)

def _memory(pointer):
    pointer._obj.used = 2**30

def _processes(count, array):
    numbers = PROCESSES
    if array is None:
        count._obj.value = len(numbers)
        return NVML_ERROR_INSUFFICIENT_SIZE if numbers else NVML_SUCCESS
    count._obj.value = len(numbers)
    for entry, number in zip(array, numbers):
        entry.pid = number

VALUES = {
    "nvmlDeviceGetTotalEnergyConsumption": _number(JOULES),
    "nvmlDeviceGetPowerUsage": _number(300500),
    "nvmlDeviceGetClockInfo": _clock,
    "nvmlDeviceGetTemperature": _temperature,
    "nvmlDeviceGetCurrentClocksThrottleReasons": _number(0x45),
    "nvmlDeviceGetViolationStatus": _violation,
    "nvmlDeviceGetTotalEccErrors": lambda *arguments: NVML_ERROR_NOT_SUPPORTED,
    "nvmlDeviceGetMemoryInfo": _memory,
    "nvmlDeviceGetComputeRunningProcesses_v3": _processes,
}
nvmlLib = _Driver()
"""
RISING = "lambda: int(300e3 * __import__('time').monotonic())"  # 300 W


def write_nvml(path: Path, failures: int = 0, processes: str = "[]", joules: str = "5000") -> Path:
    """Writes the library to `path`. `joules`: the energy counter in millijoules, a number or a
    function."""
    driver = DRIVER
    for name, text in (("FAILURES", str(failures)), ("PROCESSES", processes), ("JOULES", joules)):
        driver = driver.replace(name, text)
    path.write_text(Path(pynvml.__file__).read_text() + driver)
    return path
