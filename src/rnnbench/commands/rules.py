"""The commands `certify` and `predict`, which rules of Snakemake call, and what such commands check
before they measure."""

from __future__ import annotations

import ctypes
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from msgspec import structs

from rnnbench.builds import launcher
from rnnbench.builds.launcher import lock_of
from rnnbench.builds.pins import build_of
from rnnbench.commands.arguments import ROOT, Arguments, command_parser
from rnnbench.datasets.pins import own_md5, pinned, verify
from rnnbench.errors import RunError
from rnnbench.grid.files import user_files
from rnnbench.grid.overrides import Config
from rnnbench.planning import digests
from rnnbench.planning.digests import serving_digest, worker_files
from rnnbench.planning.plan import Prediction, code_of
from rnnbench.records.plan_file import PlannedCertificate, read_certificates
from rnnbench.records.store import Place, as_kind, read_json, write_json
from rnnbench.running.certificates import certify as make_certificate
from rnnbench.running.progress import print_progress
from rnnbench.running.verdict import LESS_MEMORY
from rnnbench.sources.certificates import Certificate
from rnnworker.forked_workers import Importers
from rnnworker.options import is_user_file
from rnnworker.shared_file import timing_lock
from rnnworker.user_functions import OUT_OF_MEMORY

PR_SET_PDEATHSIG = 1
INPUTS = {
    "build_lock": "the packages of build",
    "dataset_md5": "the data of dataset",
    "worker": "the Python code of model, rnn or rnnbench",
}
PLAN_AGAIN = "run the same command again, which plans with what is there now."
STATUSES = ("certified", "failed", "refused", "not_run")  # of an implementation in a certificate


def certify(arguments: Sequence[str]) -> int:
    """Check that a model's implementations compute the same function."""
    end_with_snakemake()
    file, place, digest = requested(certify, arguments, "certificates")
    where = f"certificate {file.stem}"
    planned = read_certificates(place.folder / "certificates.json").get(file.stem)
    check_planned(planned.digest if planned else None, digest, where)
    assert planned is not None
    make_planned_certificate(planned, place)
    return 0


def make_planned_certificate(
    planned: PlannedCertificate,
    place: Place,
    importers: Importers | None = None,
) -> None:
    """Makes a certificate and prints what it says. `importers`: those of a loop over rounds."""
    where = f"certificate {planned.key}"
    config = planned.config
    configs = [config, *({"rnn": each.rnn} for each in planned.implementations)]
    check = watched(where, configs, place.root)
    pinned_md5 = check_inputs(
        where,
        planned.identity,
        config,
        place.root,
        worker=code_of(planned),
    )

    certificate = make_certificate(
        planned,
        place,
        check,
        pinned_md5=pinned_md5,
        importers=importers,
    )
    for line in certificate_summary(certificate, planned.computed_by):
        print_progress(line)


def predict(arguments: Sequence[str]) -> int:
    """Measure how runtimes answer with a model (Snakemake calls this)."""
    from rnnbench.prediction.measure import Job
    from rnnbench.prediction.results import measured

    end_with_snakemake()
    file, place, digest = requested(predict, arguments, "predictions")
    where = f"prediction {file.stem}"
    entry = read_json(place.folder / "predictions.json").get(file.stem)
    check_planned(entry and entry["digest"], digest, where)
    planned = as_kind(entry, Prediction, "is not a prediction", where, PLAN_AGAIN)

    check = watched(where, [planned.config], place.root)
    pinned_md5 = check_inputs(
        where,
        planned.identity,
        planned.config,
        place.root,
        worker=serving_digest(planned.config),
    )
    folder = file.with_suffix("")
    shutil.rmtree(folder, ignore_errors=True)  # what another version has exported
    folder.mkdir(parents=True)
    settings = planned.settings
    job = Job(
        config=planned.config,
        runtimes=planned.runtimes,
        batches=settings.batches,
        root=place.root,
        folder=folder,
        rounds=settings.rounds,
        cycles=settings.cycles,
        pinned_md5=pinned_md5,
        train=settings.train,
    )
    results = measured(job, file.stem, lambda text: print_progress(f"{file.stem}: {text}"))
    check()
    of_point = structs.replace(
        results,
        digest=digest,
        choices=dict(planned.choices),
        overrides=dict(planned.overrides),
    )
    write_json(file, of_point)
    return 0


def certificate_summary(certificate: Certificate, computed_by: Mapping[str, str]) -> list[str]:
    """The lines to print: that all compute the same function, or the counts and one line for each
    implementation that failed, or one for all if they failed alike.

    `computed_by`: implementation → the value of ``rnn.implementation``.
    """
    results = certificate.implementations
    counts: Counter[str] = Counter(result.status for result in results.values())
    texts = []
    for status in STATUSES:
        if counts[status]:
            texts.append(f"{counts[status]} {status.replace('_', ' ')}")

    all_certified = counts["certified"] == len(results) > 1
    if all_certified and all(pair.equal for pair in certificate.pairs):
        # Tolerates those that were made up: only these three name a function to a reader.
        named = (certificate.model, certificate.cell, certificate.build)
        of = ", ".join(name for name in named if name not in ("", "of_model", "current"))
        function = of or certificate.key
        return [f"{len(results)} implementations compute the same function ({function})"]
    lines = [f"certificate {certificate.key}: {', '.join(texts)}"]

    fault = certificate.fault_of_all(computed_by)
    if fault:
        fix = "correct the model, the data or the options"
        if fault.code == OUT_OF_MEMORY:
            fix = LESS_MEMORY
        why = str(fault.function_why).rstrip(".")
        lines.append(f"  every implementation failed: {why}. Fix: {fix}.")
        return lines

    for name, result in results.items():
        if result.status not in ("refused", "failed"):
            continue
        why = str(result.why).rstrip(".")
        if result.status == "refused":
            lines.append(f"  {name} is refused: {why}")
            continue

        line = f"  {name} failed: {why}"
        file = computed_by[name]
        if result.code == OUT_OF_MEMORY:
            line += f". Fix: {LESS_MEMORY}."
        elif is_user_file(file):
            line += f". Fix: correct {file} or its YAML, as docs/own_kernel.md describes."
        lines.append(line)
    return lines


