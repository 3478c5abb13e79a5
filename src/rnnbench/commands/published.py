"""Write the page of published comparisons, reports/published.html."""

from __future__ import annotations

from collections.abc import Sequence

from rnnbench.commands.arguments import add_folder, add_results, command_parser
from rnnbench.errors import ConfigError


def main(argv: Sequence[str]) -> int:
    """Writes the page and prints its path."""
    parser = command_parser("published", __doc__)
    add_folder(parser, "--rows", "reports/published", "the folder with the published rows, *.csv")
    add_folder(parser, "--out", "reports", "the folder to write published.html into")
    add_results(parser)
    options = parser.parse_args(list(argv))

    from rnnbench.commands.compare import read_certified
    from rnnbench.report.page import write_index
    from rnnbench.report.published import write_published
    from rnnbench.sources.published import read_claims, read_published, read_sources
    from rnnbench.tables.frame import tidy
    from rnnbench.tables.published import measured_claims
    from rnnworker import machine

    rows, claims = read_published(options.rows), read_claims(options.rows)
    if not rows:
        raise ConfigError("has no published rows (*.csv).", where=str(options.rows))
    local_machine = machine.fingerprint()["machine"]
    records, certificates = read_certified(options.results)
    local = [record for record in records if record.machine == local_machine]
    ours = measured_claims(claims, tidy(local), certificates) if local else {}
    page = write_published(rows, options.out, read_sources(options.rows), claims, ours)[0]
    write_index(options.out)
    print(page)
    return 0
