"""What an NVIDIA card says of itself right before and right after a turn, never during one.

Standard library only, Python 3.6 syntax. The driver is asked through nvidia-ml-py, which is one
file, pynvml.py; the job says where it lies (``nvml``). Source of names and units: NVIDIA's NVML API
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


def opened(job):
    """A function that looks at the card of `job` (see `Card.look`); one that returns None where
    there is none or it cannot be looked at, which then stands in the run's log."""
    card, file = job.get("card") or {}, job.get("nvml")
    if not card.get("uuid") or not file:
        return nothing
    try:
        return Card(user_functions.from_file(file, ""), card["uuid"]).look
    except Exception as error:  # a driver that is absent, too old or not to be asked ends no run
        print("The card is not looked at: {}".format(error), file=sys.stderr, flush=True)
        return nothing


def nothing():
    """Nobody looks."""
    return None


class Card:
    """One card, through NVIDIA's `library`."""

    def __init__(self, library, uuid):
        self.library = library
        self.handle = self._tried(lambda: library.nvmlDeviceGetHandleByUUID(uuid))

    def _tried(self, call):
        for left in reversed(range(TRIES)):  # a driver that wakes up fails once
            try:
                self.library.nvmlInit()
                return call()
            except self.library.NVMLError:
                if not left:
                    raise

    def look(self):
        """`t` (monotonic seconds); `joules` since the driver was loaded; `watts`; `sm_mhz`,
        `memory_mhz`; `celsius`; `slowed`: why its clocks are below what they could be;
        `thermal_s`, `power_s`: seconds so far for which heat or the power limit kept them there;
        `ecc`: errors since boot that were not corrected; `memory_bytes` in use; `others`:
        processes that compute on it beside this one. None for what it does not tell."""
        nvml, told = self.library, {"t": time.monotonic()}
        told["joules"] = self._asked("TotalEnergyConsumption", read=lambda mj: mj / 1e3)
        told["watts"] = self._asked("PowerUsage", read=lambda mw: mw / 1e3)
        told["sm_mhz"] = self._asked("ClockInfo", nvml.NVML_CLOCK_SM)
        told["memory_mhz"] = self._asked("ClockInfo", nvml.NVML_CLOCK_MEM)
        told["celsius"] = self._asked("Temperature", nvml.NVML_TEMPERATURE_GPU)
        told["slowed"] = self._asked("CurrentClocksThrottleReasons", read=self._reasons)
        for name in ("thermal", "power"):
            policy = getattr(nvml, "NVML_PERF_POLICY_" + name.upper())
            told[name + "_s"] = self._asked("ViolationStatus", policy, read=_violated)
        uncorrected = (nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC)
        told["ecc"] = self._asked("TotalEccErrors", *uncorrected)
        told["memory_bytes"] = self._asked("MemoryInfo", read=lambda memory: int(memory.used))
        # One of those that are told is this one; its number is another one in a container.
        told["others"] = self._asked(
            "ComputeRunningProcesses", read=lambda found: max(0, len(found) - 1)
        )
        return told

    def _asked(self, name, *arguments, **options):
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
