"""Remembers what Hydra has composed in a test process; a composition takes 0.1 s of a processor.

The key of what is remembered are the bytes of all files below the config folders that a composition
may read, and of what `compose` writes or links for it. Errors are not remembered.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from rnnbench.grid import compose
from rnnbench.grid.compose import ChoiceFiles, Choices, Compose, Composed

# Tests write experiments next to choices; a choice's file lists none of them in its defaults.
NOT_COMPOSED = ("experiment", "schemas")

without_memory = compose._hydra


@contextmanager
def remembered() -> Iterator[None]:
    """Within it, `compose_choices` composes the same choices of the same files once."""
    composed: dict[object, str] = {}

    @contextmanager
    def hydra(conf: Sequence[Path], requested: ChoiceFiles) -> Iterator[tuple[Compose, Path]]:
        folders = tuple(digest(Path(folder)) for folder in conf)
        with without_memory(conf, requested) as (compose_anew, folder):

            def compose_once(name: str, choices: Choices) -> Composed:
                key = (name, *choices.items(), *folders, digest(folder))
                if key not in composed:
                    composed[key] = json.dumps(compose_anew(name, choices))
                config, chosen = json.loads(composed[key])
                return config, chosen

            yield compose_once, folder

    with mock.patch.object(compose, "_hydra", hydra):
        yield


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
