"""``rnnbench bundle EXPERIMENT -o FOLDER``: a folder that measures it with Python alone."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rnnbench.builds.pins import pins_of
from rnnbench.cells.identity import digest_of
from rnnbench.commands.dataset import read_dataset
from rnnbench.datasets.pins import pinned
from rnnbench.datasets.provide import provide
from rnnbench.exchange.bundle import write_bundle
from rnnbench.planning import facts_of, make_plan

ELSEWHERE = "a bundle"


def main(arguments: Sequence[str]) -> int:
    """Writes the bundle. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="rnnbench bundle", description=__doc__)
    parser.add_argument("experiment", help="its name (experiment=NAME is understood too)")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--conf", action="append", default=[], type=Path, metavar="DIR")
    options = parser.parse_args(arguments)
    root = Path.cwd()
    name = options.experiment.removeprefix("experiment=")
    plan = make_plan(name, [root / "conf", *options.conf], root, site=ELSEWHERE)
    for dataset in sorted(set(plan.datasets.values())):
        provide(read_dataset(dataset, root), root)
    pins = pinned(root)
    size = write_bundle(
        options.output,
        facts_of(plan),
        [_line(run, root, pins) for run in sorted(plan.runs.values(), key=lambda r: r.order)],
        {path: root / path for path in plan.datasets},
    )
    print(f"{options.output}: {len(plan.runs)} runs, {size / 1e6:.1f} MB; there: python run.py")
    return 0


def _line(run: Any, root: Path, pins: Mapping[str, Any]) -> dict[str, Any]:
    """A line of the plan for elsewhere: what an unlocked build is, only that machine knows."""
    identity = dict(run.identity)
    if pins_of(run.config["build"], root) is None:
        identity["build_lock"] = "read off the machine"
    path = run.config["dataset"].get("path")
    return {
        "name": run.name,
        **{key: value for key, value in run.as_dict().items() if key != "name"},
        "identity": identity,
        "digest": digest_of(identity),
        "pinned_md5": pins[path].md5 if path in pins else None,
    }
