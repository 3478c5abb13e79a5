"""Runs scripts in forks of a process that has imported TensorFlow, which takes seconds of each."""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
import traceback
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import CompletedProcess, TimeoutExpired

import pytest


def run(
    script: str, arguments: Sequence[str], environment: Mapping[str, str], timeout: float
) -> CompletedProcess[str]:
    """Like ``subprocess.run([python, "-c", script, *arguments])`` with output as text, in this
    interpreter's TensorFlow. The first call of a process starts what is forked, with its
    `environment`; a script's own is set before it runs."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["keras", "tensorflow"])
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        files = Path(folder, "stdout"), Path(folder, "stderr")
        settings = (script, list(arguments), dict(environment), *map(str, files))
        process = context.Process(target=_run, args=settings)
        process.start()
        process.join(timeout)
        if process.is_alive():
            process.kill()
            process.join()
            raise TimeoutExpired(script, timeout)
        output, errors = (file.read_text() for file in files)
    return CompletedProcess(script, process.exitcode, output, errors)


def _run(
    script: str, arguments: list[str], environment: dict[str, str], output: str, errors: str
) -> None:
    for stream, path in ((1, output), (2, errors)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), stream)
    sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["-c", *arguments]
    warnings.simplefilter("ignore")
    try:
        exec(compile(script, "<string>", "exec"), {"__name__": "__main__"})
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
