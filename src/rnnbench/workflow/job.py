"""The paths of an experiment and the parameters of its rules."""

from __future__ import annotations

import hashlib
import json
import os
from functools import cached_property
from pathlib import Path

from rnnbench.datasets.pins import pinned
from rnnbench.planning.plan import Plan, facts_of
from rnnbench.records.store import pointer_files, site_folders
from rnnbench.tracking.store import redacted, tracking_uri
from rnnbench.workflow.snakemake_hooks import memoized
from rnnbench.workflow.wildcard_functions import WildcardFunctions


@memoized
class Job:
    """An experiment at a site, for the rules of Snakemake. Paths are relative to the project."""

    results = "results"

    def __init__(self, plan: Plan, root: Path):
        self.plan, self.root = plan, root
        self.experiment, self.site = plan.experiment.name, plan.site
        self.folder = f"{self.results}/{self.site}/{self.experiment}"
        self.store = f"{self.results}/{self.site}/store.json"
        self.report_folder = f"reports/{self.experiment}"
        self.report = f"{self.report_folder}/report.html"
        self.logs = f"{self.folder}/logs"
        self.first_priority = len(plan.runs) + 1  # above that of any round
        self.round = WildcardFunctions("round", "round", plan.rounds, root)
        self.certificate = WildcardFunctions("certificate", "key", plan.certificates, root)
        self.probe = WildcardFunctions("probe", "key", plan.probes, root)

    # -- paths --------------------------------------------------------------------------

    @cached_property
    def batches(self) -> list[list[str]]:
        return self.plan.batches()

    @property
    def tracked(self) -> list[str]:
        return [f"{self.folder}/tracked/{batch}.json" for batch in range(len(self.batches))]

    @property
    def rounds(self) -> list[str]:
        return [f"{self.folder}/rounds/{name}.json" for name in self.plan.rounds]

    @property
    def intervals(self) -> Path:
        """The log of when the commands of this site were busy."""
        return self.root / self.results / self.site / "intervals.jsonl"

    def pointers_of(self, round_file: str) -> list[str]:
        """The pointers of the runs of a round."""
        runs = self.plan.rounds[Path(round_file).stem].runs
        return [f"{self.folder}/{run.name}.json" for run in runs]

    @property
    def pointers(self) -> list[str]:
        return [f"{self.folder}/{name}.json" for name in self.plan.runs]

    @property
    def certificates(self) -> list[str]:
        return [f"{self.folder}/certificates/{key}.json" for key in self.plan.certificates]

    @property
    def probes(self) -> list[str]:
        return [f"{self.folder}/probes/{key}.json" for key in self.plan.probes]

    def batch_rounds(self, wildcards) -> list[str]:
        return [f"{self.folder}/rounds/{name}.json" for name in self.batches[int(wildcards.batch)]]

    # -- parameters of rules ------------------------------------------------------------

    def environment_pins(self, wildcards) -> list[str]:
        """The arguments of the command that makes the environment."""
        pins = self.plan.environments[wildcards.environment]
        wheel = ["--wheel", str(pins.wheel)] if pins.wheel else []
        return [os.path.relpath(pins.lock, self.root), "--python", pins.python, *wheel]

    def priority(self, wildcards) -> int:
        """The priority of a round, which follows the order of measurement."""
        return len(self.plan.runs) - self.round.planned(wildcards).order

    def dataset_name(self, wildcards) -> str:
        return self.plan.datasets[f"data/{wildcards.file}"]

    def dataset_md5(self, wildcards) -> str:
        return pinned(self.root)[f"data/{wildcards.file}"].md5

    @cached_property
    def tracking_uri(self) -> str:
        return redacted(tracking_uri(self.root))

    @cached_property
    def plan_digest(self) -> str:
        runs = sorted((run.name, run.digest) for run in self.plan.runs.values())
        text = json.dumps([runs, facts_of(self.plan)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @cached_property
    def report_code(self) -> str:
        state = hashlib.sha256()
        for package in ("tables", "report", "sources"):
            for file in sorted((Path(__file__).parents[1] / package).rglob("*")):
                if file.is_file() and "__pycache__" not in file.parts:
                    state.update(file.read_bytes())
        return state.hexdigest()

    @property
    def imported_files(self) -> list[str]:
        """The pointers, certificates and probes of this experiment at other sites."""
        folders = site_folders(self.root / self.results, self.experiment)
        files = pointer_files(folders)
        for kind in ("certificates", "probes"):
            files += [file for folder in folders for file in folder.glob(f"{kind}/[!.]*.json")]
        paths = (file.relative_to(self.root).as_posix() for file in files)
        return sorted(path for path in paths if not path.startswith(f"{self.folder}/"))

    @property
    def prices_and_published(self) -> list[str]:
        """The price lists and published rows that the report shows."""
        files = [*self.root.glob("conf/price/*.yaml"), *self.root.glob("reports/published/*.csv")]
        return sorted(path.relative_to(self.root).as_posix() for path in files)
