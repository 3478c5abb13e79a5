"""What the Snakefile is made of: paths, parameters and hooks. Rules wire; this decides."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import inspect
import json
import logging
import os
import sys
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from snakemake.common import overwrite_function_params

from rnnbench import host, locks, stopping
from rnnbench.builds.pins import ENVIRONMENTS, pins_of
from rnnbench.closing import closing_lines
from rnnbench.datasets.pins import pinned
from rnnbench.errors import ConfigError, RecordError, RunError
from rnnbench.planning import Plan, make_plan, write_plan
from rnnbench.records.store import not_needed, read_json, stands
from rnnbench.tracking.address import redacted, tracking_uri

CHATTER = ("Select jobs to execute", "Execute ", "Assuming unrestricted shared filesystem")
KEYS = ("experiment", "overrides", "site", "conf")
DEFAULT_EXPERIMENT = "quick"


def load(config: Mapping[str, Any], root: Path, mend: bool = True) -> Job:
    """The job that ``--config`` asks for, or an error that names the key. `mend` is False in a
    cluster's job, which may not see yet what another node has written."""
    for key in config:
        if key not in KEYS:
            raise ConfigError(
                f"there is no key {key!r}.",
                where="--config",
                remedy=f"known are {', '.join(KEYS)}.",
            )
    results = root / Job.results
    if results.exists() and not results.is_dir():
        raise ConfigError(
            "is a file.", where=str(results), remedy="move it aside: records are kept there."
        )
    extra = [Path(folder) for folder in str(config.get("conf", "")).split(",") if folder]
    for folder in extra:
        if not folder.is_dir():
            raise ConfigError(f"{folder} is no folder.", where="--config conf")
    name = str(config.get("experiment", DEFAULT_EXPERIMENT))
    site = config.get("site")
    plan = make_plan(
        name,
        [root / "conf", *extra],
        root,
        site=str(site) if site else None,
        overrides=str(config.get("overrides") or ""),
    )
    job = Job(plan, root)
    if mend:
        job.mend()
    return job


def hush() -> None:
    """Leaves out Snakemake's lines about its own scheduling, one pair for each run."""
    logging.getLogger("snakemake.logging").addFilter(
        lambda record: not str(record.msg).startswith(CHATTER)
    )


def collect_rarely() -> None:
    """Leaves out most of the garbage collector's walks over what Snakemake keeps to its end, some
    hundred objects a job: a fifth of the planning of 10,000 runs. What is dropped without a cycle
    is freed as before."""
    gc.set_threshold(100_000, 50, 1000)


