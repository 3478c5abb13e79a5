"""Where, with what and what the runs of an experiment trained, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rnnbench.records.record import Record
from rnnbench.report import numbers as n
from rnnbench.tables.frame import flat_text
from rnnbench.tables.scaling import threads_of

SOFTWARE = {"tensorflow": "TensorFlow", "torch": "PyTorch", "jax": "JAX", "keras": "Keras"}
VECTORS = {"avx512f": "AVX-512", "avx2": "AVX2", "avx": "AVX"}
# Keys of a model that are not hyperparameters.
UNNAMED = {
    "about", "source", "function", "data", "name", "recurrent", "arrays", "requires",
    "train_samples", "val_samples", "metrics",
}  # fmt: skip
NAMED = 4  # machines, builds and devices named next to the answer


def conditions(records: Sequence[Record]) -> dict[str, str]:
    """Machines, builds, devices and models."""
    machines: dict[str, str] = {}
    builds: dict[str, str] = {}
    devices: dict[str, str] = {}
    for record in records:
        choices = record.run.choices
        _name(machines, record.machine, _machine_words(record.hardware))
        versions = []
        for key, software in SOFTWARE.items():
            if record.environment.get(key):
                versions.append(f"{software} {record.environment[key]}")
        _name(builds, choices.get("build", ""), ", ".join(versions))
        threads = threads_of(choices.get("device", ""))
        words = n.counted(threads, "thread") if threads else ""
        _name(devices, choices.get("device", ""), words)
    by_threads = sorted(devices.items(), key=lambda item: (threads_of(item[0]) or 0, item[0]))
    found = {
        "Machine": _listed(machines),
        "Software": _listed(builds),
        "Devices": n.few([_named(*each) for each in by_threads], NAMED),
        "Training": _listed(_training(records)),
    }
    return {kind: words for kind, words in found.items() if words}


def _name(found: dict[str, str], name: str, words: str) -> None:
    """Adds `name` with its words, unless it has some already."""
    if name and not found.get(name):
        found[name] = words


def _named(name: str, words: str) -> str:
    return f"{name}: {words}" if words else name


def _listed(found: Mapping[str, str]) -> str:
    """Each name with its words; if there is only one, its words alone."""
    if len(found) == 1:
        return "".join(found.values())
    return n.few([_named(*each) for each in found.items()], NAMED)


def _machine_words(hardware: Mapping[str, Any]) -> str:
    """The processor with its widest vector instructions and, in a virtual machine, where several
    kinds have one name, family and model: ``AMD EPYC (family 25, model 17, AVX-512)``; then the
    cores and cards. Unlike other fields of a record, `hardware` has no checked types: others are
    left out."""
    facts = []
    kind = str(hardware.get("processor")).split()
    if hardware.get("virtual") and len(kind) == 3:
        facts = [f"family {kind[1]}", f"model {kind[2]}"]
    flags = hardware.get("flags")
    for flag, vectors in VECTORS.items():
        if isinstance(flags, list) and flag in flags:
            facts.append(vectors)
            break
    words = []
    name = hardware.get("cpu")
    if isinstance(name, str):
        words.append(f"{name} ({', '.join(facts)})" if facts else name)
    cores = hardware.get("cores")
    threads = hardware.get("threads_per_core") or 1
    if isinstance(cores, int) and isinstance(threads, int):
        words.append(n.counted(cores // threads, "core"))
    cards = hardware.get("gpu_models")
    if isinstance(cards, list):
        for card, count in Counter(cards).items():
            words.append(f"{count} × {card}" if count > 1 else str(card))
    if hardware.get("virtual"):
        words.append("virtual machine on a host that may be shared")
    return ", ".join(word for word in words if word)


def _training(records: Sequence[Record]) -> dict[str, str]:
    """Each model with its hyperparameters, each of these with all of its values."""
    found: dict[str, dict[str, dict[str, None]]] = {}
    for record in records:
        model = dict(record.run.config.get("model") or {})
        for part, compiled in _compiled(record).items():
            model[part] = model.get(part) or compiled
        optimizer = model.pop("optimizer")
        if isinstance(optimizer, Mapping):
            settings = dict(optimizer)
            model |= {"optimizer": settings.pop("name", None), **settings}
        if record.epochs and record.epochs[0].samples:
            model["training samples"] = record.epochs[0].samples
        model["sample weights"] = _weighted(record)
        of_model = found.setdefault(record.run.choices.get("model", ""), {})
        for key, value in model.items():
            text = flat_text(value)
            if text and key not in UNNAMED:
                of_model.setdefault(key, {})[text] = None
    words = {}
    for name, facts in found.items():
        words[name] = ", ".join(f"{key} {' or '.join(texts)}" for key, texts in facts.items())
    return words


def _compiled(record: Record) -> dict[str, Any]:
    """The loss and the optimizer with which the framework trained."""
    optimizer = record.measured.get("optimizer") or {}
    rate = optimizer.get("learning_rate")
    if isinstance(rate, float):
        rate = f"{rate:.6g}"  # stored in single precision
    if isinstance(rate, Mapping):  # a schedule
        rate = rate.get("class_name")
    named = {"name": optimizer.get("class_name"), "learning_rate": rate}
    return {"loss": record.measured.get("loss"), "optimizer": named}


def _weighted(record: Record) -> str:
    """Which samples have weights: "training", "validation" or both; ``""`` if none."""
    names = {"train": "training", "val": "validation"}
    for phase in record.phases:
        if phase.name == "data":
            return " and ".join(names[part] for part in phase.details.get("weighted") or ())
    return ""
