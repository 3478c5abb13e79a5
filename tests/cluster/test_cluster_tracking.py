"""Many processes log to an MLflow server on PostgreSQL while it is killed; and passwords."""

from __future__ import annotations

import getpass
import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from rnnbench.records.record import Record
from rnnbench.tracking.mapping import metrics
from tests import forked_commands
from tests.factory import BEGINNING, make_record
from tests.tracking.conftest import MlflowServer, fork_track, round_of, write_run

RECORDS, PROCESSES, KILLS = 80, 4, 2
TRIES = 12


def user() -> str | None:
    """The user who must own the database, because PostgreSQL does not run as root."""
    return "postgres" if os.geteuid() == 0 else None


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    """The address of a PostgreSQL that answers on a socket only."""
    # Debian's newest version, whose folder is not in PATH, or the one in PATH.
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    found = str(versions[-1]) if versions else shutil.which("initdb")
    if found is None:
        pytest.skip("no PostgreSQL: apt-get install postgresql")
    if user() and user() not in [entry.pw_name for entry in pwd.getpwall()]:
        pytest.skip("as root, PostgreSQL needs a user postgres")

    def call(program: str, *arguments: str) -> None:
        command = [Path(found).with_name(program), *arguments, f"--pgdata={folder}/data"]
        subprocess.run(
            command, user=user(), cwd="/", check=True, timeout=60, stdout=subprocess.DEVNULL
        )

    folder = Path(tempfile.mkdtemp(prefix="rnnbench-postgres-"))
    folder.chmod(0o755)  # its user must be able to enter it
    try:
        for name in ("data", "socket"):
            (folder / name).mkdir(mode=0o700)
            if user():
                shutil.chown(folder / name, user())
        call("initdb", "--auth=trust", "--no-sync")
        settings = f"-c listen_addresses='' -c unix_socket_directories={folder}/socket"
        call("pg_ctl", "start", "--wait", f"--log={folder}/data/log", f"--options={settings}")
        yield f"postgresql+psycopg2://{user() or getpass.getuser()}@/postgres?host={folder}/socket"
    finally:
        with suppress(subprocess.SubprocessError):
            call("pg_ctl", "stop", "--mode=fast", "--wait")
        shutil.rmtree(folder, ignore_errors=True)


def write_records(root: Path, count: int) -> list[Record]:
    times = [BEGINNING + timedelta(minutes=number) for number in range(count)]
    made = [make_record(seed=seed, started=at, epochs=3) for seed, at in enumerate(times)]
    return [write_run(root, record)[0] for record in made]


def start(
    root: Path, records: Sequence[Record], server: MlflowServer, **extra: str
) -> forked_commands.Forked:
    address = {"MLFLOW_TRACKING_URI": server.uri, "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1"}
    rounds = [round_of(root, record) for record in records]
    return fork_track("--root", root, *rounds, **address, **extra)


def rows(database: str, query: str) -> list[tuple]:
    import sqlalchemy

    engine = sqlalchemy.create_engine(database)
    with engine.connect() as connection:
        result = [tuple(row) for row in connection.execute(sqlalchemy.text(query))]
    engine.dispose()
    return result


TAGGED = """
    from runs r join tags t on t.run_uuid = r.run_uuid and t.key = 'rnnbench.{}'
    and r.lifecycle_stage = 'active'
"""
RECORD, COMPLETE = TAGGED.format("record"), TAGGED.format("complete")
COUNT = f"select count(*) {COMPLETE}"
LOGGED = f"select t.value, count(distinct r.run_uuid) {RECORD} group by t.value"
POINTS = f"""
    select t.value, m.key, m.step, m.value {RECORD} join metrics m on m.run_uuid = r.run_uuid
"""


def test_each_record_is_logged_once_although_the_server_is_killed_twice(
    database: str, tmp_path: Path
) -> None:
    records = write_records(tmp_path, RECORDS)
    server = MlflowServer(tmp_path, database)
    server.up()
    try:
        failures = log_all(database, server, tmp_path, records)
    finally:
        server.kill()
    assert failures, "no process called the server while it was down"
    assert dict(rows(database, LOGGED)) == {record.key: 1 for record in records}
    assert rows(database, COUNT) == [(RECORDS,)]
    assert sorted(rows(database, POINTS)) == sorted(
        (record.key, point.key, point.step, point.value)
        for record in records
        for point in metrics(record)
    )


def log_all(database: str, server: MlflowServer, root: Path, records: Sequence[Record]) -> int:
    """Each process repeats its command until it succeeds. Returns the number of failures."""
    shares = [records[n::PROCESSES] for n in range(PROCESSES)]
    calls = {n: start(root, shares[n], server) for n in range(PROCESSES)}
    kills = [RECORDS * (n + 1) // (KILLS + 1) for n in range(KILLS)]
    failed, end = Counter[int](), time.monotonic() + 900
    while calls:
        assert time.monotonic() < end, f"{len(calls)} processes have not ended"
        if kills and rows(database, COUNT)[0][0] >= kills[0]:
            kills.pop(0)
            server.kill()
            time.sleep(4)
            server.up()
        for number, process in list(calls.items()):
            if process.poll() is None:
                continue
            _, error = process.communicate()
            del calls[number]
            if process.returncode:
                assert "Fix:" in error and "Traceback" not in error, error
                failed[number] += 1
                assert failed[number] < TRIES, error
                calls[number] = start(root, shares[number], server)
        time.sleep(0.5)
    return failed.total()


def test_a_server_that_requires_a_password(tmp_path: Path) -> None:
    pytest.importorskip("flask_wtf", reason="MLflow's auth app needs Flask-WTF")
    password = secrets.token_urlsafe(18)
    settings = tmp_path / "auth.ini"
    settings.write_text(
        "[mlflow]\ndefault_permission = READ\nadmin_username = lab\n"
        f"admin_password = {password}\ndatabase_uri = sqlite:///{tmp_path}/auth.db\n"
        "authorization_function = mlflow.server.auth:authenticate_request_basic_auth\n"
    )
    server = MlflowServer(
        tmp_path,
        f"sqlite:///{tmp_path}/server.db",
        *("--app-name", "basic-auth"),
        MLFLOW_AUTH_CONFIG_PATH=str(settings),
        MLFLOW_FLASK_SERVER_SECRET_KEY=secrets.token_urlsafe(18),
    )
    server.up()
    records = write_records(tmp_path, 1)
    outputs: list[str] = []

    def exit_code(**credentials: str) -> int:
        process = start(tmp_path, records, server, **credentials)
        outputs.extend(process.communicate(timeout=60))
        return process.returncode

    try:
        assert exit_code() == 1 and len(outputs[-1].splitlines()) == 1, outputs
        valid = {"MLFLOW_TRACKING_USERNAME": "lab", "MLFLOW_TRACKING_PASSWORD": password}
        assert exit_code(**valid) == 0, outputs
        assert exit_code(**{**valid, "MLFLOW_TRACKING_PASSWORD": f"{password}x"}) == 1
    finally:
        server.kill()
    assert password not in "".join(outputs)
    for file in (tmp_path / "results").rglob("*"):
        assert not file.is_file() or password not in file.read_text()
