"""What an override may do with a key: add it, delete it, set it to null. A key that nothing would
read is refused, because the name of the grid point would not describe what is measured.

There are two kinds of keys. Those of the choices are in their types (`choices`), which also say
what the absence of a key means. Those of a model are read by its own code: a key is known if the
code has a string with its name.
"""

from __future__ import annotations

import ast
from functools import cache
from typing import Any

from msgspec import NODEFAULT, UNSET, inspect

from rnnbench.errors import ConfigError, closest, suggestion
from rnnbench.grid.choices import Model, is_shipped, types_of
from rnnbench.grid.experiment import KEYS as EXPERIMENT
from rnnbench.grid.files import FUNCTIONS, SAVED, file_of_module, parsed
from rnnbench.grid.overrides import ABSENT, Config, SourceOf, keys_of, lookup
from rnnworker.options import PREFIX, honoured, is_function

# What only describes a choice, and Hydra's defaults list: an override of it would have no effect.
DESCRIPTIONS = ("name", "about", "source", "title", "url", "replaces", "defaults")
_SAMPLES = "_samples"  # in the code of models that make as many samples as they are told
# Keys of a model that rnnbench itself reads, whatever the model is.
_OF_ANY_MODEL = set(Model.__struct_fields__) - {"units"}


def why_not_added(config: Config, key: str) -> tuple[str, str] | None:
    """Why nothing would read a dotted `key` if an override added it to `config`, and what to do
    instead; None if something would read it."""
    section, _, inner = key.partition(".")
    if section in EXPERIMENT:
        return (
            f"unknown key {key!r}: {section} is a key of an experiment's file, which no override "
            "changes",
            f"change {section} in the experiment's file, or in a copy of it.",
        )

    if section not in config or not inner:
        similar = suggestion(key, keys_of(config))
        remedy = similar or f"the sections are {', '.join(config)}."
        return f"unknown key {key!r}", remedy

    if section == "model":
        model = config["model"]
        of_model, _, deeper = inner.partition(".")
        if of_model not in _OF_ANY_MODEL:
            if of_model in model or of_model in read_by(model):
                return None
            if not deeper:
                what = (
                    f"unknown key {key!r}: the code of model={model.get('name')} does not read it"
                )
                return what, _instead_of(config, key)

    # `check_options` checks the names of options.
    if f"{key}.".startswith(PREFIX) or types_of(config, key):
        return None
    return f"unknown key {key!r}", _instead_of(config, key)


def _instead_of(config: Config, key: str) -> str:
    """What to write in place of `key`, which nothing reads."""
    # The innermost section on the way to the key, and what follows it.
    above = []
    section = config
    first, *rest = key.split(".")
    while isinstance(section.get(first), dict):
        above.append(first)
        section = section[first]
        first, *rest = rest
    whole = ".".join([*above, first])
    if rest and first in section:
        if above and section[first] is None:
            return f"write {whole}={{{'.'.join(rest)}:VALUE}}."
        return f"remove it, because {whole} has no keys."

    at = ".".join(above)
    known = set(section)
    if at == "model":
        known |= _OF_ANY_MODEL | read_by(section)
    else:
        known |= fields_of(config, at).keys()
    similar = closest(first, known.difference(DESCRIPTIONS))
    if similar:
        found = ".".join([*above, similar, *rest])
        if lookup(config, found) is ABSENT:
            found = f"+{found}"
        return f"did you mean {found}=VALUE?"

    if at == "rnn" and first in (honoured(config) or ()):
        return f"write +{PREFIX}{first}=VALUE."
    if above[:1] == ["rnn"]:
        return f"the options of an implementation are set by +{PREFIX}NAME=VALUE."
    if at == "model" and not is_shipped(section):
        return f"if its code reads it, add {first} to the file of model={section.get('name')}."
    present = sorted(section.keys() - DESCRIPTIONS)
    if not present:
        return f"remove it, because {at} has no keys that an override could set."
    return f"the keys of {at} are {', '.join(present)}."


def fields_of(config: Config, section: str) -> dict[str, inspect.Field]:
    """The keys that the section at a dotted key may have, with their types and defaults; none if
    nothing is known about it, or if it may have any key."""
    fields: dict[str, inspect.Field] = {}
    for kind in types_of(config, section):
        if isinstance(kind, inspect.StructType):
            fields |= {field.encode_name: field for field in kind.fields}
    return fields


def default_of(config: Config, key: str) -> Any:
    """The value that a run has if its config has no `key`; `ABSENT` if that is not known."""
    section, _, last = key.rpartition(".")
    field = fields_of(config, section).get(last)
    if field is None or field.default in (NODEFAULT, UNSET):
        return ABSENT
    return field.default


def hint_to_add(config: Config, key: str) -> str:
    """How to add `key`, which `config` lacks; or what there is in its place."""
    unread = why_not_added(config, key)
    if unread:
        _, remedy = unread
        return remedy

    add = f"to add a key, write +{key}=VALUE."
    if not key.startswith(PREFIX):
        return add
    option = key.removeprefix(PREFIX)
    options = honoured(config)
    if options is None or option in options:
        return add
    similar = closest(option, options)
    if similar:
        return f"did you mean +{PREFIX}{similar}=VALUE?"
    return f"its options are {', '.join(options) or 'none'}."


def why_not_deleted(config: Config, key: str) -> str | None:
    """What to do in place of deleting a dotted `key`, which is needed; None if it may be deleted.
    A section, the name of a choice, a key that has no default and one that the code of a model
    reads are needed."""
    section, _, last = key.rpartition(".")
    is_needed = not section or last == "name"
    if section:
        field = fields_of(config, section).get(last)
        is_needed |= field is not None and field.required
    if section == "model" and is_shipped(config["model"]):
        is_needed |= last in read_by(config["model"])
    if is_needed:
        return f"write {key}=VALUE, or leave it as it is."
    return None


def check_model(config: Config, source_of: SourceOf) -> None:
    """Raises a `ConfigError` if the functions of the model are rnnbench's own and do not read one
    of its keys, need a number of samples that is null, or leave the model without loss and
    optimizer.

    A model of the user's own is checked while it is built (`rnnworker.model_keys`). `source_of`: as
    for `checks.check_config`.
    """
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
    for key in model:
        if key in _OF_ANY_MODEL or key in strings:
            continue
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


def read_by(model: Config) -> frozenset[str]:
    """The strings in the code of the functions of a section `model`, which the names of the keys
    that they read are among; none of a function in a package of one's own."""
    modules = []
    for key in FUNCTIONS:
        function = lookup({"model": model}, key)
        if is_function(function):
            module, _, _ = function.rpartition(":")
            modules.append(module)
    return _strings(tuple(modules))


@cache
def _strings(modules: tuple[str, ...]) -> frozenset[str]:
    """The strings in the code of `modules` and of the worker's modules that this imports by
    ``from PACKAGE import MODULE``."""
    seen = set()
    found = set()
    waiting = list(modules)

    while waiting:
        file = file_of_module(waiting.pop())
        if file is None or file in seen or not file.is_file():
            continue
        seen.add(file)
        for node in ast.walk(parsed(file)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
            elif isinstance(node, ast.ImportFrom) and node.module:
                waiting += [f"{node.module}.{alias.name}" for alias in node.names]

    return frozenset(found)
