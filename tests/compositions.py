"""Remembers what Hydra has composed in a test process; a composition takes 0.1 s of a processor.

The key of what is remembered are the bytes of all files below the config folders that a composition
may read, and of what `compose` writes or links for it. Errors are not remembered.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from rnnbench.axes import NAMES
from rnnbench.errors import ConfigError
from rnnbench.grid import compose
from rnnbench.grid.compose import ChoiceFiles, Choices, Compose, Composed
from rnnbench.grid.files import files_of

# Tests write experiments next to choices; a choice's file lists none of them in its defaults.
NOT_COMPOSED = ("experiment", "schemas")
# Composing all choices of a project takes ten times as long as those of a grid.
OFTEN = 4
PACKAGES = "packages.yaml"
Sections = dict[str, dict[str, object]]  # GROUP/CHOICE → its section

without_memory = compose._hydra


@contextmanager
def remembered() -> Iterator[None]:
    """Within it, `compose_choices` composes the same choices of the same files once, and all
    choices together if its folders are asked for often."""
    composed: dict[object, str] = {}
    asked: Counter[object] = Counter()
    of_folders: dict[object, Sections] = {}

    @contextmanager
    def hydra(conf: Sequence[Path], requested: ChoiceFiles) -> Iterator[tuple[Compose, Path]]:
        folders = tuple(digest(Path(folder)) for folder in conf)
        with without_memory(conf, requested) as (compose_anew, folder):

            def compose_once(name: str, choices: Choices) -> Composed:
                is_plain = {path.name for path in folder.iterdir()} == {"config.yaml", PACKAGES}
                if name == "packages" and is_plain:
                    asked[folders] += 1
                    if asked[folders] == OFTEN:
                        of_folders[folders] = all_sections(conf, compose_anew, folder)
                    wanted = packages_in(folder)
                    sections = of_folders.get(folders, {})
                    if sections.keys() >= set(wanted.values()):
                        config = {package: sections[key] for package, key in wanted.items()}
                        return json.loads(json.dumps(config)), {}
                key = (name, *choices.items(), *folders, digest(folder))
                if key not in composed:
                    composed[key] = json.dumps(compose_anew(name, choices))
                config, chosen = json.loads(composed[key])
                return config, chosen

            yield compose_once, folder

    with mock.patch.object(compose, "_hydra", hydra):
        yield


def packages_in(folder: Path) -> dict[str, str]:
    """Package → GROUP/CHOICE, as `compose` has written them to the folder."""
    packages = {}
    for entry in json.loads((folder / PACKAGES).read_text())["defaults"]:
        ((target, choice),) = entry.items()
        group, package = target.split("@")
        packages[package] = f"{group}/{choice}"
    return packages


def all_sections(conf: Sequence[Path], compose_anew: Compose, folder: Path) -> Sections:
    """The sections of all choices of the config folders but models, if none has an effect outside
    its own package; else none."""
    names: dict[str, str] = {}
    defaults = []
    for group in NAMES:
        for choice in files_of(conf, group) if group != "model" else ():
            package = f"c{len(names)}"
            names[package] = f"{group}/{choice}"
            defaults.append({f"{group}@{package}": choice})
    asked = (folder / PACKAGES).read_text()
    (folder / PACKAGES).write_text(json.dumps({"defaults": defaults}))
    try:
        config, _ = compose_anew("packages", {})
    except ConfigError:
        return {}
    finally:
        (folder / PACKAGES).write_text(asked)
    if config.keys() != names.keys():
        return {}
    return {names[package]: section for package, section in config.items()}


def digest(folder: Path) -> str:
    """Of the names and bytes of a config folder's files, also of those that are linked there."""
    found = hashlib.sha256()
    for base, folders, files in os.walk(folder, followlinks=True):
        if Path(base) == folder:
            folders[:] = set(folders) - set(NOT_COMPOSED)
        folders.sort()
        for file in sorted(files):
            path = Path(base, file)
            content = path.read_bytes() if path.exists() else b"a broken link"
            found.update(json.dumps([str(path.relative_to(folder)), len(content)]).encode())
            found.update(content)
    return found.hexdigest()
