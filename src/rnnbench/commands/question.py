"""What is to be compared, and measuring it: for the command `compare` and for programs."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from rnnbench.commands.arguments import overrides_of, project_conf
from rnnbench.errors import ConfigError, display_path, suggestion
from rnnbench.grid.overrides import key_of
from rnnbench.grid.values import typed
from rnnbench.project import SETTINGS, settings
from rnnbench.records.plan_file import Run
from rnnbench.records.store import Place, read_json, timing_lock, write_json

TURNS = 0.6  # share of a round's time


@dataclass(frozen=True)
class Question:
    """What is to be measured and compared.

    - `choices`: two or more of one axis, or paths of YAML files. The others are compared with the
      first.
    - `model`, `data`, `loss`, `optimizer`: as the options of ``rnnbench compare``; None: as the
      experiment ``quick`` has them.
    - `overrides`: Hydra overrides.
    - `seconds`: how long to measure, after the certificate.
    """

    choices: tuple[str, ...]
    model: str | None = None
    data: str | None = None
    loss: str | None = None
    optimizer: str | None = None
    overrides: tuple[str, ...] = ()
    seconds: float = 60.0

    @property
    def names(self) -> list[str]:
        """The names of the choices."""
        return [Path(choice).stem if _is_file(choice) else choice for choice in self.choices]

    @property
    def command(self) -> str:
        """The command that asks it."""
        words = ["rnnbench", "compare", *self.choices]
        given = {
            "--model": self.model,
            "--data": self.data,
            "--loss": self.loss,
            "--optimizer": self.optimizer,
        }
        for flag, value in given.items():
            if value:
                words += [flag, value]
        words += [*self.overrides, "--budget", f"{self.seconds / 60:g}"]
        return shlex.join(words)

    def check(self) -> None:
        """Raises a `ConfigError` for a file that does not exist, a name that stands twice, or a
        model without data, which only a YAML file names itself."""
        for name in self.names:
            if self.names.count(name) > 1:
                raise ConfigError(
                    f"{name} cannot be compared with {name}.",
                    where="compare",
                    remedy="name each choice once; a file with the name of another one is renamed.",
                )
        for choice in self.choices:
            if _is_file(choice) and not Path(choice).is_file():
                raise ConfigError("no such file.", where=choice, remedy="correct the path.")
        loss = self.loss if self.loss and ".py:" in self.loss else None
        for flag, given in (("--model", self.model), ("--data", self.data), ("--loss", loss)):
            file, python, _ = (given or "").partition(".py:")
            if python:
                file += ".py"
            if given and not Path(file).expanduser().exists():
                where = f"{flag} {given}"
                raise ConfigError("no such file.", where=where, remedy="correct the path.")
        has_data = self.data or any(key_of(text).startswith("dataset") for text in self.overrides)
        if self.model and not _is_file(self.model) and not has_data:
            remedy = "add the .npz file with its samples, or dataset=NAME for one of conf/dataset/."
            raise ConfigError(f"{self.model} needs data.", where="--data", remedy=remedy)


class Typed(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments of `rnnbench.compare` that a program may give as something else."""

    budget: Annotated[float, Meta(gt=0, le=1e9)]
    loss: str | None
    optimizer: str | None
    overrides: list[str]


def checked_arguments(budget: Any, loss: Any, optimizer: Any, overrides: list[Any]) -> Typed:
    """The arguments of `rnnbench.compare`. Raises a `ConfigError` for one of another type."""
    given = {"budget": budget, "loss": loss, "optimizer": optimizer, "overrides": overrides}
    remedy = "see help(rnnbench.compare)."
    return typed(given, Typed, lambda key: "rnnbench.compare", remedy)


def of_a_model(options: Question) -> list[str]:
    """The Hydra overrides that what is said about a model stands for, with absolute paths."""
    overrides = []
    if options.model:
        path = Path(options.model).expanduser().absolute()
        overrides.append(f"model={path}")

    if options.data:
        path = Path(options.data).expanduser().absolute()
        overrides += ["dataset=file", f"dataset.path={path}"]
    if options.loss:
        loss = options.loss
        if ".py:" in loss:
            loss = str(Path(loss).expanduser().absolute())
        overrides.append(f"model.loss={loss}")
    if options.optimizer:
        overrides.append(f"model.optimizer={{name:{options.optimizer}}}")
    return overrides


def _is_file(choice: str) -> bool:
    """Whether a choice is the path of a file of the user."""
    return choice.endswith((".yaml", ".yml"))


