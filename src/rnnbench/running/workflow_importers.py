"""Importers for all jobs of a workflow on this host, so that a framework is imported once."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from rnnbench.builds.pins import pins_of
from rnnbench.errors import RnnbenchError
from rnnbench.running.worker import job_of, member
from rnnworker.forked_workers import FOLDER, Importer, kind_of
from rnnworker.rounds import may_fork


class WorkflowImporters:
    """Starts an importer for each build and CPU device of the workers with `configs`, for at most
    as many as there are cores, those with the most workers. The workers of others, and of an
    importer that has ended, are started as they are without a workflow. So are those of builds with
    an environment of their own, because each round checks and repairs it before anything is
    imported."""

    def __init__(self, configs: Iterable[Mapping[str, Any]], root: Path):
        self._importers: dict[str, Importer] = {}
        by_process: dict[str, list[Mapping[str, Any]]] = {}
        for config in configs:
            if not may_fork(config) or pins_of(config["build"], root):
                continue
            by_process.setdefault(repr((config["build"], config["device"])), []).append(config)
        ranked = sorted(by_process.values(), key=len, reverse=True)
        self._folder: Path | None = None
        if not ranked:
            return
        self._folder = Path(tempfile.mkdtemp(prefix="rnnbench-"))  # only this user may enter it
        os.environ[FOLDER] = str(self._folder)
        for number, (config, *_) in enumerate(ranked[: len(os.sched_getaffinity(0))]):
            # What is wrong with a build is reported by the job that needs it.
            with suppress(RnnbenchError, OSError):
                self._start(config, root, self._folder / str(number))

    def _start(self, config: Mapping[str, Any], root: Path, files: Path) -> None:
        like = member("import", job_of(config, root), root, files, timing=None, limits={})
        kind = kind_of(like.command[:-1], like.environment)
        if kind not in self._importers:
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
                listener.bind(str(files.parent / kind))
                listener.listen()
                self._importers[kind] = Importer(like, listener=listener)

    def end(self) -> None:
        """Ends the importers; their workers have ended by then."""
        for importer in self._importers.values():
            importer.finish()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
