"""Composes every choice that a grid names with Hydra, once, and keeps the results as plain dicts.

A composition takes Hydra about 150 ms. There is one composition per model; the choices of the other
groups are added to the first one, each in a separate package (`PackagedChoice`). A choice that
sets keys outside its own section is composed in its regular place instead.
"""

from __future__ import annotations

import itertools
import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import hydra
import yaml
from hydra.core.override_parser.types import Quote, QuotedString
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rnnbench.axes import NAMES
from rnnbench.errors import ConfigError
from rnnbench.grid.catalogue import display_path, files_of
from rnnbench.grid.overrides import MISSING
from rnnbench.grid.own_code import with_absolute_paths

ChoiceFiles = Mapping[str, Mapping[str, Path]]  # group → choice → its file
PackagedChoice = tuple[str, str]  # (group, choice)
STAGING = "_staging"

# A record, bundle or page would carry what a configuration reads from the environment.
OmegaConf.clear_resolver("oc.env")


@dataclass(frozen=True)
class Library:
    """Composed choices, as plain dicts with unresolved interpolations.

    - `base`: the keys that belong to no group: ``measure``, ``limits``, ``seed``, ….
    - `sections`: (group, choice) → its section of a config.
    - `defaults`: model → group → the choice if a grid names none.
    - `model`: the model if a grid names none.
    - `files`: (group, choice) → its file, for models and rnn choices, to resolve relative paths.
    """

    base: Mapping[str, Any]
    sections: Mapping[tuple[str, str], Mapping[str, Any]]
    defaults: Mapping[str, Mapping[str, str]]
    model: str
    files: Mapping[tuple[str, str], Path]

    @cached_property
    def open_choices(self) -> frozenset[tuple[str, str]]:
        """The (group, choice) whose section has a missing or interpolated value."""
        return frozenset(key for key, section in self.sections.items() if is_open(section))

    @cached_property
    def base_is_open(self) -> bool:
        return is_open(self.base)

    def is_open(self, choices: Mapping[str, str]) -> bool:
        """Whether the config of `choices`, group → choice, has a missing or interpolated value."""
        return self.base_is_open or not self.open_choices.isdisjoint(choices.items())


def compose_choices(conf: Sequence[Path], requested: ChoiceFiles, default_model: bool) -> Library:
    """The library for the choices in `requested`.

    `default_model`: whether some grid names no model."""
    sections: dict[tuple[str, str], Mapping[str, Any]] = {}
    defaults: dict[str, Mapping[str, str]] = {}
    base: dict[str, Any] = {}
    models = list(requested.get("model", {}))
    packaged = packaged_choices(conf, requested)
    with _hydra(conf, requested) as compose:
        for model in [*models, None] if default_model or not models else models:
            selected = {} if model is None else {"model": model}
            try:
                config, choices = compose(selected, packaged)
            except ConfigError:
                if not packaged:
                    raise
                # Compose each choice separately, so that the error names the faulty one.
                packaged = []
                config, choices = compose(selected)
            sections |= _pop_packaged(config, packaged)
            packaged = []
            base = _base_of(config, base, choices)
            defaults[choices["model"]] = choices
            sections |= _sections(config, choices)
        any_model = choices["model"]
        for choices in _remaining_choices(requested, sections):
            config, _ = compose({**choices, "model": any_model})
            base = _base_of(config, base, choices)
            sections |= _sections(config, choices)
    files = {
        (group, choice): requested.get(group, {}).get(choice, _file_in(conf, group, choice))
        for group, choice in sections
        if group in ("model", "rnn")
    }
    for key, file in files.items():
        sections[key] = with_absolute_paths(sections[key], file.parent, display_path(file))
    return Library(base, sections, defaults, any_model, files)


