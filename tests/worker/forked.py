"""Runs scripts in forks of a process that has imported a build's framework, which takes up to seven
seconds of a processor. All processes of a session of tests share one for each build."""

from __future__ import annotations

import hashlib
import io
import json
import os
import select
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from subprocess import CompletedProcess, TimeoutExpired
from typing import Any

from rnnbench.locks import locked
from tests import cpu_time

SERVER = Path(__file__).parent / "fork_server.py"
AT_START = dict(os.environ)  # whatever the first test that needs a server has set
# Where the processes of a session find each other's servers; without it, each starts its own.
folder: Path | None = None


def run(
    python: Path | str,
    modules: Sequence[str],
    script: str,
    arguments: Sequence[str],
    variables: Mapping[str, str],
    timeout: float,
) -> CompletedProcess[str]:
    """Like ``subprocess.run([python, "-c", script, *arguments])`` with output as text, in an
    interpreter that has imported the `modules` with these environment variables, beside those of
    this process; it does not run what is registered for the end of an interpreter."""
    server = _server(str(python), tuple(modules), tuple(sorted(variables.items())))
    with tempfile.TemporaryDirectory() as own:
        files = {name: Path(own, name) for name in ("stdout", "stderr")}
        for file in files.values():
            file.touch()
        request = {
            "script": script,
            "arguments": list(arguments),
            "environment": {**inherited(os.environ), **variables},
            **{name: str(file) for name, file in files.items()},
        }
        server.sendall(json.dumps(request).encode() + b"\n")
        pid = _answer(server)["pid"]
        has_ended, _, _ = select.select([server], [], [], timeout)
        if not has_ended:
            os.kill(pid, signal.SIGKILL)
        end = _answer(server)
        # The fork is no child of this process.
        cpu_time.elsewhere.append(end["cpu_seconds"])
        if not has_ended:
            raise TimeoutExpired(script, timeout)
        output, errors = (file.read_text() for file in files.values())
    return CompletedProcess(script, end["exit_code"], output, errors)


def inherited(variables: Mapping[str, str]) -> dict[str, str]:
    """Environment variables without what importing TensorFlow 2 sets: TensorFlow 1 would make no
    graph."""
    return {name: value for name, value in variables.items() if name != "TF2_BEHAVIOR"}


@cache
def _server(
    python: str, modules: tuple[str, ...], variables: tuple[tuple[str, str], ...]
) -> socket.socket:
    """A connection to the server of these, which is started unless another process has done that.
    It ends when the process that has started it does."""
    key = hashlib.sha256(repr((python, modules, variables)).encode()).hexdigest()[:16]
    path = (folder or _own_folder()) / key
    with locked(path.with_suffix(".lock")):
        connection = _connected(path)
        if connection is not None:
            return connection
        path.unlink(missing_ok=True)
        process = subprocess.Popen(
            [python, "-W", "ignore", SERVER, path, *modules],
            env={**inherited(AT_START), **dict(variables)},
            stdin=subprocess.PIPE,
        )
        _started.append(process)
        while connection is None:
            assert process.poll() is None, f"{process.args} has ended"
            time.sleep(0.02)
            connection = _connected(path)
    return connection


_started: list[subprocess.Popen[bytes]] = []  # a server ends when its standard input is closed


@cache
def _own_folder() -> Path:
    _kept.append(tempfile.TemporaryDirectory())
    return Path(_kept[0].name)


_kept: list[tempfile.TemporaryDirectory[str]] = []


def _connected(path: Path) -> socket.socket | None:
    connection = socket.socket(socket.AF_UNIX)
    parent = os.open(path.parent, os.O_DIRECTORY)
    try:
        # An address has at most 107 bytes, a path may have more.
        connection.connect(f"/proc/self/fd/{parent}/{path.name}")
    except OSError:  # there is no server, or not yet
        connection.close()
        return None
    finally:
        os.close(parent)
    return connection


def _answer(server: socket.socket) -> dict[str, Any]:
    # Byte by byte: what is left in a buffer would not be seen by `select`.
    file = server.makefile("rb", buffering=0)
    assert isinstance(file, io.RawIOBase)
    line = file.readline()
    assert line, "the process that is forked has ended"
    return dict(json.loads(line))
