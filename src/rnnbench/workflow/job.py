"""The job that ``--config`` requests: the paths of an experiment, the parameters of its rules, and
which of its files are made again."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

import yaml
from msgspec import to_builtins
from msgspec.structs import replace as with_fields

from rnnbench.builds.pins import ENVIRONMENTS, pins_of
from rnnbench.commands.arguments import DEFAULT_EXPERIMENT, conf_folders, overrides_of
from rnnbench.datasets.pins import pinned, verify
from rnnbench.errors import ConfigError, converted, say
from rnnbench.grid.experiment import Experiment, Repeats
from rnnbench.planning.plan import Certificate, Plan, Round, facts_of
from rnnbench.planning.planner import NothingToRun, make_plan
from rnnbench.project import home, words_of
from rnnbench.records import report_files
from rnnbench.records.rounds import results_in, round_files, unfinished
from rnnbench.records.store import site_folders, why_not_tracked
from rnnbench.sources.published import read_published
from rnnbench.tracking.store import redacted, tracking_uri
from rnnbench.workflow.snakemake_hooks import memoized

PUBLISHED = "reports/published"
SCHEMA = Path(__file__).parents[3] / "workflow/schemas/config.schema.yaml"

# Those with a caption of their own in workflow/rules/report.smk.
SHOWN_TABLES = {"accuracy", "time", "runs"}


def load(config: Mapping[str, Any], root: Path) -> Job:
    """The job that ``--config``, a config file or a module's ``config`` requests. If nothing can
    run here, but others published results of its models, it only makes the page. Raises
    `ConfigError`, which names the key."""
    # Not by snakemake.utils.validate, whose error is a traceback.
    keys = yaml.safe_load(SCHEMA.read_text(encoding="utf-8"))["properties"]
    for key in config:
        if key not in keys:
            raise ConfigError(
                f"there is no key {key!r}.",
                where="--config",
                remedy=f"use {', '.join(keys)}.",
            )
    results = root / Job.results
    if results.exists() and not results.is_dir():
        raise ConfigError(
            "is a file, but records need a folder.",
            where=str(results),
            remedy="move it aside.",
        )

    further = [Path(folder) for folder in words_of(config.get("conf"), ",", "--config conf")]
    try:
        plan = make_plan(
            str(config.get("experiment") or DEFAULT_EXPERIMENT),
            conf_folders(root, further, "--config conf"),
            root,
            site=str(config.get("site") or "") or None,
            overrides=" ".join(overrides_of(config, "--config")),
        )
    except NothingToRun as error:
        plan = error.plan
        # A plan without runs would hide what was measured here before.
        if round_files(results / plan.site / plan.experiment.name):
            raise
        published = read_published(home(root) / PUBLISHED)
        if not any(row.model in plan.models for row in published):
            raise
    if config.get("budget") is not None:
        plan = replace(plan, experiment=with_budget(plan.experiment, config["budget"]))
    allow_void = converted(
        config.get("allow_void", False),
        bool,
        where="--config allow_void",
        remedy="write allow_void=true.",
        strict=False,
    )
    return Job(plan, root, allow_void)


def with_budget(experiment: Experiment, minutes: Any) -> Experiment:
    """`experiment` with this budget. Raises `ConfigError` if it has a fixed number of repeats."""
    where = "--config budget"
    if experiment.repeats is None:
        raise ConfigError(
            f"{experiment.name} has a fixed number of repeats.",
            where=where,
            remedy="give it `repeats: {least: 3, most: 8, until: 0.04}`, or leave the budget out.",
        )
    fields = to_builtins(experiment.repeats)
    fields["budget_s"] = 60 * converted(minutes, float, where, "give minutes, such as 3.")
    repeats = converted(fields, Repeats, where, "give more than 0 minutes.")
    return with_fields(experiment, repeats=repeats)


def made_again(job: Job) -> list[str]:
    """The files that exist and are made again: the rounds that are `damaged`, what could not be
    logged to MLflow when it was tried last, and the report if one of its figures was deleted."""
    again = damaged(job)
    again += [name for name in job.tracked if why_not_tracked(job.root / name)]
    if has_lost_a_file(job.root / job.report_folder):
        again.append(job.report)
    return again


def has_lost_a_file(report: Path) -> bool:
    """Whether a report that was written lacks one of its files; Snakemake looks at its page."""
    if not (report / report_files.PAGE).is_file():
        return False
    try:
        files = json.loads((report / report_files.CARD).read_bytes())["files"]
        return not all((report / name).is_file() for name in files)
    except (OSError, ValueError, TypeError, KeyError):
        return True


def damaged(job: Job) -> list[str]:
    """The files of finished rounds that lack the result of a run as it is planned, or have one that
    does not count: its record or a companion's is damaged or missing, or it says "not needed" by an
    earlier value of `repeats`. What is damaged is reported. Only reads: `rnnbench round` sets
    damaged records aside and measures what is missing."""
    rule = to_builtins(job.plan.experiment.repeats)
    results, faults = results_in(job.root / job.folder)
    for fault in faults:
        say(fault)
    again = []
    for file, of_round in job.finished.items():
        left = unfinished(of_round.runs, results, job.root / job.results, rule)
        if left:
            again.append(file)
        for run in left:
            result = results.get(run.name)
            if result and result.record and result.digest == run.digest:
                say(f"{run.name}: a record is damaged or missing; it is measured again.")
    return again


Planned = TypeVar("Planned", bound=Round | Certificate)


@memoized
class WildcardFunctions(Generic[Planned]):
    """Functions of a rule's only wildcard, whose value is the key in `items`. `kind` names the
    items in the error for an unknown key."""

    def __init__(self, kind: str, items: Mapping[str, Planned], root: Path):
        self._kind = kind
        self._items = items
        self._root = root

    def planned(self, wildcards) -> Planned:
        (key,) = wildcards
        if key not in self._items:
            raise ValueError(f"the experiment has no {self._kind} {key}")
        return self._items[key]

    def dataset(self, wildcards) -> list[str]:
        """The dataset files, without duplicates."""
        paths: dict[str, None] = {}
        for config in self.planned(wildcards).configs:
            path = config["dataset"].get("path")
            if path:
                paths[path] = None
        return list(paths)

    def environment(self, wildcards) -> list[str]:
        """The files of the builds' environments, for builds that have a separate one."""
        files: dict[str, None] = {}
        for config in self.planned(wildcards).configs:
            pins = pins_of(config["build"], self._root)
            if pins:
                files[f"{ENVIRONMENTS}/{pins.key}.json"] = None
        return list(files)

    def identity(self, wildcards) -> dict[str, Any]:
        return dict(self.planned(wildcards).identity)

    def digest(self, wildcards) -> str:
        return self.planned(wildcards).digest

    def device(self, wildcards) -> str:
        """The device of a round; if it has several, the one with most threads."""
        devices = [config["device"] for config in self.planned(wildcards).configs]
        largest = max(devices, key=lambda device: device.get("threads") or 0)
        return str(largest["name"])


