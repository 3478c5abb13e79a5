"""Have the next snakemake measure the named runs again; without names, all void runs.

Records are kept; the new ones are stored next to them.
"""

from __future__ import annotations

import fnmatch
import glob
from collections.abc import Sequence
from pathlib import Path

from rnnbench.commands.arguments import add_results, command_parser
from rnnbench.commands.exclusive import exclusive_access
from rnnbench.errors import ConfigError
from rnnbench.grid.point import configuration_of
from rnnbench.records import timestamps
from rnnbench.records.store import not_needed, pointer_files, read_json, record_files
from rnnworker import machine


def main(arguments: Sequence[str]) -> int:
    parser = command_parser("retry", __doc__)
    parser.add_argument("experiment", help="the experiment's name")
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="a run's name or a pattern with * (default: all void runs)",
    )
    parser.add_argument("--site", help="the site whose runs are retried (default: this machine)")
    add_results(parser)
    options = parser.parse_args(arguments)
    site = options.site or machine.fingerprint()["machine"]
    folder = options.results / site / options.experiment
    if not folder.is_dir():
        raise _no_finished_run(folder)
    with exclusive_access(options.results, "rnnbench retry"):
        chosen, total = _mark(folder, options.names)
    print(f"The next snakemake measures {len(chosen)} of {total} runs again.")
    return 0


def _mark(folder: Path, names: Sequence[str]) -> tuple[Sequence[str], int]:
    """Marks the chosen runs and removes their pointers. Returns their names and the number of all
    runs."""
    pointers = {path.stem: path for path in pointer_files([folder])}
    if not pointers:
        raise _no_finished_run(folder)
    chosen = _chosen(pointers, names)
    for name in chosen:
        mark = folder / "retry" / name
        mark.parent.mkdir(exist_ok=True)
        # The clock may have been ahead when the records were made.
        records = record_files(folder.parents[1], name=glob.escape(name))
        mark.write_text(max([timestamps.now(), *(file.stem for file in records)]) + "\n")
        pointers[name].unlink()
    _reopen_not_needed(pointers, chosen)
    return chosen, len(pointers)


def _no_finished_run(folder: Path) -> ConfigError:
    return ConfigError("has no finished run.", where=str(folder), remedy="run snakemake first.")


def _reopen_not_needed(pointers: dict[str, Path], chosen: Sequence[str]) -> None:
    """Removes the pointers of repeats that were not needed: the new measurement of their
    configuration may change that."""
    configurations = {configuration_of(name) for name in chosen}
    for name, pointer in pointers.items():
        same = configuration_of(name) in configurations
        if same and pointer.exists() and not_needed(read_json(pointer)):
            pointer.unlink()


def _chosen(pointers: dict[str, Path], patterns: Sequence[str]) -> list[str]:
    if not patterns:
        return sorted(n for n, path in pointers.items() if read_json(path).get("verdict") == "void")
    chosen: set[str] = set()
    for pattern in patterns:
        matches = fnmatch.filter(pointers, pattern)
        if not matches:
            raise ConfigError(f"no finished run is named {pattern!r}.", where="rnnbench retry")
        chosen.update(matches)
    return sorted(chosen)
