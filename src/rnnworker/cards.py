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
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Set

from rnnworker import user_functions
from rnnworker.json_types import Card, Config, Job, Json

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
    "SwPowerCap",
    "HwSlowdown",
    "SyncBoost",
    "SwThermalSlowdown",
    "HwThermalSlowdown",
    "HwPowerBrakeSlowdown",
    "ApplicationsClocksSetting",
)


def query_cards() -> Optional[List[Json]]:
    """Returns the GPUs that nvidia-smi reports, [{field: text}]; None if it fails."""
    text = _nvidia_smi(QUERY)
    if text is None:
        return None
    return parse_cards(text)


def _nvidia_smi(query: str, *arguments: str) -> Optional[str]:
    command = ["nvidia-smi", "--query-gpu=" + query, "--format=csv,noheader,nounits"]
    command += arguments
    for _ in range(TRIES):
        try:
            output = subprocess.check_output(command, stderr=subprocess.DEVNULL, timeout=SECONDS)
        except subprocess.CalledProcessError:
            continue
        except (OSError, subprocess.SubprocessError):
            return None
        return output.decode("utf-8", "replace")
    return None


def query_contexts(card: Optional[Card]) -> Optional[Json]:
    """Returns what limits the number of runs on `card` at the same time, from nvidia-smi:
    {``mode``: compute mode, ``free_bytes``: free memory}; None if unknown or if the run uses
    further cards."""
    if not card or not card["uuid"] or card.get("further"):
        return None
    text = _nvidia_smi("compute_mode,memory.free", "-i", card["uuid"])
    return parse_contexts(text or "")


def parse_contexts(text: str) -> Optional[Json]:
    """Parses nvidia-smi's line of ``compute_mode,memory.free`` for `query_contexts`."""
    mode, _, free = text.partition(",")
    mode = mode.strip()
    free = free.strip()
    if _unknown(mode) or not free.isdigit():
        return None
    return {"mode": mode, "free_bytes": int(free) * 2**20}


def parse_cards(text: str) -> List[Json]:
    """Parses nvidia-smi's lines of `QUERY` into [{field: text}]; omits unknown values."""
    cards = []
    for line in text.splitlines():
        values = [value.strip() for value in line.split(",")]
        if not values[0]:
            continue
        card = {}
        for field, value in zip(FIELDS, values):
            if not _unknown(value):
                card[field] = value
        cards.append(card)
    return cards


def _unknown(value: str) -> bool:
    return not value or value.strip("[]").lower() in ("n/a", "not supported", "unknown error")


def visible(cards: Iterable[Card], variable: Optional[str]) -> List[Json]:
    """Returns those of `cards` that a process with CUDA_VISIBLE_DEVICES=`variable` (None: not set)
    can use, in the order of the variable, as {name, uuid, bus}; `uuid` and `bus` are None if
    unknown. Indices count cards by PCI address, as in nvidia-smi. The list ends at the first
    invalid entry."""
    devices = []
    for card in cards:
        device = {"name": card.get("name"), "uuid": card.get("uuid"), "bus": card.get("bus")}
        devices.append(device)
    if variable is None:
        return devices

    result: List[Json] = []
    for wanted in variable.split(","):
        wanted = wanted.strip()
        found = []
        if wanted.isdigit():
            found = devices[int(wanted) :][:1]
        elif wanted.startswith("GPU-"):
            found = [each for each in devices if (each["uuid"] or "").startswith(wanted)]
        if len(found) != 1:
            break
        result += found
    return result


def replicas_of(device: Config) -> int:
    """Returns the number of devices (of a GPU: cards) on which a run on `device` trains."""
    replicas: int = device.get("replicas") or 1
    return replicas


def select_card(
    device: Config,
    cards: Iterable[Card],
    environment: Mapping[str, str],
) -> Optional[Json]:
    """Returns the card that a run on `device` uses: the first of the machine's `cards` that is
    visible in `environment` and of the requested model; None if there is none. With replicas it is
    the first of as many cards of one model, whose others are its ``further`` cards; None if
    there are fewer."""
    wanted = device.get("gpu")
    count = replicas_of(device)
    usable: Dict[str, List[Json]] = {}  # model → cards
    for card in visible(cards, environment.get(VISIBLE)):
        if wanted and not is_model(wanted, card["name"]):
            continue
        if count == 1:
            return card
        # Without UUIDs, a process would see the machine's other cards too.
        if card["uuid"]:
            usable.setdefault(card["name"], []).append(card)

    for alike in usable.values():
        if len(alike) >= count:
            return dict(alike[0], further=alike[1:count])
    return None


def all_cards(card: Optional[Card]) -> List[Card]:
    """Returns the `card` that `select_card` returned and its further ones; none for None."""
    if not card:
        return []
    return [card] + (card.get("further") or [])


