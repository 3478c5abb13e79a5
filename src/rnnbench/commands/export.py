"""Write an experiment's records to one file for another machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rnnbench.commands.arguments import add_results, command_parser
from rnnbench.errors import ConfigError
from rnnbench.exchange import archive
from rnnbench.records.store import is_record


def main(arguments: Sequence[str]) -> int:
    """Writes the archive. Returns the exit code."""
    parser = command_parser("export", __doc__)
    parser.add_argument("experiment", help="the experiment's name")
    parser.add_argument(
        *("-o", "--output"),
        type=Path,
        required=True,
        metavar="FILE.zip",
        help="the file to write",
    )
    parser.add_argument("--site", action="append", help="only this site; repeatable (default: all)")
    add_results(parser)
    options = parser.parse_args(arguments)
    known = {
        folder.parent.name: folder
        for folder in archive.folders_of(options.results, options.experiment)
    }
    sites = options.site or list(known)
    if not known or set(sites) - set(known):
        raise ConfigError(
            f"has no runs of {options.experiment} at {', '.join(sites) or 'any site'}.",
            where=str(options.results),
            remedy=f"name a site that has some: {', '.join(known) or 'none does'}.",
        )
    files = {name: file for site in sites for name, file in archive.files_of(known[site]).items()}
    archive.write(options.output, files)
    records = sum(map(is_record, files.values()))
    print(f"{options.output}: {records} records of {options.experiment} at {', '.join(sites)}")
    return 0
