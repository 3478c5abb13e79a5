"""Identifies this machine: facts about its hardware, and a short key made from them."""

import glob
import hashlib
import os
import platform
import re
from typing import Any, Dict, List, Mapping, Optional, Tuple

from rnnworker import cards
from rnnworker.json_types import Json
from rnnworker.proc_files import memory_bytes, processors, quota, text

DRIVER = "/proc/driver/nvidia"
DEVICES = "/dev"
PCI = "/sys/bus/pci/devices"
NVIDIA = "0x10de"
CPU = "/sys/devices/system/cpu/cpu0"
FLAGS = ("avx", "avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile")


def fingerprint() -> Json:
    """Returns facts about this machine as JSON data; unknown facts are None or absent."""
    processor = processor_facts()
    files_of_containers = map(os.path.exists, ("/.dockerenv", "/run/.containerenv"))
    variables_of_containers = map(os.environ.get, ("container", "APPTAINER_CONTAINER"))
    facts: Json = {
        "cpu": processor["name"] or platform.processor() or platform.machine(),
        "architecture": platform.machine(),
        "processor": processor["processor"],
        "cores": os.cpu_count(),
        "available_cores": len(os.sched_getaffinity(0)),
        "core_quota": quota(),
        "sockets": processor["sockets"],
        "threads_per_core": len(processors(CPU + "/topology/thread_siblings_list")) or None,
        "flags": processor["flags"],
        "caches": caches(),
        "numa_nodes": len(glob.glob("/sys/devices/system/node/node[0-9]*")) or None,
        "memory_bytes": memory_bytes(),
        "governor": text(CPU + "/cpufreq/scaling_governor"),
        "kernel": platform.release(),
        "system": platform.system(),
        "virtual": processor["virtual"],
        "container": any(files_of_containers) or any(variables_of_containers),
        "gpus": gpus(),
        "gpu_models": gpu_models(),
        "boot": boot(),
    }
    facts["machine"] = key(facts)
    return facts


def processor_facts() -> Json:
    """Returns the ``name`` of the processor, its ``flags`` that matter to matrix products, whether
    it is ``virtual``, the number of ``sockets``, and ``processor``: vendor, family and model."""
    information = text("/proc/cpuinfo") or ""
    lines = re.findall(r"^([\w ]+?)[ \t]*:[ \t]*(\S.*?)[ \t]*$", information, re.MULTILINE)
    first = dict(reversed(lines))
    sockets = {value for field, value in lines if field == "physical id"}
    facts: Json = {
        "name": first.get("model name"),
        "flags": None,
        "virtual": None,
        "sockets": len(sockets) or None,
        "processor": None,
    }

    arm = [first.get(field) for field in ("CPU implementer", "CPU part")]
    if not facts["name"] and all(arm):  # an ARM has no model name
        facts["name"] = "ARM {} {}".format(*arm)

    kind = [first.get(field, "") for field in ("vendor_id", "cpu family", "model")]
    if all(kind):
        facts["processor"] = " ".join(kind)

    flags = first.get("flags", "").split()
    if flags:
        facts["flags"] = [flag for flag in FLAGS if flag in flags]
        facts["virtual"] = "hypervisor" in flags
    return facts


def key(facts: Mapping[str, Any]) -> str:
    """Returns a short, readable key: processor, cores, GPU, and six digits of a hash over facts
    that are stable between boots, including the machine id, which is never shown. Only facts from
    the kernel are used, because a command that fails once would change the key. A virtual machine
    may start on another processor of the same name (``AMD EPYC``), which is another machine."""
    common, virtual = kind(facts)
    stable = common + [text("/etc/machine-id")] + virtual

    digest = hashlib.sha256(repr(stable).encode("utf-8")).hexdigest()
    name = re.sub(r"\(r\)|\(tm\)|cpu|processor|@.*$", " ", str(facts.get("cpu")).lower())
    words = re.findall(r"[a-z0-9]+", name)[:3]
    parts = ["_".join(words) or "cpu", "{}c".format(facts.get("cores"))]
    if facts.get("gpu_models"):
        model = facts["gpu_models"][0].lower()
        parts.append("_".join(re.findall(r"[a-z0-9]+", model)))
    parts.append(digest[:6])
    return "-".join(parts)


def kind(facts: Mapping[str, Any]) -> Tuple[List[object], List[object]]:
    """Returns what machines of one kind have in common: two lists, the second of facts that differ
    between virtual machines only."""
    memory_bytes = facts.get("memory_bytes") or 0
    common: List[object] = [
        facts.get("cpu"),
        facts.get("cores"),
        facts.get("architecture"),
        round(memory_bytes / 2.0**30),
        facts.get("gpu_models") or [],
    ]
    virtual: List[object] = []
    if facts.get("virtual"):
        virtual = [facts.get("processor"), facts.get("flags")]
    return common, virtual


def boot() -> Optional[str]:
    """Returns the id of this boot; monotonic times are comparable only within one boot."""
    return text("/proc/sys/kernel/random/boot_id")


def gpu_models() -> List[str]:
    """Returns the models of the NVIDIA GPUs by PCI address: the names listed by the kernel driver,
    which are those of nvidia-smi, else their PCI ids, else one placeholder per device file."""
    if not _has_driver():
        return []

    models = _listed_models()
    if models:
        return models
    for folder in sorted(glob.glob(PCI + "/*")):
        vendor = text(os.path.join(folder, "vendor")) or ""
        kind = text(os.path.join(folder, "class")) or ""
        device = text(os.path.join(folder, "device")) or ""
        if vendor == NVIDIA and kind.startswith("0x03"):  # a display controller
            models.append("nvidia " + device[2:])
    return models or ["nvidia gpu"] * len(glob.glob(DEVICES + "/nvidia[0-9]*"))


def gpus() -> List[Json]:
    """Returns the NVIDIA GPUs without importing a framework: what nvidia-smi reports of each
    (`cards.query_cards`), or if that fails, ``name`` and ``uuid`` from the kernel driver."""
    if not _has_driver():
        return []
    reported = cards.query_cards()
    if reported is not None:
        return reported
    models = _listed_models()
    uuids = _information("GPU UUID")
    if len(uuids) != len(models):
        return [{"name": model} for model in models]
    return [{"name": model, "uuid": uuid} for model, uuid in zip(models, uuids)]


def _has_driver() -> bool:
    return os.path.exists(DRIVER) or os.path.exists(os.path.join(DEVICES, "nvidia0"))


def _listed_models() -> List[str]:
    models = _information("Model")
    if "Unknown" in models:
        return []
    return models


def _information(field: str) -> List[str]:
    """Returns a field of the kernel driver's information on each GPU, in the order of their PCI
    addresses; an empty list if it is missing for any GPU."""
    pattern = "^{}:[ \\t]*(\\S.*?)[ \\t]*$".format(field)
    values = []
    for file in sorted(glob.glob(DRIVER + "/gpus/*/information")):
        match = re.search(pattern, text(file) or "", re.MULTILINE)
        if match is None:
            return []
        values.append(match.group(1))
    return values


def caches() -> Dict[str, Optional[str]]:
    """Returns the sizes of the first processor's caches, without those of instructions: {``L2``:
    ``512K``}."""
    found = {}
    for folder in sorted(glob.glob(CPU + "/cache/index[0-9]*")):
        level = text(os.path.join(folder, "level"))
        kind = text(os.path.join(folder, "type"))
        if level and kind != "Instruction":
            found["L" + level] = text(os.path.join(folder, "size"))
    return found
