"""``rnnbench bundle EXPERIMENT -o FOLDER``: a folder that measures it with Python alone."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rnnbench.builds.carried_packages import carried_of, parts_of
from rnnbench.builds.pins import pins_of
from rnnbench.commands.dataset import read_dataset
from rnnbench.commands.experiment_arguments import add_experiment, conf_folders, parse_words
from rnnbench.datasets.pins import pinned
from rnnbench.datasets.provide import provide
from rnnbench.exchange.bundle import Packages, parts_folder, write_bundle
from rnnbench.grid.functions import own_files
from rnnbench.grid.identity import digest_of
from rnnbench.planning.plan import Plan, Run, facts_of, make_plan
from rnnbench.records.probe_match import probe_key

ELSEWHERE = "a bundle"
AT_ONCE = 64 * 2**20


def main(arguments: Sequence[str]) -> int:
    """Writes the bundle. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="rnnbench bundle", description=__doc__)
    add_experiment(parser)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER")
    options = parser.parse_intermixed_args(list(arguments))
    root = Path.cwd()
    wanted = parse_words(options.words)
    conf = conf_folders(root / "conf", options.conf)
    plan = make_plan(wanted.experiment, conf, root, site=ELSEWHERE, overrides=wanted.text)
    for dataset in sorted(set(plan.datasets.values())):
        provide(read_dataset(dataset, root), root)
    pins = pinned(root)
    size = write_bundle(
        options.output,
        facts_of(plan),
        [_run(run, plan, root, pins) for run in sorted(plan.runs.values(), key=lambda r: r.order)],
        {path: root / path for path in plan.datasets},
        {key: _line(one, root, pins) for key, one in plan.certificates.items()},
        {key: _line(one, root, pins) for key, one in plan.probes.items()},
        _packages(plan, root),
        _own_files(plan),
    )
    print(f"{options.output}: {len(plan.runs)} runs, {size / 1e6:.1f} MB; there: python run.py")
    if size > AT_ONCE:
        print(
            f"That is more than {AT_ONCE / 2**20:.0f} MiB: bundle fewer models or builds at once."
        )
    if parts_folder(options.output).exists():
        print(f"{parts_folder(options.output)}: parts that travel apart; there: --parts FOLDER")
    return 0


def _own_files(plan: Plan) -> set[Path]:
    certified = (entry for one in plan.certificates.values() for entry in one.implementations)
    configs = [run.config for run in plan.runs.values()] + [{"rnn": e["rnn"]} for e in certified]
    return set().union(*map(own_files, configs))


def _packages(plan: Plan, root: Path) -> dict[str, Packages]:
    found = {}
    for run in plan.runs.values():
        own = carried_of(run.config["build"], root)
        if own and own.name not in found:
            found[own.name] = Packages(own.name, own.digest, tuple(parts_of(own, root)))
    return found


def _run(run: Run, plan: Plan, root: Path, pins: Mapping[str, Any]) -> dict[str, Any]:
    key = probe_key(run.choices, run.overrides)
    return {**_line(run, root, pins), "probe": key if key in plan.probes else None}


def _line(planned: Any, root: Path, pins: Mapping[str, Any]) -> dict[str, Any]:
    """A run, certificate or probe for elsewhere. What an unlocked build is, only that machine
    knows."""
    identity = dict(planned.identity)
    build = planned.config["build"]
    if pins_of(build, root) is None:
        own = carried_of(build, root)
        identity["build_lock"] = "read off the machine" + (f", carries {own.digest}" if own else "")
    path = planned.config.get("dataset", {}).get("path")
    fields = {name: getattr(planned, name) for name in planned.__dataclass_fields__}
    return {
        **fields,
        "identity": identity,
        "digest": digest_of(identity),
        "pinned_md5": pins[path].md5 if path in pins else None,
    }
