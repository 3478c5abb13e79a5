"""The job that ``--config`` requests: the paths of an experiment, the parameters of its rules, and
which of its files are made again.

The rules in ``workflow/rules/*.smk`` take their files and parameters from a `Job`. Nothing here
writes a file, so that ``snakemake -n`` changes nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml
from msgspec import to_builtins
from msgspec.structs import replace as with_fields

from rnnbench.builds.pins import ENVIRONMENTS, build_of, pins_of
from rnnbench.commands.arguments import DEFAULT_EXPERIMENT, conf_folders, overrides_of
from rnnbench.datasets.pins import pinned, verify
from rnnbench.errors import ConfigError, converted, say
from rnnbench.grid.experiment import Experiment
from rnnbench.grid.overrides import Config
from rnnbench.planning.plan import Plan, Prediction, facts_of
from rnnbench.planning.planner import NothingToRun, make_plan
from rnnbench.project import home, words_of
from rnnbench.records import report_files
from rnnbench.records.plan_file import Batch, PlannedCertificate, PlannedRound, Repeats
from rnnbench.records.predictions import prediction_file
from rnnbench.records.rounds import results_in, round_files, unfinished
from rnnbench.records.store import site_folders, why_not_tracked
from rnnbench.sources.certificates import lacking
from rnnbench.sources.published import read_published
from rnnbench.tracking.store import redacted, tracking_uri

PUBLISHED = "reports/published"
SCHEMA = Path(__file__).parents[3] / "workflow/schemas/config.schema.yaml"

# Those with a caption of their own in workflow/rules/report.smk.
SHOWN_TABLES = {"accuracy", "time", "runs"}
Planned = PlannedRound | Batch | PlannedCertificate | Prediction
Wildcards = Any  # Snakemake's, with an attribute for each of the rule


def load(config: Mapping[str, object], root: Path, is_local: bool = True) -> Job:
    """The job that ``--config``, a config file or a module's ``config`` requests. If nothing can
    run here, but others published results of its models, it only makes the page.

    `config`: key → value (``workflow/schemas/config.schema.yaml``). `is_local`: as of a `Job`.
    Raises `ConfigError`, which names the key, and `NothingToRun` if nothing can run here and
    nothing was published.
    """
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

    experiment = config.get("experiment") or DEFAULT_EXPERIMENT
    site = config.get("site")
    further = words_of(config.get("conf"), ",", "--config conf")
    conf = conf_folders(root, list(map(Path, further)), "--config conf")
    try:
        plan = make_plan(
            str(experiment),
            conf,
            root,
            site=str(site) if site else None,
            overrides=" ".join(overrides_of(config.get("overrides"), "--config")),
        )
    except NothingToRun as error:
        plan = error.plan
        # A plan without runs would hide what was measured here before.
        if round_files(results / plan.site / plan.experiment.name):
            raise
        published = {row.model for row in read_published(home(root) / PUBLISHED)}
        if published.isdisjoint(plan.models):
            raise

    budget = config.get("budget")
    if budget is not None:
        plan = replace(plan, experiment=with_budget(plan.experiment, budget))

    allow_void = converted(
        config.get("allow_void", False),
        bool,
        where="--config allow_void",
        remedy="write allow_void=true.",
        strict=False,
    )
    return Job(plan, root, allow_void, is_local)


def with_budget(experiment: Experiment, minutes: Any) -> Experiment:
    """`experiment` with a budget of `minutes` of wall time. Raises `ConfigError` if it has a fixed
    number of repeats, or if `minutes` is not a positive number."""
    where = "--config budget"
    if experiment.repeats is None:
        raise ConfigError(
            f"{experiment.name} has a fixed number of repeats.",
            where=where,
            remedy="give it `repeats: {least: 3, most: 8, until: 0.04}`, or leave the budget out.",
        )

    fields = to_builtins(experiment.repeats)
    fields["budget_s"] = 60 * converted(
        minutes,
        float,
        where,
        "give minutes, such as 3.",
    )
    repeats = converted(
        fields,
        Repeats,
        where,
        "give more than 0 minutes.",
    )
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
        card = json.loads((report / report_files.CARD).read_bytes())
        return not all((report / name).is_file() for name in card["files"])
    except (OSError, ValueError, TypeError, KeyError):
        return True


def damaged(job: Job) -> list[str]:
    """The files that finished jobs have made for rounds that lack the result of a run as it is
    planned, or have one that does not count: its record or a companion's is damaged or missing, or
    it says "not needed" by an earlier value of `repeats`. So are those of batches that lack a
    certificate as it is planned.

    Prints what is damaged, and changes nothing: the loop over rounds sets damaged records aside and
    measures what is missing.
    """
    rule = job.plan.experiment.repeats
    results, faults = results_in(job.root / job.folder)
    for fault in faults:
        say(fault)

    again: dict[str, None] = {}
    if job.is_local:
        missing = lacking(job.plan.certificates.values(), job.root / job.folder)
        keys = {each.key for each in missing}
        for number, batch in job.plan.batches.items():
            file = job.batch_file(number)
            if not (job.root / file).exists():
                continue
            for key in keys.intersection(batch.certificates):
                say(f"certificate {key} is missing, or of something else; it is made again.")
                again[file] = None

    for made, of_round in job.made:
        left = unfinished(
            of_round.runs,
            results,
            job.root / job.results,
            rule,
        )
        if left:
            again[made] = None
        for run in left:
            result = results.get(run.name)
            if result and result.record and result.digest == run.digest:
                say(f"{run.name}: a record is damaged or missing; it is measured again.")

    return list(again)


def _configs(planned: Planned) -> list[Config]:
    """The configs of the runs, or that of the certificate or prediction."""
    if isinstance(planned, PlannedRound):
        return [run.config for run in planned.runs]
    if isinstance(planned, Batch):
        return [run.config for each in planned.rounds for run in each.runs]
    return [planned.config]


class WildcardFunctions:
    """The functions of a rule's only wildcard, the key of one of the `items`: Snakemake calls them
    for the rule's input, parameters and resources. `kind` names the items in the error for an
    unknown key."""

    def __init__(self, kind: str, items: Mapping[str, Planned], root: Path):
        self._kind = kind
        self._items = items
        self._root = root

    def planned(self, wildcards: Wildcards) -> Planned:
        """The item with this key. Raises `ValueError` if there is none."""
        (key,) = wildcards
        if key not in self._items:
            raise ValueError(f"the experiment has no {self._kind} {key}")
        return self._items[key]

    def dataset(self, wildcards: Wildcards) -> list[str]:
        """The dataset files, without duplicates."""
        configs = _configs(self.planned(wildcards))
        paths = dict.fromkeys(config["dataset"].get("path") for config in configs)
        return [path for path in paths if path]

    def environment(self, wildcards: Wildcards) -> list[str]:
        """The files of the builds' environments, for builds that have a separate one, without
        duplicates."""
        files: dict[str, None] = {}

        for config in _configs(self.planned(wildcards)):
            pins = pins_of(build_of(config["build"]), self._root)
            if pins:
                files[f"{ENVIRONMENTS}/{pins.key}.json"] = None

        return list(files)

    def identity(self, wildcards: Wildcards) -> dict[str, object]:
        """What decides whether it is made again, so that Snakemake can say what has changed."""
        return dict(self.planned(wildcards).identity)

    def digest(self, wildcards: Wildcards) -> str:
        """SHA-256 of what decides whether it is made again."""
        return self.planned(wildcards).digest

    def device(self, wildcards: Wildcards) -> str:
        """The device of a round; if it has several, the one with most threads."""
        devices = [config["device"] for config in _configs(self.planned(wildcards))]
        largest = max(devices, key=lambda device: device.get("threads") or 0)
        return str(largest["name"])


class Job:
    """An experiment at a site, for the rules of Snakemake: the files that they read and make, and
    their parameters.

    - `plan`: what is to be measured.
    - `root`: the folder of the project; the paths in all other attributes are relative to it.
    - `allow_void`: whether the workflow succeeds if a configuration has no usable run.
    - `is_local`: whether jobs run on this machine, where one job measures a batch of rounds; on a
      cluster, each round is a job.
    - `experiment`, `site`: their names.
    - `folder`: of what the experiment leaves at this site; `logs`: of the logs of its jobs.
    - `report_folder`, `report`, `figures`: of the report; its page; its figures.
    - `first_priority`: above the priority of any round.
    - `round`, `batch`, `certificate`, `prediction`: the functions of the rules that make them.
    """

    results = "results"

    def __init__(self, plan: Plan, root: Path, allow_void: bool = False, is_local: bool = True):
        self.plan = plan
        self.root = root
        self.allow_void = allow_void
        self.is_local = is_local
        self.experiment = plan.experiment.name
        self.site = plan.site

        # Files and folders.
        self.folder = f"{self.results}/{self.site}/{self.experiment}"
        self.report_folder = f"reports/{self.experiment}"
        self.report = f"{self.report_folder}/{report_files.PAGE}"
        self.figures = f"{self.report_folder}/{report_files.FIGURES}"
        self.logs = f"{self.folder}/logs"

        self.first_priority = len(plan.runs) + 1
        self.batch = WildcardFunctions("batch", plan.batches, root)
        self.round = WildcardFunctions("round", plan.rounds, root)
        self.certificate = WildcardFunctions("certificate", plan.certificates, root)
        self.prediction = WildcardFunctions("prediction", plan.predictions, root)

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
        no rule but that of its round makes. `targets`: names of rules, and paths relative to the
        project or absolute."""
        for target in map(str, targets):
            match Path(os.path.relpath(self.root / target, self.root)).parts:
                case ("results", "records", _, run, _):
                    if run not in self.plan.runs:
                        raise ConfigError(
                            f"{self.experiment} has no run {run}.",
                            where=target,
                            remedy="name the experiment that has it: --config experiment=NAME.",
                        )
                    file = self.round_file(self.plan.runs[run].round)
                    raise ConfigError(
                        "the file of a single run cannot be requested: its round makes it.",
                        where=target,
                        remedy=f"request {file}.",
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

    def round_file(self, name: str) -> str:
        """The file of the round with this name, which names the records of its runs."""
        return f"{self.folder}/rounds/{name}.json"

    def batch_file(self, number: str) -> str:
        """The file of a batch, which names the records of all runs in its rounds."""
        return f"{self.folder}/measured/{number}.json"

    @property
    def other_report_files(self) -> list[str]:
        """The files of the report beside its page and those tables that have a caption."""
        tables = sorted(set(report_files.TABLES) - SHOWN_TABLES)
        names = [report_files.MARKDOWN, report_files.CARD, *map(report_files.table_file, tables)]
        return [f"{self.report_folder}/{name}" for name in names]

    @property
    def tracked(self) -> list[str]:
        """The files that say which records are in MLflow, one for each batch of rounds."""
        return [f"{self.folder}/tracked/{batch}.json" for batch in self.plan.batches]

    @cached_property
    def measured(self) -> dict[str, Sequence[PlannedRound]]:
        """The file that a job makes → the rounds that it measures, in the order of the plan: those
        of a batch, or one on a cluster."""
        if self.is_local:
            batches = self.plan.batches.items()
            return {self.batch_file(number): batch.rounds for number, batch in batches}
        return {self.round_file(name): [each] for name, each in self.plan.rounds.items()}

    def jobs_of(self, rounds: Collection[str]) -> list[str]:
        """The files of the jobs that measure `rounds`."""
        files = []
        for file, own in self.measured.items():
            if any(each.name in rounds for each in own):
                files.append(file)
        return files

    @property
    def made(self) -> list[tuple[str, PlannedRound]]:
        """The rounds whose job has made its file, with this file."""
        pairs = []
        for file, rounds in self.measured.items():
            if (self.root / file).exists():
                pairs += [(file, each) for each in rounds]
        return pairs

    @property
    def finished(self) -> list[PlannedRound]:
        """The rounds whose file exists."""
        rounds = self.plan.rounds.values()
        return [each for each in rounds if (self.root / self.round_file(each.name)).exists()]

    @property
    def certificates(self) -> list[str]:
        """The files of the certificates that have jobs of their own: those on a cluster. On this
        machine the job that measures a batch of rounds makes them, see `rnnbench rounds`."""
        if self.is_local:
            return []
        return [f"{self.folder}/certificates/{key}.json" for key in self.plan.certificates]

    @property
    def predictions(self) -> list[str]:
        """The files of all predictions."""
        return [self.predicted(name) for name in self.plan.predictions]

    def predicted(self, name: str) -> str:
        """The file of the prediction with this name."""
        return prediction_file(Path(self.folder), name).as_posix()

    def measured_in(self, wildcards: Wildcards) -> list[str]:
        """What the jobs make that measure the rounds of a batch, whose records are logged to MLflow
        together."""
        return self.jobs_of([each.name for each in self._batch(wildcards).rounds])

    def _batch(self, wildcards: Wildcards) -> Batch:
        return self.plan.batches[wildcards.batch]

    # -- parameters of rules ------------------------------------------------------------

    def environment_pins(self, wildcards: Wildcards) -> list[str]:
        """The arguments of the command that makes the environment."""
        pins = self.plan.environments[wildcards.environment]
        lock = os.path.relpath(pins.lock, self.root)
        arguments = [lock, "--python", pins.python]

        if pins.wheel:
            arguments += ["--wheel", str(pins.wheel)]
        return arguments

    def round_priority(self, wildcards: Wildcards) -> int:
        """The priority of a round: the higher, the earlier it is measured."""
        return len(self.plan.rounds) - self.plan.rounds[wildcards.round].number

    def batch_text(self, wildcards: Wildcards) -> str:
        """What a dry run says about a batch."""
        rounds = self._batch(wildcards).rounds
        runs = sum(len(each.runs) for each in rounds)
        names = ", ".join(each.name for each in rounds)
        certificates = len(self._batch(wildcards).certificates)
        return f"certificates: {certificates}, runs: {runs}, in the rounds {names}"

    def batch_priority(self, wildcards: Wildcards) -> int:
        """The priority of a batch."""
        return len(self.plan.batches) - int(wildcards.batch)

    @property
    def dataset_files(self) -> str:
        """The names of the pinned files that runs need, as a regular expression."""
        names = [re.escape(Path(path).name) for path in self.plan.datasets]
        return "|".join(names) or "(?!)"  # which matches nothing

    def dataset_name(self, wildcards: Wildcards) -> str:
        """The name of the data set (``conf/dataset/NAME.yaml``) that has a pinned file."""
        return self.plan.datasets[f"data/{wildcards.file}"]

    def dataset_md5(self, wildcards: Wildcards) -> str:
        """The MD5 that ``data.dvc`` states for a pinned file, in hexadecimal."""
        return pinned(self.root)[f"data/{wildcards.file}"].md5

    @cached_property
    def tracking_uri(self) -> str:
        """The address of the MLflow store, without a password."""
        return redacted(tracking_uri(self.root))

    @cached_property
    def plan_digest(self) -> str:
        """SHA-256 of the digests of runs and predictions and of the facts in the plan, in
        hexadecimal: the report is made again if one of them changes."""
        runs = [(run.name, run.digest) for run in self.plan.runs.values()]
        runs += [(each.name, each.digest) for each in self.plan.predictions.values()]
        facts = to_builtins(facts_of(self.plan))
        text = json.dumps([sorted(runs), facts], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @cached_property
    def report_code(self) -> str:
        """SHA-256 of the code that makes the report, in hexadecimal."""
        state = hashlib.sha256()
        packages = Path(__file__).parents[1]

        for package in ("tables", "report", "sources"):
            for file in sorted((packages / package).rglob("*")):
                if file.is_file() and "__pycache__" not in file.parts:
                    state.update(file.read_bytes())
        return state.hexdigest()

    @property
    def imported_files(self) -> list[str]:
        """The finished rounds and certificates of this experiment at other sites."""
        own = self.root / self.folder
        files = []
        for folder in site_folders(self.root / self.results, self.experiment):
            if folder != own:
                files += round_files(folder)
                files += folder.glob("certificates/[!.]*.json")
                files += folder.glob("predictions/[!.]*.json")
        return sorted(file.relative_to(self.root).as_posix() for file in files)

    @property
    def prices_and_published(self) -> list[str]:
        """The files with price lists and published rows that the report shows."""
        base = home(self.root)
        files = list(base.glob("conf/price/*.yaml"))
        files += base.glob(f"{PUBLISHED}/*.csv")
        return sorted(os.path.relpath(path, self.root) for path in files)
