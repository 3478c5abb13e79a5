"""A project folder with records and rounds, and a real MLflow server."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from rnnbench.records.record import Record
from tests import forked_commands
from tests.factory import put


@pytest.fixture(autouse=True, scope="module")
def _no_tracking_uri() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        yield


def write_run(root: Path, record: Record) -> tuple[Record, Path]:
    """Writes the record with its log, events and round; returns the record and its file."""
    put(root / "results", record, site="site", experiment=record.experiment)
    file = root / "results" / record.path
    file.with_suffix(".log").write_text("output of the worker\n")
    file.with_suffix(".events.jsonl").write_text('{"event": "hello"}\n')
    return record, file


def round_of(root: Path, record: Record) -> Path:
    return root / "results" / "site" / record.experiment / f"rounds/{record.run.round}.json"


def start_track(*arguments: object, **environment: str) -> subprocess.Popen[str]:
    """Starts ``rnnbench track`` in a separate process."""
    return subprocess.Popen(
        track_command(*arguments),
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def fork_track(*arguments: object, **environment: str) -> forked_commands.Forked:
    """Like `start_track`, in a fork."""
    settings = {**os.environ, **environment, "PYTHONPATH": forked_commands.SOURCES}
    return forked_commands.start(track_command(*arguments), Path.cwd(), settings)


def track_command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "rnnbench", "track", *map(str, arguments)]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class MlflowServer:
    """``mlflow server`` on a loopback port, which can be killed and started again."""

    def __init__(self, folder: Path, store: str, *options: str, **environment: str):
        self.folder, self.store, self.options, self.extra = folder, store, options, environment
        self.port = free_port()
        self.process: subprocess.Popen | None = None

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def up(self, seconds: float = 90) -> None:
        command = [
            *(sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1"),
            *("--port", str(self.port), "--workers", "1", "--backend-store-uri", self.store),
            *("--artifacts-destination", str(self.folder / "artifacts"), *self.options),
        ]
        settings = {
            "MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        }  # fmt: skip
        with (self.folder / "server.log").open("a") as log:
            self.process = subprocess.Popen(
                command,
                env={**os.environ, **settings, **self.extra},
                cwd=self.folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.process.poll() is None:
            with suppress(OSError), urllib.request.urlopen(f"{self.uri}/health", timeout=1):
                return
            time.sleep(0.2)
        self.kill()
        log = (self.folder / "server.log").read_text()[-2000:]
        raise TimeoutError(f"mlflow server did not start: {log}")

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Sends the signal to the server and its workers, which share a session."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)
            self.process.wait(timeout=20)
            self.process = None


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a real MLflow server for the tests of one module."""
    folder = tmp_path_factory.mktemp("server")
    server = MlflowServer(folder, f"sqlite:///{folder}/server.db")
    server.up()
    yield server.uri
    server.kill(signal.SIGTERM)
