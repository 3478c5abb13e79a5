"""A PostgreSQL of our own on a Unix socket, and an MLflow server in front of it.

    python -m tests.cluster.postgres up DIR
    python -m tests.cluster.postgres down DIR

The database's processes belong to the user postgres where root starts it (it refuses root).
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
    """Why there can be no PostgreSQL here, or None."""
    if _program("initdb") is None:
        return "no PostgreSQL: apt-get install postgresql"
    return None if os.geteuid() or _user() else "PostgreSQL needs a user postgres beside root"


class Postgres:
    """`folder` must be open to the database's user; its socket is in ``socket/``."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.owner = _user() if os.geteuid() == 0 else None

    @property
    def uri(self) -> str:
        name = self.owner or getpass.getuser()
        return f"postgresql+psycopg2://{name}@/postgres?host={self.folder}/socket"

    def up(self) -> None:
        for name in ("data", "socket"):
            place = self.folder / name
            place.mkdir(mode=0o700)
            if self.owner:
                shutil.chown(place, self.owner)
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
    """``mlflow server`` on a loopback port, which may be killed and started again."""

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
        """The server and its workers: the session that was started for it alone."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)
            self.process.wait(timeout=20)
            self.process = None


def _program(name: str) -> Path | None:
    """Debian keeps them out of PATH, by version."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    there = shutil.which(name)
    return found[-1] if found else Path(there) if there else None


def _user() -> str | None:
    with suppress(KeyError):
        return pwd.getpwnam("postgres").pw_name
    return None


if __name__ == "__main__":
    command, place = sys.argv[1], Path(sys.argv[2]).resolve()
    postgres = Postgres(place)
    if command == "up":
        postgres.up()
        print(postgres.uri)
    else:
        postgres.down()
