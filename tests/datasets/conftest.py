"""A small project with three pinned files, and a local web server that records requests."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from rnnbench.datasets.provide import PinnedDataset

WORDS = b"All credibility, all good conscience come from the senses. " * 9000
OTHER = b"this file is never requested"
# A DVC configuration with a remote at an address.
REMOTE = "[core]\n    no_scm = True\n    remote = there\n['remote \"there\"']\n    url = %s\n"


class Server(ThreadingHTTPServer):
    """Serves `files` by path, those in `truncated` only in part; `requested` lists the paths."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        self.truncated: set[str] = set()
        self.requested: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.requested.append(self.path)
        data = self.server.files.get(self.path)
        if data is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[: len(data) // 2] if self.path in self.server.truncated else data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def _isolated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("RNNBENCH_DATA_MIRROR", raising=False)
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DVC_NO_ANALYTICS", "1")
    monkeypatch.setenv("DVC_SITE_CACHE_DIR", str(tmp_path / "site"))


def md5(data: bytes) -> str:
    return hashlib.md5(data).hexdigest()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project folder that is not a DVC repository."""
    root = tmp_path / "project"
    (root / "conf" / "dataset").mkdir(parents=True)
    (root / "conf" / "config.yaml").touch()
    (root / "data.dvc").write_text(
        "# must be preserved like every byte of this file\n"
        "outs:\n"
        f"- md5: {md5(WORDS)}\n  size: {len(WORDS)}\n  hash: md5\n  path: data/words.txt\n"
        f"- {{md5: {md5(OTHER)}, hash: md5, path: data/other.txt}}\n"
        "- md5: 39cd4ff3875851873f0029f2888f0627\n  hash: md5\n  path: data/digits.npz\n"
    )
    return root


@pytest.fixture
def repository(root: Path) -> Path:
    """`root` as a DVC repository without git."""
    from dvc.logger import set_loggers_level
    from dvc.repo import Repo

    with set_loggers_level(logging.ERROR):  # its handler keeps the output stream of an earlier test
        Repo.init(str(root), no_scm=True).close()
    return root


@pytest.fixture
def words(server: Server) -> PinnedDataset:
    """The dataset choice ``words``, with a working URL."""
    server.files["/words.txt"] = WORDS
    url = f"{server.url}/words.txt"
    return PinnedDataset(name="words", file="words.txt", path="data/words.txt", url=url)
