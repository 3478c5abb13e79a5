"""Many processes log to an MLflow server on PostgreSQL while it is killed; and passwords."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from rnnbench.records.record import Record
from rnnbench.records.store import pointer_to, write_json
from rnnbench.tracking.mapping import metrics
from tests.cluster import postgres as private_postgres
from tests.cluster.postgres import MlflowServer, Postgres
from tests.conftest import ROOT
from tests.factory import BEGINNING, make_record

RECORDS, PROCESSES, KILLS = 200, 8, 2
TRIES = 12


@pytest.fixture(scope="module")
def database() -> Iterator[Postgres]:
    if why := private_postgres.missing():
        pytest.skip(why)
    folder = Path(tempfile.mkdtemp(prefix="rnnbench-postgres-"))
    folder.chmod(0o755)
    postgres = Postgres(folder)
    try:
        postgres.up()
        yield postgres
    finally:
        postgres.down()
        shutil.rmtree(folder, ignore_errors=True)


def write_records(root: Path, count: int) -> list[tuple[Record, Path]]:
    """Writes records and pointers. Returns (record, pointer) of each."""
    written = []
    for number in range(count):
        moment = BEGINNING + timedelta(minutes=number)
        record = make_record(seed=number, started=moment, epochs=3)
        file = root / "results/records" / f"{record.key}.json"
        write_json(file, record.to_json())
        pointer = root / "results/site/quick" / f"{record.name}.json"
        write_json(pointer, pointer_to(record))
        written.append((record, pointer))
    return written


def environment(server: MlflowServer, **extra: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_")}
    return {
        **kept,
        "PYTHONPATH": str(ROOT / "src"),
        "MLFLOW_TRACKING_URI": server.uri,
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
        **extra,
    }


def track(root: Path, pointers: list[Path], environment: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "rnnbench", "track", "--root", str(root), *map(str, pointers)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def rows(database: Postgres, query: str) -> list[tuple]:
    import sqlalchemy

    engine = sqlalchemy.create_engine(database.uri)
    with engine.connect() as connection:
        result = [tuple(row) for row in connection.execute(sqlalchemy.text(query))]
    engine.dispose()
    return result


LOGGED = """
    select t.value, count(distinct r.run_uuid) from runs r
    join tags t on t.run_uuid = r.run_uuid and t.key = 'rnnbench.record'
    where r.lifecycle_stage = 'active' group by t.value
"""
COMPLETE = """
    select count(*) from runs r
    join tags t on t.run_uuid = r.run_uuid and t.key = 'rnnbench.complete'
    where r.lifecycle_stage = 'active'
"""
POINTS = """
    select t.value, m.key, m.step, m.value from metrics m
    join runs r on r.run_uuid = m.run_uuid and r.lifecycle_stage = 'active'
    join tags t on t.run_uuid = r.run_uuid and t.key = 'rnnbench.record'
"""


def test_200_records_by_8_processes_while_the_server_is_killed_twice(
    database: Postgres, tmp_path: Path
) -> None:
    written = write_records(tmp_path, RECORDS)
    server = MlflowServer(tmp_path, database.uri)
    server.up()
    try:
        failures = log_all(database, server, tmp_path, [pointer for _, pointer in written])
    finally:
        server.kill()
    assert failures, "no process called the server while it was down"
    assert dict(rows(database, LOGGED)) == {record.key: 1 for record, _ in written}
    assert rows(database, COMPLETE) == [(RECORDS,)]
    logged = sorted((key, name, step, value) for key, name, step, value in rows(database, POINTS))
    assert logged == sorted(
        (record.key, point.key, point.step, point.value)
        for record, _ in written
        for point in metrics(record)
    )


def log_all(database: Postgres, server: MlflowServer, root: Path, pointers: list[Path]) -> int:
    """Each process repeats its command until it succeeds. Returns the number of failures."""
    shares = [pointers[n::PROCESSES] for n in range(PROCESSES)]
    calls = {n: track(root, shares[n], environment(server)) for n in range(PROCESSES)}
    kills = [RECORDS * (n + 1) // (KILLS + 1) for n in range(KILLS)]
    failures, tried, end = 0, dict.fromkeys(calls, 1), time.monotonic() + 300
    while calls:
        assert time.monotonic() < end, f"{len(calls)} processes have not ended"
        if kills and rows(database, COMPLETE)[0][0] >= kills[0]:
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
                assert tried[number] < TRIES, error
                failures, tried[number] = failures + 1, tried[number] + 1
                calls[number] = track(root, shares[number], environment(server))
        time.sleep(0.5)
    return failures


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
    ((record, pointer),) = write_records(tmp_path, 1)
    outputs: list[str] = []

    def exit_code(**credentials: str) -> int:
        process = track(tmp_path, [pointer], environment(server, **credentials))
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
    assert record.name
