"""NVIDIA cards: what nvidia-smi says of them, which one a run uses, and by what it is told apart.

Standard library only, Python 3.6 syntax: the conductor and bundles use it. Pure but for `ask` and
`ask_contexts`.
Sources: ``nvidia-smi --help-query-gpu``; the CUDA C++ Programming Guide, "CUDA Environment
Variables" (CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER); the MIG User Guide, "Device Enumeration".
"""

import re
import subprocess

# The first three since the first drivers; those after them are in every driver that CUDA 8 takes.
QUERY = "name,driver_version,memory.total,power.limit,clocks.max.sm,uuid,pci.bus_id"
FIELDS = ("name", "driver", "memory_mib", "power_limit_w", "max_clock_mhz", "uuid", "bus")
MAKERS = ("nvidia", "tesla", "geforce", "quadro")
MEMORY = re.compile(r"\d+gb|hbm\d+e?|gddr\d+x?")
CARD = re.compile(r"GPU \d+: .*\(UUID: (GPU-[^)\s]+)\)")
SLICE = re.compile(r"\s+(MIG \S+)\s+Device\s+\d+: \(UUID: (MIG-[^)\s]+)\)")
VISIBLE = "CUDA_VISIBLE_DEVICES"
SECONDS = 30
TRIES = 2


def ask():
    """What nvidia-smi says of the cards: [{name of a field: text}], each with its ``slices``;
    None where it says nothing. It is asked again where it fails: drivers that wake up do once."""
    cards = _said("--query-gpu=" + QUERY, "--format=csv,noheader,nounits")
    if cards is None:
        return None
    return with_slices(parsed(cards), _said("-L") or "")


def _said(*arguments):
    for _ in range(TRIES):
        try:
            told = subprocess.check_output(
                ("nvidia-smi",) + arguments, stderr=subprocess.DEVNULL, timeout=SECONDS
            )
            return told.decode("utf-8", "replace")
        except subprocess.CalledProcessError:
            continue
        except (OSError, subprocess.SubprocessError):
            return None
    return None


def ask_contexts(card):
    """How many runs may compute on `card` at the same time, by what nvidia-smi says now:
    {``mode``: its compute mode, ``free_bytes``: of its memory}; None where it says nothing, as of
    a slice."""
    if not card or not card["uuid"] or card.get("slice"):
        return None
    query = "--query-gpu=compute_mode,memory.free"
    return contexts(_said(query, "--format=csv,noheader,nounits", "-i", card["uuid"]) or "")


def contexts(text):
    """nvidia-smi's line of ``compute_mode,memory.free`` → as `ask_contexts`."""
    mode, comma, free = text.strip().partition(",")
    if not comma or _unknown(mode.strip()) or not free.strip().isdigit():
        return None
    return {"mode": mode.strip(), "free_bytes": int(free) * 2**20}


def parsed(text):
    """nvidia-smi's lines of `QUERY` → [{field: text}]; what it does not know is left out."""
    cards = []
    for line in text.splitlines():
        values = [value.strip() for value in line.split(",")]
        if values[0]:
            known = zip(FIELDS, values)
            cards.append({field: value for field, value in known if not _unknown(value)})
    return cards


def _unknown(value):
    return not value or value.strip("[]").lower() in ("n/a", "not supported", "unknown error")


def with_slices(cards, listing):
    """`cards` with the MIG ``slices`` ({name, uuid}) that ``nvidia-smi -L`` (`listing`) has below
    them. A slice's name is the one that CUDA gives it: the card's, and its profile."""
    found, below = {}, []
    for line in listing.splitlines():
        card, part = CARD.match(line), SLICE.match(line)
        if card:
            below = found.setdefault(card.group(1), [])
        elif part:
            below.append(part.groups())
    return [
        dict(
            card,
            slices=[
                {"name": "{} {}".format(card["name"], profile), "uuid": uuid}
                for profile, uuid in found.get(card.get("uuid"), ())
            ],
        )
        for card in cards
    ]


def devices(cards):
    """What a process can compute on: cards, and in the place of one that is cut into slices,
    these. [{name, uuid, bus, slice}]; `uuid` and `bus` are None where nobody knows them."""
    found = []
    for card in cards:
        for one in card.get("slices") or [card]:
            entry = {"name": one["name"], "uuid": one.get("uuid"), "bus": card.get("bus")}
            found.append(dict(entry, slice=one is not card))
    return found


def visible(cards, variable):
    """Those `devices` that a process with CUDA_VISIBLE_DEVICES=`variable` (None: not set) may use,
    in its order. Numbers count cards by their address, which is nvidia-smi's order; of a card that
    is cut into slices, CUDA takes the first. At what is no device, the list ends."""
    if variable is None:
        return devices(cards)
    found = []
    for wanted in variable.split(","):
        one = _device(cards, wanted.strip())
        if one is None:
            break
        found.append(one)
    return found


def _device(cards, wanted):
    if wanted.isdigit():
        number = int(wanted)
        return devices([cards[number]])[0] if number < len(cards) else None
    if not wanted.startswith(("GPU-", "MIG-")):
        return None
    found = [one for one in devices(cards) if (one["uuid"] or "").startswith(wanted)]
    # A card that is cut into slices may be named itself.
    found += [
        devices([card])[0]
        for card in cards
        if card.get("slices") and card.get("uuid", "").startswith(wanted)
    ]
    return found[0] if len(found) == 1 else None


def chosen(device, cards, environment):
    """The one of the machine's `cards` that a run on `device` uses, of those that `environment`
    lets it see: the first of the model that it asks for. None where there is none."""
    for one in visible(cards, environment.get(VISIBLE)):
        if not device.get("gpu") or is_card(device["gpu"], one["name"]):
            return one
    return None


def variables(card):
    """The environment in which a process sees `card` (see `chosen`) and no other."""
    if not card or not card["uuid"]:
        return {}
    return {VISIBLE: card["uuid"], "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def is_card(wanted, name):
    """Whether the card that its driver names `name` is of the model `wanted`, exactly:
    ``P100 PCIE`` is ``Tesla P100-PCIE-16GB``; ``RTX 2070`` is not ``GeForce RTX 2070 SUPER``, nor
    ``H100`` (``NVIDIA H100 80GB HBM3``, the one on SXM) ``NVIDIA H100 PCIe``, nor a card its slice.
    Its memory need not be said; where it is, it has to be that much."""
    asked, found = _words(wanted), _words(name)
    plain = [{word for word in words if not MEMORY.match(word)} for words in (asked, found)]
    return plain[0] == plain[1] and asked <= found


def _words(name):
    return set(re.findall(r"[a-z0-9]+", name.lower())) - set(MAKERS)