def unmet_device(device: Config, cores: int, names: Sequence[str]) -> Optional[str]:
    """Returns why a machine with `cores` cores and GPUs with the driver's `names` cannot provide
    `device`; None if it can. A device without a thread count uses all available cores."""
    if device.get("kind") == "gpu":
        if not names:
            return "no NVIDIA GPU on this machine"
        wanted = device.get("gpu")
        of_model = ""
        if wanted:
            of_model = " ({})".format(wanted)
            matching = [name for name in names if is_model(wanted, name)]
            if not matching:
                return "no {} on this machine, which has {}".format(wanted, ", ".join(names))
            names = matching
        found = collections.Counter(names)
        count = replicas_of(device)
        if max(found.values()) < count:
            has = ["{} {}".format(number, name) for name, number in sorted(found.items())]
            message = (
                "needs {} visible GPUs of one model{}, found {}; choose device=gpu for one card"
            )
            return message.format(count, of_model, ", ".join(has))
    if (device.get("threads") or 0) > cores:
        message = "this machine offers {} core"
        if cores != 1:
            message += "s"
        return message.format(cores)
    return None


def variables(card: Optional[Card]) -> Dict[str, str]:
    """Returns the environment variables that make only `card` (see `select_card`) and its further
    cards visible."""
    if not card or not card["uuid"]:
        return {}
    uuids = ",".join(each["uuid"] for each in all_cards(card))
    return {VISIBLE: uuids, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def is_model(wanted: str, name: str) -> bool:
    """Returns whether a card with the driver's `name` is exactly of the model `wanted`:
    ``P100 PCIE`` matches ``Tesla P100-PCIE-16GB``, but ``RTX 2070`` does not match
    ``GeForce RTX 2070 SUPER``, and ``H100`` (the SXM card) does not match ``NVIDIA H100 PCIe``.
    `wanted` may omit the size or type of memory; if given, it must match."""
    wanted_words = _words(wanted)
    name_words = _words(name)
    if not wanted_words <= name_words:
        return False
    return all(MEMORY.match(word) for word in name_words - wanted_words)


def _words(name: str) -> Set[str]:
    return set(re.findall(r"[a-z0-9]+", name.lower())) - set(MAKERS)


def card_reader(job: Job) -> Callable[[], Optional[Json]]:
    """Returns a function that reads the state of the job's GPU (`CardState.read`); those of its
    further GPUs are in ``further``. Without a GPU, or if one cannot be read (the log says why),
    that function returns None."""
    card = job.get("card") or {}
    file = job.get("nvml")
    if not card.get("uuid") or not file:
        return no_card
    try:
        library = user_functions.from_file(file, "")
        states = [CardState(library, each["uuid"]) for each in all_cards(card)]
    except Exception as error:  # a run does not fail because of a missing or old driver
        print("The state of the GPU is not read: {}".format(error), file=sys.stderr, flush=True)
        return no_card

    def read() -> Json:
        first, *further = [state.read() for state in states]
        if further:
            first["further"] = further
        return first

    return read


def no_card() -> Optional[Json]:
    """Reads the state of no GPU."""
    return None


class CardState:
    """A GPU whose state the driver reports. Raises the library's ``NVMLError`` if it cannot."""

    def __init__(self, library: Any, uuid: str) -> None:
        self.library = library
        for left in reversed(range(TRIES)):
            try:
                library.nvmlInit()
                self.handle = library.nvmlDeviceGetHandleByUUID(uuid)
                break
            except library.NVMLError:
                if not left:
                    raise

    def read(self) -> Json:
        """None stands for each value that the driver does not provide.

        - `t`: monotonic seconds; `joules`: since the driver was loaded; `watts`; `celsius`.
        - `sm_mhz`, `memory_mhz`; `slowed`: the reasons why the clocks are reduced.
        - `thermal_s`, `power_s`: seconds so far with clocks reduced by heat or the power limit.
        - `ecc`: uncorrected errors since boot; `memory_bytes` in use; `others`: number of other
          processes that compute on the GPU.
        """
        nvml = self.library
        query = self._query
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

    def _query(self, name: str, *arguments: int, read: Callable[[Any], object] = int) -> object:
        function = getattr(self.library, "nvmlDeviceGet" + name)
        try:
            return read(function(self.handle, *arguments))
        except self.library.NVMLError:
            return None

    def _reasons(self, mask: int) -> List[str]:
        reasons = []
        for name in REASONS:
            if mask & getattr(self.library, "nvmlClocksThrottleReason" + name):
                reasons.append(name)
        return reasons


def _thousandth(value: int) -> float:
    return value / 1e3


def _violated(status: Any) -> float:
    seconds: float = status.violationTime / 1e9
    return seconds
