"""The address of the MLflow store, and how to print it without its password."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

VARIABLE = "MLFLOW_TRACKING_URI"
SECRETS = ("MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN")


def tracking_uri(root: Path) -> str:
    """`MLFLOW_TRACKING_URI` if it is set, else the SQLite file of this project."""
    return os.environ.get(VARIABLE) or f"sqlite:///{root.resolve() / 'mlflow.db'}"


def is_server(uri: str) -> bool:
    return uri.startswith(("http://", "https://"))


def database_file(uri: str) -> Path | None:
    """The database file of an SQLite store; None for any other store."""
    if not uri.startswith("sqlite:///"):
        return None
    name = uri.removeprefix("sqlite:///").partition("?")[0]
    return Path(name).resolve() if name and name != ":memory:" else None


def redacted(text: str, uri: str = "") -> str:
    """`text` on one line, without any ``user:password@`` and with the passwords of `uri` and of
    the environment masked."""
    try:
        password = urlsplit(uri).password or ""
    except ValueError:
        password = ""
    secrets = {password, unquote(password), *(os.environ.get(name) or "" for name in SECRETS)}
    for secret in sorted(secrets - {""}, key=len, reverse=True):
        text = text.replace(secret, "***")
    return " ".join(re.sub(r"://[^/\s]*@", "://", text).split())
