"""Stores parsed grids in a file. Importing Hydra and one composition take 0.4 s, and every start of
Snakemake and every job on a cluster needs the grids.

An entry is valid while everything that it was made from is the same: the files of the config
folders, the choices named by path, the overrides, this package, Hydra and OmegaConf.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rnnbench.grid.experiment import Experiment
from rnnbench.grid.library import ChoiceFiles, Grid, Library, ParsedGrids
from rnnbench.grid.setting import Setting

PARSERS = ("hydra-core", "omegaconf")


class StoredGrids:
    """The parsed grids of an experiment with the `overrides` of the command line, from the folder
    `cache` if it has a valid entry. Only `store` writes, so that a dry run does not."""

    def __init__(
        self, experiment: Experiment, conf: Sequence[Path], overrides: Sequence[str], cache: Path
    ) -> None:
        self._request = experiment, conf, overrides
        source = [str(Path.cwd()), experiment.name, *map(str, conf), *overrides]
        self._file = cache / f"{_sha256(json.dumps(source).encode())}.json"
        self._key = _key(experiment, conf)
        self._new: ParsedGrids | None = None

    def parsed(self) -> ParsedGrids:
        stored = _read(self._file, self._key)
        if stored is None:
            from rnnbench.grid.parse import parse_grids  # imports Hydra

            stored = self._new = parse_grids(*self._request)
        return stored

    def store(self) -> None:
        """Writes what was parsed. An unusable folder only costs time."""
        if self._new is not None:
            _write(self._file, self._key, self._new)


def _key(experiment: Experiment, conf: Sequence[Path]) -> str:
    """Changes with everything that parsed grids depend on, except choices named by path."""
    versions = [importlib.metadata.version(name) for name in PARSERS]
    choices = [file for folder in conf for file in _choices(folder)]
    code = sorted(Path(__file__).parent.glob("*.py"))
    return _sha256(f"{experiment} {versions} {_digest([*code, *choices])}".encode())


def _choices(folder: Path) -> list[Path]:
    # A config folder may contain links to folders.
    found = os.walk(folder, followlinks=True)
    files = [Path(parent, name) for parent, _, names in found for name in names]
    return sorted(file for file in files if file.suffix == ".yaml")


def _digest(files: Iterable[Path]) -> str:
    contents = [(str(file), _sha256(file.read_bytes())) for file in files]
    return _sha256(json.dumps(contents).encode())


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _files(choices: ChoiceFiles) -> list[Path]:
    return [file for group in choices.values() for file in group.values()]


def _read(file: Path, key: str) -> ParsedGrids | None:
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        files = {
            group: {choice: Path(path) for choice, path in choices.items()}
            for group, choices in data["files"].items()
        }
        if data["key"] != key or data["digest"] != _digest(_files(files)):
            return None
        library = data["library"]
        return ParsedGrids(
            [_grid(grid) for grid in data["written"]],
            [_grid(grid) for grid in data["grids"]],
            Library(
                library["base"],
                {(group, choice): section for group, choice, section in library["sections"]},
                library["defaults"],
                library["model"],
                {(group, choice): Path(path) for group, choice, path in library["files"]},
            ),
            files,
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _grid(settings: Iterable[dict[str, Any]]) -> Grid:
    return {
        setting["key"]: Setting(**{**setting, "values": tuple(setting["values"])})
        for setting in settings
    }


def _write(file: Path, key: str, parsed: ParsedGrids) -> None:
    library = parsed.library
    data = {
        "key": key,
        "digest": _digest(_files(parsed.files)),
        "files": parsed.files,
        "written": [[asdict(setting) for setting in grid.values()] for grid in parsed.written],
        "grids": [[asdict(setting) for setting in grid.values()] for grid in parsed.grids],
        "library": {
            "base": library.base,
            "sections": [[*name, section] for name, section in library.sections.items()],
            "defaults": library.defaults,
            "model": library.model,
            "files": [[*name, path] for name, path in library.files.items()],
        },
    }
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps(data, default=str), encoding="utf-8")
        temporary.replace(file)
