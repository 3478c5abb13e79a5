"""Every choice a grid names, composed by Hydra once and kept as plain dicts.

Hydra needs some 150 ms for a composition: one is made for each model, and the choices of the
other groups ride on the first, each in a package of its own. What would do more than fill its own
section is composed in its own place.
"""

from __future__ import annotations

import itertools
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hydra
import yaml
from hydra.core.override_parser.types import Quote, QuotedString
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rnnbench.errors import ConfigError
from rnnbench.grid.catalogue import files_of, shown
from rnnbench.grid.functions import with_absolute_functions
from rnnbench.grid.point import GROUPS
from rnnbench.grid.section_check import is_plain, says_nothing_of

Wanted = Mapping[str, Mapping[str, Path]]
PackagedChoice = tuple[str, str]
STAGING = "_staging"


@dataclass(frozen=True)
class Library:
    """Composed choices, as plain dicts with their interpolations still in them.

    - `base`: what is in no group: ``measure``, ``limits``, ``seed``, ….
    - `sections`: (group, choice) → its part of a config.
    - `defaults`: model → group → the choice where a grid names none.
    - `model`: the model where a grid names none.
    - `files`: (group, choice) → its file, of models and rnn choices, for the relative paths in it.
    """

    base: Mapping[str, Any]
    sections: Mapping[tuple[str, str], Mapping[str, Any]]
    defaults: Mapping[str, Mapping[str, str]]
    model: str
    files: Mapping[tuple[str, str], Path]


def compose_choices(conf: Sequence[Path], wanted: Wanted, default_model: bool) -> Library:
    """The library for the choices in `wanted` (group → choice → its file).

    `default_model`: whether some grid names no model."""
    sections: dict[tuple[str, str], Mapping[str, Any]] = {}
    defaults: dict[str, Mapping[str, str]] = {}
    base: dict[str, Any] = {}
    models = list(wanted.get("model", {}))
    riders = riders_of(conf, wanted)
    with _hydra(conf, wanted) as compose:
        for model in [*models, None] if default_model or not models else models:
            chosen = {} if model is None else {"model": model}
            try:
                config, choices = compose(chosen, riders)
            except ConfigError:
                if not riders:
                    raise
                # Whichever is wrong is told by its name when it is composed alone.
                riders = []
                config, choices = compose(chosen)
            sections |= _unpacked(config, riders)
            riders = []
            base = _outside(config, base, choices)
            defaults[choices["model"]] = choices
            sections |= _sections(config, choices)
        first = choices["model"]
        for choices in _rounds(wanted, sections):
            config, _ = compose({**choices, "model": first})
            base = _outside(config, base, choices)
            sections |= _sections(config, choices)
    files = {
        (group, choice): wanted.get(group, {}).get(choice, _home(conf, group, choice))
        for group, choice in sections
        if group in ("model", "rnn")
    }
    for key, file in files.items():
        sections[key] = with_absolute_functions(sections[key], file.parent, shown(file))
    return Library(base, sections, defaults, first, files)


def riders_of(conf: Sequence[Path], wanted: Wanted) -> list[PackagedChoice]:
    """(group, choice) of what can be composed beside others of its group; no model, which chooses
    its dataset and may choose more."""
    if not says_nothing_of(GROUPS, Path(conf[0]) / "config.yaml"):
        return []
    riders = []
    for group in wanted.keys() - {"model"}:
        known = files_of(conf, group)
        riders += [(group, name) for name, file in wanted[group].items() if is_plain(file, known)]
    return sorted(riders)


def resolved(config: Mapping[str, Any], where: str) -> dict[str, Any]:
    """`config` with its ``${…}`` replaced."""
    try:
        plain = OmegaConf.to_container(OmegaConf.create(dict(config)), resolve=True)
    except OmegaConfBaseException as error:
        raise ConfigError(
            f"an interpolation cannot be resolved: {error}",
            where=where,
            remedy="correct the ${…} in the choice's file or in the override.",
        ) from None
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items()}


def _rounds(wanted: Wanted, done: Mapping[tuple[str, str], Any]) -> Iterator[dict[str, str]]:
    missing = [
        [(group, choice) for choice in wanted.get(group, {}) if (group, choice) not in done]
        for group in GROUPS
        if group != "model"
    ]
    for row in itertools.zip_longest(*missing):
        yield dict(pair for pair in row if pair is not None)


def _numbered(riders: Sequence[PackagedChoice]) -> list[tuple[str, PackagedChoice]]:
    """A choice's own name may be no package: ``mine-2``."""
    return [(f"c{number}", rider) for number, rider in enumerate(riders)]


