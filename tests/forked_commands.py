"""Starts ``python -m snakemake …`` and ``python -m rnnbench …`` in forks of a process that has
imported what they import, which takes one to three CPU seconds. Snakemake's jobs, which are such
commands too, are forked likewise.

A fork has the working directory, environment, arguments, streams, exit code and end of a new
interpreter. It is not started through ``PATH`` or a shell, and its command line is that of the
process here: tests about those start a real one, as `can_fork` does for another rnnbench.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import hashlib
import importlib
import json
import os
import pkgutil
import re
import runpy
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import vl_convert

import rnnbench
from rnnbench.locks import locked
from rnnbench.tracking import store
from tests import cpu_time

ROOT = Path(__file__).parents[1]
SOURCES = os.pathsep.join([str(ROOT / "src"), str(ROOT / "packages/rnnweights/src")])
MODULES = ("snakemake", "rnnbench")
PRELOADED = (
    "dvc.repo",
    "hydra._internal.config_loader_impl",
    "mlflow.store.tracking.sqlalchemy_store",
    "pandas",
    "snakemake.cli",
    "snakemake.executors.local",
)
LONGEST = 1 << 20  # bytes of a request
# A job of Snakemake: variables and a command of rnnbench, without any character that a shell reads.
# Other jobs are started by the shell.
PLAIN = r"[\w./=+:,@%^-]"
JOB = re.compile(
    rf"set -euo pipefail;\s+((?:\w+={PLAIN}* )*)exec python -m rnnbench ((?:{PLAIN}| )+)", re.ASCII
)


def can_fork(command: Sequence[object], environment: Mapping[str, str]) -> bool:
    """Whether a fork does what the `command` does: it is one of the `MODULES`, with the rnnbench
    that is imported here."""
    is_module = list(command[:2]) == [sys.executable, "-m"] and command[2] in MODULES
    same = environment.get("PYTHONPATH") == SOURCES and "LD_PRELOAD" not in environment
    return is_module and same


def run(
    command: Sequence[str], cwd: Path, environment: Mapping[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    """Like ``subprocess.run(command, capture_output=True, text=True)``."""
    process = Forked(_server(), command[2], command[3:], cwd, environment)
    output, errors = process.communicate(timeout)
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def start(command: Sequence[str], cwd: Path, environment: Mapping[str, str]) -> Forked:
    """Like ``subprocess.Popen`` with the output in pipes, as text."""
    return Forked(_server(), command[2], command[3:], cwd, environment)


class Forked:
    """The part of `subprocess.Popen` that tests and Snakemake use. Without `streams` (descriptors
    of standard output and error), `communicate` returns what was written to both."""

    def __init__(
        self,
        server: socket.socket,
        module: str,
        arguments: Sequence[str],
        cwd: Path | str,
        environment: Mapping[str, str],
        streams: Sequence[int] = (),
    ):
        self.returncode: int | None = None
        self.args = [module, *arguments]
        self._files = [tempfile.TemporaryFile() for _ in range(0 if streams else 2)]  # noqa: SIM115
        streams = streams or [file.fileno() for file in self._files]
        request = {
            "module": module,
            "arguments": list(arguments),
            "cwd": str(cwd),
            "environment": dict(environment),
        }
        self._status, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            descriptors = [theirs.fileno(), *streams]
            socket.send_fds(server, [json.dumps(request).encode()], descriptors)
        self.pid = int(self._status.recv(64))

    def poll(self) -> int | None:
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        if self._ended(timeout) is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        assert self.returncode is not None
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        try:
            self.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            self.wait()
            raise
        texts = []
        for file in self._files:
            with file:
                file.seek(0)
                texts.append(file.read().decode())
        return texts[0], texts[1]

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _ended(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], timeout)[0]:
            told = self._status.recv(64)
            if not told:
                raise ChildProcessError(f"what forks {self.args} has ended")
            self.returncode, seconds = json.loads(told)
            self._status.close()
            cpu_time.elsewhere.append(seconds)
        return self.returncode


def copying(template: Path) -> Callable[[Path], None]:
    """In place of `store._create`: copies the database `template`, which the first call creates."""
    create = store._create

    def copy(database: Path) -> None:
        template.parent.mkdir(exist_ok=True)
        with locked(template.with_name("lock")):
            if not template.exists():
                create(template)
        store._remove(database)
        shutil.copyfile(template, database)
        store.adopt_artifacts(database)

    return copy


template: Path | None = None  # of forked commands
_started: list[socket.socket] = []


def _server() -> socket.socket:
    """The connection to the process that is forked, which is started first. It ends with this
    process."""
    if not _started:
        own, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = {name: v for name, v in os.environ.items() if not name.startswith("MLFLOW_")}
        folders = os.pathsep.join([SOURCES, str(ROOT)])
        with theirs:
            subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno()), str(template or "")],
                cwd=ROOT,
                env={**environment, "PYTHONPATH": folders},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        cpu_time.elsewhere.append(float(own.recv(64)))
        _started.append(own)
    return _started[0]


def main(descriptor: str, template: str) -> None:
    requests = socket.socket(fileno=int(descriptor))
    _preload()
    if template:
        store._create = copying(Path(template))
        vl_convert.vegalite_to_svg = _remembering(Path(template).with_name("charts"))
    requests.send(str(time.process_time()).encode())
    request = _serve(requests)
    if request is None:
        return
    code: object = 1
    try:
        _become(request)
        code = 0
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
    # As an interpreter ends, but for freeing all that has been imported, which takes a second.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


def _remembering(folder: Path) -> Callable[[Any], str]:
    """In place of `vl_convert.vegalite_to_svg`, which takes a tenth of a second: `folder` keeps
    what was drawn, for the reports of the same results."""
    draw = vl_convert.vegalite_to_svg
    folder.mkdir(parents=True, exist_ok=True)

    def remembered(chart: Any) -> str:
        text = json.dumps(chart)
        file = folder / hashlib.sha256(text.encode()).hexdigest()
        if not file.exists():
            made = file.with_suffix(f".{os.getpid()}")
            made.write_text(draw(chart))
            made.rename(file)
        return file.read_text()

    return remembered


def _preload() -> None:
    gc.disable()
    store.prepare()
    names = [name for _, name, _ in pkgutil.walk_packages(rnnbench.__path__, "rnnbench.")]
    for name in (*PRELOADED, *names):
        if not name.endswith("__main__"):
            importlib.import_module(name)
    import sqlalchemy.orm

    sqlalchemy.orm.configure_mappers()
    gc.freeze()  # a collection in a fork would copy what has been imported
    gc.enable()
    gc.set_threshold(*cpu_time.SELDOM)


def _serve(requests: socket.socket) -> dict[str, Any] | None:
    """Forks a process for each request until the other side is closed. Returns the request in a
    forked process, None in this one."""
    running: dict[int, tuple[int, socket.socket]] = {}  # descriptor of a process → its id, client
    while True:
        ready, _, _ = select.select([requests, *running], [], [])
        for source in ready:
            if source is not requests:
                pid, client = running.pop(source)
                _, status, used = os.wait4(pid, 0)
                told = [os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime]
                with contextlib.suppress(OSError), client:  # it may not wait for the end
                    client.send(json.dumps(told).encode())
                os.close(source)
                continue
            text, descriptors, _, _ = socket.recv_fds(requests, LONGEST, 3)
            if not text:
                for pid, _ in running.values():
                    os.kill(pid, signal.SIGKILL)
                return None
            client = socket.socket(fileno=descriptors[0])
            pid = os.fork()
            if pid == 0:
                requests.close()
                client.close()
                for descriptor, (_, other) in running.items():
                    os.close(descriptor)
                    other.close()
                for number, descriptor in enumerate(descriptors[1:], 1):
                    os.dup2(descriptor, number)
                    os.close(descriptor)
                request: dict[str, Any] = json.loads(text)
                return request
            client.send(str(pid).encode())
            for descriptor in descriptors[1:]:
                os.close(descriptor)
            running[os.pidfd_open(pid)] = pid, client


def _become(request: Mapping[str, Any]) -> None:
    """Does in this process, which has just been forked, what ``python -m MODULE`` does, and ends
    it."""
    os.setsid()
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    folders = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = [
        request["cwd"],
        *folders,
        *(p for p in sys.path if p not in (str(ROOT), *SOURCES.split(os.pathsep))),
    ]
    sys.argv = [request["module"], *request["arguments"]]
    # They must not close the descriptors, which a fork's streams have too.
    sys.stdout = open(1, "w", 1, "utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, "utf-8", closefd=False)  # noqa: SIM115
    if request["module"] != "snakemake":
        runpy.run_module(request["module"], run_name="__main__", alter_sys=True)
        return

    own, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        own.close()
        job = _serve(theirs)
        if job:
            _become(job)
        return
    theirs.close()
    _fork_jobs(own)
    try:
        runpy.run_module("snakemake", run_name="__main__", alter_sys=True)
    finally:
        own.close()
        os.waitpid(pid, 0)


def _fork_jobs(server: socket.socket) -> None:
    """Snakemake's shell in this process starts commands of rnnbench with the `server`."""
    shell: Any = sys.modules["snakemake.shell"]  # not the class of this name

    def popen(command: str, **options: Any) -> Any:
        found = JOB.fullmatch(command)
        if found is None or options["stdout"] == subprocess.PIPE:
            return subprocess.Popen(command, **options)
        variables = dict(word.split("=", 1) for word in shlex.split(found[1]))
        environment = {**options["env"], **variables}
        arguments = shlex.split(found[2])
        return Forked(server, "rnnbench", arguments, os.getcwd(), environment, (1, 2))

    shell.sp = SimpleNamespace(**{**vars(subprocess), "Popen": popen})


if __name__ == "__main__":
    main(*sys.argv[1:])
