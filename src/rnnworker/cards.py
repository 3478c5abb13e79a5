"""NVIDIA GPUs: queries them with nvidia-smi, selects the one that a run uses, matches models, and
reads the state of a GPU right before and right after a turn, never during it.

No side effects except in `query_cards`, `query_contexts` and `card_reader`, which queries the
driver through nvidia-ml-py, a single file, pynvml.py, whose path is in the job (``nvml``).
Sources: ``nvidia-smi --help-query-gpu``; NVIDIA's NVML API Reference Guide; the CUDA C++
Programming Guide, "CUDA Environment Variables" (CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER). Slices of
a card (MIG) are not supported.
"""

import collections
import re
import subprocess
import sys
import time

from rnnworker import user_functions

# Every driver has the first three; every driver that supports CUDA 8 has the others.
QUERY = "name,driver_version,memory.total,power.limit,clocks.max.sm,uuid,pci.bus_id"
FIELDS = ("name", "driver", "memory_mib", "power_limit_w", "max_clock_mhz", "uuid", "bus")
MAKERS = ("nvidia", "tesla", "geforce", "quadro")
MEMORY = re.compile(r"\d+gb|hbm\d+e?|gddr\d+x?")
VISIBLE = "CUDA_VISIBLE_DEVICES"
SECONDS = 30
TRIES = 2  # a driver that wakes up fails once
# Why the clocks of a card are reduced.
REASONS = (
    *("SwPowerCap", "HwSlowdown", "SyncBoost", "SwThermalSlowdown", "HwThermalSlowdown"),
    *("HwPowerBrakeSlowdown", "ApplicationsClocksSetting"),
)


def query_cards():
    """Returns the GPUs that nvidia-smi reports, [{field: text}]; None if it fails."""
    cards = _nvidia_smi(QUERY)
    return None if cards is None else parse_cards(cards)


def _nvidia_smi(query, *arguments):
    command = ("nvidia-smi", "--query-gpu=" + query, "--format=csv,noheader,nounits") + arguments
    for _ in range(TRIES):
        try:
            output = subprocess.check_output(command, stderr=subprocess.DEVNULL, timeout=SECONDS)
            return output.decode("utf-8", "replace")
        except subprocess.CalledProcessError:
            continue
        except (OSError, subprocess.SubprocessError):
            break
    return None


def query_contexts(card):
    """Returns what limits the number of runs on `card` at the same time, from nvidia-smi:
    {``mode``: compute mode, ``free_bytes``: free memory}; None if unknown or if the run uses
    further cards."""
    if not card or not card["uuid"] or card.get("further"):
        return None
    return parse_contexts(_nvidia_smi("compute_mode,memory.free", "-i", card["uuid"]) or "")


def parse_contexts(text):
    """Parses nvidia-smi's line of ``compute_mode,memory.free`` for `query_contexts`."""
    mode, comma, free = text.strip().partition(",")
    if not comma or _unknown(mode.strip()) or not free.strip().isdigit():
        return None
    return {"mode": mode.strip(), "free_bytes": int(free) * 2**20}


def parse_cards(text):
    """Parses nvidia-smi's lines of `QUERY` into [{field: text}]; omits unknown values."""
    cards = []
    for line in text.splitlines():
        values = [value.strip() for value in line.split(",")]
        if values[0]:
            known = zip(FIELDS, values)
            cards.append({field: value for field, value in known if not _unknown(value)})
    return cards


def _unknown(value):
    return not value or value.strip("[]").lower() in ("n/a", "not supported", "unknown error")


def visible(cards, variable):
    """Returns those of `cards` that a process with CUDA_VISIBLE_DEVICES=`variable` (None: not set)
    can use, in the order of the variable, as {name, uuid, bus}; `uuid` and `bus` are None if
    unknown. Indices count cards by PCI address, as in nvidia-smi. The list ends at the first
    invalid entry."""
    devices = [{name: card.get(name) for name in ("name", "uuid", "bus")} for card in cards]
    if variable is None:
        return devices
    result = []
    for wanted in map(str.strip, variable.split(",")):
        if wanted.isdigit():
            found = devices[int(wanted) :][:1]
        else:
            found = [each for each in devices if (each["uuid"] or "").startswith(wanted)]
        if len(found) != 1 or not (wanted.isdigit() or wanted.startswith("GPU-")):
            break
        result += found
    return result


def replicas_of(device):
    """Returns the number of devices (of a GPU: cards) on which a run on `device` trains."""
    return device.get("replicas") or 1


def select_card(device, cards, environment):
    """Returns the card that a run on `device` uses: the first of the machine's `cards` that is
    visible in `environment` and of the requested model; None if there is none. With replicas it is
    the first of as many cards of one model, whose others are its ``further`` cards; None if
    there are fewer."""
    usable = [
        card
        for card in visible(cards, environment.get(VISIBLE))
        if not device.get("gpu") or is_model(device["gpu"], card["name"])
    ]
    count = replicas_of(device)
    if count == 1:
        return usable[0] if usable else None
    # Without UUIDs, a process would see the machine's other cards too.
    usable = [card for card in usable if card["uuid"]]
    for first in usable:
        alike = [card for card in usable if card["name"] == first["name"]]
        if len(alike) >= count:
            return dict(alike[0], further=alike[1:count])
    return None


