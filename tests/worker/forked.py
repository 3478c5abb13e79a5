"""Runs scripts in forks of a process that has imported TensorFlow: an import takes 7 seconds."""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import CompletedProcess, TimeoutExpired
from unittest.mock import patch

from tests import cpu_time


def run(
    script: str, arguments: Sequence[str], environment: Mapping[str, str], timeout: float
) -> CompletedProcess[str]:
    """Like ``subprocess.run([python, "-c", script, *arguments])`` with output as text, in this
    interpreter's TensorFlow. The first call of a process starts what is forked, with its
    `environment`; a script's own is set before it runs."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["keras", "tensorflow"])
    with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, environment):
        files = [Path(folder, name) for name in ("stdout", "stderr", "cpu_seconds")]
        for file in files:
            file.touch()
        settings = (script, list(arguments), dict(environment), *map(str, files))
        process = context.Process(target=_run, args=settings)
        process.start()
        process.join(timeout)
        if process.is_alive():
            process.kill()
            process.join()
            raise TimeoutExpired(script, timeout)
        output, errors, cpu_seconds = (file.read_text() for file in files)
        # The fork is no child of this process.
        cpu_time.elsewhere.append(float(cpu_seconds or 0))
    return CompletedProcess(script, process.exitcode, output, errors)


def _run(
    script: str,
    arguments: list[str],
    environment: dict[str, str],
    output: str,
    errors: str,
    cpu_seconds: str,
) -> None:
    """The process: multiprocessing prints its exception and flushes its streams."""
    # The descriptors too, for what C++ writes.
    os.dup2(os.open(output, os.O_WRONLY), 1)
    os.dup2(os.open(errors, os.O_WRONLY), 2)
    sys.stdout = os.fdopen(1, "w")
    sys.stderr = os.fdopen(2, "w")
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["-c", *arguments]
    warnings.simplefilter("ignore")
    try:
        exec(script, {"__name__": "__main__"})
    finally:
        Path(cpu_seconds).write_text(str(cpu_time.seconds()))