class Job:
    """An experiment at a site, as Snakemake sees it. Paths are relative to the project."""

    results = "results"

    def __init__(self, plan: Plan, root: Path):
        self.plan, self.root = plan, root
        self.experiment, self.site = plan.experiment.name, plan.site
        self.folder = f"{self.results}/{self.site}/{self.experiment}"
        self.store = f"{self.results}/{self.site}/store.json"
        self.report_folder = f"reports/{self.experiment}"
        self.report = f"{self.report_folder}/report.html"
        self.logs = f"{self.folder}/logs"
        self.first = len(plan.runs) + 1
        os.environ["RNNBENCH_INTERVALS"] = str(root / self.results / self.site / "intervals.jsonl")
        # `python` in a rule is this interpreter; its path is no parameter of any result.
        os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        os.environ["PYTHONPATH"] = os.pathsep.join(
            filter(None, [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")])
        )

    # -- paths --------------------------------------------------------------------------

    @cached_property
    def batches(self) -> list[list[str]]:
        return self.plan.batches()

    @property
    def tracked(self) -> list[str]:
        return [f"{self.folder}/tracked/{batch}.json" for batch in range(len(self.batches))]

    @property
    def pointers(self) -> list[str]:
        return [self.pointer(name) for batch in self.batches for name in batch]

    def pointer(self, name: str) -> str:
        return f"{self.folder}/{name}.json"

    @property
    def certificates(self) -> list[str]:
        return [f"{self.folder}/certificates/{key}.json" for key in self.plan.certificates]

    @property
    def probes(self) -> list[str]:
        return [f"{self.folder}/probes/{key}.json" for key in self.plan.probes]

    def batch_pointers(self, wildcards) -> list[str]:
        return [self.pointer(name) for name in self.batches[int(wildcards.batch)]]

    # -- parameters of rules ------------------------------------------------------------

    def _run(self, wildcards):
        try:
            return self.plan.runs[wildcards.name]
        except KeyError:
            raise ValueError(f"{self.experiment} has no run {wildcards.name}") from None

    def dataset_of(self, wildcards) -> list[str]:
        path = self._run(wildcards).config["dataset"].get("path")
        return [path] if path else []

    def environment_of(self, wildcards) -> list[str]:
        """The environment of the run's build, where it has one of its own."""
        return self._environment(self._run(wildcards).config)

    def certificate_environment(self, wildcards) -> list[str]:
        return self._environment(self._certificate(wildcards).config)

    def _environment(self, config: Mapping[str, Any]) -> list[str]:
        pins = pins_of(config["build"], self.root)
        return [f"{ENVIRONMENTS}/{pins.key}.json"] if pins else []

    def environment_pins(self, wildcards) -> list[str]:
        """What the command that makes the environment is told."""
        pins = self.plan.environments[wildcards.environment]
        wheel = ["--wheel", str(pins.wheel)] if pins.wheel else []
        return [os.path.relpath(pins.lock, self.root), "--python", pins.python, *wheel]

    def identity(self, wildcards) -> dict[str, Any]:
        return dict(self._run(wildcards).identity)

    def digest(self, wildcards) -> str:
        return self._run(wildcards).digest

    def _certificate(self, wildcards):
        try:
            return self.plan.certificates[wildcards.key]
        except KeyError:
            raise ValueError(f"{self.experiment} has no certificate {wildcards.key}") from None

    def certificate_dataset(self, wildcards) -> list[str]:
        path = self._certificate(wildcards).config["dataset"].get("path")
        return [path] if path else []

    def certificate_identity(self, wildcards) -> dict[str, Any]:
        return dict(self._certificate(wildcards).identity)

    def certificate_digest(self, wildcards) -> str:
        return self._certificate(wildcards).digest

    def _probe(self, wildcards):
        try:
            return self.plan.probes[wildcards.key]
        except KeyError:
            raise ValueError(f"{self.experiment} has no probe {wildcards.key}") from None

    def probe_environment(self, wildcards) -> list[str]:
        return self._environment(self._probe(wildcards).config)

    def probe_identity(self, wildcards) -> dict[str, Any]:
        return dict(self._probe(wildcards).identity)

    def probe_digest(self, wildcards) -> str:
        return self._probe(wildcards).digest

    def probe_device(self, wildcards) -> str:
        return str(self._probe(wildcards).config["device"]["name"])

    def priority(self, wildcards) -> int:
        return len(self.plan.runs) - self._run(wildcards).order

    def device(self, wildcards) -> str:
        return str(self._run(wildcards).config["device"]["name"])

    def certificate_device(self, wildcards) -> str:
        return str(self._certificate(wildcards).config["device"]["name"])

    def dataset_name(self, wildcards) -> str:
        return self.plan.datasets[f"data/{wildcards.file}"]

    def dataset_md5(self, wildcards) -> str:
        return pinned(self.root)[f"data/{wildcards.file}"].md5

    @cached_property
    def tracking_uri(self) -> str:
        return redacted(tracking_uri(self.root))

    @cached_property
    def plan_digest(self) -> str:
        experiment = self.plan.experiment
        text = json.dumps(
            [
                sorted((run.name, run.digest) for run in self.plan.runs.values()),
                sorted(self.plan.skipped),
                [experiment.title, experiment.about, dict(experiment.reference)],
            ],
            sort_keys=True,
        )
        return hashlib.sha256(text.encode()).hexdigest()

    @cached_property
    def report_code(self) -> str:
        state = hashlib.sha256()
        for room in ("tables", "report", "sources"):
            for file in sorted((Path(__file__).parent / room).rglob("*")):
                if file.is_file() and "__pycache__" not in file.parts:
                    state.update(file.read_bytes())
        return state.hexdigest()

    @property
    def elsewhere(self) -> list[str]:
        """What was imported of this experiment from other sites: pointers, certificates, probes."""
        found = (self.root / self.results).glob(f"*/{self.experiment}/**/[!.]*.json")
        paths = [path.relative_to(self.root).as_posix() for path in found]
        own = f"{self.folder}/"
        return sorted(
            path
            for path in paths
            if not path.startswith(own)
            and not path.endswith(("/experiment.json", "/certificates.json", "/probes.json"))
            and "/tracked/" not in path
            and "/work/" not in path
        )

    @property
    def beside(self) -> list[str]:
        """Prices and published rows that the report shows."""
        files = [*self.root.glob("conf/price/*.yaml"), *self.root.glob("reports/published/*.csv")]
        return sorted(path.relative_to(self.root).as_posix() for path in files)

    def mend(self) -> None:
        """Takes away pointers to records that are damaged or gone, so that these are measured
        again (`rnnbench train` sets the rest of a record aside), and those that say "not needed"
        by other `repeats` than are asked for now."""
        rule = self.plan.experiment.repeats
        asked = rule.as_dict() if rule else None
        for pointer in map(self.root.joinpath, self.pointers):
            if pointer.exists() and not stands(self.root / self.results, pointer, asked):
                with contextlib.suppress(RecordError):
                    if not_needed(read_json(pointer)):
                        pointer.unlink(missing_ok=True)
                        continue
                pointer.unlink(missing_ok=True)
                words = "its record is damaged or gone; it is measured again"
                print(f"rnnbench: {pointer.stem}: {words}.", file=sys.stderr)

    # -- hooks --------------------------------------------------------------------------

    def start(self, local: bool = True) -> None:
        """Before the first job: this results folder is ours until this process ends. `local`
        is False where jobs go to a cluster."""
        folder = self.root / self.results
        try:
            self._lock, holder = locks.take(folder / ".lock", f"process {os.getpid()}")
            if self._lock is None:
                _leave(
                    RunError(
                        f"another snakemake is at work here ({holder}).",
                        where=str(folder),
                        remedy="wait for it, or end it; then the same command continues.",
                    )
                )
            write_plan(self.plan, folder)
            stopping.install(self._last_words, local)
            for warning in host.warnings(host.look()):
                print(f"rnnbench: beware: {warning}.", file=sys.stderr)
        except OSError as error:
            _leave(
                RunError(
                    f"cannot be written: {error}.",
                    where=str(folder),
                    remedy="make the folder writable, or free some space.",
                )
            )

    def _last_words(self) -> str:
        done = sum((self.root / pointer).exists() for pointer in self.pointers)
        return f"{done} of {len(self.pointers)} runs have a record; the same command continues."

    def end(self, failed: bool = False) -> None:
        """The last lines a person reads: what is void, what is missing, where the report is."""
        if failed:
            with contextlib.suppress(Exception):
                self._report_what_is_there()
        for line in closing_lines(self.plan, self.root, self.results, failed):
            print(f"rnnbench: {line}", file=sys.stderr)

    def _report_what_is_there(self) -> None:
        from rnnbench.commands import report

        if any((self.root / pointer).exists() for pointer in self.pointers):
            report.main([self.experiment, "--site", self.site, "--out", self.report_folder])


def _leave(error: RunError) -> None:
    print(f"rnnbench: {error}", file=sys.stderr, flush=True)
    os._exit(error.exit_code)


def _told_once(method: Callable[..., Any]) -> None:
    """Snakemake asks for the parameters of each of these four times and more for every job."""
    _, *others = inspect.signature(method).parameters.values()
    overwrite_function_params(method, {each.name: each for each in others})


for _method in filter(inspect.isfunction, vars(Job).values()):
    _told_once(_method)
