"""``rnnbench gc``: removes what nothing refers to. It says what, and asks first.

That is: environments that no plan in results/ uses with its present pins; logs and events of
attempts that left no record; halves of files that a kill left; MLflow databases that were set
aside as corrupt. Never a record, nor one that was set aside as unreadable.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from rnnbench.builds.pins import ENVIRONMENTS, pins_of
from rnnbench.commands.exclusive import alone
from rnnbench.errors import RnnbenchError

YOUNG_SECONDS = 86_400.0  # what is younger may be somebody's work
LEFT_BEHIND = (".log", ".events.jsonl", ".job.json")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="rnnbench gc", description=__doc__)
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--root", type=Path, default=Path(), help="the project's folder")
    options = parser.parse_args(arguments)
    root = options.root.resolve()
    results = root / "results"
    if not results.is_dir():
        print("There is no results folder, and nothing to remove.")
        return 0
    with alone(results, "rnnbench gc"):
        return _collect(root, results, options.yes)


def _collect(root: Path, results: Path, yes: bool) -> int:
    found = {path: (_size(path), why) for path, why in unused(root, results)}
    if not found:
        print("Everything in results/ is referred to: there is nothing to remove.")
        return 0
    for path, (size, why) in found.items():
        print(f"{size / 1e6:9.1f} MB  {path.relative_to(root)}  ({why})")
    total = sum(size for size, _ in found.values()) / 1e6
    question = f"Remove these {len(found)}, {total:.1f} MB? [y/N] "
    if not yes and not (sys.stdin.isatty() and input(question).strip().lower() in ("y", "yes")):
        print("Nothing was removed." if sys.stdin.isatty() else "Nothing was removed: say --yes.")
        return 0
    for path in found:
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    print(f"Removed {len(found)}, {total:.1f} MB.")
    return 0


def unused(root: Path, results: Path) -> Iterator[tuple[Path, str]]:
    """What may go, each with the reason."""
    yield from _environments(root, results)
    old = time.time() - YOUNG_SECONDS
    for path in sorted(results.glob("records/*/*/*")):
        stamp = path.name.partition(".")[0]
        record = path.parent / f"{stamp}.json"
        kept = record.exists() or record.with_suffix(".unreadable").exists()
        if stamp and path.name.endswith(LEFT_BEHIND) and not kept and _older(path, old):
            yield path, "of an attempt that left no record"
    for pattern in ("**/.*.json.*", "*/*/.plan.jsonl.new"):
        for path in sorted(results.glob(pattern)):
            if path.is_file() and path.parts[len(results.parts)] != "envs" and _older(path, old):
                yield path, "half a file"
    for path in sorted(root.glob("mlflow.db.corrupt-*")):
        yield path, "set aside; the records have all of it"


def _environments(root: Path, results: Path) -> Iterator[tuple[Path, str]]:
    used = _used_environments(root, results)
    folder = root / ENVIRONMENTS
    for path in sorted(folder.glob("*-????????*")):
        key = path.name.partition(".json")[0].removesuffix(".lock")
        # The lock files stay: they hold nothing, and somebody may wait for one.
        if key not in used and path.suffix != ".lock":
            yield path, "no plan uses it"


def _used_environments(root: Path, results: Path) -> set[str]:
    used: set[str] = set()
    seen: set[str] = set()
    for plan in results.glob("*/*/plan.jsonl"):
        for line in plan.read_text(encoding="utf-8").splitlines():
            build = json.loads(line)["config"]["build"]
            if (text := json.dumps(build, sort_keys=True)) in seen:
                continue
            seen.add(text)
            with suppress(RnnbenchError):
                pins = pins_of(build, root)
                used |= {pins.key} if pins else set()
    return used


def _older(path: Path, moment: float) -> bool:
    with suppress(OSError):
        return path.lstat().st_mtime < moment
    return False


def _size(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() and not path.is_symlink() else [path]
    return sum(file.lstat().st_size for file in files)
