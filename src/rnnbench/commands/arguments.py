"""The parser of a command, and the options for folders that many commands share."""

from __future__ import annotations

import argparse
from pathlib import Path


def command_parser(command: str, description: str | None) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(
        prog=f"rnnbench {command}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_results(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--results",
        type=Path,
        default=Path("results"),
        metavar="DIR",
        help="the results folder (default: %(default)s)",
    )


def add_root(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--root",
        type=Path,
        default=Path(),
        metavar="DIR",
        help="the project folder (default: %(default)s)",
    )


def add_conf(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--conf",
        action="append",
        default=[],
        type=Path,
        metavar="DIR",
        help="a further config folder with choices or experiments of your own; repeatable",
    )
