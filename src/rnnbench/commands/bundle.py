"""Write a folder that measures an experiment on a machine that has nothing but Python."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import rnnworker
from rnnbench.builds.pins import pins_of
from rnnbench.commands.arguments import add_experiment, command_parser, conf_folders, parse_words
from rnnbench.commands.dataset import read_dataset
from rnnbench.datasets.pins import pinned
from rnnbench.datasets.provide import provide
from rnnbench.errors import ConfigError
from rnnbench.grid.own_code import user_files
from rnnbench.grid.point import digest_of, full_identity
from rnnbench.planning.plan import Plan, Preflight, facts_of
from rnnbench.planning.planner import make_plan
from rnnbench.records.keys import probe_key
from rnnbench.records.record import Run
from rnnbench.records.store import write_bytes
from rnnbench.running.worker import nvml

SCHEMA = 1
SITE = "bundle"
NVML = "pynvml.py"  # from nvidia-ml-py
RUN = '''"""Measures this bundle's runs: python run.py [--stop-after SECONDS]; see also --help."""

import os
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, FOLDER)

from rnnworker import bundle

sys.exit(bundle.main(FOLDER, sys.argv[1:]))
'''
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
    runs = sorted(plan.runs.values(), key=lambda run: run.order)
    size = _write(
        options.output,
        plan,
        {
            "plan.jsonl": "".join(json.dumps(_run(run, plan, root, pins)) + "\n" for run in runs),
            "experiment.json": _json(facts_of(plan)),
            "certificates.json": _entries(plan.certificates, root, pins),
            "probes.json": _entries(plan.probes, root, pins),
            "run.py": RUN,
        },
        {path: root / path for path in plan.datasets},
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


def _write(folder: Path, plan: Plan, texts: Mapping[str, str], datasets: Mapping[str, Path]) -> int:
    """Writes `texts`, `datasets`, the worker and the user's Python files into `folder`, which must
    be new or empty. Returns the number of bytes."""
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError("is not empty.", where=str(folder), remedy="name a new folder.")
    own = {str(file): f"own/{_short_hash(str(file))}/{file.name}" for file in _own_files(plan)}
    worker, library = Path(rnnworker.__file__).parent, nvml()
    sources = {
        **datasets,
        **{name: Path(file) for file, name in own.items()},
        **{f"rnnworker/{f.relative_to(worker).as_posix()}": f for f in worker.rglob("*.py")},
        **({NVML: Path(library)} if library else {}),
    }
    files = {name: text.encode() for name, text in texts.items()}
    files |= {name: file.read_bytes() for name, file in sources.items()}
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    about = {"schema": SCHEMA, "experiment": plan.experiment.name, "files": digests, "own": own}
    files["bundle.json"] = _json(about).encode()
    try:
        for name, content in files.items():
            write_bytes(folder / name, content)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return sum(map(len, files.values()))


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _json(data: Any) -> str:
    return json.dumps(data, indent=1)


def _own_files(plan: Plan) -> list[Path]:
    """The user's Python files, which runs name by their local paths."""
    certified = (entry for item in plan.certificates.values() for entry in item.implementations)
    configs = [run.config for run in plan.runs.values()] + [{"rnn": e["rnn"]} for e in certified]
    return sorted(set().union(*map(user_files, configs)))


def _run(run: Run, plan: Plan, root: Path, pins: Mapping[str, Any]) -> dict[str, Any]:
    key = probe_key(run.choices, run.overrides)
    return {**_entry(run, root, pins), "probe": key if key in plan.probes else None}


def _entries(planned: Mapping[str, Preflight], root: Path, pins: Mapping[str, Any]) -> str:
    return _json({key: _entry(item, root, pins) for key, item in planned.items()})


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
