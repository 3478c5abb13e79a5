"""NVIDIA GPUs: queries them with nvidia-smi, selects the one that a run uses, and matches models.

Standard library only, Python 3.6 syntax: the controller and bundles use it. No side effects except
in `query_cards` and `query_contexts`.
Sources: ``nvidia-smi --help-query-gpu``; the CUDA C++ Programming Guide, "CUDA Environment
Variables" (CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER). Slices of a card (MIG) are not supported.
"""

import collections
import re
import subprocess

# Every driver has the first three; every driver that supports CUDA 8 has the others.
QUERY = "name,driver_version,memory.total,power.limit,clocks.max.sm,uuid,pci.bus_id"
FIELDS = ("name", "driver", "memory_mib", "power_limit_w", "max_clock_mhz", "uuid", "bus")
MAKERS = ("nvidia", "tesla", "geforce", "quadro")
MEMORY = re.compile(r"\d+gb|hbm\d+e?|gddr\d+x?")
VISIBLE = "CUDA_VISIBLE_DEVICES"
SECONDS = 30
TRIES = 2


def query_cards():
    """Returns the GPUs that nvidia-smi reports, [{field: text}]; None if it fails. A failed query
    is repeated, because drivers that wake up fail once."""
    cards = _nvidia_smi("--query-gpu=" + QUERY, "--format=csv,noheader,nounits")
    return None if cards is None else parse_cards(cards)


def _nvidia_smi(*arguments):
    for _ in range(TRIES):
        try:
            output = subprocess.check_output(
                ("nvidia-smi",) + arguments, stderr=subprocess.DEVNULL, timeout=SECONDS
            )
            return output.decode("utf-8", "replace")
        except subprocess.CalledProcessError:
            continue
        except (OSError, subprocess.SubprocessError):
            return None
    return None


def query_contexts(card):
    """Returns what limits the number of runs on `card` at the same time, from nvidia-smi:
    {``mode``: compute mode, ``free_bytes``: free memory}; None if unknown or if the run uses
    further cards."""
    if not card or not card["uuid"] or card.get("further"):
        return None
    query = "--query-gpu=compute_mode,memory.free"
    return parse_contexts(
        _nvidia_smi(query, "--format=csv,noheader,nounits", "-i", card["uuid"]) or ""
    )


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


def devices(cards):
    """Returns `cards` as {name, uuid, bus}; `uuid` and `bus` are None if unknown."""
    return [{name: card.get(name) for name in ("name", "uuid", "bus")} for card in cards]


def visible(cards, variable):
    """Returns the `devices` that a process with CUDA_VISIBLE_DEVICES=`variable` (None: not set)
    can use, in the order of the variable. Indices count cards by PCI address, as in nvidia-smi.
    The list ends at the first invalid entry."""
    if variable is None:
        return devices(cards)
    result = []
    for wanted in variable.split(","):
        device = _device(cards, wanted.strip())
        if device is None:
            break
        result.append(device)
    return result


def _device(cards, wanted):
    if wanted.isdigit():
        number = int(wanted)
        return devices(cards)[number] if number < len(cards) else None
    if not wanted.startswith("GPU-"):
        return None
    matches = [card for card in devices(cards) if (card["uuid"] or "").startswith(wanted)]
    return matches[0] if len(matches) == 1 else None


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


def too_few(device, names):
    """Returns why cards with the driver's `names` are too few for the replicas of `device`; None if
    there are enough or it needs a single one."""
    count = replicas_of(device)
    if device.get("kind") != "gpu" or count == 1:
        return None
    wanted = device.get("gpu")
    found = collections.Counter(name for name in names if not wanted or is_model(wanted, name))
    if max(found.values(), default=0) >= count:
        return None
    has = ", ".join("{} {}".format(found[name], name) for name in sorted(found)) or "none"
    return "needs {} visible GPUs of one model{}, found {}; choose device=gpu for one card".format(
        count, " ({})".format(wanted) if wanted else "", has
    )


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