def packaged_choices(conf: Sequence[Path], requested: ChoiceFiles) -> list[PackagedChoice]:
    """The choices that can be composed next to others of their group. Models are excluded: a model
    selects its dataset and possibly more."""
    if not sets_none_of(NAMES, Path(conf[0]) / "config.yaml"):
        return []
    packaged = []
    for group in requested.keys() - {"model"}:
        known = files_of(conf, group)
        packaged += [
            (group, name) for name, file in requested[group].items() if is_plain(file, known)
        ]
    return sorted(packaged)


def is_open(part: Any) -> bool:
    """Whether a part of a config has a missing (``???``) or interpolated (``${…}``) value."""
    text = repr(part)
    return MISSING in text or "${" in text


def resolved(config: Mapping[str, Any], where: str) -> dict[str, Any]:
    """`config` with all ``${…}`` resolved."""
    try:
        plain = OmegaConf.to_container(OmegaConf.create(dict(config)), resolve=True)
    except OmegaConfBaseException as error:
        raise ConfigError(
            f"an interpolation cannot be resolved: {error}",
            where=where,
            remedy="correct the ${…} in the choice's file or in the override; it cannot read the "
            "environment (oc.env).",
        ) from None
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items()}


def _remaining_choices(
    requested: ChoiceFiles, composed: Mapping[tuple[str, str], Any]
) -> Iterator[dict[str, str]]:
    """Yields group → choice, one choice per group at a time, until all choices are composed."""
    remaining = [
        [(group, choice) for choice in requested.get(group, {}) if (group, choice) not in composed]
        for group in NAMES
        if group != "model"
    ]
    for row in itertools.zip_longest(*remaining):
        yield dict(pair for pair in row if pair is not None)


def _package_names(packaged: Sequence[PackagedChoice]) -> list[tuple[str, PackagedChoice]]:
    """A valid Hydra package name for each choice; the choice's name (``mine-2``) may not be one."""
    return [(f"c{number}", choice) for number, choice in enumerate(packaged)]


def _pop_packaged(
    config: dict[str, Any], packaged: Sequence[PackagedChoice]
) -> dict[PackagedChoice, Mapping[str, Any]]:
    """Removes the sections of `packaged` from `config` and returns them."""
    staged = config.pop(STAGING, None) or {}
    return {
        choice: {**staged[package], "name": choice[1]}
        for package, choice in _package_names(packaged)
        if package in staged
    }


def _sections(
    config: Mapping[str, Any], choices: Mapping[str, str]
) -> dict[tuple[str, str], Mapping[str, Any]]:
    """The section of each choice, with ``name`` set to the choice: a file whose defaults list
    includes another file would otherwise inherit that file's name."""
    return {
        (group, choice): {**config[group], "name": choice}
        for group, choice in choices.items()
        if group in NAMES
    }


def _base_of(
    config: Mapping[str, Any], base: dict[str, Any], choices: Mapping[str, str]
) -> dict[str, Any]:
    """The keys of `config` that belong to no group. Raises a `ConfigError` if they differ from
    `base`, those of the earlier compositions."""
    rest = {key: value for key, value in config.items() if key not in NAMES}
    if base and rest != base:
        changed = [key for key in {**base, **rest} if base.get(key) != rest.get(key)]
        raise ConfigError(
            f"a choice sets {', '.join(changed)}, outside its own section.",
            where=" ".join(f"{group}={choices[group]}" for group in NAMES if group in choices),
            remedy="set it in conf/config.yaml or in the grid.",
        )
    return rest


def _file_in(conf: Sequence[Path], group: str, choice: str) -> Path:
    candidates = [Path(folder) / group / f"{choice}.yaml" for folder in conf]
    return next((path.resolve() for path in candidates if path.is_file()), candidates[0])


