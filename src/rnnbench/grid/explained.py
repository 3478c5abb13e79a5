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

_WORDS = {
    "int": "an integer", "float": "a number", "str": "a string", "bool": "true or false",
    "array": "a list", "object": "a mapping",
}  # fmt: skip


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
        in_list = isinstance(value, list) and part.isdigit()
        value = value[int(part)] if in_list else lookup(value, part)
    detail = "".join(re.findall("[`'](.*)['`]", text.partition(", got")[0]))
    inner = f"{at}.{detail}"
    if text.startswith("Object contains unknown field"):
        known = []
        for each, _ in types_at(kind, path, config):
            known += [field.encode_name for field in getattr(each, "fields", ())]
        whose = f"{at}={value['name']}" if names == path and "name" in value else at
        return ConfigError(
            f"unknown key {detail!r} in {whose}.",
            where=source_of(inner),
            remedy=f"{suggestion(detail, known)}the keys are {', '.join(known)}.",
        )
    if text.startswith("Object missing required field"):
        abouts = [about for _, about in types_at(kind, [*path, detail], config) if about]
        said = [(each.get("description"), *each.get("examples", ())) for each in abouts[:1]]
        meaning = "".join(f" ({'; such as '.join(filter(None, each))})" for each in said)
        return ConfigError(
            f"{at} has no {detail}.",
            where=source_of(inner),
            remedy=f"add {detail}{meaning} to its file, or write +{inner}=VALUE."
            if names == path
            else f"add {detail}{meaning} to each entry.",
        )
    found = types_at(kind, path, config)
    about = {name: item for _, each in found for name, item in each.items()}
    known = [str(each) for kind, _ in found for each in getattr(kind, "values", ())]
    # A name that is no tag: the types beside it have the valid ones.
    tagged = types_at(kind, path[:-1], None) if text.startswith("Invalid value") else ()
    known += [each.tag for each, _ in tagged if hasattr(each, "tag")]
    expected = text.removeprefix("Expected ").partition(", got")[0].partition(" matching")[0]
    expected = re.sub("`(.*?)`", lambda match: _words(match[1]), expected).replace(">=", "≥")
    expected = expected.removesuffix(".0")
    remedy = f"write {expected}"
    if known:
        expected = f"one of {', '.join(known)}"
        remedy = suggestion(detail, known).strip() or "write one of these"
    elif "examples" in about:
        key = f"{written[at]}=" if at in written else f"{names[-1]}: "
        remedy = f"write {key}{about['examples'][0]}"
        expected = expected.replace("a string", f"like {about['examples'][0]}")
    elif minimum := re.search(r"(?:integer|number) ≥ (.+)", expected):
        remedy = f"write {minimum[1]} or more"
    remedy += f" ({about['description']})" if "description" in about else ""
    remedy += "" if remedy.endswith("?") else "."
    verb = "is" if names == path else "has the value"
    what = f"{at or 'the file'} {verb} {detail if value is ABSENT else value!r}"
    if value is ABSENT and text.startswith("Expected"):  # msgspec does not name the key in a dict
        what = f"a value in {at} has another type or size"
    return ConfigError(f"{what}; it must be {expected}.", where=source_of(at), remedy=remedy)


def _words(names: str) -> str:
    return " or ".join(_WORDS.get(name, name) for name in names.split(" | "))


def types_at(kind: Any, path: Sequence[str], data: Any) -> list[tuple[Any, dict[str, Any]]]:
    """The types of `msgspec.inspect` that may stand at `path`, each with what is said about it. Of
    structs with tags, only the one with the tag in `data`."""
    tag_field = getattr(kind, "tag_field", None)
    if tag_field and isinstance(data, dict) and data.get(tag_field) != kind.tag:
        return []
    if isinstance(kind, inspect.Metadata):
        about = {} if path else kind.extra_json_schema or {}
        return [(each, about | inner) for each, inner in types_at(kind.type, path, data)]
    if isinstance(kind, inspect.UnionType):
        return [found for each in kind.types for found in types_at(each, path, data)]
    if not path:
        return [(kind, {})]
    inside = data.get(path[0]) if isinstance(data, dict) else None
    if items := getattr(kind, "item_type", None) or getattr(kind, "value_type", None):
        return types_at(items, path[1:], inside)
    fields = [field for field in getattr(kind, "fields", ()) if field.encode_name == path[0]]
    return [found for field in fields for found in types_at(field.type, path[1:], inside)]
