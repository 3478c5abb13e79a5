"""Where, with what and what the runs of an experiment trained, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rnnbench.records.record import Record
from rnnbench.report import numbers as n
from rnnbench.report.labels import joined
from rnnbench.tables.frame import flat_text
from rnnbench.tables.scaling import threads_of

SOFTWARE = {"tensorflow": "TensorFlow", "torch": "PyTorch", "jax": "JAX", "keras": "Keras"}
VECTORS = {"avx512f": "AVX-512", "avx2": "AVX2", "avx": "AVX"}
# Keys of a model that are not hyperparameters.
UNNAMED = {
    "about",
    "source",
    "function",
    "data",
    "name",
    "recurrent",
    "arrays",
    "requires",
    "train_samples",
    "val_samples",
    "metrics",
}
PARTS = {"train": "training", "val": "validation"}  # of the data
NAMED = 4  # machines, builds and devices named next to the answer


def conditions(records: Sequence[Record]) -> dict[str, str]:
    """Machines, builds, devices and models, in a line each: ``current: TensorFlow 2.21.0``.

    The keys are their headings. A line that would be empty is left out.
    """
    machines: dict[str, str] = {}
    builds: dict[str, str] = {}
    devices: dict[str, str] = {}
    for record in records:
        build = record.run.choices.get("build", "")
        device = record.run.choices.get("device", "")
        threads = threads_of(device)
        words = n.counted(threads, "thread") if threads else ""
        _name(machines, record.machine, _machine_words(record.hardware))
        _name(builds, build, software(record))
        _name(devices, device, words)

    by_threads = sorted(devices, key=lambda name: (threads_of(name) or 0, name))
    found = {
        "Machine": _listed(machines),
        "Software": _listed(builds),
        "Devices": _listed({device: devices[device] for device in by_threads}, name_one=True),
        "Training": _listed(_training(records)),
    }
    return {kind: words for kind, words in found.items() if words}


def software(record: Record) -> str:
    """The framework of a run: ``TensorFlow 2.21.0, Keras 3.15.1``."""
    versions = []
    for key, name in SOFTWARE.items():
        version = record.environment.get(key)
        if version:
            versions.append(f"{name} {version}")
    return ", ".join(versions)


def _name(found: dict[str, str], name: str, words: str) -> None:
    """Adds a name with its words to those `found`, unless it has some already.

    - `name`: of a machine, build or device; ``""`` adds nothing.
    - `words`: what the page says about it; ``""`` if a record knows nothing.
    """
    if name and not found.get(name):
        found[name] = words


def _listed(found: Mapping[str, str], name_one: bool = False) -> str:
    """Each name with its words, if it has some: ``cpu_1: 1 thread; cpu_2: 2 threads``.

    - `found`: name → words.
    - `name_one`: whether the name is also there if it is the only one.
    """
    if len(found) == 1 and not name_one:
        return "".join(found.values())
    return n.few([joined(named, ": ") for named in found.items()], NAMED)


def _machine_words(hardware: Mapping[str, Any]) -> str:
    """The processor with its widest vector instructions; then the cores and cards.

    In a virtual machine, several kinds of processor have one name, so the family and model follow:
    ``AMD EPYC (family 25, model 17, AVX-512)``. Unlike other fields of a record, `hardware` has no
    checked types: others are left out.
    """
    is_virtual = hardware.get("virtual")
    facts = []
    kind = str(hardware.get("processor")).split()
    if is_virtual and len(kind) == 3:
        _, family, model = kind
        facts = [f"family {family}", f"model {model}"]
    flags = hardware.get("flags")
    if isinstance(flags, list):
        vectors = [VECTORS[flag] for flag in VECTORS if flag in flags]
        facts += vectors[:1]

    words = []
    name = hardware.get("cpu")
    if isinstance(name, str):
        if facts:
            name += f" ({', '.join(facts)})"
        words.append(name)

    cores = hardware.get("cores")
    threads = hardware.get("threads_per_core") or 1
    if isinstance(cores, int) and isinstance(threads, int):
        words.append(n.counted(cores // threads, "core"))

    cards = hardware.get("gpu_models")
    if isinstance(cards, list):
        for card, count in Counter(cards).items():
            if count > 1:
                card = f"{count} × {card}"
            words.append(str(card))
    if is_virtual:
        words.append("virtual machine on a host that may be shared")
    return ", ".join(filter(None, words))


def _training(records: Sequence[Record]) -> dict[str, str]:
    """Model → its hyperparameters, each with all of its values:
    ``batch 32 or 64, epochs 5, loss mse``.

    Models, hyperparameters and values are in the order of the `records`. A value that is empty and
    a key in `UNNAMED` are left out.
    """
    found: dict[str, dict[str, list[str]]] = {}
    for record in records:
        of_model = found.setdefault(record.run.choices.get("model", ""), {})
        for key, value in _hyperparameters(record).items():
            text = flat_text(value)
            if text and key not in UNNAMED:
                of_model.setdefault(key, []).append(text)

    words = {}
    for name, facts in found.items():
        listed = []
        for key, texts in facts.items():
            listed.append(f"{key} {' or '.join(dict.fromkeys(texts))}")
        words[name] = ", ".join(listed)
    return words


def _hyperparameters(record: Record) -> dict[str, Any]:
    """What the model's configuration says, completed by what the framework reported.

    These are the loss and the optimizer with its settings, the number of training samples, and
    which part of the data has sample weights. Source: ``run.config.model``, ``measured`` and the
    phases of the `record`.
    """
    model = dict(record.run.config.get("model") or {})
    compiled = record.measured.optimizer
    rate = compiled.learning_rate
    if isinstance(rate, float):
        rate = f"{rate:.6g}"  # stored in single precision
    if isinstance(rate, Mapping):  # a schedule
        rate = rate.get("class_name")
    reported = {"name": compiled.class_name, "learning_rate": rate}

    model["loss"] = model.get("loss") or record.measured.loss
    optimizer = model.pop("optimizer", None) or reported
    if isinstance(optimizer, Mapping):
        settings = dict(optimizer)
        model["optimizer"] = settings.pop("name", None)
        model |= settings

    if record.epochs and record.epochs[0].samples:
        model["training samples"] = record.epochs[0].samples
    for phase in record.phases:
        if phase.name == "data":
            model["sample weights"] = " and ".join(PARTS[part] for part in phase.details.weighted)
            break
    return model
