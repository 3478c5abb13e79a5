"""Why a grid point cannot run: the requirements of its choices on each other, keys that nothing
would read with its other choices, its replicas, its precision and this machine. Only the checks of
this machine have side effects.

The YAML file of a choice may contain ``requires: [{key: device.kind, in: [gpu], why: "…"}]``. A
grid point whose config has another value at `key` is skipped, with `why` as the reason. If the list
contains ``null``, the key may also be absent. With ``when: {build.framework: [keras3_torch]}`` the
requirement applies only to grid points whose config has one of these values.

``precision`` is one of ``float32``: every product in float32, TF32 off; ``tf32``: float32 whose
products an NVIDIA GPU (Ampere or later) rounds to TF32; ``mixed_float16`` and ``mixed_bfloat16``:
Keras's dtype policies of these names, with float32 weights.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from rnnbench.axes import NAMES
from rnnbench.errors import ConfigError, converted, suggestion
from rnnbench.grid.choices import Requirement
from rnnbench.grid.overrides import ABSENT, Config, keys_of, lookup
from rnnworker import cards as nvidia
from rnnworker import machine, processors
from rnnworker.frameworks.names import FRAMEWORKS
from rnnworker.options import OF_MODEL, PREFIX, honoured, is_user_file, not_honoured
from rnnworker.precision import DEFAULT, requested_precision

# Key of a model → the option of its recurrent layer.
DROPOUTS = {"model.input_dropout": "dropout", "model.recurrent_dropout": "recurrent_dropout"}
REQUIRES = 'write {key: device.kind, in: [gpu], why: "the reason"}.'


def unmet(config: Config, files: Mapping[str, str] = MappingProxyType({})) -> str | None:
    """The reason of the first unmet requirement, in the order of the axes, then of unread keys,
    replicas and precision; or None. `files`: axis → the file of its choice, for errors."""
    for group in NAMES:
        section = config[group]
        if group == "rnn":
            why = _unmet_rnn(config)
            if why:
                return why
        requires = section.get("requires")
        if not requires:
            continue
        file = files.get(group, f"{group}={section.get('name', '?')}")
        where = f"{file}: requires"
        requirements = converted(
            requires,
            list[Requirement],
            where,
            REQUIRES,
        )
        for required in requirements:
            if _is_unmet(required, config, where):
                return required.why

    return _unread_key(config) or _unmet_replicas(config) or _unmet_precision(config)


def _is_unmet(required: Requirement, config: Config, where: str) -> bool:
    """Whether `config` lacks what a requirement asks for. `where`: the location of the requirement,
    for the error if it names a key that `config` lacks."""
    for key, values in (required.when or {}).items():
        if _value(config, key, where) not in values:
            return False
    if None in required.values and lookup(config, required.key) is ABSENT:
        return False
    value = _value(config, required.key, where)
    if required.key == "cell.name" and value == OF_MODEL:
        return False  # the worker knows the cells of a model's own layers, and refuses some
    return value not in required.values


def _value(config: Config, key: str, where: str) -> Any:
    """The value at `key`. Raises a `ConfigError` if `config` lacks it."""
    value = lookup(config, key)
    if value is not ABSENT:
        return value

    group, _, rest = key.partition(".")
    choice = group
    name = lookup(config, f"{group}.name")
    if name is not ABSENT:
        choice = f"{group}={name}"
    similar = suggestion(key, keys_of(config), 0.85).strip()
    raise ConfigError(
        f"{key} is needed, but {choice} does not set it.",
        where=where,
        remedy=similar or f"add {rest or key} to {choice}.",
    )


def _unmet_rnn(config: Config) -> str | None:
    """Why the implementation cannot be used: its ``cells``, and for a user-supplied kernel what
    the model asks of it."""
    rnn = config["rnn"]
    cells = rnn.get("cells")
    name = f"rnn={rnn.get('name')}"
    if cells is not None and lookup(config, "cell.name") not in (*cells, OF_MODEL):
        return f"{name} is for cell={','.join(cells)} only"
    if not is_user_file(rnn.get("implementation")):
        return None
    if lookup(config, "model.recurrent") is False:
        return "this model has no recurrent layer: it takes rnn=none"
    options = rnn.get("options") or {}
    for key, option in DROPOUTS.items():
        requested = lookup(config, key) not in (ABSENT, None, 0.0)
        if requested and option not in options:
            return f"{name} has no {option}: its file does not list it in options"
    return None


def _unread_key(config: Config) -> str | None:
    """Why a key of the device or of the build would have no effect."""
    device = config["device"]
    if device.get("kind") == "cpu":
        if device.get("turns") is not None:
            return "device.turns is for GPUs; on CPUs, measure.turns decides"
        if device.get("gpu") is not None:
            return "device.gpu is for GPUs; choose device=gpu"

    build = config["build"]
    framework = build["framework"]
    engine = FRAMEWORKS[framework].engine
    if build.get("as_published") and framework != "keras206_tensorflow1":
        return "build.as_published is for Keras 2.0.6; choose build=tf_1_2"
    if engine == "jax" and not build.get("jit_compile"):
        return "without XLA, Keras on jax computes op by op; its builds need jit_compile: true"
    if engine == "tensorflow1" and build.get("jit_compile"):
        return "TensorFlow 1 trains without XLA here; choose a build without jit_compile"
    return None


def _unmet_replicas(config: Config) -> str | None:
    """Why the model cannot be trained on several devices at once."""
    replicas = nvidia.replicas_of(config["device"])
    if replicas == 1:
        return None
    framework = config["build"]["framework"]
    batch = config["model"]["batch"]
    if not FRAMEWORKS[framework].has_replicas:
        return (
            f"{framework} trains on one device here; "
            "choose a build of TensorFlow 2, which has tf.distribute.MirroredStrategy"
        )

    if config["build"].get("jit_compile"):
        return "XLA compiles a step for one device; choose a build without jit_compile"
    if batch % replicas:
        below = batch - batch % replicas
        choices = str(below + replicas)
        if below:
            choices = f"{below} or {choices}"
        return (
            f"a batch of {batch} cannot be split evenly among {replicas} replicas; "
            f"choose model.batch={choices}"
        )

    return None


def _unmet_precision(config: Config) -> str | None:
    """Why the framework or the device cannot compute in the precision."""
    precision = requested_precision(config)
    if precision == "tf32" and config["device"].get("kind") != "gpu":
        return "TF32 exists on NVIDIA GPUs only"
    if precision == DEFAULT or FRAMEWORKS[config["build"]["framework"]].has_policy:
        return None
    if precision == "tf32":
        return "TensorFlow 1 has no setting for TF32"
    return f"this Keras has no dtype policy {precision}"


def check_options(config: Config, choice: Config, at: str) -> None:
    """Raises a `ConfigError` for ``rnn.options`` that the implementation would ignore, because the
    name of the grid point would not describe what is measured. `choice`: the section of the rnn
    choice, without overrides; `at`: the location, for errors."""
    rnn = config["rnn"]
    implementation = rnn["implementation"]
    given = rnn.get("options") or {}
    of_choice = choice.get("options") or {}
    if is_user_file(implementation):
        known = sorted(of_choice)
        unknown = [key for key in given if key not in known]
    else:
        known = honoured(config) or []
        unknown = not_honoured(config)

    if not unknown:
        return

    key = unknown[0]
    name = f"rnn={rnn.get('name')}"
    implemented = name
    if implementation != rnn.get("name"):
        implemented += f" (rnn.implementation {implementation})"
    if key in of_choice:
        remedy = f"remove {key} from the file of {name}."
    else:
        remedy = f"remove {PREFIX}{key}, or give {name} a grid of its own without it."
    similar = suggestion(PREFIX + key, [PREFIX + each for each in known], 0.85)
    raise ConfigError(
        f"{implemented} does not honour {PREFIX}{key}; "
        f"it honours {', '.join(known) or 'no options'}.",
        where=at,
        remedy=f"{similar}{remedy}",
    )


def unmet_here(device: Mapping[str, object]) -> str | None:
    """Why this machine does not have what the section ``device`` asks for, or None. Reads which
    cores and GPUs there are."""
    return nvidia.unmet_device(device, cores(), cards())


@cache
def cards() -> tuple[str, ...]:
    """The driver's names of this machine's NVIDIA GPUs that CUDA_VISIBLE_DEVICES allows."""
    visible = nvidia.visible(machine.gpus(), os.environ.get(nvidia.VISIBLE))
    return tuple(str(card["name"]) for card in visible)


def cores() -> int:
    """The number of cores that this process may use, by its affinity and its CPU quota."""
    return _usable_cores(frozenset(os.sched_getaffinity(0)))


@cache
def _usable_cores(allowed: frozenset[int]) -> int:
    """Reads the topology once per set of `allowed` CPUs, not once per grid point."""
    return len(processors.read_topology())
