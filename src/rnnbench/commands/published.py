"""Write the page of published comparisons, reports/published.html."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rnnbench.commands.arguments import add_folder, add_results, command_parser
from rnnbench.errors import ConfigError, say

if TYPE_CHECKING:
    from rnnbench.sources.claims import Claim


def main(argv: Sequence[str]) -> int:
    """Writes the page and prints its path."""
    parser = command_parser("published", __doc__)
    add_folder(parser, "--rows", "reports/published", "the folder with the published rows, *.csv")
    add_folder(parser, "--out", "reports", "the folder to write published.html into")
    add_results(parser)
    options = parser.parse_args(list(argv))

    from rnnbench.report.index import write_index
    from rnnbench.report.published_page import write_published
    from rnnbench.sources.claims import read_claims
    from rnnbench.sources.published import read_published

    rows = read_published(options.rows)
    if not rows:
        raise ConfigError("has no published rows (*.csv).", where=str(options.rows))
    claims = read_claims(options.rows)
    page = write_published(rows, options.out, claims, _measured(claims, options.results))[0]
    write_index(options.out)
    print(page)
    return 0


def _measured(claims: Sequence[Claim], results: Path) -> dict[str, Any]:
    """The measurements of this machine that correspond to `claims`."""
    from rnnbench.records.store import pointer_files, records_of
    from rnnbench.sources.certificates import read_certificates
    from rnnbench.tables.certificates import Certificates
    from rnnbench.tables.claims import measured_claims
    from rnnbench.tables.frame import tidy
    from rnnworker import machine

    local_machine = machine.fingerprint()["machine"]
    folders = sorted(results.glob("*/*"))
    records, faults = records_of(pointer_files(folders))
    local = {record.key: record for record in records if record.machine == local_machine}
    every, unreadable = read_certificates(folder / "certificates" for folder in folders)
    for fault in [*faults, *unreadable]:
        say(fault)
    if not local:
        return {}
    certificates = Certificates(every, tuple(local.values()))
    return measured_claims(
        claims, tidy(certificates.mark_wrong_gradients(local.values())), certificates
    )
