"""``--from-mlflow``: records from the tracking store instead of the results folder."""

from __future__ import annotations

import argparse
from pathlib import Path

from rnnbench.errors import ConfigError
from rnnbench.records.record import Record


def from_mlflow(parser: argparse.ArgumentParser) -> None:
    """The options of a command that reads records from either."""
    parser.add_argument(
        "--from-mlflow",
        action="store_true",
        help="read what MLflow has (MLFLOW_TRACKING_URI, or mlflow.db); needs --experiment",
    )
    parser.add_argument("--root", type=Path, default=Path(), help="the project's folder")


def mlflow_records(options: argparse.Namespace) -> list[Record]:
    """All records of ``--experiment`` that MLflow has."""
    if options.experiment == "*":
        raise ConfigError(
            "MLflow keeps runs by experiment.",
            where="--from-mlflow",
            remedy="name it: --experiment NAME.",
        )
    from rnnbench.tracking.download import fetch_records

    records = fetch_records(options.root, options.experiment)
    if not records:
        raise ConfigError(
            f"MLflow has no finished run of {options.experiment}.", where="--from-mlflow"
        )
    return records
