"""A private PostgreSQL on a Unix socket, and an MLflow server that uses it.

    python -m tests.cluster.postgres up DIR
    python -m tests.cluster.postgres down DIR

If root starts the database, its processes belong to the user postgres, because PostgreSQL refuses
to run as root.
"""

from __future__ import annotations

import getpass
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from pathlib import Path


def missing() -> str | None:
    """Why PostgreSQL cannot run on this machine, or None."""
    if _program("initdb") is None:
        return "no PostgreSQL: apt-get install postgresql"
    return None if os.geteuid() or _user() else "as root, PostgreSQL needs a user postgres"


class Postgres:
    """A database in `folder`, which its user must be able to enter; its socket is in
    ``socket/``."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.owner = _user() if os.geteuid() == 0 else None

    @property
    def uri(self) -> str:
        name = self.owner or getpass.getuser()
        return f"postgresql+psycopg2://{name}@/postgres?host={self.folder}/socket"

    def up(self) -> None:
        for name in ("data", "socket"):
            folder = self.folder / name
            folder.mkdir(mode=0o700)
            if self.owner:
                shutil.chown(folder, self.owner)
        self._call("initdb", "--auth=trust", "--no-sync", f"--pgdata={self.folder}/data")
        settings = f"-c listen_addresses='' -c unix_socket_directories={self.folder}/socket"
        log = f"--log={self.folder}/data/log"
        self._call("pg_ctl", "start", "--wait", log, f"--options={settings}", *self._data)

    def down(self) -> None:
        with suppress(subprocess.SubprocessError):
            self._call("pg_ctl", "stop", "--mode=fast", "--wait", *self._data)

    @property
    def _data(self) -> tuple[str, str]:
        return "--pgdata", f"{self.folder}/data"

    def _call(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [str(_program(program)), *arguments],
            user=self.owner,
            cwd="/",
            check=True,
            timeout=60,
            stdout=subprocess.DEVNULL,
        )


class MlflowServer:
    """``mlflow server`` on a loopback port, which can be killed and started again."""

    def __init__(self, folder: Path, store: str, *options: str, **environment: str):
        self.folder, self.store, self.options, self.extra = folder, store, options, environment
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self.process: subprocess.Popen | None = None

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def up(self, seconds: float = 90) -> None:
        environment = {
            **os.environ,
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
            **self.extra,
        }
        with (self.folder / "server.log").open("a") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1"),
                    *("--port", str(self.port), "--workers", "1"),
                    *("--backend-store-uri", self.store),
                    *("--artifacts-destination", str(self.folder / "artifacts"), *self.options),
                ],
                env=environment,
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
        raise TimeoutError(f"mlflow server did not start: {self.folder}/server.log")

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Sends the signal to the server and its workers, which share a session."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)
            self.process.wait(timeout=20)
            self.process = None


def _program(name: str) -> Path | None:
    """The program in Debian's newest version folder, which is not in PATH, or the one in PATH."""
    versions = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    installed = shutil.which(name)
    return versions[-1] if versions else Path(installed) if installed else None


def _user() -> str | None:
    with suppress(KeyError):
        return pwd.getpwnam("postgres").pw_name
    return None


if __name__ == "__main__":
    command, folder = sys.argv[1], Path(sys.argv[2]).resolve()
    postgres = Postgres(folder)
    if command == "up":
        postgres.up()
        print(postgres.uri)
    else:
        postgres.down()
