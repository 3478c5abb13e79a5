"""The commands that log records to MLflow and serve them."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import time
import webbrowser
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from rnnbench.commands.arguments import ROOT, Arguments, command_parser, folder_option
from rnnbench.errors import TrackingError, say
from rnnbench.records.rounds import Result, read_records, read_results
from rnnbench.records.store import (
    NOT_TRACKED,
    read_record,
    readable,
    record_files,
    roots,
    write_json,
)
from rnnbench.tracking.store import (
    check_server,
    ensure_store,
    is_server,
    redacted,
    tracking_uri,
)
from rnnbench.tracking.track import addresses
from rnnbench.tracking.track import track as log_records

START = 120.0  # seconds
DESKTOP = ("DISPLAY", "WAYLAND_DISPLAY")


def track(arguments: Sequence[str]) -> int:
    """Log the records of rounds to MLflow; safe to repeat (Snakemake calls this).

    With --output, a store that cannot be reached does not count as a failure; the error is written
    into the file.
    """
    declared: Arguments = {
        "rounds": {
            "nargs": "*",
            "type": Path,
            "metavar": "FILE.json",
            "help": "the file of a round or of a batch of rounds",
        },
        "--root": ROOT,
        "--results": folder_option("results", "the results folder, relative to --root"),
        "--output": {"type": Path, "help": "a JSON file to write: run → MLflow run id"},
        "--all": {"action": "store_true", "help": "log all records in the results folder"},
    }
    options = command_parser(track, declared).parse_args(arguments)

    try:
        return _track(options)
    except TrackingError as error:
        if not options.output:
            raise
        say(error)  # a workflow goes on without MLflow
        write_json(options.output, {NOT_TRACKED: str(error)})
        return 0


def _track(options: argparse.Namespace) -> int:
    """Logs the records of the rounds and, if asked, all others.

    Returns the exit code: 1 if a record cannot be read. The others are logged, but ``--output`` is
    not written.
    """
    root = options.root
    results = root / options.results
    ensure_store(root)

    rounds, faults = readable(options.rounds, read_results)
    members: list[Result] = []
    for each in rounds:
        members += each.values()
    found, unreadable = read_records(members, results)
    faults += unreadable
    requested = {(results / record.path).resolve(): record for record in found.values()}
    records = requested
    if options.all:
        files = []
        for folder in roots(results):
            files += record_files(folder)
        read, unreadable = readable(files, lambda file: (file.resolve(), read_record(file)))
        records = dict(read) | requested
        faults += unreadable

    for fault in dict.fromkeys(map(str, faults)):
        say(fault)

    run_ids: Mapping[str, str] = {}
    if records:
        run_ids = log_records([(record, file) for file, record in records.items()], root)
    if faults:
        return 1

    if options.output:
        # By its run's name, or by its key if it is a companion or the run has several records.
        counts = Counter(each.name for each in requested.values() if not each.is_companion)
        logged = {}
        for record in requested.values():
            name = record.key
            if counts[record.name] == 1 and not record.is_companion:
                name = record.name
            logged[name] = {
                "run_id": run_ids[record.key],
                "record": record.key,
            }
        write_json(options.output, logged)
    return 0


def ui(arguments: Sequence[str]) -> int:
    """Serve this project's MLflow store, and print the link to the runs of each experiment; on a
    desktop, the browser opens the latest."""
    declared: Arguments = {
        "--port": {"type": int, "default": 5000, "help": "default: %(default)s"},
    }
    parser = command_parser(ui, declared)
    options = parser.parse_args(arguments)
    if not 0 < options.port < 65536:
        parser.error(f"argument --port: {options.port} is not a number from 1 to 65535")

    uri = tracking_uri(Path())
    with socket.socket() as probe:
        if not is_server(uri) and probe.connect_ex(("127.0.0.1", options.port)) == 0:
            raise TrackingError(
                "is in use, perhaps by another project's MLflow.",
                where=f"port {options.port}",
                remedy=f"run `rnnbench ui --port {options.port + 1}`.",
            )

    ensure_store(Path())
    links = addresses(Path())
    if is_server(uri):
        _show(redacted(uri, uri).rstrip("/"), links)
        return 0

    command = [sys.executable, "-m", "mlflow", "ui", "--backend-store-uri", uri]
    # One user needs one worker; only warnings are printed, so that the links stay visible.
    command += ["--workers", "1", "--uvicorn-opts", "--log-level warning"]
    command += ["--port", str(options.port)]

    quiet = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "PYTHONWARNINGS": "ignore"}
    for ending in (signal.SIGTERM, signal.SIGHUP):  # so that the server ends too
        signal.signal(ending, signal.default_int_handler)

    # In a session of its own, so that Ctrl-C ends it by SIGTERM, on which it prints nothing.
    server = subprocess.Popen(command, env=os.environ | quiet, start_new_session=True)
    try:
        address = f"http://127.0.0.1:{options.port}"
        _wait_for(server, address)
        _show(address, links)
        print("Ctrl-C stops the server.", flush=True)
        return server.wait()
    except KeyboardInterrupt:
        return 0
    finally:
        server.terminate()
        server.wait()


def _wait_for(server: subprocess.Popen[bytes], address: str) -> None:
    """Returns when the server answers. Raises `TrackingError` if it ends or is too slow."""
    begin = time.monotonic()
    while server.poll() is None and time.monotonic() - begin < START:
        try:
            check_server(address)
            return
        except TrackingError:
            time.sleep(0.2)
    raise TrackingError(
        "MLflow's server did not start.", where=address, remedy="see its messages above."
    )


def _show(address: str, links: Mapping[str, str]) -> None:
    """Prints the links (experiment → path, latest first), and opens the first on a desktop."""
    for name, path in links.items():
        print(f"{name}: {address}/{path}", flush=True)
    if not links:
        print(f"MLflow: {address} (no experiment has a report yet; `make run` makes one)")
    elif any(map(os.environ.get, DESKTOP)):
        latest, *_ = links.values()
        webbrowser.open(f"{address}/{latest}")
