"""Provide the dataset files that data.dvc pins in data/."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from rnnbench.commands.arguments import command_parser
from rnnbench.datasets.pins import pin_of
from rnnbench.datasets.provide import provide
from rnnbench.datasets.verify import verify
from rnnbench.errors import ConfigError, RnnbenchError, say


def main(argv: list[str]) -> int:
    """Provides or checks each named dataset of the project in the current folder. Continues after
    an error and returns the worst exit code."""
    parser = command_parser("dataset", __doc__)
    parser.add_argument("names", nargs="+", metavar="NAME", help="a choice of conf/dataset")
    parser.add_argument(
        "--check", action="store_true", help="verify the present files; fetch nothing"
    )
    arguments = parser.parse_args(argv)
    root, code = Path.cwd(), 0
    for name in arguments.names:
        try:
            dataset = read_dataset(name, root)
            path = _check(dataset, root) if arguments.check else _provide(dataset, root)
            print(f"{name}: {path} holds the pinned bytes.")
        except RnnbenchError as error:
            say(error)
            code = max(code, error.exit_code)
    return code


def read_dataset(name: str, root: Path) -> dict[str, Any]:
    """The choice ``conf/dataset/NAME.yaml`` as plain data. Raises `ConfigError`, which lists the
    choices, if there is none of that name."""
    folder = root / "conf" / "dataset"
    file = folder / f"{name}.yaml"
    known = sorted(path.stem for path in folder.glob("*.yaml"))
    if name not in known:
        remedy = f"use one of {', '.join(known)}." if known else "run it in the project folder."
        raise ConfigError(f"there is no dataset {name!r}.", where=str(folder), remedy=remedy)
    try:
        data = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ConfigError(f"cannot be read as YAML ({error}).", where=str(file)) from error
    if not isinstance(data, dict) or not isinstance(data.get("path"), str) or data["path"] == "???":
        raise ConfigError(
            "has no path, so there is nothing to provide.",
            where=str(file),
            remedy="to use a file of your own, write dataset=file dataset.path=FILE in a grid.",
        )
    return {"name": name, **data}


def _provide(dataset: dict[str, Any], root: Path) -> Path:
    return provide(dataset, root).relative_to(root)


def _check(dataset: dict[str, Any], root: Path) -> Path:
    pin = pin_of(dataset["path"], root)
    verify(root / pin.path, pin, dataset["name"])
    return Path(pin.path)
