"""``rnnbench dataset NAME…``: the pinned bytes of datasets into ``data/``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import yaml

from rnnbench.datasets.pins import pin_of
from rnnbench.datasets.provide import provide
from rnnbench.datasets.verify import verify
from rnnbench.errors import ConfigError, RnnbenchError, say


def main(argv: list[str]) -> int:
    """Provides or checks each named dataset of the project in the current folder; goes on
    after an error and returns the worst exit code."""
    parser = argparse.ArgumentParser(
        prog="rnnbench dataset", description="Puts the bytes that data.dvc pins into data/."
    )
    parser.add_argument("names", nargs="+", metavar="NAME", help="a choice of conf/dataset")
    parser.add_argument(
        "--check", action="store_true", help="fetch nothing, verify the files that are there"
    )
    arguments = parser.parse_args(argv)
    root, code = Path.cwd(), 0
    for name in arguments.names:
        try:
            dataset = read_dataset(name, root)
            print(f"{name}: {_check(dataset, root) if arguments.check else _get(dataset, root)}")
        except RnnbenchError as error:
            say(error)
            code = max(code, error.exit_code)
    return code


def read_dataset(name: str, root: Path) -> dict[str, Any]:
    """The choice ``conf/dataset/NAME.yaml`` as plain data. Raises `ConfigError`, which lists
    the choices there are."""
    folder = root / "conf" / "dataset"
    file = folder / f"{name}.yaml"
    known = sorted(path.stem for path in folder.glob("*.yaml"))
    if name not in known:
        raise ConfigError(
            f"there is no dataset {name!r}.",
            where=str(folder),
            remedy=f"take one of {', '.join(known) or 'none: run it in the project folder'}.",
        )
    try:
        data = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ConfigError(f"cannot be read as YAML ({error}).", where=str(file)) from error
    if not isinstance(data, dict) or not isinstance(data.get("path"), str) or data["path"] == "???":
        raise ConfigError(
            "names no path of its own; there is nothing to provide.",
            where=str(file),
            remedy="the user's own file goes into a grid: dataset=file dataset.path=FILE.",
        )
    return {"name": name, **data}


def _get(dataset: dict[str, Any], root: Path) -> str:
    return f"{provide(dataset, root).relative_to(root)} holds the pinned bytes."


def _check(dataset: dict[str, Any], root: Path) -> str:
    pin = pin_of(dataset["path"], root)
    verify(root / pin.path, pin, dataset["name"])
    return f"{pin.path} holds the pinned bytes."