def _unpacked(
    config: dict[str, Any], riders: Sequence[PackagedChoice]
) -> dict[PackagedChoice, Mapping[str, Any]]:
    """The sections of `riders`, taken out of `config`."""
    apart = config.pop(STAGING, None) or {}
    return {
        rider: {**apart[key], "name": rider[1]} for key, rider in _numbered(riders) if key in apart
    }


def _sections(
    config: Mapping[str, Any], choices: Mapping[str, str]
) -> dict[tuple[str, str], Mapping[str, Any]]:
    """Each section under its choice, whose name it carries: a file that builds on another
    one by its defaults list would else pass for that one."""
    return {
        (group, choice): {**config[group], "name": choice}
        for group, choice in choices.items()
        if group in GROUPS
    }


def _outside(
    config: Mapping[str, Any], base: dict[str, Any], choices: Mapping[str, str]
) -> dict[str, Any]:
    """What is in no group; the same in every composition."""
    rest = {key: value for key, value in config.items() if key not in GROUPS}
    if base and rest != base:
        changed = [key for key in {**base, **rest} if base.get(key) != rest.get(key)]
        raise ConfigError(
            f"a choice sets {', '.join(changed)}, which is outside its own section.",
            where=" ".join(f"{group}={choices[group]}" for group in GROUPS if group in choices),
            remedy="set it in conf/config.yaml or in the grid.",
        )
    return rest


def _home(conf: Sequence[Path], group: str, choice: str) -> Path:
    candidates = [Path(folder) / group / f"{choice}.yaml" for folder in conf]
    return next((path.resolve() for path in candidates if path.is_file()), candidates[0])


@contextmanager
def _hydra(conf: Sequence[Path], wanted: Wanted) -> Iterator[Any]:
    """A function that composes group → choice into a plain config and all its choices."""
    folders = [Path(folder).resolve() for folder in conf]
    if not (folders[0] / "config.yaml").is_file():
        raise ConfigError(
            "has no config.yaml.", where=shown(folders[0]), remedy="name the project's conf/ first."
        )
    with tempfile.TemporaryDirectory(prefix="rnnbench-conf-") as spare:
        extra = [*folders[1:], _link_external_files(wanted, folders, Path(spare))]
        search = ",".join(_quoted(f"file://{folder}") for folder in extra)
        with hydra.initialize_config_dir(version_base="1.3", config_dir=str(folders[0])):

            def compose(
                choices: Mapping[str, str], riders: Sequence[PackagedChoice] = ()
            ) -> tuple[dict[str, Any], dict[str, str]]:
                overrides = [f"{group}={_quoted(choice)}" for group, choice in choices.items()]
                overrides += [
                    f"+{group}@{STAGING}.{key}={_quoted(choice)}"
                    for key, (group, choice) in _numbered(riders)
                ]
                where = " ".join(
                    [shown(folders[0]), *(f"{key}={value}" for key, value in choices.items())]
                )
                return _composed([*overrides, f"hydra.searchpath=[{search}]"], where)

            yield compose


def _composed(overrides: list[str], where: str) -> tuple[dict[str, Any], dict[str, str]]:
    try:
        config = hydra.compose("config", overrides=overrides, return_hydra_config=True)
        choices = {group: str(config.hydra.runtime.choices[group]) for group in GROUPS}
        keys = [str(key) for key in config if key != "hydra"]
        container = OmegaConf.to_container(OmegaConf.masked_copy(config, keys))
        # As the worker gets it: a key that is a number becomes text, what JSON has not is refused.
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
            f"cannot be composed: {error}.", where=where, remedy="correct the file it names."
        ) from None
    for group in GROUPS:
        if not isinstance(plain.get(group), dict):
            raise ConfigError(
                f"{group}={choices[group]} has no keys.",
                where=where,
                remedy=f"give {group}/{choices[group]}.yaml at least a name.",
            )
    return plain, choices


def _link_external_files(wanted: Wanted, folders: Sequence[Path], spare: Path) -> Path:
    """A config folder that lends Hydra the files named by path."""
    for group, files in wanted.items():
        for choice, path in files.items():
            if path.parent not in [folder / group for folder in folders]:
                (spare / group).mkdir(exist_ok=True)
                (spare / group / f"{choice}.yaml").symlink_to(path)
    return spare


def _quoted(text: str) -> str:
    return QuotedString(text, Quote.single).with_quotes()
