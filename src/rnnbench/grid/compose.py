"""Composes every choice that a grid names with Hydra, once, and keeps the results as plain dicts.

A composition takes Hydra about 60 ms. There is one per model, and one of all other choices, each in
a separate package. A choice that cannot be composed there, such as one that sets keys outside its
own section, is composed in its regular place.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from rnnbench.axes import NAMES
from rnnbench.errors import ConfigError, display_path
from rnnbench.grid.files import files_of, section_of_function, with_absolute_paths
from rnnbench.grid.overrides import Config

ChoiceFiles = Mapping[str, Mapping[str, Path]]  # group → choice → its file
Choice = tuple[str, str]  # (group, choice)
Sections = dict[Choice, Config]
Choices = Mapping[str, str]  # group → choice
Composed = tuple[dict[str, Any], Choices]  # a plain config and its choices
Compose = Callable[[str, Choices], Composed]  # by the name of a config, and some choices

# What Hydra and YAML raise for a faulty file.
FAULTS = (
    HydraException,
    OmegaConfBaseException,
    yaml.YAMLError,
    OSError,
    ValueError,
    TypeError,
    KeyError,
)
MISPLACED = re.compile(r"Could not override '(\w+)@\w+\.\1'")
# A record, bundle or page would carry what a configuration reads from the environment.
OmegaConf.clear_resolver("oc.env")


@dataclass(frozen=True)
class Library:
    """Composed choices, as plain dicts with unresolved interpolations.

    - `base`: the keys that belong to no group: ``measure``, ``limits``, ``seed``, ….
    - `sections`: (group, choice) → its section of a config. Its ``name`` is the choice: a file
      whose defaults list another file would otherwise inherit that file's name.
    - `defaults`: model → group → the choice if a grid names none.
    - `model`: the model if a grid names none.
    - `files`: (group, choice) → its file, to resolve relative paths.
    - `cells`: the names of all cells in the config folders.
    """

    base: Config
    sections: Mapping[Choice, Config]
    defaults: Mapping[str, Choices]
    model: str
    files: Mapping[Choice, Path]
    cells: Sequence[str] = ()

    @cached_property
    def open_choices(self) -> frozenset[Choice]:
        """The choices with a missing or interpolated value; all if `base` has one."""
        if is_open(self.base):
            return frozenset(self.sections)
        return frozenset(key for key, section in self.sections.items() if is_open(section))


def compose_choices(conf: Sequence[Path], requested: ChoiceFiles, default_model: bool) -> Library:
    """The library for the choices in `requested`, those that they name, and the defaults.
    `default_model`: whether some grid names no model. Raises a `ConfigError` if a file cannot be
    composed, or sets keys outside its own section."""
    sections: Sections = {}
    defaults: dict[str, Choices] = {}
    base: dict[str, Any] = {}
    named: list[Choices] = [{"model": model} for model in requested.get("model", {})]
    if default_model or not named:
        named.append({})
    with _hydra(conf, requested) as (compose, folder):
        for model in named:
            config, choices = compose("config", model)
            for group in NAMES:
                if group not in choices:
                    raise ConfigError(
                        f"its defaults have no {group}.",
                        where=display_path(Path(conf[0]) / "config.yaml"),
                        remedy=f"add `- {group}: CHOICE` to defaults.",
                    )
            base = _base_of(config, base, choices)
            defaults[choices["model"]] = choices
            for group, choice in choices.items():
                sections[group, choice] = {**config[group], "name": choice}
        any_model = choices["model"]

        # Models are left out: a model selects its data set and possibly more.
        others: dict[Choice, Path] = {}
        for group, of_group in requested.items():
            if group != "model":
                for choice, file in of_group.items():
                    others[group, choice] = file
        if not others.keys() <= sections.keys():
            sections |= _packaged(
                others,
                sections,
                compose,
                folder,
            )
        for group, choice in others:
            if (group, choice) not in sections:
                config, _ = compose("config", {"model": any_model, group: choice})
                base = _base_of(config, base, {group: choice})
                sections[group, choice] = {**config[group], "name": choice}

    files: dict[Choice, Path] = {}
    for group, choice in sections:
        # Without a request, a model or config.yaml names it.
        places = [Path(each) / f"{group}/{choice}.yaml" for each in conf]
        found = next(filter(Path.is_file, places), places[0]).resolve()
        file = requested.get(group, {}).get(choice, found)
        files[group, choice] = file
        section = sections[group, choice]
        sections[group, choice] = with_absolute_paths(group, section, file)

    cells = list(files_of(conf, "cell"))
    return Library(
        base,
        sections,
        defaults,
        any_model,
        files,
        cells,
    )


def is_open(part: Any) -> bool:
    """Whether a part of a config has a missing (``???``) or interpolated (``${…}``) value."""
    text = repr(part)
    return "???" in text or "${" in text


def resolved(config: Config, where: str) -> dict[str, Any]:
    """`config` with all ``${…}`` resolved. Raises a `ConfigError` that names the first key whose
    value is missing (``???``)."""
    created = OmegaConf.create(dict(config))
    try:
        plain = OmegaConf.to_container(
            created,
            resolve=True,
            throw_on_missing=True,
        )
    except MissingMandatoryValue as error:
        raise ConfigError(
            f"{error.full_key} has no value.",
            where=where,
            remedy=f"write {error.full_key}=VALUE.",
        ) from None
    except OmegaConfBaseException as error:
        raise ConfigError(
            f"an interpolation cannot be resolved: {error}",
            where=where,
            remedy="correct the ${…} in the choice's file or in the override; it cannot read the "
            "environment (oc.env).",
        ) from None

    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items()}


def _packaged(
    files: Mapping[Choice, Path],
    sections: Mapping[Choice, Config],
    compose: Compose,
    folder: Path,
) -> Sections:
    """The sections of the choices in `files`, composed at once from a config that is written to
    `folder`. Empty if one of them has effects outside its section, or if the sections of those in
    `sections`, composed in the same way, differ."""
    wanted = list(files)
    for key in sections:
        group, _ = key
        if group != "model" and key not in files:
            wanted.append(key)
    # A number, because the name of a choice (``mine-2``) may not be the name of a package.
    packages = {f"c{number}": key for number, key in enumerate(wanted)}
    defaults = []
    for package, (group, choice) in packages.items():
        defaults.append({f"{group}@{package}": choice})

    content = json.dumps({"defaults": defaults})
    (folder / "packages.yaml").write_text(content, encoding="utf-8")
    try:
        for file in files.values():
            if b"@package" in file.read_bytes():
                return {}
        config, _ = compose("packages", {})
    except (ConfigError, OSError):  # raised again when each is composed, for the faulty one
        return {}

    if config.keys() != packages.keys():
        return {}

    composed: Sections = {}
    for package, key in packages.items():
        _, choice = key
        section = {**config[package], "name": choice}
        if key in sections and section != sections[key]:
            return {}
        composed[key] = section

    return composed


def _base_of(config: Config, base: dict[str, Any], choices: Choices) -> dict[str, Any]:
    """The keys of `config` that belong to no group. Raises a `ConfigError` if they differ from
    `base`, those of the earlier compositions."""
    rest = {key: value for key, value in config.items() if key not in NAMES}
    if base and rest != base:
        either = {**base, **rest}
        changed = [key for key in either if base.get(key) != rest.get(key)]
        named = [f"{group}={choices[group]}" for group in NAMES if group in choices]
        raise ConfigError(
            f"a choice sets {', '.join(changed)}, outside its own section.",
            where=" ".join(named),
            remedy="set it in conf/config.yaml or in the grid.",
        )

    return rest


@contextmanager
def _hydra(conf: Sequence[Path], requested: ChoiceFiles) -> Iterator[tuple[Compose, Path]]:
    """Yields the function that composes, and a temporary folder: what is written to it can be
    composed too. Files in `requested` that are elsewhere than in the folders `conf` are linked
    there."""
    folders = [Path(folder).resolve() for folder in conf]
    if not (folders[0] / "config.yaml").is_file():
        raise ConfigError(
            "has no config.yaml.",
            where=display_path(folders[0]),
            remedy="name the project's conf/ first.",
        )

    with tempfile.TemporaryDirectory(prefix="rnnbench-conf-") as temporary:
        folder = Path(temporary)
        given = {}
        for group, files in requested.items():
            known = [each / group for each in folders]
            for choice, path in files.items():
                if path.parent in known:
                    continue
                given[group, choice] = display_path(path)
                # Where Hydra finds the choice.
                target = folder / group / f"{choice}.yaml"
                target.parent.mkdir(exist_ok=True)
                section = section_of_function(path)
                if section is None:
                    target.symlink_to(path)
                else:
                    target.write_text(json.dumps(section), encoding="utf-8")

        (folder / "config.yaml").symlink_to(folders[0] / "config.yaml")
        searched = ",".join(_quoted(f"file://{each}") for each in folders)

        def compose(name: str, choices: Choices) -> Composed:
            overrides = []
            where = display_path(folders[0])
            for group, choice in choices.items():
                overrides.append(f"{group}={_quoted(choice)}")
                where += f" {group}={given.get((group, choice), choice)}"
            overrides.append(f"hydra.searchpath=[{searched}]")
            return _composed(name, overrides, where)

        with hydra.initialize_config_dir(version_base="1.3", config_dir=temporary):
            yield compose, folder


def _composed(name: str, overrides: list[str], where: str) -> Composed:
    """The config called `name` with Hydra's `overrides`, and its choices. Raises a `ConfigError` at
    `where` if it cannot be composed."""
    try:
        config = hydra.compose(
            name,
            overrides=overrides,
            return_hydra_config=True,
        )
        choices = config.hydra.runtime.choices
        keys = [str(key) for key in config if key != "hydra"]
        container = OmegaConf.to_container(OmegaConf.masked_copy(config, keys))
        # As the worker receives it: numeric keys become strings, and non-JSON values are rejected.
        plain = json.loads(json.dumps(container, allow_nan=False))
    except FAULTS as error:
        remedy = "correct the file that the error names."
        # Hydra takes the group for one below the file's own.
        misplaced = MISPLACED.search(str(error))
        if misplaced:
            group = misplaced[1]
            remedy = f"write `override /{group}@_global_.{group}: CHOICE` in its defaults."
        raise ConfigError(
            f"cannot be composed: {error}.",
            where=where,
            remedy=remedy,
        ) from None

    chosen = {}
    for group in NAMES:
        if group not in choices:
            continue
        choice = str(choices[group])
        chosen[group] = choice
        if not isinstance(plain.get(group), dict):
            raise ConfigError(
                f"{group}={choice} has no keys.",
                where=where,
                remedy=f"write `KEY: VALUE` lines into its file, at least `name: {choice}`.",
            )

    return plain, chosen


def _quoted(text: str) -> str:
    return QuotedString(text, Quote.single).with_quotes()