@contextmanager
def _hydra(conf: Sequence[Path], requested: ChoiceFiles) -> Iterator[Any]:
    """Yields a function that composes group → choice into a plain config and all its choices."""
    folders = [Path(folder).resolve() for folder in conf]
    if not (folders[0] / "config.yaml").is_file():
        raise ConfigError(
            "has no config.yaml.",
            where=display_path(folders[0]),
            remedy="name the project's conf/ first.",
        )
    with tempfile.TemporaryDirectory(prefix="rnnbench-conf-") as temporary:
        extra = [*folders[1:], _link_external_files(requested, folders, Path(temporary))]
        search = ",".join(_quoted(f"file://{folder}") for folder in extra)
        with hydra.initialize_config_dir(version_base="1.3", config_dir=str(folders[0])):

            def compose(
                choices: Mapping[str, str], packaged: Sequence[PackagedChoice] = ()
            ) -> tuple[dict[str, Any], dict[str, str]]:
                overrides = [f"{group}={_quoted(choice)}" for group, choice in choices.items()]
                overrides += [
                    f"+{group}@{STAGING}.{package}={_quoted(choice)}"
                    for package, (group, choice) in _package_names(packaged)
                ]
                settings = [f"{group}={choice}" for group, choice in choices.items()]
                where = " ".join([display_path(folders[0]), *settings])
                return _composed([*overrides, f"hydra.searchpath=[{search}]"], where)

            yield compose


def _composed(overrides: list[str], where: str) -> tuple[dict[str, Any], dict[str, str]]:
    try:
        config = hydra.compose("config", overrides=overrides, return_hydra_config=True)
        choices = {group: str(config.hydra.runtime.choices[group]) for group in NAMES}
        keys = [str(key) for key in config if key != "hydra"]
        container = OmegaConf.to_container(OmegaConf.masked_copy(config, keys))
        # As the worker receives it: numeric keys become strings, and non-JSON values are rejected.
        plain = json.loads(json.dumps(container, allow_nan=False))
    except (
        HydraException,
        OmegaConfBaseException,
        yaml.YAMLError,
        OSError,
        ValueError,
        TypeError,
        KeyError,
    ) as error:
        raise ConfigError(
            f"cannot be composed: {error}.",
            where=where,
            remedy="correct the file that the error names.",
        ) from None
    for group in NAMES:
        if not isinstance(plain.get(group), dict):
            raise ConfigError(
                f"{group}={choices[group]} has no keys.",
                where=where,
                remedy=f"give {group}/{choices[group]}.yaml at least a name.",
            )
    return plain, choices


def _link_external_files(requested: ChoiceFiles, folders: Sequence[Path], temporary: Path) -> Path:
    """Makes `temporary` a config folder with links to the choices that are named by path."""
    for group, files in requested.items():
        for choice, path in files.items():
            if path.parent not in [folder / group for folder in folders]:
                (temporary / group).mkdir(exist_ok=True)
                (temporary / group / f"{choice}.yaml").symlink_to(path)
    return temporary


def _quoted(text: str) -> str:
    return QuotedString(text, Quote.single).with_quotes()


def is_plain(file: Path, known: Mapping[str, Path]) -> bool:
    """Whether the file of a choice names no package, and lists in its ``defaults`` only choices of
    its own group, `known`, that are plain too. False if a file cannot be read."""
    try:
        return _is_plain(file, known, ())
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return False


def sets_none_of(groups: Iterable[str], config: Path) -> bool:
    """Whether the file `config` (``config.yaml``) sets no key in a section of `groups`; such a key
    would be part of every choice of the group. False if the file cannot be read."""
    try:
        return not set(groups) & set(_mapping(config.read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return False


def _is_plain(file: Path, known: Mapping[str, Path], above: tuple[Path, ...]) -> bool:
    text = file.read_text(encoding="utf-8")
    if "@package" in text or file in above:
        return False
    if "defaults" not in text:
        return True
    parents = [entry for entry in _mapping(text).get("defaults", []) if entry != "_self_"]
    return all(
        isinstance(entry, str) and entry in known and _is_plain(known[entry], known, (*above, file))
        for entry in parents
    )


def _mapping(text: str) -> Mapping[str, Any]:
    """Raises `ValueError` if the YAML is not a mapping whose ``defaults`` is a list."""
    content = yaml.safe_load(text)
    if not isinstance(content, dict) or not isinstance(content.get("defaults", []), list):
        raise ValueError("not a mapping with a list of defaults")
    return content
