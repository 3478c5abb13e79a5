"""Stores plans, which are read again while nothing that they were made from has changed.

A stored plan is read if all of this is as it was: the arguments; every file that was read to make
the plan (`planning.inputs`); the names and states of all files in the config folders and of our
source code; the installed packages; the environment variables; this machine, its cores and GPUs.

A plan is not stored if

- making it started a program, such as a build's Python, which may have read anything, or
- an input had changed less than `SETTLED` seconds before: another change so soon after might leave
  the file with the same times.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from rnnbench.grid.local_constraints import cards, cores, machine_name
from rnnbench.planning import inputs
from rnnbench.planning.inputs import State
from rnnbench.planning.plan import Plan
from rnnbench.records.store import write_bytes

CACHE = Path("results/cache")
SETTLED = 2.0
SOURCE = Path(__file__).parents[2]
# Shells change them. The working directory is `root`.
VOLATILE = ("_", "PWD", "OLDPWD", "SHLVL")


class Stored(msgspec.Struct, frozen=True):
    """`key`: digest of the inputs that are known before planning; `files`: the states of the
    others, which planning has read; `plan`: the plan."""

    key: str
    files: dict[str, State]
    plan: Plan


def plan_of(
    name: str, conf: Sequence[Path], root: Path, *, site: str | None = None, overrides: str = ""
) -> tuple[Plan, Stored | None]:
    """The plan of these arguments, which are those of `planner.make_plan`, and what to `store`:
    None if the plan was read from a file or must not be stored."""
    begin = time.time()
    known = inputs.states_below(SOURCE, ".py")
    for folder in conf:
        known |= inputs.states_below(folder)
    key = _key([name, list(map(str, conf)), str(root), site, overrides], known)
    if stored := _read(_file(name, root), key):
        return stored.plan, None
    # Entries of the cache are checked against the files that they describe.
    with inputs.recorded([root.resolve() / CACHE]) as read:
        # Not at the top, because it imports Hydra.
        from rnnbench.planning.planner import make_plan

        plan = make_plan(name, conf, root, site=site, overrides=overrides)
    # Python looks for modules in the project's folder, where each start makes and removes files.
    not_inputs = {*known, str(root.resolve())}
    files = {path: state for path, state in read.files.items() if path not in not_inputs}
    changed = max((state[1] for state in (*known.values(), *files.values()) if state), default=0)
    settled = changed / 1e9 < begin - SETTLED
    return plan, Stored(key, files, plan) if read.complete and settled else None


def store(stored: Stored, root: Path) -> None:
    """Writes the plan for the next start. If it cannot be written, that start plans again."""
    with contextlib.suppress(OSError):
        content = msgspec.json.encode(stored, enc_hook=_encoded)
        write_bytes(_file(stored.plan.experiment.name, root), content)


def _file(name: str, root: Path) -> Path:
    return root / CACHE / "plans" / f"{name}.json"


def _read(file: Path, key: str) -> Stored | None:
    try:
        stored = msgspec.json.decode(file.read_bytes(), type=Stored, dec_hook=_decoded)
    except (OSError, ValueError):
        return None
    unchanged = all(inputs.state_of(path) == state for path, state in stored.files.items())
    return stored if stored.key == key and unchanged else None


def _key(arguments: Sequence[Any], known: dict[str, State]) -> str:
    # As a digest: variables may hold passwords.
    variables = sorted(item for item in os.environ.items() if item[0] not in VOLATILE)
    packages = [inputs.state_of(path) for path in inputs.PYTHON]
    python = [sys.version, sys.executable, packages]
    # Cached, so that planning does not start nvidia-smi again.
    devices = [cores(), cards(), machine_name()]
    everything = [arguments, sorted(known.items()), variables, python, devices]
    return hashlib.sha256(msgspec.json.encode(everything)).hexdigest()


def _encoded(value: Any) -> str:
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError(type(value))


def _decoded(kind: type, value: Any) -> Any:
    if kind is Path:
        return Path(value)
    raise NotImplementedError(kind)
