"""Import the records that another machine exported or that a bundle measured.

All files are checked before anything is written. They go into results/imported/, and nothing that
was measured here is changed. With --restore they are this machine's own, such as a backup: they go
into results/ itself, and each file that is replaced is named.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from rnnbench.commands.arguments import add_results, command_parser
from rnnbench.commands.exclusive import exclusive_access
from rnnbench.errors import RecordError
from rnnbench.exchange import archive, incoming, outcomes
from rnnbench.records.store import IMPORTED
from rnnworker import machine


def main(arguments: Sequence[str]) -> int:
    """Imports each file or bundle folder. Returns the exit code."""
    parser = command_parser("import", __doc__)
    parser.add_argument(
        "sources",
        nargs="+",
        type=Path,
        metavar="FILE|FOLDER",
        help="a file of `rnnbench export`, or a bundle's folder after its runs",
    )
    parser.add_argument(
        "--restore",
        action="store_true",
        help="bring back results of this machine: a backup, or a bundle that ran here",
    )
    add_results(parser)
    options = parser.parse_args(arguments)
    with exclusive_access(options.results, "rnnbench import"):
        _import(options.sources, options.results, options.restore)
    return 0


def _import(sources: Sequence[Path], results: Path, restore: bool) -> None:
    root = results if restore else results / IMPORTED
    local = set() if restore else _own_names(results)
    results.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        checked = []
        for source in sources:
            files = tempfile.TemporaryDirectory(prefix=incoming.UNPACKED, dir=results)
            folder = Path(stack.enter_context(files))
            if not source.exists():
                raise RecordError("does not exist.", where=str(source))
            read = outcomes.lay_out if source.is_dir() else archive.unpack
            try:
                read(source, folder)
                admitted = incoming.examine(folder, root, local)
            except RecordError as error:
                raise _refused(source, folder, error) from error
            checked.append((source, admitted))
        for source, admitted in checked:
            admitted.write()
            print(
                f"{source}: {len(admitted.records)} records of {admitted.experiment}, "
                f"{len(admitted.files)} files written, {admitted.known} known already"
                + (f", {admitted.kept} newer files kept" if admitted.kept else "")
            )
            for name in admitted.replaced if restore else ():
                print(f"replaced: {root / name}")


def _refused(source: Path, folder: Path, error: RecordError) -> RecordError:
    where = error.where.replace(f"{folder}/", "") if error.where != str(source) else ""
    what = f"{where}: {error.what}" if where else error.what
    return RecordError(
        f"{what.rstrip('.')}; nothing was imported.",
        where=str(source),
        remedy=error.remedy or "export it again on its machine, with the same version of rnnbench.",
    )


def _own_names(results: Path) -> set[str]:
    """This machine, and every site and machine that has results in this project."""
    folders = [*results.glob("*"), *results.glob("records/*")]
    return {machine.fingerprint()["machine"], *(folder.name for folder in folders)}
