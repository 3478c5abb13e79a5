"""The errors of msgspec about a value in a config, in words: its key, what it must be and a fix."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from msgspec import inspect

from rnnbench.errors import ConfigError, suggestion
from rnnbench.grid.overrides import ABSENT, lookup

# Types of `msgspec.inspect`, each with what its annotation says about it.
Found = list[tuple[Any, dict[str, Any]]]
_WORDS = {
    "int": "an integer",
    "float": "a number",
    "str": "a string",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping",
}


def explained(
    message: str,
    struct: Any,
    config: Any,
    source_of: Callable[[str], str],
    written: Mapping[str, str] = MappingProxyType({}),
) -> ConfigError:
    """The error for a `message` of msgspec about a value in `config`, which is no `struct`.
    `written`: as for `check_config`."""
    kind = inspect.type_info(struct)
    text, _, location = message.partition(" - at `$")
    path = re.findall(r"\w+|\.\.\.", location)
    # The keys before the first position in a list, or the first key that msgspec does not name.
    names = list(itertools.takewhile(str.isidentifier, path))
    at = ".".join(names)
    value: Any = config
    for part in path:
        if isinstance(value, list) and part.isdigit():
            value = value[int(part)]
        else:
            value = lookup(value, part)
    detail = "".join(re.findall("[`'](.*)['`]", text.partition(", got")[0]))
    inner = f"{at}.{detail}"
    if text.startswith("Object contains unknown field"):
        known = []
        for each, _ in types_at(kind, path, config):
            known += [field.encode_name for field in getattr(each, "fields", ())]
        owner = at
        if names == path and "name" in value:
            owner = f"{at}={value['name']}"
        return ConfigError(
            f"unknown key {detail!r} in {owner}.",
            where=source_of(inner),
            remedy=f"{suggestion(detail, known)}the keys are {', '.join(known)}.",
        )
    if text.startswith("Object missing required field"):
        described = [about for _, about in types_at(kind, [*path, detail], config) if about]
        meaning = ""
        if described:
            said = [described[0].get("description"), *described[0].get("examples", ())]
            meaning = f" ({'; such as '.join(filter(None, said))})"
        remedy = f"add {detail}{meaning} to each entry."
        if names == path:
            remedy = f"add {detail}{meaning} to its file, or write +{inner}=VALUE."
        return ConfigError(f"{at} has no {detail}.", where=source_of(inner), remedy=remedy)
    found = types_at(kind, path, config)
    # A name that is not a tag: the types beside it have the valid ones.
    tagged = types_at(kind, path[:-1], None) if text.startswith("Invalid value") else []
    key = f"{written[at]}=" if at in written else f"{at.rpartition('.')[2]}: "
    expected, remedy = _expected(text, detail, found, tagged, key)
    verb = "is" if names == path else "has the value"
    shown = repr(detail) if value is ABSENT else repr(value)
    what = f"{at or 'the file'} {verb} {shown}"
    if value is ABSENT and text.startswith("Expected"):  # msgspec does not name the key in a dict
        what = f"a value in {at} has another type or size"
    return ConfigError(
        f"{what}; it must be {expected}.",
        where=source_of(at),
        remedy=remedy,
    )


def _expected(
    text: str,
    detail: str,
    found: Found,
    tagged: Found,
    key: str,
) -> tuple[str, str]:
    """What a value must be, and how to correct it. `text`: msgspec's message, which quotes
    `detail`; `found`, `tagged`: the types that the value, or its section, may have; `key`: how
    the key is written before a value."""
    about: dict[str, Any] = {}
    known = []
    for kind, about_kind in found:
        about |= about_kind
        known += [str(name) for name in getattr(kind, "values", ())]
    known += [kind.tag for kind, _ in tagged if hasattr(kind, "tag")]
    expected = text.removeprefix("Expected ").partition(", got")[0].partition(" matching")[0]
    for types in re.findall("`(.*?)`", expected):
        words = [_WORDS.get(name, name) for name in types.split(" | ")]
        expected = expected.replace(f"`{types}`", " or ".join(words))
    expected = expected.replace(">=", "≥").removesuffix(".0")
    remedy = f"write {expected}"
    if known:
        expected = f"one of {', '.join(known)}"
        remedy = suggestion(detail, known).strip() or "write one of these"
    elif "examples" in about:
        example = about["examples"][0]
        remedy = f"write {key}{example}"
        expected = expected.replace("a string", f"like {example}")
    elif minimum := re.search(r"(?:integer|number) ≥ (.+)", expected):
        remedy = f"write {minimum[1]} or more"
    if "description" in about:
        remedy += f" ({about['description']})"
    if not remedy.endswith("?"):
        remedy += "."
    return expected, remedy


def types_at(kind: Any, path: Sequence[str], data: Any) -> Found:
    """The types of `msgspec.inspect` that may stand at `path`, each with what is said about it. Of
    structs with tags, only the one with the tag in `data`."""
    tag_field = getattr(kind, "tag_field", None)
    if tag_field and isinstance(data, dict) and data.get(tag_field) != kind.tag:
        return []
    found: Found = []
    if isinstance(kind, inspect.Metadata):
        about: dict[str, Any] = {}
        if not path:
            about = kind.extra_json_schema or {}
        for each, inner in types_at(kind.type, path, data):
            found.append((each, {**about, **inner}))
        return found
    if isinstance(kind, inspect.UnionType):
        for each in kind.types:
            found += types_at(each, path, data)
        return found
    if not path:
        return [(kind, {})]
    inside = data.get(path[0]) if isinstance(data, dict) else None
    items = getattr(kind, "item_type", None) or getattr(kind, "value_type", None)
    if items:
        return types_at(items, path[1:], inside)
    for field in getattr(kind, "fields", ()):
        if field.encode_name == path[0]:
            found += types_at(field.type, path[1:], inside)
    return found
