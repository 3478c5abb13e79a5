"""What an override may do with a key: add it, delete it, set it to null. A key that nothing would
read is refused, because the name of the grid point would not describe what is measured."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from msgspec import inspect

from rnnbench.errors import ConfigError, closest, suggestion
from rnnbench.grid.choices import Model, is_shipped, types_of
from rnnbench.grid.experiment import KEYS as EXPERIMENT
from rnnbench.grid.files import FUNCTIONS, SAVED, file_of_module, parsed
from rnnbench.grid.overrides import ABSENT, Rules, keys_of, lookup
from rnnworker.options import PREFIX, honoured, is_function

# What only describes a choice, and Hydra's defaults list: an override of it would have no effect.
DESCRIPTIONS = ("name", "about", "source", "title", "url", "replaces", "defaults")
_SAMPLES = "_samples"  # in the code of models that make as many samples as they are told
# Keys of a model that rnnbench itself reads, whatever the model is.
_OF_ANY_MODEL = set(Model.__struct_fields__) - {"units"}


def why_not_added(config: Mapping[str, Any], key: str) -> tuple[str, str] | None:
    """Why nothing would read `key` if an override added it to `config`, and what to do; or None."""
    what = f"unknown key {key!r}"
    parts = key.split(".")
    section = parts[0]
    if section in EXPERIMENT:
        return (
            f"{what}: {section} is a key of an experiment's file, which no override changes",
            f"change {section} in the experiment's file, or in a copy of it.",
        )
    if section not in config or len(parts) == 1:
        similar = suggestion(key, keys_of(config))
        return what, similar or f"the sections are {', '.join(config)}."
    if section == "model" and len(parts) == 2 and parts[1] not in _OF_ANY_MODEL:
        model = config["model"]
        if parts[1] in model or parts[1] in read_by(model):
            return None
        what += f": the code of model={model.get('name')} does not read it"
    elif parts[:2] == ["rnn", "options"] or types_of(config, key) or _is_inside(config, parts):
        return None  # `check_options` checks the names of options.
    return what, _instead_of(config, key)


def _is_inside(config: Mapping[str, Any], parts: list[str]) -> bool:
    """Whether the key is inside a key of a model with code of one's own."""
    if parts[0] != "model" or parts[1] in _OF_ANY_MODEL:
        return False
    model = config["model"]
    return parts[1] in model or parts[1] in read_by(model)


def _instead_of(config: Mapping[str, Any], key: str) -> str:
    """What to write in place of `key`, which nothing reads."""
    above = ""
    section = config
    first, *rest = key.split(".")
    while isinstance(section.get(first), dict):
        above = f"{above}.{first}".lstrip(".")
        section = section[first]
        first, *rest = rest
    whole = f"{above}.{first}".lstrip(".")
    if rest and first in section and (not above or section[first] is not None):
        return f"remove it, because {whole} has no keys."
    if rest and section.get(first, ABSENT) is None:
        return f"write {whole}={{{'.'.join(rest)}:VALUE}}."
    known = set(section)
    if above == "model":
        known |= _OF_ANY_MODEL | read_by(section)
    else:
        known |= {field.encode_name for field in _fields_of(config, above)}
    similar = closest(first, known - {*DESCRIPTIONS})
    if similar:
        found = ".".join([above, similar, *rest])
        prefix = "+" if lookup(config, found) is ABSENT else ""
        return f"did you mean {prefix}{found}=VALUE?"
    if above == "rnn" and first in (honoured(config) or ()):
        return f"write +rnn.options.{first}=VALUE."
    if above.startswith("rnn"):
        return "the options of an implementation are set by +rnn.options.NAME=VALUE."
    if above == "model" and not is_shipped(config["model"]):
        name = config["model"].get("name")
        return f"if its code reads it, add {first} to the file of model={name}."
    present = sorted(section.keys() - {*DESCRIPTIONS})
    if not present:
        return f"remove it, because {above} has no keys that an override could set."
    return f"the keys of {above} are {', '.join(present)}."


def _fields_of(config: Mapping[str, Any], section: str) -> list[inspect.Field]:
    """The keys that the section at a dotted key may have, with their types."""
    fields: list[inspect.Field] = []
    for kind in types_of(config, section):
        fields += getattr(kind, "fields", ())
    return fields


