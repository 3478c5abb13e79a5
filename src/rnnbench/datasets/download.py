"""Downloads a file with a progress bar."""

from __future__ import annotations

from pathlib import Path

TIMEOUT = 30.0


class Unavailable(Exception):
    """A source cannot provide the bytes; another one may. The message is the reason, without the
    name of the source. `provide` collects the reasons: the exception never leaves this package."""


def download(url: str, target: Path, *, timeout: float = TIMEOUT) -> None:
    """Downloads `url` to `target`.

    **Arguments:**

    - `url`: http or https; the usual proxy variables are respected.
    - `target`: overwritten; incomplete if an error is raised.
    - `timeout`: seconds without data after which the download fails.

    Raises `Unavailable` if the network or the server fails, including a response that ends early,
    and `OSError` if `target` cannot be written.
    """
    import requests
    from rich.console import Console
    from rich.progress import Progress

    as_stored = {"Accept-Encoding": "identity", "User-Agent": "rnnbench"}
    try:
        with (
            requests.get(url, stream=True, timeout=timeout, headers=as_stored) as response,
            Progress(console=Console(stderr=True)) as bar,
            target.open("wb") as file,
        ):
            response.raise_for_status()
            length = response.headers.get("Content-Length")
            task = bar.add_task(target.name, total=int(length) if length else None)
            for chunk in response.iter_content(1 << 18):
                file.write(chunk)
                bar.advance(task, len(chunk))
    except requests.RequestException as error:
        raise Unavailable(str(error)) from error
