"""``rnnbench retry EXPERIMENT [NAME …]``: the next snakemake measures these runs again.

Without names: every void run. Records stay; the new ones are kept beside them.
"""

from __future__ import annotations

import argparse
import fnmatch
from collections.abc import Sequence
from pathlib import Path

from rnnbench.commands.exclusive import alone
from rnnbench.errors import ConfigError
from rnnbench.grid.point import cell_of
from rnnbench.records import timestamps
from rnnbench.records.store import not_needed, read_json
from rnnworker import machine


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="rnnbench retry", description=__doc__)
    parser.add_argument("experiment")
    parser.add_argument("names", nargs="*", help="names or patterns (*); none: all void runs")
    parser.add_argument("--site", help="default: this machine")
    parser.add_argument("--results", type=Path, default=Path("results"))
    options = parser.parse_args(arguments)
    site = options.site or machine.fingerprint()["machine"]
    folder = options.results / site / options.experiment
    if not folder.is_dir():
        raise _nothing_in(folder)
    with alone(options.results, "rnnbench retry"):
        chosen, known = _mark(folder, options.names)
    print(f"{len(chosen)} of {known} runs will be measured again by the next snakemake.")
    return 0


def _mark(folder: Path, names: Sequence[str]) -> tuple[Sequence[str], int]:
    """Takes away the pointers of the runs to be measured again. Returns their names, and how many
    runs there were."""
    pointers = {path.stem: path for path in folder.glob("*-s*-r*.json")}
    if not pointers:
        raise _nothing_in(folder)
    chosen = _chosen(pointers, names)
    for name in chosen:
        mark = folder / "retry" / name
        mark.parent.mkdir(exist_ok=True)
        mark.write_text(timestamps.now() + "\n")
        pointers[name].unlink()
    _decide_anew(pointers, chosen)
    return chosen, len(pointers)


def _nothing_in(folder: Path) -> ConfigError:
    return ConfigError("has no finished run.", where=str(folder), remedy="run snakemake first.")


def _decide_anew(pointers: dict[str, Path], chosen: Sequence[str]) -> None:
    """Repeats of the same cells that were not needed may be, after another measurement."""
    cells = {cell_of(name) for name in chosen}
    for name, pointer in pointers.items():
        if cell_of(name) in cells and pointer.exists() and not_needed(read_json(pointer)):
            pointer.unlink()


def _chosen(pointers: dict[str, Path], patterns: Sequence[str]) -> list[str]:
    if not patterns:
        return sorted(n for n, path in pointers.items() if read_json(path).get("verdict") == "void")
    chosen: set[str] = set()
    for pattern in patterns:
        found = fnmatch.filter(pointers, pattern)
        if not found:
            raise ConfigError(f"no finished run is called {pattern!r}.", where="rnnbench retry")
        chosen.update(found)
    return sorted(chosen)
