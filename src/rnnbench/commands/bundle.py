"""Write a folder that measures an experiment on a machine that has nothing but Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rnnbench.builds.pins import pins_of
from rnnbench.commands.arguments import add_experiment, command_parser, conf_folders, parse_words
from rnnbench.commands.dataset import read_dataset
from rnnbench.datasets.pins import pinned
from rnnbench.datasets.provide import provide
from rnnbench.exchange.bundle import write_bundle
from rnnbench.grid.functions import user_files
from rnnbench.grid.identity import digest_of, full_identity
from rnnbench.grid.preflight import Preflight
from rnnbench.planning.plan import Plan, facts_of
from rnnbench.planning.planner import make_plan
from rnnbench.records.probe_match import probe_key
from rnnbench.records.run import Run

SITE = "bundle"
LARGE_BYTES = 64 * 2**20


def main(arguments: Sequence[str]) -> int:
    """Writes the bundle. Returns the exit code."""
    parser = command_parser("bundle", __doc__)
    add_experiment(parser)
    parser.add_argument(
        *("-o", "--output"),
        type=Path,
        required=True,
        metavar="FOLDER",
        help="the folder to write; must be new or empty",
    )
    options = parser.parse_intermixed_args(list(arguments))
    root = Path.cwd()
    request = parse_words(options.words)
    conf = conf_folders(root / "conf", options.conf)
    plan = make_plan(request.experiment, conf, root, site=SITE, overrides=request.text)
    for dataset in sorted(set(plan.datasets.values())):
        provide(read_dataset(dataset, root), root)
    pins = pinned(root)
    size = write_bundle(
        options.output,
        facts_of(plan),
        [_run(run, plan, root, pins) for run in sorted(plan.runs.values(), key=lambda r: r.order)],
        {path: root / path for path in plan.datasets},
        {key: _entry(item, root, pins) for key, item in plan.certificates.items()},
        {key: _entry(item, root, pins) for key, item in plan.probes.items()},
        _own_files(plan),
    )
    print(
        f"{options.output}: {len(plan.runs)} runs, {size / 1e6:.1f} MB; "
        "on the target machine: python run.py"
    )
    if size > LARGE_BYTES:
        print(
            f"warning: the bundle is larger than {LARGE_BYTES / 2**20:.0f} MiB. "
            "Fix: bundle fewer models or builds at once."
        )
    return 0


def _own_files(plan: Plan) -> set[Path]:
    certified = (entry for item in plan.certificates.values() for entry in item.implementations)
    configs = [run.config for run in plan.runs.values()] + [{"rnn": e["rnn"]} for e in certified]
    return set().union(*map(user_files, configs))


def _run(run: Run, plan: Plan, root: Path, pins: Mapping[str, Any]) -> dict[str, Any]:
    key = probe_key(run.choices, run.overrides)
    return {**_entry(run, root, pins), "probe": key if key in plan.probes else None}


def _entry(planned: Run | Preflight, root: Path, pins: Mapping[str, Any]) -> dict[str, Any]:
    """A planned run, certificate or probe as the bundle's files hold it. The packages of a build
    without a lock are known only on the target machine."""
    identity = dict(planned.identity)
    if pins_of(planned.config["build"], root) is None:
        identity["build_lock"] = "read off the machine"
    path = planned.config.get("dataset", {}).get("path")
    return {
        **planned.as_dict(),
        "identity": identity,
        "digest": digest_of(full_identity(planned.config, identity)),
        "pinned_md5": pins[path].md5 if path in pins else None,
    }