def hint_to_add(config: Mapping[str, Any], key: str) -> str:
    """How to add `key`, which `config` lacks; or what there is in its place."""
    unread = why_not_added(config, key)
    if unread:
        _, remedy = unread
        return remedy
    options = honoured(config) if key.startswith(PREFIX) else None
    option = key.removeprefix(PREFIX)
    if options is None or option in options:
        return f"to add a key, write +{key}=VALUE."
    similar = closest(option, options)
    if similar:
        return f"did you mean +{PREFIX}{similar}=VALUE?"
    return f"its options are {', '.join(options) or 'none'}."


def why_not_deleted(config: Mapping[str, Any], key: str) -> str | None:
    """What to do in place of deleting `key`, which is needed; None if it may be deleted."""
    above, _, last = key.rpartition(".")
    is_needed = not above or last == "name"
    if not is_needed:
        required = [field.encode_name for field in _fields_of(config, above) if field.required]
        is_needed = last in required
    if above == "model" and is_shipped(config["model"]):
        is_needed = is_needed or last in read_by(config["model"])
    if is_needed:
        return f"write {key}=VALUE, or leave it as it is."
    return None


def may_be_null(config: Mapping[str, Any], key: str) -> bool:
    """Whether null is a value of `key`, whose default is another one."""
    return any(isinstance(kind, inspect.NoneType) for kind in types_of(config, key))


def is_text(config: Mapping[str, Any], key: str) -> bool:
    """Whether any text is a value of `key`, and not only one of some names."""
    kinds = types_of(config, key)
    if not kinds:
        return key.startswith("model.")
    return any(isinstance(kind, inspect.StrType | inspect.AnyType) for kind in kinds)


RULES = Rules(why_not_added, hint_to_add, why_not_deleted, may_be_null, is_text)


def check_model(config: Mapping[str, Any], source_of: Callable[[str], str]) -> None:
    """Raises a `ConfigError` if the functions of the model are rnnbench's own and do not read one
    of its keys, need a number of samples that is null, or leave the model without loss and
    optimizer. `source_of`: as for `checks.check_config`."""
    model = config["model"]
    if not is_shipped(model):
        return
    if model.get("loss") is None and model["function"] != SAVED:
        raise ConfigError(
            "model has neither loss nor optimizer, and no function of rnnbench compiles a model.",
            where=source_of("model.loss"),
            remedy="keep the loss and the optimizer of its file, or add both to it.",
        )
    strings = read_by(model)
    for key in model.keys() - _OF_ANY_MODEL - strings:
        similar = suggestion(key, strings - model.keys(), 0.8)
        module = model["function"].partition(":")[0]
        raise ConfigError(
            f"model has the key {key}, which {module} does not read.",
            where=source_of(f"model.{key}"),
            remedy=f"{similar}remove it.",
        )
    if _SAMPLES not in strings or config["dataset"]["path"] is not None:
        return
    for key in ("train_samples", "val_samples"):
        if model.get(key) is None:
            raise ConfigError(
                f"model.{key} is null, but the data set, none, has no number of samples.",
                where=source_of(f"model.{key}"),
                remedy="write a number of samples.",
            )


def read_by(model: Mapping[str, Any]) -> frozenset[str]:
    """The strings in the code of the functions of a section `model`, which the names of the keys
    that they read are among; none of a function in a package of one's own."""
    functions = [lookup({"model": model}, key) for key in FUNCTIONS]
    return _strings(tuple(each for each in functions if is_function(each)))


@cache
def _strings(functions: tuple[str, ...]) -> frozenset[str]:
    """The strings in the code of `functions` and of the worker's modules that this imports by
    ``from PACKAGE import MODULE``."""
    modules = [function.rpartition(":")[0] for function in functions]
    seen = set()
    found = set()
    for module in modules:  # which grows
        file = file_of_module(module)
        if file is None or file in seen or not file.is_file():
            continue
        seen.add(file)
        for node in ast.walk(parsed(file)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
            elif isinstance(node, ast.ImportFrom) and node.module:
                modules += [f"{node.module}.{alias.name}" for alias in node.names]
    return frozenset(found)
