"""The parser of a command and the arguments that several commands share."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from rnnbench.errors import ConfigError
from rnnbench.grid.experiment import split_overrides
from rnnbench.project import SETTINGS, check_project, home, own_conf, settings, words_of

DEFAULT_EXPERIMENT = "quick"
NAMED = "experiment="
STANDARD_OUTPUT = Path("-")


Argument = dict[str, Any]  # the keywords of `add_argument`
Arguments = dict[str, Argument]  # by the argument's name or its flags


def command_parser(command: Callable[..., int], arguments: Arguments) -> argparse.ArgumentParser:
    """The parser of a command, whose function has its name and its help."""
    parser = argparse.ArgumentParser(
        prog=f"rnnbench {command.__name__.rstrip('_')}",
        description=inspect.getdoc(command),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for flags, argument in arguments.items():
        parser.add_argument(*flags.split(), **argument)
    return parser


def name_of(text: str) -> str:
    """The name of an experiment with results. The path of its file stands for its name."""
    if text.endswith((".yaml", ".yml")) and "=" not in text:
        return Path(text).stem
    return text


def positive(text: str) -> float:
    """The value of an option that is a finite number > 0."""
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a finite number > 0")
    return value


def folder_to_write(text: str | Path) -> Path:
    """The value of an option for a folder to write, which need not exist. Raises a `ConfigError`
    if it cannot be written."""

    def opened(path: Path) -> IO[bytes]:
        return TemporaryFile(dir=next(filter(Path.exists, (path, *path.absolute().parents))))

    return _written(text, opened)


def file_to_write(text: str) -> Path:
    """The value of an option for a file to write, in a folder that exists, or ``-``. Raises a
    `ConfigError` if it cannot be written."""

    def opened(path: Path) -> IO[bytes]:
        return path.open("ab") if path.exists() else TemporaryFile(dir=path.parent)

    return _written(text, opened)


def _written(text: str | Path, opened: Callable[[Path], IO[bytes]]) -> Path:
    path = Path()
    why = ""
    try:
        path = Path(text).expanduser()
        if text not in ("", "-"):
            opened(path).close()
    except (OSError, RuntimeError, TypeError, ValueError) as error:
        why = f": {getattr(error, 'strerror', None) or error}"
    if why or not text:
        remedy = "correct the path, or make the folder."
        what = f"cannot be written{why}."
        raise ConfigError(what, where=str(text) or "''", remedy=remedy)
    return path


def write_numbers(file: Path | None, text: str) -> None:
    """Writes the numbers of a command to the value of `JSON`."""
    if file == STANDARD_OUTPUT:
        print(text)
    elif file:
        file.write_text(f"{text}\n")


def folder_option(default: str | Path, what: str) -> Argument:
    """An option for a folder; `what` is its help."""
    text = f"{what} (default: %(default)s)"
    return {"type": Path, "default": Path(default), "metavar": "DIR", "help": text}


EXPERIMENT: Argument = {
    "type": name_of,
    "help": "the experiment's name, with overrides such as quick+model.epochs=3",
}
RESULTS = folder_option("results", "the results folder")
ROOT = folder_option(".", "the project folder")
CONF: Argument = {
    "action": "append",
    "default": [],
    "type": Path,
    "metavar": "DIR",
    "help": "a further config folder, with your own choices or experiments; repeatable",
}
JSON: Argument = {
    "type": file_to_write,
    "metavar": "FILE",
    "help": "write the numbers to FILE, or to standard output if FILE is -",
}
ONLY_SITES: Argument = {"action": "append", "help": "only this site; repeatable (default: all)"}
# The arguments of a command that plans an experiment; see `parse_experiment`.
PLANNED: Arguments = {
    "words": {
        "nargs": "*",
        "metavar": "EXPERIMENT KEY=VALUE",
        "help": "the name of an experiment in conf/experiment/ or the path of a YAML file "
        f"(default: {DEFAULT_EXPERIMENT}), then Hydra overrides; an override replaces its key in "
        "all grids, and the experiment becomes a new one, NAME+KEY=VALUE",
    },
    "--conf": CONF,
}


def parse_experiment(
    parser: argparse.ArgumentParser, arguments: Sequence[str], root: Path
) -> argparse.Namespace:
    """The options of a parser with the arguments `PLANNED`: the name `experiment`, its `overrides`,
    and the config folders `conf`. What the command line does not name, the settings of the project
    in `root` do. Raises `ConfigError`."""
    refuse_multirun(parser, arguments)
    options = parser.parse_intermixed_args(arguments)
    check_project(root)
    configured = settings(root)
    name, options.overrides = parse_words(options.words)
    options.experiment = name or configured.experiment or DEFAULT_EXPERIMENT
    if not options.overrides:
        options.overrides = overrides_of(configured.overrides, str(SETTINGS))
    options.conf = project_conf(root, options.conf)
    return options


def refuse_multirun(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> None:
    """Ends with an error if `arguments` have Hydra's option for sweeps."""
    for flag in ("-m", "--multirun"):
        if flag in arguments:
            parser.error(f"{flag} is not needed: commas sweep by themselves, as in rnn=keras,block")


def overrides_of(given: object, where: str) -> list[str]:
    """The Hydra overrides that are `given` as one text or a list.

    `where`: the name of the settings, for errors. Raises `ConfigError`.
    """
    texts = words_of(given, "\n", f"{where}: overrides")
    return split_overrides(" ".join(texts))


def parse_words(words: Sequence[str]) -> tuple[str | None, list[str]]:
    """The experiment, if any, and the Hydra overrides in `words`. Raises `ConfigError` if they name
    two experiments."""
    names = []
    overrides = []
    for word in words:
        if word.startswith(NAMED) or not ("=" in word or word.startswith("~")):
            names.append(word.removeprefix(NAMED))
        else:
            overrides.append(word)
    if len(names) > 1:
        what = f"names two experiments, {names[0]} and {names[1]}."
        remedy = "name only one experiment; an override is KEY=VALUE."
        raise ConfigError(what, where="command line", remedy=remedy)
    if not names:
        return None, overrides
    return names[0], overrides


def conf_folders(root: Path, further: Sequence[Path], option: str = "--conf") -> list[Path]:
    """The config folders of the project in `root`: rnnbench's and `further` ones, the values of
    `option`. Raises `ConfigError` if one of them is not a folder."""
    for folder in further:
        if not folder.is_dir():
            remedy = "name a folder with choices or experiments."
            raise ConfigError("is not a folder.", where=f"{option} {folder}", remedy=remedy)
    return [home(root) / "conf", *further]


def project_conf(root: Path, given: Sequence[Path] = ()) -> list[Path]:
    """The config folders of the project in `root`: rnnbench's, and the folders `given` by
    ``--conf`` or, without them, by the settings. Raises `ConfigError`."""
    if given:
        return conf_folders(root, given)
    return conf_folders(root, own_conf(root), f"{SETTINGS}: conf")
