"""The parser of a command and the arguments that several commands share."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rnnbench.errors import ConfigError
from rnnbench.grid.experiment import split_overrides
from rnnbench.project import SETTINGS, check_project, home, own_conf, settings, words_of

DEFAULT_EXPERIMENT = "quick"
NAMED = "experiment="


def command_parser(command: Callable[..., int]) -> argparse.ArgumentParser:
    """The parser of a command, whose function has its name and its help."""
    return argparse.ArgumentParser(
        prog=f"rnnbench {command.__name__.rstrip('_')}",
        description=inspect.getdoc(command),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_folder(parser: argparse.ArgumentParser, option: str, default: str, folder: str) -> None:
    """Adds an option for a `folder`, as its help calls it."""
    text = f"{folder} (default: %(default)s)"
    parser.add_argument(option, type=Path, default=Path(default), metavar="DIR", help=text)


def add_results(parser: argparse.ArgumentParser, folder: str = "the results folder") -> None:
    add_folder(parser, "--results", "results", folder)


def add_experiment(parser: argparse.ArgumentParser) -> None:
    """Adds the name of an experiment with results. The path of its file stands for its name."""

    def name_of(text: str) -> str:
        is_path = text.endswith((".yaml", ".yml")) and "=" not in text
        return Path(text).stem if is_path else text

    parser.add_argument(
        "experiment",
        type=name_of,
        help="the experiment's name, with overrides such as quick+model.epochs=3",
    )


def add_root(parser: argparse.ArgumentParser) -> None:
    add_folder(parser, "--root", ".", "the project folder")


def add_conf(parser: argparse.ArgumentParser) -> None:
    text = "a further config folder, with your own choices or experiments; repeatable"
    parser.add_argument("--conf", action="append", default=[], type=Path, metavar="DIR", help=text)


def positive(text: str) -> float:
    """The value of an option that is a finite number > 0."""
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a finite number > 0")
    return value


def add_output(parser: argparse.ArgumentParser, metavar: str, what: str) -> None:
    parser.add_argument(
        *("-o", "--output"), type=Path, required=True, metavar=metavar, help=f"the {what} to write"
    )


def experiment_parser(command: Callable[..., int]) -> argparse.ArgumentParser:
    """The parser of a command that takes an experiment, overrides and ``--conf``; see
    `parse_experiment`."""
    parser = command_parser(command)
    parser.add_argument(
        "words",
        nargs="*",
        metavar="EXPERIMENT KEY=VALUE",
        help="the name of an experiment in conf/experiment/ or the path of a YAML file "
        f"(default: {DEFAULT_EXPERIMENT}), then Hydra overrides; an override replaces its key in "
        "all grids, and the experiment becomes a new one, NAME+KEY=VALUE",
    )
    add_conf(parser)
    return parser


def parse_experiment(
    parser: argparse.ArgumentParser, arguments: Sequence[str], root: Path
) -> argparse.Namespace:
    """The options of an `experiment_parser`, with the name `experiment`, its `overrides`, and the
    config folders `conf`, rnnbench's first. What they do not name, the settings of the project in
    `root` do. Raises `ConfigError`."""
    options = parser.parse_intermixed_args(arguments)
    check_project(root)
    configured = settings(root)
    name, options.overrides = parse_words(options.words)
    options.experiment = name or str(configured.get("experiment") or DEFAULT_EXPERIMENT)
    if not options.overrides:
        text = overrides_text(configured, str(SETTINGS))
        options.overrides = tuple(split_overrides(text))
    if options.conf:
        options.conf = conf_folders(root, options.conf)
    else:
        options.conf = conf_folders(root, own_conf(root), f"{SETTINGS}: conf")
    return options


def overrides_text(configured: Mapping[str, Any], where: str) -> str:
    """The Hydra overrides in the settings of a project, which may be a list there, as one text.
    Raises `ConfigError`."""
    return " ".join(words_of(configured.get("overrides"), "\n", f"{where}: overrides"))


def parse_words(words: Sequence[str]) -> tuple[str | None, tuple[str, ...]]:
    """The experiment, if any, and the Hydra overrides in `words`. Raises `ConfigError` if they name
    two experiments."""
    names = [word.removeprefix(NAMED) for word in words if _is_name(word)]
    if len(names) > 1:
        what = f"names two experiments, {names[0]} and {names[1]}."
        remedy = "name only one experiment; an override is KEY=VALUE."
        raise ConfigError(what, where="command line", remedy=remedy)
    overrides = tuple(word for word in words if not _is_name(word))
    return names[0] if names else None, overrides


def conf_folders(root: Path, further: Sequence[Path], option: str = "--conf") -> list[Path]:
    """The config folders of the project in `root`: rnnbench's and `further` ones, the values of
    `option`. Raises `ConfigError` if one of them is not a folder."""
    for folder in further:
        if not folder.is_dir():
            remedy = "name a folder with choices or experiments."
            raise ConfigError("is not a folder.", where=f"{option} {folder}", remedy=remedy)
    return [home(root) / "conf", *further]


def _is_name(word: str) -> bool:
    return word.startswith(NAMED) or ("=" not in word and not word.startswith("~"))
