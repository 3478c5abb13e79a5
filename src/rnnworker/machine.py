"""Identifies this machine: facts about its hardware, and a short key made from them.

Standard library only; the controller imports it too.
"""

import hashlib
import os
import platform
import re

from rnnworker import cards
from rnnworker.proc_files import text
from rnnworker.quota import quota

DRIVER = "/proc/driver/nvidia"
DEVICES = "/dev"
PCI = "/sys/bus/pci/devices"
NVIDIA = "0x10de"


def fingerprint():
    """Returns facts about this machine as JSON data; unknown facts are None or absent."""
    processor = processor_facts()
    facts = {
        "cpu": processor.get("model name") or platform.processor() or platform.machine(),
        "architecture": platform.machine(),
        "processor": processor.get("processor"),
        "cores": os.cpu_count(),
        "available_cores": _available_cores(),
        "core_quota": quota(),
        "sockets": processor.get("sockets"),
        "threads_per_core": _threads_per_core(),
        "flags": processor.get("flags"),
        "caches": _caches(),
        "numa_nodes": _count("/sys/devices/system/node", r"node\d+$"),
        "memory_bytes": _memory(),
        "governor": text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "kernel": platform.release(),
        "system": platform.system(),
        "virtual": _virtual(),
        "container": _container(),
        "gpus": gpus(),
        "gpu_models": gpu_models(),
        "boot": boot(),
    }
    facts["machine"] = key(facts)
    return facts


def key(facts):
    """Returns a short, readable key: processor, cores, GPU, and six digits of a hash over facts
    that are stable between boots, including the machine id, which is never shown. Only facts from
    the kernel are used, because a command that fails once would change the key."""
    models = facts.get("gpu_models") or []
    stable = [
        facts.get("cpu"),
        facts.get("cores"),
        facts.get("architecture"),
        round((facts.get("memory_bytes") or 0) / 2.0**30),
        models,
        text("/etc/machine-id"),
    ]
    digest = hashlib.sha256(repr(stable).encode("utf-8")).hexdigest()[:6]
    name = re.sub(r"\(r\)|\(tm\)|cpu|processor|@.*$", " ", str(facts.get("cpu")).lower())
    words = re.findall(r"[a-z0-9]+", name)[:3]
    parts = ["_".join(words) or "cpu", "{}c".format(facts.get("cores"))]
    for model in models[:1]:
        parts.append("_".join(re.findall(r"[a-z0-9]+", model.lower())))
    return "-".join([*parts, digest])


def boot():
    """Returns the id of this boot; monotonic times are comparable only within one boot."""
    return text("/proc/sys/kernel/random/boot_id")


def gpu_models():
    """Returns the models of the NVIDIA GPUs by PCI address: the names listed by the kernel driver,
    which are those of nvidia-smi, else their PCI ids, else one placeholder per device file."""
    if not _has_driver():
        return []
    models = _listed_models()
    if not models:
        for address in sorted(_listed(PCI)):
            vendor, kind, device = (
                text(os.path.join(PCI, address, name)) or ""
                for name in ("vendor", "class", "device")
            )
            if vendor == NVIDIA and kind.startswith("0x03"):  # a display controller
                models.append("nvidia " + device[2:])
    return models or ["nvidia gpu"] * (_count(DEVICES, r"nvidia\d+$") or 0)


def _listed_models():
    models = _information("Model")
    return [] if "Unknown" in models else models


def _information(field):
    """Returns a field of the kernel driver's information on each GPU, in the order of their PCI
    addresses; an empty list if it is missing for any GPU."""
    values = []
    for address in sorted(_listed(DRIVER + "/gpus")):
        information = text(os.path.join(DRIVER, "gpus", address, "information")) or ""
        match = re.search("^{}:[ \\t]*(\\S.*?)[ \\t]*$".format(field), information, re.MULTILINE)
        if match is None:
            return []
        values.append(match.group(1))
    return values


def _has_driver():
    return os.path.exists(DRIVER) or os.path.exists(os.path.join(DEVICES, "nvidia0"))


def gpus():
    """Returns the NVIDIA GPUs without importing a framework: what nvidia-smi reports of each
    (`cards.query_cards`), or if that fails, ``name`` and ``uuid`` from the kernel driver."""
    if not _has_driver():
        return []
    reported = cards.query_cards()
    if reported is not None:
        return reported
    models, uuids = _listed_models(), _information("GPU UUID")
    if len(uuids) != len(models):
        return [{"name": model} for model in models]
    return [{"name": model, "uuid": uuid} for model, uuid in zip(models, uuids)]


def _available_cores():
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def processor_facts():
    facts, sockets = {}, set()
    for line in (text("/proc/cpuinfo") or "").splitlines():
        name, _, value = line.partition(":")
        name, value = name.strip(), value.strip()
        if name == "physical id":
            sockets.add(value)
        elif name in ("vendor_id", "cpu family", "model", "model name", "flags"):
            facts.setdefault(name, value)
    if "flags" in facts:
        wanted = ("avx", "avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile")
        present = set(facts["flags"].split())
        facts["flags"] = [flag for flag in wanted if flag in present]
    facts["sockets"] = len(sockets) or None
    kind = [facts.pop(name, None) for name in ("vendor_id", "cpu family", "model")]
    facts["processor"] = " ".join(kind) if all(kind) else None
    return facts


def _threads_per_core():
    siblings = text("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list")
    if not siblings:
        return None
    count = 0
    for part in siblings.split(","):
        low, _, high = part.partition("-")
        count += int(high or low) - int(low) + 1
    return count


def _caches():
    base = "/sys/devices/system/cpu/cpu0/cache"
    caches = {}
    if os.path.isdir(base):
        for index in sorted(os.listdir(base)):
            level = text(os.path.join(base, index, "level"))
            kind = text(os.path.join(base, index, "type"))
            size = text(os.path.join(base, index, "size"))
            if level and kind != "Instruction":
                caches["L" + level] = size
    return caches


def available_memory(file="/proc/meminfo"):
    """Returns the bytes of memory that can be used without swapping; None if unknown."""
    return _memory("MemAvailable", file)


def _memory(name="MemTotal", file="/proc/meminfo"):
    match = re.search(name + r":\s+(\d+) kB", text(file) or "")
    return int(match.group(1)) * 1024 if match else None


def _virtual():
    for line in (text("/proc/cpuinfo") or "").splitlines():
        if line.startswith("flags"):
            return "hypervisor" in line.split()
    return None


def _container():
    if os.path.exists("/.dockerenv") or os.path.exists("/run/.containerenv"):
        return True
    return bool(os.environ.get("container") or os.environ.get("APPTAINER_CONTAINER"))


def _listed(folder):
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _count(folder, pattern):
    if not os.path.isdir(folder):
        return None
    return sum(1 for name in os.listdir(folder) if re.match(pattern, name))
