"""A project folder with records and pointers, and a real MLflow server."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from rnnbench.records.record import Record
from rnnbench.records.store import record_folder, write_json

COMMAND = 'import sys; from rnnbench.cli import main; sys.exit(main(["track", *sys.argv[1:]]))'


@pytest.fixture(autouse=True)
def _no_tracking_uri(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


def write_run(root: Path, record: Record) -> tuple[Record, Path]:
    """Writes the record with its log, events and pointer; returns the record and its file."""
    results = root / "results"
    file = record_folder(results, record.machine, record.name) / f"{record.started}.json"
    write_json(file, record.to_json())
    file.with_suffix(".log").write_text("output of the worker\n")
    file.with_suffix(".events.jsonl").write_text('{"event": "hello"}\n')
    pointer = {"record": str(file.relative_to(results)), "digest": record.run.digest}
    write_json(pointer_of(root, record), pointer)
    return record, file


def pointer_of(root: Path, record: Record) -> Path:
    return root / "results" / "site" / record.experiment / f"{record.name}.json"


def start_track(*arguments: object, **environment: str) -> subprocess.Popen[str]:
    """Starts ``rnnbench track`` in a separate process."""
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, *map(str, arguments)],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a real MLflow server for the tests of one module."""
    folder, port = tmp_path_factory.mktemp("server"), free_port()
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--workers", "1"]
    command += ["--port", str(port), "--backend-store-uri", f"sqlite:///{folder}/server.db"]
    command += ["--artifacts-destination", str(folder / "artifacts")]
    environment = {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true"}
    environment["MLFLOW_SERVER_ENABLE_JOB_EXECUTION"] = "false"
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            command, env=environment, stdout=log, stderr=log, start_new_session=True
        )
    try:
        _wait_for(f"http://127.0.0.1:{port}/health", process, folder / "log")
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, 15)  # the server and the workers that it started
        process.wait(timeout=20)


def _wait_for(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
        try:
            urllib.request.urlopen(address, timeout=1).close()
            return
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"mlflow server did not start: {log.read_text()[-2000:]}")
