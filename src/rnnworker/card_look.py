"""Reads the state of an NVIDIA GPU right before and right after a turn, never during it.

Standard library only, Python 3.6 syntax. The driver is queried through nvidia-ml-py, a single
file, pynvml.py, whose path is in the job (``nvml``). Source of names and units: NVIDIA's NVML API
Reference Guide.
"""

import sys
import time

from rnnworker import user_functions

TRIES = 2
REASONS = (
    "SwPowerCap",
    "HwSlowdown",
    "SyncBoost",
    "SwThermalSlowdown",
    "HwThermalSlowdown",
    "HwPowerBrakeSlowdown",
    "ApplicationsClocksSetting",
)


def card_reader(job):
    """Returns a function that reads the state of the job's GPU (`Card.read`); those of its further
    GPUs are in ``further``. Without a GPU, or if one cannot be read (the log says why), that
    function returns None."""
    card, file = job.get("card") or {}, job.get("nvml")
    if not card.get("uuid") or not file:
        return no_card
    try:
        library = user_functions.from_file(file, "")
        first = Card(library, card["uuid"])
        further = [Card(library, each["uuid"]) for each in card.get("further") or ()]
        if not further:
            return first.read
        return lambda: dict(first.read(), further=[each.read() for each in further])
    except Exception as error:  # a run does not fail because of a missing or old driver
        print("The state of the GPU is not read: {}".format(error), file=sys.stderr, flush=True)
        return no_card


def no_card():
    return None


class Card:
    """One GPU, accessed through NVIDIA's `library`."""

    def __init__(self, library, uuid):
        self.library = library
        self.handle = self._retried(lambda: library.nvmlDeviceGetHandleByUUID(uuid))

    def _retried(self, call):
        for left in reversed(range(TRIES)):  # a driver that wakes up fails once
            try:
                self.library.nvmlInit()
                return call()
            except self.library.NVMLError:
                if not left:
                    raise

    def read(self):
        """Returns a dict; None for each value that the driver does not provide.

        - `t`: monotonic seconds; `joules`: since the driver was loaded; `watts`; `celsius`.
        - `sm_mhz`, `memory_mhz`; `slowed`: the reasons why the clocks are reduced.
        - `thermal_s`, `power_s`: seconds so far with clocks reduced by heat or the power limit.
        - `ecc`: uncorrected errors since boot; `memory_bytes` in use; `others`: number of other
          processes that compute on the GPU.
        """
        nvml, state = self.library, {"t": time.monotonic()}
        state["joules"] = self._query("TotalEnergyConsumption", read=lambda mj: mj / 1e3)
        state["watts"] = self._query("PowerUsage", read=lambda mw: mw / 1e3)
        state["sm_mhz"] = self._query("ClockInfo", nvml.NVML_CLOCK_SM)
        state["memory_mhz"] = self._query("ClockInfo", nvml.NVML_CLOCK_MEM)
        state["celsius"] = self._query("Temperature", nvml.NVML_TEMPERATURE_GPU)
        state["slowed"] = self._query("CurrentClocksThrottleReasons", read=self._reasons)
        for name in ("thermal", "power"):
            policy = getattr(nvml, "NVML_PERF_POLICY_" + name.upper())
            state[name + "_s"] = self._query("ViolationStatus", policy, read=_violated)
        uncorrected = (nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC)
        state["ecc"] = self._query("TotalEccErrors", *uncorrected)
        state["memory_bytes"] = self._query("MemoryInfo", read=lambda memory: int(memory.used))
        # This process is listed too; in a container, under another process number.
        state["others"] = self._query(
            "ComputeRunningProcesses", read=lambda processes: max(0, len(processes) - 1)
        )
        return state

    def _query(self, name, *arguments, **options):
        read = options.get("read", int)
        try:
            return read(getattr(self.library, "nvmlDeviceGet" + name)(self.handle, *arguments))
        except self.library.NVMLError:
            return None

    def _reasons(self, mask):
        bits = [
            (name, getattr(self.library, "nvmlClocksThrottleReason" + name)) for name in REASONS
        ]
        return [name for name, bit in bits if mask & bit]


def _violated(status):
    return status.violationTime / 1e9