def all_cards(card):
    """Returns the `card` that `select_card` returned and its further ones; none for None."""
    return [card] + list(card.get("further") or ()) if card else []


def unmet_device(device, cores, names):
    """Returns why a machine with `cores` cores and GPUs with the driver's `names` cannot provide
    `device`; None if it can. A device without a thread count uses all available cores."""
    if device.get("kind") == "gpu":
        wanted, count = device.get("gpu"), replicas_of(device)
        found = collections.Counter(name for name in names if not wanted or is_model(wanted, name))
        if not names:
            return "no NVIDIA GPU on this machine"
        if not found:
            return "no {} on this machine, which has {}".format(wanted, ", ".join(names))
        if max(found.values()) < count:
            of_model = " ({})".format(wanted) if wanted else ""
            has = ", ".join("{} {}".format(found[name], name) for name in sorted(found))
            return (
                "needs {} visible GPUs of one model{}, found {}; "
                "choose device=gpu for one card".format(
                    count,
                    of_model,
                    has,
                )
            )
    if (device.get("threads") or 0) > cores:
        return "this machine offers {} core{}".format(cores, "" if cores == 1 else "s")
    return None


def variables(card):
    """Returns the environment variables that make only `card` (see `select_card`) and its further
    cards visible."""
    if not card or not card["uuid"]:
        return {}
    uuids = ",".join(each["uuid"] for each in all_cards(card))
    return {VISIBLE: uuids, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def is_model(wanted, name):
    """Returns whether a card with the driver's `name` is exactly of the model `wanted`:
    ``P100 PCIE`` matches ``Tesla P100-PCIE-16GB``, but ``RTX 2070`` does not match
    ``GeForce RTX 2070 SUPER``, and ``H100`` (the SXM card) does not match ``NVIDIA H100 PCIe``.
    `wanted` may omit the size or type of memory; if given, it must match."""
    wanted_words, name_words = _words(wanted), _words(name)
    models = [{w for w in words if not MEMORY.match(w)} for words in (wanted_words, name_words)]
    return models[0] == models[1] and wanted_words <= name_words


def _words(name):
    return set(re.findall(r"[a-z0-9]+", name.lower())) - set(MAKERS)


def card_reader(job):
    """Returns a function that reads the state of the job's GPU (`CardState.read`); those of its
    further GPUs are in ``further``. Without a GPU, or if one cannot be read (the log says why),
    that function returns None."""
    card, file = job.get("card") or {}, job.get("nvml")
    if not card.get("uuid") or not file:
        return no_card
    try:
        library = user_functions.from_file(file, "")
        first, *further = [CardState(library, each["uuid"]) for each in all_cards(card)]
    except Exception as error:  # a run does not fail because of a missing or old driver
        print("The state of the GPU is not read: {}".format(error), file=sys.stderr, flush=True)
        return no_card
    if not further:
        return first.read
    return lambda: dict(first.read(), further=[each.read() for each in further])


def no_card():
    return None


class CardState:
    def __init__(self, library, uuid):
        self.library = library
        for left in reversed(range(TRIES)):
            try:
                library.nvmlInit()
                self.handle = library.nvmlDeviceGetHandleByUUID(uuid)
                break
            except library.NVMLError:
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
        nvml, query = self.library, self._query
        return {
            "t": time.monotonic(),
            "joules": query("TotalEnergyConsumption", read=_thousandth),
            "watts": query("PowerUsage", read=_thousandth),
            "sm_mhz": query("ClockInfo", nvml.NVML_CLOCK_SM),
            "memory_mhz": query("ClockInfo", nvml.NVML_CLOCK_MEM),
            "celsius": query("Temperature", nvml.NVML_TEMPERATURE_GPU),
            "slowed": query("CurrentClocksThrottleReasons", read=self._reasons),
            "thermal_s": query("ViolationStatus", nvml.NVML_PERF_POLICY_THERMAL, read=_violated),
            "power_s": query("ViolationStatus", nvml.NVML_PERF_POLICY_POWER, read=_violated),
            "ecc": query(
                "TotalEccErrors",
                nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
                nvml.NVML_VOLATILE_ECC,
            ),
            "memory_bytes": query("MemoryInfo", read=lambda memory: int(memory.used)),
            # This process is listed too; in a container, under another process number.
            "others": query("ComputeRunningProcesses", read=lambda them: max(0, len(them) - 1)),
        }

    def _query(self, name, *arguments, read=int):
        try:
            return read(getattr(self.library, "nvmlDeviceGet" + name)(self.handle, *arguments))
        except self.library.NVMLError:
            return None

    def _reasons(self, mask):
        bits = [getattr(self.library, "nvmlClocksThrottleReason" + name) for name in REASONS]
        return [name for name, bit in zip(REASONS, bits) if mask & bit]


def _thousandth(value):
    return value / 1e3


def _violated(status):
    return status.violationTime / 1e9
