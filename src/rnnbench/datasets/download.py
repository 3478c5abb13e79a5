"""Downloads a file with a progress bar."""

from __future__ import annotations

import http.client
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from rnnbench.datasets.unavailable import Unavailable

CHUNK = 1 << 18
TIMEOUT = 30.0


def download(url: str, target: Path, *, timeout: float = TIMEOUT) -> None:
    """Downloads `url` to `target`.

    **Arguments:**

    - `url`: http or https; the usual proxy variables are respected.
    - `target`: overwritten; incomplete if an error is raised.
    - `timeout`: seconds without data after which the download fails.

    Raises `Unavailable` if the network or the server fails, including a response that ends early,
    and `OSError` if `target` cannot be written.
    """
    if not url.startswith(("http://", "https://")):
        raise Unavailable("is not an http or https address")
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    response = _open(url, timeout)
    length = response.headers.get("Content-Length")
    total = int(length) if length and length.isdigit() else None
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    bar = Progress(*columns, TransferSpeedColumn(), console=Console(file=sys.stderr))
    received = 0
    with response, bar, target.open("wb") as file:
        task = bar.add_task(url.rpartition("/")[2], total=total)
        for chunk in _chunks(response):
            file.write(chunk)
            received += len(chunk)
            bar.update(task, advance=len(chunk))
    if total is not None and received != total:
        raise Unavailable(f"ended after {received:,} of {total:,} bytes")


def _open(url: str, timeout: float) -> http.client.HTTPResponse:
    request = urllib.request.Request(url, headers={"User-Agent": "rnnbench"})
    try:
        return urllib.request.urlopen(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        raise Unavailable(f"HTTP {error.code} {error.reason}") from error
    except urllib.error.URLError as error:
        raise Unavailable(_message(error.reason)) from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise Unavailable(_message(error)) from error


def _chunks(response: http.client.HTTPResponse) -> Iterator[bytes]:
    while True:
        try:
            chunk = response.read(CHUNK)
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable(f"interrupted: {_message(error)}") from error
        if not chunk:
            return
        yield chunk


def _message(error: object) -> str:
    """The message without its error number: "Name or service not known"."""
    return str(getattr(error, "strerror", None) or error or type(error).__name__)