@memoized
class Job:
    """An experiment at a site, for the rules of Snakemake. Paths are relative to the project.
    `allow_void`: a configuration without a usable run is no failure."""

    results = "results"

    def __init__(self, plan: Plan, root: Path, allow_void: bool = False):
        self.plan = plan
        self.root = root
        self.allow_void = allow_void
        self.experiment = plan.experiment.name
        self.site = plan.site
        self.folder = f"{self.results}/{self.site}/{self.experiment}"
        self.store = f"{self.results}/{self.site}/store.json"
        self.report_folder = f"reports/{self.experiment}"
        self.report = f"{self.report_folder}/{report_files.PAGE}"
        self.figures = f"{self.report_folder}/{report_files.FIGURES}"
        self.logs = f"{self.folder}/logs"
        self.batches = plan.batches()
        self.first_priority = len(plan.runs) + 1  # above that of any round
        self.round = WildcardFunctions("round", plan.rounds, root)
        self.certificate = WildcardFunctions("certificate", plan.certificates, root)

    def check_same(self, other: Job) -> None:
        """Raises `ConfigError` if `other` is the job of another experiment or site."""
        ours = f"{self.experiment} at {self.site}"
        theirs = f"{other.experiment} at {other.site}"
        if ours != theirs:
            raise ConfigError(
                f"the modules of one workflow request {theirs} and {ours}.",
                where="module",
                remedy="run one experiment after the other, or write one with the grids of both.",
            )

    def check_data(self) -> None:
        """Raises `DatasetError` if a pinned file that exists has other bytes. A job would be
        refused too, but only after Snakemake has deleted its existing output."""
        pins = pinned(self.root)
        for path, name in self.plan.datasets.items():
            file = self.root / path
            if file.exists():
                verify(file, pins[path], name)

    def check_targets(self, targets: Iterable[str]) -> None:
        """Raises `ConfigError` if a requested file is one of another experiment, or a record, which
        no rule but that of its round makes."""
        for target in map(str, targets):
            match Path(os.path.relpath(self.root / target, self.root)).parts:
                case ("results", "records", _, run, _) if run in self.plan.runs:
                    (file,) = self._files("rounds", [self.plan.runs[run].round])
                    raise ConfigError(
                        "the file of one run is no target: its round makes it.",
                        where=target,
                        remedy=f"request {file}.",
                    )
                case ("results", "records", _, run, _):
                    raise ConfigError(
                        f"{self.experiment} has no run {run}.",
                        where=target,
                        remedy="name the experiment that has it: --config experiment=NAME.",
                    )
                case ("reports", experiment, _) | ("results", _, experiment, _, *_) if (
                    experiment != self.experiment
                ):
                    name, plus, _ = experiment.partition("+")
                    remedy = f"add `--config experiment={name}`"
                    if plus:
                        remedy += " and the overrides that its name has"
                    raise ConfigError(
                        f"this is a file of {experiment}, but {self.experiment} is requested.",
                        where=target,
                        remedy=f"{remedy}.",
                    )

    # -- paths --------------------------------------------------------------------------

    def _files(self, folder: str, names: Iterable[object]) -> list[str]:
        return [f"{self.folder}/{folder}/{name}.json" for name in names]

    @property
    def other_report_files(self) -> list[str]:
        """The files of the report beside its page and those tables that have a caption."""
        names = [report_files.MARKDOWN, report_files.CARD]
        for table in sorted(set(report_files.TABLES) - SHOWN_TABLES):
            names.append(report_files.table_file(table))
        return [f"{self.report_folder}/{name}" for name in names]

    @property
    def tracked(self) -> list[str]:
        return self._files("tracked", range(len(self.batches)))

    @property
    def rounds(self) -> list[str]:
        return self._files("rounds", self.plan.rounds)

    @property
    def finished(self) -> dict[str, Round]:
        """File → round, for the rounds whose file exists."""
        rounds = zip(self.rounds, self.plan.rounds.values(), strict=True)
        return {file: of_round for file, of_round in rounds if (self.root / file).exists()}

    @property
    def certificates(self) -> list[str]:
        return self._files("certificates", self.plan.certificates)

    def batch_rounds(self, wildcards) -> list[str]:
        return self._files("rounds", self.batches[int(wildcards.batch)])

    # -- parameters of rules ------------------------------------------------------------

    def environment_pins(self, wildcards) -> list[str]:
        """The arguments of the command that makes the environment."""
        pins = self.plan.environments[wildcards.environment]
        arguments = [os.path.relpath(pins.lock, self.root), "--python", pins.python]
        if pins.wheel:
            arguments += ["--wheel", str(pins.wheel)]
        return arguments

    def priority(self, wildcards) -> int:
        """The priority of a round, which follows the order of measurement."""
        return len(self.plan.runs) - self.round.planned(wildcards).order

    @property
    def dataset_files(self) -> str:
        """The names of the pinned files that runs need, as a regular expression."""
        names = [re.escape(Path(path).name) for path in self.plan.datasets]
        return "|".join(names) or "(?!)"

    def dataset_name(self, wildcards) -> str:
        return self.plan.datasets[f"data/{wildcards.file}"]

    def dataset_md5(self, wildcards) -> str:
        return pinned(self.root)[f"data/{wildcards.file}"].md5

    @cached_property
    def tracking_uri(self) -> str:
        return redacted(tracking_uri(self.root))

    @cached_property
    def plan_digest(self) -> str:
        """SHA-256 of the runs' digests and of the facts in the plan."""
        runs = sorted((run.name, run.digest) for run in self.plan.runs.values())
        facts = to_builtins(facts_of(self.plan))
        text = json.dumps([runs, facts], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @cached_property
    def report_code(self) -> str:
        """SHA-256 of the code that makes the report."""
        state = hashlib.sha256()
        for package in ("tables", "report", "sources"):
            for file in sorted((Path(__file__).parents[1] / package).rglob("*")):
                if file.is_file() and "__pycache__" not in file.parts:
                    state.update(file.read_bytes())
        return state.hexdigest()

    @property
    def imported_files(self) -> list[str]:
        """The finished rounds and certificates of this experiment at other sites."""
        files: list[Path] = []
        for folder in site_folders(self.root / self.results, self.experiment):
            files += round_files(folder)
            files += folder.glob("certificates/[!.]*.json")
        paths = [file.relative_to(self.root).as_posix() for file in files]
        return sorted(path for path in paths if not path.startswith(f"{self.folder}/"))

    @property
    def prices_and_published(self) -> list[str]:
        """The price lists and published rows that the report shows."""
        base = home(self.root)
        files = list(base.glob("conf/price/*.yaml"))
        files += base.glob(f"{PUBLISHED}/*.csv")
        return sorted(os.path.relpath(path, self.root) for path in files)
