"""Checks values by the types of `msgspec`. An error says which key is wrong, what its value must be
and what to write.

Valid values are converted by `msgspec` alone. Only if it refuses them, `_Check` looks for the first
value that is wrong, because the errors of `msgspec` name no key and no remedy.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from rnnbench.errors import ConfigError, converted, suggestion
from rnnbench.grid.overrides import KINDS, Config, SourceOf, same

Kind = TypeVar("Kind")
Path = tuple[str | int, ...]  # keys, and positions in lists

# Type of `msgspec.inspect` → type of the values.
PYTHON_TYPES: Mapping[type, type] = {
    inspect.BoolType: bool,
    inspect.IntType: int,
    inspect.FloatType: float,
    inspect.StrType: str,
    inspect.ListType: list,
    inspect.DictType: dict,
    inspect.StructType: dict,
    inspect.NoneType: NoneType,
}
WORDS = {**KINDS, dict: "a mapping"}
BOUNDS = {
    "ge": ("≥", operator.ge),
    "gt": (">", operator.gt),
    "le": ("≤", operator.le),
    "lt": ("<", operator.lt),
}


def typed(
    config: Any,
    struct: type[Kind],
    source_of: SourceOf,
    remedy: str,
    written: Mapping[str, str] | None = None,
) -> Kind:
    """`config` as a `struct`. Raises a `ConfigError` for the first wrong key or value.

    - `source_of`: maps a key to the file or grid that sets it.
    - `remedy`: how to correct what only the struct itself checks.
    - `written`: the keys that overrides set, each with its prefix; None if no override could.
    """
    try:
        return msgspec.convert(config, struct)
    except msgspec.ValidationError:
        _Check(source_of, written).value(inspect.type_info(struct), config, ())
        # Raises the error of the struct.
        return converted(
            config,
            struct,
            source_of(""),
            remedy,
        )


def alternatives(kind: Any) -> tuple[list[Any], dict[str, Any]]:
    """The types of a union, or the only type, and what is said about them: ``description`` (a text)
    and ``examples`` (a list of texts).

    `kind`: a type as `msgspec.inspect` describes it.
    """
    types = []
    about: dict[str, Any] = {}
    waiting = [kind]
    while waiting:
        first = waiting.pop(0)
        if isinstance(first, inspect.Metadata):
            about |= first.extra_json_schema or {}
            waiting.insert(0, first.type)
        elif isinstance(first, inspect.UnionType):
            waiting[:0] = first.types
        else:
            types.append(first)

    return types, about


def _is_of(kind: Any, value: Any) -> bool:
    """Whether `value` has the type `kind`, apart from bounds, patterns and what is inside it."""
    if isinstance(kind, inspect.AnyType):
        return True
    if isinstance(kind, inspect.LiteralType):
        return any(same(value, each) for each in kind.values)
    python_type = PYTHON_TYPES[type(kind)]
    if python_type is float and type(value) is int:
        return True
    return type(value) is python_type


@dataclass(frozen=True)
class _Check:
    """Finds the first wrong key or value. Fields: as the arguments of `typed`."""

    source_of: SourceOf
    written: Mapping[str, str] | None

    def value(self, kind: Any, value: Any, path: Path) -> None:
        """Raises a `ConfigError` unless the `value` at `path` is of type `kind`."""
        types, about = alternatives(kind)
        fitting = [each for each in types if _is_of(each, value)]
        if not fitting:
            names: list[str] = []
            found = set()
            for each in types:
                if isinstance(each, inspect.LiteralType):
                    names += map(str, each.values)
                else:
                    found.add(PYTHON_TYPES[type(each)])

            words = [word for each, word in WORDS.items() if each in found]
            raise self.wrong(
                path,
                value,
                " or ".join(words),
                about,
                names,
            )

        first = fitting[0]
        expected = ""  # if the value is wrong
        if isinstance(first, inspect.StructType):
            self.section(fitting, value, path)
        elif isinstance(first, inspect.DictType):
            for key, item in value.items():
                self.value(first.value_type, item, (*path, key))
        elif isinstance(first, inspect.ListType):
            if len(value) < (first.min_length or 0):
                expected = f"a list of length ≥ {first.min_length}"
            for position, item in enumerate(value):
                self.value(first.item_type, item, (*path, position))
        elif isinstance(first, inspect.StrType):
            if first.pattern and not re.search(first.pattern, value):
                expected = WORDS[str]
        elif isinstance(first, inspect.IntType | inspect.FloatType):
            for name, (sign, holds) in BOUNDS.items():
                bound = getattr(first, name)
                if bound is not None and not holds(value, bound):
                    word = WORDS[PYTHON_TYPES[type(first)]]
                    number = str(bound).removesuffix(".0")
                    expected = f"{word} {sign} {number}"

        if expected:
            raise self.wrong(path, value, expected, about)

    def section(self, structs: Sequence[Any], section: Config, path: Path) -> None:
        """Raises a `ConfigError` unless the `section` at `path` is one of `structs`. If they are
        several, they have tags."""
        struct = structs[0]
        tag_field = struct.tag_field  # the key whose value decides which of them it is
        if tag_field:
            if tag_field not in section:
                raise self.missing(path, tag_field, {})
            tag = section[tag_field]
            tagged = [each for each in structs if each.tag == tag]
            if not tagged:
                tags = [each.tag for each in structs]
                raise self.wrong(
                    (*path, tag_field),
                    tag,
                    "",
                    {},
                    tags,
                )

            struct = tagged[0]

        fields = {each.encode_name: each for each in struct.fields}
        for key, value in section.items():
            if key in fields:
                kind = fields[key].type
                self.value(kind, value, (*path, key))
            elif key != tag_field and struct.forbid_unknown_fields:
                owner, is_in_list = _dotted(path)
                where = self.source_of(f"{owner}.{key}")
                if "name" in section and not is_in_list:
                    owner += f"={section['name']}"
                raise ConfigError(
                    f"unknown key {key!r} in {owner}.",
                    where=where,
                    remedy=f"{suggestion(key, fields)}the keys are {', '.join(fields)}.",
                )

        for key, each in fields.items():
            if each.required and key not in section:
                _, about = alternatives(each.type)
                raise self.missing(path, key, about)

    def missing(self, path: Path, key: str, about: Config) -> ConfigError:
        """The error for a `key` that the section at `path` needs. `about`: what `alternatives` says
        about its types."""
        owner, is_in_list = _dotted(path)
        at = f"{owner}.{key}"
        said = [about.get("description"), *about.get("examples", ())]
        meaning = "; such as ".join(filter(None, said))

        remedy = f"add {key}"
        if meaning:
            remedy += f" ({meaning})"
        if is_in_list:
            remedy += " to each entry"
        elif self.written is not None:
            remedy += f" to its file, or write +{at}=VALUE"
        return ConfigError(
            f"{owner} has no {key}.",
            where=self.source_of(at),
            remedy=f"{remedy}.",
        )

    def wrong(
        self,
        path: Path,
        value: Any,
        expected: str,
        about: Config,
        names: Sequence[str] = (),
    ) -> ConfigError:
        """The error for a `value` at `path` that is not `expected` (``an integer ≥ 1``), or none of
        the `names`. `about`: what `alternatives` says about its types."""
        at, is_in_list = _dotted(path)
        remedy = f"write {expected}"
        if names:
            expected = f"one of {', '.join(names)}"
            remedy = suggestion(str(value), names).strip() or "write one of these"
        elif "examples" in about:
            example = about["examples"][0]
            key = f"{at.rpartition('.')[2]}: "
            if self.written and at in self.written:
                key = f"{self.written[at]}="
            remedy = f"write {key}{example}"
            expected = expected.replace("a string", f"like {example}")
        elif "≥" in expected and not isinstance(value, list):
            remedy = f"write {expected.rpartition(' ')[2]} or more"

        if "description" in about:
            remedy += f" ({about['description']})"
        if not remedy.endswith("?"):
            remedy += "."
        verb = "has the value" if is_in_list else "is"
        return ConfigError(
            f"{at or 'the file'} {verb} {value!r}; it must be {expected}.",
            where=self.source_of(at),
            remedy=remedy,
        )


def _dotted(path: Path) -> tuple[str, bool]:
    """The dotted key of the value at `path`, or of the list that contains it, and whether one
    does: ``("rnn.requires", True)`` for the path of the first requirement."""
    keys = []
    for part in path:
        if isinstance(part, int):
            break
        keys.append(part)
    return ".".join(keys), len(keys) < len(path)
