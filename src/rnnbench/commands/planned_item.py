"""A certificate or probe that Snakemake requests from a command, as planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rnnbench.commands.arguments import add_root, command_parser
from rnnbench.errors import RunError
from rnnbench.records.store import read_json
from rnnbench.running.train import Place, timing_lock


def requested_preflight(
    command: str, description: str | None, arguments: Sequence[str], kind: str
) -> tuple[Mapping[str, Any], Place]:
    """The planned ``certificate`` or ``probe`` (`kind`) that the `arguments` of ``rnnbench``
    `command` request, and the place to make it in."""
    parser = command_parser(command, description)
    parser.add_argument(
        "file", type=Path, help=f"the file to write: results/SITE/EXPERIMENT/{kind}s/KEY.json"
    )
    parser.add_argument("--digest", required=True, help=f"the planned digest of the {kind}")
    add_root(parser)
    options = parser.parse_args(arguments)
    file = options.file.resolve()
    experiment, site, results = (file.parents[i] for i in (1, 2, 3))
    place = Place(options.root.resolve(), results, site.name, experiment.name, timing_lock())
    planned = read_json(experiment / f"{kind}s.json").get(file.stem)
    return still_planned(planned, options.digest, f"{kind} {file.stem}"), place


def still_planned(planned: Mapping[str, Any] | None, digest: str, where: str) -> Mapping[str, Any]:
    """Returns `planned`. Raises `RunError` unless it has the digest that Snakemake requested."""
    if planned is None or planned["digest"] != digest:
        raise RunError(
            "was planned again while this command was waiting to start.",
            where=where,
            remedy="run the same snakemake command again.",
        )
    return planned
