"""What is to be compared, and measuring it: for the command `compare` and for programs."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, structs

from rnnbench.commands.arguments import overrides_of, project_conf
from rnnbench.errors import ConfigError, display_path, suggestion
from rnnbench.grid.overrides import SourceOf, key_of
from rnnbench.grid.values import typed
from rnnbench.project import SETTINGS, settings
from rnnbench.records.plan_file import Run
from rnnbench.records.store import Place, read_json, write_json
from rnnworker.shared_file import timing_lock

TURNS = 0.6  # share of a round's time
Text = Annotated[str, Meta(pattern=".", description="not an empty one")]
TWO = Meta(min_length=2, description='two or more, such as ["keras", "block"]')


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be measured and compared; made by `asked`.

    - `choices`: of one axis, or paths of YAML files. The others are compared with the first.
    - `model`, `data`, `loss`, `optimizer`: as the options of ``rnnbench compare``; None: as the
      experiment ``quick`` has them.
    - `overrides`: Hydra overrides.
    - `seconds`: how long to measure, after the certificate.
    """

    choices: Annotated[list[str], TWO] = msgspec.field(name="implementations")
    model: Text | None = None
    data: Text | None = None
    loss: Text | None = None
    optimizer: Text | None = None
    overrides: list[str] = []
    seconds: Annotated[float, Meta(gt=0, le=1e9)] = msgspec.field(default=60.0, name="budget")

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

    def __post_init__(self) -> None:
        for name in self.names:
            if self.names.count(name) > 1:
                raise ConfigError(
                    f"{name} cannot be compared with {name}.",
                    where="compare",
                    remedy="name each choice once; a file with the name of another one is renamed.",
                )


def asked(source_of: SourceOf, **given: Any) -> Question:
    """The question with what is `given` by the names of its arguments. Raises a `ConfigError` for
    one that is not what it must be. `source_of`: maps a name to where it is written."""
    return typed(given, Question, source_of, "see `rnnbench compare --help`.")


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
    configured = settings(root)
    source = "compare"
    if not question.overrides:
        source = str(SETTINGS)
        question = structs.replace(question, overrides=overrides_of(configured.overrides, source))
    file = _write_experiment(question, conf, root / "results", source)
    try:
        plan = make_plan(
            str(file),
            conf,
            root,
            site=configured.site or None,
            overrides=" ".join(question.overrides),
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


def _write_experiment(
    question: Question, conf: Sequence[Path], results: Path, source: str = "compare"
) -> Path:
    """The file of the experiment that measures what is to be compared. It is kept: Snakemake can
    continue what `compare` has begun. `source`: of the overrides. Raises `ConfigError`."""
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

    sections = {key_of(text).partition(".")[0] for text in question.overrides}
    grid = [f"{axis}={','.join(values)}", *of_a_model(question)]
    _check_said_once(grid, question.overrides, source)
    if question.model:
        if not (question.data or _is_file(question.model) or "dataset" in sections):
            remedy = "add the .npz file with its samples, or dataset=NAME for one of conf/dataset/."
            raise ConfigError(f"{question.model} needs data.", where="--data", remedy=remedy)
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


def _check_said_once(grid: Sequence[str], overrides: Sequence[str], source: str) -> None:
    """Raises a `ConfigError` for an override of a `source` that would replace what the arguments
    say."""
    said = {key_of(text): text for text in grid}
    for override in overrides:
        key = key_of(override)
        if key in said:
            raise ConfigError(
                f"{override} and the arguments, which say {said[key]}, contradict each other.",
                where=source,
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
