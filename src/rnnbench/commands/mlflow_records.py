"""The option ``--from-mlflow``: records from MLflow instead of the results folder."""

from __future__ import annotations

import argparse

from rnnbench.commands.arguments import add_root
from rnnbench.errors import ConfigError
from rnnbench.records.record import Record


def add_from_mlflow(parser: argparse.ArgumentParser) -> None:
    """Adds ``--from-mlflow`` and ``--root``."""
    parser.add_argument(
        "--from-mlflow",
        action="store_true",
        help="read the records from MLflow (MLFLOW_TRACKING_URI, or mlflow.db); needs --experiment",
    )
    add_root(parser)


def mlflow_records(options: argparse.Namespace) -> list[Record]:
    """All records of ``--experiment`` in MLflow."""
    if options.experiment == "*":
        raise ConfigError(
            "needs an experiment: MLflow keeps runs by experiment.",
            where="--from-mlflow",
            remedy="add --experiment NAME.",
        )
    from rnnbench.tracking.download import fetch_records

    records = fetch_records(options.root, options.experiment)
    if not records:
        raise ConfigError(
            f"MLflow has no finished run of {options.experiment}.", where="--from-mlflow"
        )
    return records