def measured(question: Question, root: Path) -> tuple[str, Path]:
    """Measures what is to be compared in turns, if it has no records yet. Returns the name of the
    experiment and its page.

    `root`: the project's folder, which is the current one. Raises `RnnbenchError`.
    """
    from rnnbench.commands.measuring import measure_here
    from rnnbench.commands.report import write_page
    from rnnbench.planning.planner import make_plan
    from rnnbench.records.report_files import PAGE
    from rnnbench.running import host_check

    before = host_check.sample()
    conf = project_conf(root)
    file = _write_experiment(question, conf, root / "results")

    # They would otherwise come from the project's settings.
    configured = settings(root)
    site = configured.get("site")
    overrides = question.overrides or overrides_of(configured, str(SETTINGS))
    try:
        plan = make_plan(
            str(file),
            conf,
            root,
            site=str(site) if site else None,
            overrides=" ".join(overrides),
        )
    except ConfigError as error:
        # The user wrote no such file.
        if error.where.startswith(display_path(file)):
            error.where = "command line"
        raise

    plan = replace(plan, rerun=question.command)
    name = plan.experiment.name
    page = Path("reports") / name / PAGE
    place = Place(root, root / "results", plan.site, name, timing_lock())
    is_new = measure_here(
        plan,
        root,
        lambda: _check_can_be_compared(list(plan.runs.values()), place),
        before,
    )
    if is_new or not page.exists():
        write_page([name])
    return name, page


def _write_experiment(question: Question, conf: Sequence[Path], results: Path) -> Path:
    """The file of the experiment that measures what is to be compared. It is kept: Snakemake can
    continue what `compare` has begun."""
    from rnnbench.grid.experiment import LONGEST
    from rnnbench.grid.files import name_of_choice
    from rnnbench.grid.point import short_path

    names = question.names
    seconds = question.seconds
    title = f"{names[0]} against {', '.join(names[1:])}"
    if question.model:
        title += f" in {name_of_choice(Path(question.model))}"

    axis = _axis_of(question.choices, conf)
    values = []
    for choice in question.choices:
        if _is_file(choice):
            choice = str(Path(choice).resolve())
        values.append(choice)

    grid = [f"{axis}={','.join(values)}", *of_a_model(question)]
    _check_said_once(grid, question.overrides)
    if question.model:
        # Members train again until turns have their share; long trainings would exceed the budget.
        grid.append("model.epochs=1")

    # A round takes five seconds or more; one that is not needed takes a second all the same.
    most = max(3, min(30, int(seconds / 5)))
    experiment = {
        "title": title,
        "grids": [grid],
        "reference": {axis: names[0]},
        "repeats": {
            "least": 3,
            "most": most,
            "until": 0.02,
            "budget_s": seconds,
            "turns": TURNS,
        },
    }

    parts = sorted(names)
    said = (question.model, question.data, question.loss, question.optimizer)
    for given in filter(None, said):
        is_word = given.isidentifier()
        parts.append(given if is_word else short_path(str(Path(given).absolute())))
    name = "-".join(parts)
    if len(name) > LONGEST:
        digest = hashlib.md5(name.encode(), usedforsecurity=False).hexdigest()
        name = f"{name[: LONGEST - 7]}-{digest[:6]}"
    file: Path = results / "compare" / f"{name}.yaml"
    write_json(file, experiment)  # JSON is YAML
    return file


def _check_said_once(grid: Sequence[str], overrides: Sequence[str]) -> None:
    """Raises a `ConfigError` for an override that would replace what the arguments say."""
    said = {key_of(text): text for text in grid}
    for override in overrides:
        key = key_of(override)
        if key in said:
            raise ConfigError(
                f"{override} and the arguments, which say {said[key]}, contradict each other.",
                where="compare",
                remedy=f"leave out {override}, or what says {said[key]}.",
            )


def _check_can_be_compared(runs: Sequence[Run], place: Place) -> None:
    """Raises a `ConfigError` if a certificate says that one of them refuses the model, or that none
    of the `runs` is trained: measuring the others would not answer the question."""
    from rnnbench.running.refusals import refusals
    from rnnbench.sources.certificates import certificate_of

    none_can = len(refusals(runs, place)) == len(runs)
    for key in read_json(place.folder / "certificates.json"):
        file = place.folder / "certificates" / f"{key}.json"
        certificate = certificate_of(read_json(file), str(file))
        for name, each in certificate.implementations.items():
            if each.status == "refused" or none_can:
                what = f"{name} cannot"
                remedy = "change the model there, or compare implementations that can."
                if none_can:
                    what = "no implementation can"
                    remedy = "correct the model, the data or the options."
                raise ConfigError(
                    f"{what} compute {certificate.model}: {str(each.why).rstrip('.?')}.",
                    where="compare",
                    remedy=remedy,
                )


def _axis_of(choices: Sequence[str], conf: Sequence[Path]) -> str:
    """The axis that has all `choices` that are not files; two files are two kernels."""
    from rnnbench.axes import NAMES
    from rnnbench.grid.files import files_of

    named = [choice for choice in choices if not _is_file(choice)]
    if not named:
        return "rnn"

    every: set[str] = set()
    for axis in NAMES:
        known = files_of(conf, axis).keys()
        if known >= set(named):
            return axis
        every |= known

    remedy = f"name files of one folder conf/AXIS/ or your own; axes are {', '.join(NAMES)}."
    for choice in reversed(named):
        if choice not in every:
            remedy = suggestion(choice, every) + remedy
    count = {2: "two", 3: "three"}.get(len(choices), str(len(choices)))
    raise ConfigError(
        f"{' and '.join(choices)} are not {count} choices of one axis.",
        where="compare",
        remedy=remedy,
    )
