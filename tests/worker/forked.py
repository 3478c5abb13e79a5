"""Runs scripts in forks of a process that has imported a build's framework, which takes one to five
CPU seconds. Each process of tests starts one of each build that it uses."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from subprocess import CompletedProcess, TimeoutExpired
from typing import Any

from tests import cpu_time

SERVER = Path(__file__).parent / "fork_server.py"


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
    with tempfile.TemporaryDirectory() as folder:
        files = {name: Path(folder, name) for name in ("stdout", "stderr")}
        for file in files.values():
            file.touch()
        request = {
            "script": script,
            "arguments": list(arguments),
            "environment": {**inherited(), **variables},
            **{name: str(file) for name, file in files.items()},
        }
        server.stdin.write(json.dumps(request).encode() + b"\n")
        server.stdin.flush()
        pid = _answer(server)["pid"]
        has_ended, _, _ = select.select([server.stdout], [], [], timeout)
        if not has_ended:
            os.kill(pid, signal.SIGKILL)
        end = _answer(server)
        # The fork is no child of this process.
        cpu_time.elsewhere.append(end["cpu_seconds"])
        if not has_ended:
            raise TimeoutExpired(script, timeout)
        output, errors = (file.read_text() for file in files.values())
    return CompletedProcess(script, end["exit_code"], output, errors)


def inherited() -> dict[str, str]:
    """This process's environment, without what importing TensorFlow 2 sets in it: TensorFlow 1
    would make no graph."""
    return {name: value for name, value in os.environ.items() if name != "TF2_BEHAVIOR"}


@cache
def _server(
    python: str, modules: tuple[str, ...], variables: tuple[tuple[str, str], ...]
) -> subprocess.Popen[bytes]:
    # It ends when this process does, which closes its standard input.
    return subprocess.Popen(
        [python, "-W", "ignore", SERVER, *modules],
        env={**inherited(), **dict(variables)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
    )


def _answer(server: subprocess.Popen[bytes]) -> dict[str, Any]:
    line = server.stdout.readline()
    assert line, f"{server.args} has ended"
    return dict(json.loads(line))
