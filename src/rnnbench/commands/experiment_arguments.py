"""What commands about an experiment are asked: ``EXPERIMENT [KEY=VALUE …]``, and where it is."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rnnbench.errors import ConfigError
from rnnbench.grid.experiment import DEFAULT_EXPERIMENT

NAMED = "experiment="


class Request(NamedTuple):
    """An experiment's name, and the Hydra overrides that replace what its grids say."""

    experiment: str
    overrides: tuple[str, ...]

    @property
    def text(self) -> str:
        return " ".join(self.overrides)


def add_experiment(parser: argparse.ArgumentParser) -> None:
    """The words of a `Request`, and ``--conf``. To be parsed with ``parse_intermixed_args``."""
    parser.add_argument(
        "words",
        nargs="*",
        metavar="EXPERIMENT KEY=VALUE",
        help=f"its name in conf/experiment/ (default: {DEFAULT_EXPERIMENT}), then Hydra overrides, "
        "each in the place of what the grids say of the same key",
    )
    parser.add_argument(
        "--conf",
        action="append",
        default=[],
        type=Path,
        metavar="DIR",
        help="a further config folder, with choices or experiments of your own",
    )


def parse_words(words: Sequence[str]) -> Request:
    """What the `words` ask for. Raises a `ConfigError` where two experiments are named."""
    names = [word.removeprefix(NAMED) for word in words if _is_name(word)]
    if len(names) > 1:
        raise ConfigError(
            f"names two experiments, {names[0]} and {names[1]}.",
            where="command line",
            remedy="name one; an override is KEY=VALUE.",
        )
    overrides = tuple(word for word in words if not _is_name(word))
    return Request(names[0] if names else DEFAULT_EXPERIMENT, overrides)


def conf_folders(home: Path, further: Sequence[Path]) -> list[Path]:
    """The config folders, `home` first. Raises a `ConfigError` where one is no folder."""
    for folder in further:
        if not folder.is_dir():
            raise ConfigError("is not a folder.", where=f"--conf {folder}")
    return [home, *further]


def _is_name(word: str) -> bool:
    return word.startswith(NAMED) or ("=" not in word and not word.startswith("~"))