def requested(
    command: Callable[..., int], arguments: Sequence[str], folder: str
) -> tuple[Path, Place, str]:
    """The file ``results/SITE/EXPERIMENT/FOLDER/KEY.json`` that the `arguments` of a command
    request, the place to make it in, and its planned digest."""
    declared: Arguments = {
        "file": {
            "type": Path,
            "help": f"the file to write: results/SITE/EXPERIMENT/{folder}/KEY.json",
        },
        "--digest": {"required": True, "help": "the digest in the plan"},
        "--root": ROOT,
    }

    options = command_parser(command, declared).parse_args(arguments)
    file = options.file.resolve()
    experiment, site, results = file.parents[1:4]
    place = Place(
        options.root.resolve(),
        results,
        site.name,
        experiment.name,
        timing_lock(),
    )
    return file, place, options.digest


def check_planned(planned: str | None, requested: str, where: str) -> None:
    """Raises `RunError` unless the `planned` digest is the one that Snakemake requested."""
    if planned != requested:
        raise RunError(
            "was planned again while this command was waiting to start.",
            where=where,
            remedy="run the same snakemake command again.",
        )


def check_inputs(
    where: str,
    identity: Mapping[str, object],
    config: Config,
    root: Path,
    worker: str,
) -> str | None:
    """Raises an error unless what is about to be measured is what was planned, maybe hours ago.

    - `where`: the run or certificate, for messages.
    - `identity`: what was planned: the worker's code, the packages of the build, the data.
    - `config`, `root`: where the packages and the data are.
    - `worker`: the digest of the code as it is now.

    Returns the md5 of the data if ``data.dvc`` pins it, else None. Raises `RunError`, and
    `DatasetError` or `ConfigError` if the data cannot be read.
    """
    dataset = config.get("dataset") or {}
    md5, pinned_md5 = _data_md5(root, dataset.get("path"), dataset.get("name"))

    present = {
        "build_lock": lock_of(build_of(config["build"]), root),
        "dataset_md5": md5,
        "worker": worker,
    }
    for key, what in INPUTS.items():
        if present[key] != identity.get(key):
            raise RunError(
                f"{what} changed since the plan was made; nothing was measured.",
                where=where,
                remedy=PLAN_AGAIN,
            )
    return pinned_md5


def watched(where: str, configs: Sequence[Config], root: Path) -> Callable[[], None]:
    """A function that raises `RunError` if a file of the data or of the Python code that runs with
    `configs` use has been edited since this call. To be called before `check_inputs`, so that what
    the workers have read by the time of the check is what was compared with the plan."""
    files = _files_of(configs, root)

    before = _states_of(files)

    def check() -> None:
        if _states_of(files) != before:
            raise RunError(
                "the data or the Python code changed while it was read; nothing was recorded.",
                where=where,
                remedy=PLAN_AGAIN,
            )

    return check


def _files_of(configs: Sequence[Config], root: Path) -> set[Path]:
    """The files of the data and of the Python code that runs with `configs` use."""
    files = set(worker_files())
    for config in configs:
        dataset = config.get("dataset") or {}
        for file in [dataset.get("path") or "", *user_files(config)]:
            files.add(root / file)
    return files


def _states_of(files: Iterable[Path]) -> dict[Path, tuple[int, ...]]:
    """File → what tells whether it has changed; nothing if it does not exist. The last number
    changes even if the size and the time of modification are set back."""
    states: dict[Path, tuple[int, ...]] = {}
    for file in files:
        states[file] = ()
        if file.is_file():
            found = file.stat()
            states[file] = (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    return states


class Inputs:
    """What a loop over rounds knows of its inputs. Their digests are kept as long as no file
    changes, because making them takes longer than a look at the files."""

    def __init__(self) -> None:
        self._states: dict[Path, tuple[int, ...]] = {}

    def refresh(self, configs: Sequence[Config], root: Path) -> None:
        """To be called between `watched` and `check_inputs`, which otherwise compares the plan with
        what an earlier round has read."""
        launcher.forget()
        states = _states_of(_files_of(configs, root))
        if any(self._states.get(file) != state for file, state in states.items()):
            digests.forget()
            _data_md5.cache_clear()
            self._states = {}
        self._states |= states


@cache
def _data_md5(root: Path, path: str | None, name: str) -> tuple[str | None, str | None]:
    """The md5 of the data, verified if it is pinned, and the pinned one."""
    if path is None:
        return None, None
    pin = pinned(root).get(path)
    if pin is None:
        return own_md5(root / path), None
    verify(root / pin.path, pin, name)
    return pin.md5, pin.md5


def end_with_snakemake() -> None:
    """Ends this process with its parent, and on SIGTERM as on Ctrl-C."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
