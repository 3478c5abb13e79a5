"""Experiments: ``conf/experiment/NAME.yaml``."""

from __future__ import annotations

import hashlib
import re
import shlex
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from rnnbench.axes import NAMES
from rnnbench.errors import ConfigError, display_path, suggestion
from rnnbench.grid.files import file_of, files_of, name_of_choice
from rnnbench.grid.overrides import key_of
from rnnbench.grid.values import typed
from rnnbench.plain_text import is_name
from rnnbench.records.plan_file import Repeats
from rnnworker.options import PREFIX

if TYPE_CHECKING:
    from rnnbench.grid.overrides import Setting

Positive = Annotated[int, Meta(ge=1)]


class Predict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The key ``predict`` of an experiment, whose models answer and do not train.

    - `runtimes`: choices of ``conf/runtime``, or paths of YAML files; the others are compared with
      the first.
    - `batches`: numbers of samples in a call.
    - `rounds`: each with new processes; `cycles`: turns of each runtime in a round.
    - `train`: whether the models are trained first, which an accuracy needs.
    """

    runtimes: Annotated[list[str], Meta(min_length=2)]
    batches: Annotated[list[Positive], Meta(min_length=1)] = msgspec.field(
        default_factory=lambda: [1, 8, 64]
    )
    rounds: Positive = 5
    cycles: Positive = 5
    train: bool = False


def known_runtimes(
    chosen: Sequence[str], conf: Sequence[Path], folder: Path, where: str
) -> list[str]:
    """The runtimes that are `chosen`, each once: names, or absolute paths of YAML files. Raises
    `ConfigError` for an unknown one, two with the same name, and for less than two.

    `folder`: what paths are relative to; `where`: the place that names them.
    """
    known = files_of(conf, RUNTIME)
    found: dict[str, str] = {}
    for each in chosen:
        file = file_of(known, RUNTIME, each, where, folder)
        text = each if each in known else str(file)
        name = name_of_choice(file)
        if found.setdefault(name, text) != text:
            remedy = "rename the file."
            raise ConfigError(f"two runtimes have the name {name}.", where=where, remedy=remedy)
    if len(found) < 2:
        remedy = "name two or more."
        raise ConfigError("one runtime is no comparison.", where=where, remedy=remedy)
    return list(found.values())


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How the grids of an experiment are measured and reported.

    - `grid_order`: ``sequential``: all blocks of the first grid come before the second grid's.
    - `repeats`: the stopping rule; None if the grids set the number of repeats.
    - `predict`: the runtimes that answer with the models; None if the models train.
    - `lead`: what the report leads with.
    """

    grid_order: Literal["interleaved", "sequential"] = "interleaved"
    repeats: Repeats | None = None
    predict: Predict | None = None
    lead: Literal["time", "devices", "kernels", "calls", "predictions"] = "time"


class ExperimentFile(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of an experiment's file. `grids`: each a list of Hydra overrides, or their text;
    `reference`: axis → the choice that speed-ups are relative to, or ``rnn.options.NAME`` or
    ``model.KEY`` → the value."""

    title: str | None = None
    about: str | None = None
    grids: str | list[str | list[str]] = []
    reference: dict[str, str | int | float | bool] | None = None


class Experiment(Settings, frozen=True, kw_only=True):
    """A set of grids to measure, each a tuple of Hydra overrides, from its `file`. `folder`: that
    of the file with the grids, to which their paths are relative. `request`: what ``snakemake
    --config`` names it by."""

    name: str
    title: str = ""
    about: str = ""
    grids: tuple[tuple[str, ...], ...]
    reference: Mapping[str, str] = {}
    file: Path = Path("experiment.yaml")
    folder: Path = Path()
    request: str = ""

    def where(self, grid: int) -> str:
        """The location of grid number `grid`, counted from 0, for errors."""
        text = textwrap.shorten(" ".join(self.grids[grid]), 70, placeholder=" …")
        return f'{display_path(self.file)}, grid "{text}"'


RUNTIME = "runtime"  # the group of choices that `Predict` names
LONGEST, LONGEST_SUFFIX = 100, 60  # characters of a name, and of what overrides add to one
DEFAULTS, SELF = "defaults", "_self_"
KEYS = (
    DEFAULTS,
    "title",
    "about",
    "grids",
    "reference",
    *Settings.__struct_fields__,
)
CHOICES = {"function": "model", "implementation": "rnn"}  # a key of a choice's file → its axis
# The path of a file in an override, with its stem.
FILE = re.compile(r"(?:[^=,\s]*/)?([^=,/\s]+)\.(?:ya?ml|py|npz)\b")
# A quoted string, whose end may be missing, or one character.
TOKEN = re.compile(r"""'(?:\\.|[^'\\])*'?|"(?:\\.|[^"\\])*"?|.""", re.DOTALL)


def load_experiment(name: str, conf: Sequence[Path]) -> Experiment:
    """Loads an experiment by its name in one of the config folders, or by the path of its YAML
    file. Raises a `ConfigError` if it is unknown, has an unknown or invalid key, or has an empty
    grid."""
    known = files_of(conf, "experiment")
    file = file_of(
        known,
        "experiment",
        name,
        "command line",
        Path.cwd(),
    )
    request = f"experiment={shlex.quote(name)}"
    name = file.stem
    where = display_path(file)
    if not is_name(name) or len(name) > LONGEST:
        raise ConfigError(
            f"the experiment's name is {name[:60]!r}.",
            where=where,
            remedy=f"rename the file: letters, digits and _.+=@-, at most {LONGEST} characters.",
        )

    remedy = 'see docs/experiments.md, "Keys of an experiment".'
    content, folder = _composed(file, conf)
    data = typed(
        content,
        ExperimentFile,
        lambda key: where,
        remedy,
    )
    reference = data.reference or {}
    for axis in reference:
        if axis not in NAMES and not axis.startswith((PREFIX, "model.")):
            raise ConfigError(
                f"reference has the unknown axis {axis}.",
                where=where,
                remedy=f"{suggestion(axis, NAMES)}the axes are {', '.join(NAMES)}, "
                f"{PREFIX}NAME and model.KEY.",
            )

    predict = data.predict
    if predict:
        for key in ("repeats", "reference"):
            if getattr(data, key):
                raise ConfigError(
                    f"predict and {key} exclude each other.",
                    where=where,
                    remedy=f"remove {key}: predict states its own rounds, and compares with its "
                    "first runtime.",
                )
        chosen = known_runtimes(predict.runtimes, conf, file.parent, f"{where}: predict")
        predict = msgspec.structs.replace(predict, runtimes=chosen)
    settings = msgspec.structs.asdict(data) | {
        "predict": predict,
        "title": data.title or name,
        "about": data.about or "",
        "grids": _grids(data, where),
        "reference": {axis: str(choice) for axis, choice in reference.items()},
    }
    return Experiment(
        name=name,
        file=file,
        folder=folder,
        request=request,
        **settings,
    )


def _composed(file: Path, conf: Sequence[Path], above: tuple[Path, ...] = ()) -> tuple[Any, Path]:
    """The content of `file` over the experiments in its ``defaults``, as Hydra composes files: a
    later one replaces values of an earlier one, and the file itself is last unless ``_self_`` is
    elsewhere. With it, the folder of the file that has the grids.

    `above`: the files whose defaults lead here.
    """
    where = display_path(file)
    content = _read(file, where)
    if not isinstance(content, dict) or DEFAULTS not in content:
        return content, file.parent
    defaults = content.pop(DEFAULTS)
    if not isinstance(defaults, list) or not all(isinstance(each, str) for each in defaults):
        raise ConfigError(
            f"defaults is {defaults!r}.",
            where=where,
            remedy="write a list of experiments, such as [quick].",
        )

    if file in above:
        raise ConfigError(
            "its defaults contain itself.",
            where=where,
            remedy="remove one of the defaults that lead back to this file.",
        )

    if SELF not in defaults:
        defaults = [*defaults, SELF]
    known = files_of(conf, "experiment")
    merged: dict[str, Any] = {}
    folder = file.parent
    for name in defaults:
        if name == SELF:
            layer = content
            of_layer = file.parent
        else:
            default = file_of(
                known,
                "experiment",
                name,
                f"{where}: defaults",
                file.parent,
            )
            layer, of_layer = _composed(default, conf, (*above, file))

        if not isinstance(layer, dict):
            raise ConfigError("has no keys.", where=f"{where}: defaults {name}")
        if "grids" in layer:
            folder = of_layer
        merged = _overlaid(merged, layer)

    return merged, folder


def _overlaid(base: Mapping[str, Any], top: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with the values of `top`, section by section."""
    merged = dict(base)
    for key, value in top.items():
        below = merged.get(key)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            merged[key] = _overlaid(below, value)
        else:
            merged[key] = value
    return merged


def varied(experiment: Experiment, overrides: Sequence[str]) -> Experiment:
    """`experiment` with the overrides of the command line, as an experiment of its own: its name
    and title say them, so that it never replaces the results and the page of `experiment`."""
    if not overrides:
        return experiment

    text = " ".join(sorted(overrides))
    short = FILE.sub(r"\1", text).replace(" ", "+")
    name = re.sub(r"[^A-Za-z0-9_.+=@-]+", "_", short)[:LONGEST_SUFFIX]
    joins = any("+" in each.lstrip("+") for each in overrides)
    if joins or name != text.replace(" ", "+"):  # another text may have the same name
        digest = hashlib.md5(text.encode()).hexdigest()
        name += f"-{digest[:6]}"
    return msgspec.structs.replace(
        experiment,
        name=f"{experiment.name}+{name}",
        title=f"{experiment.title} ({text})",
        request=f"{experiment.request} overrides={shlex.quote(' '.join(overrides))}",
    )


def _read(file: Path, where: str) -> Any:
    """The content of an experiment's file. Raises a `ConfigError` if it is not YAML, has an unknown
    key, or a reference with several values."""
    # Here, because processes that measure import this module and must stay small.
    import yaml
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException as InvalidConfig

    try:
        data = OmegaConf.to_container(OmegaConf.load(file))
    except yaml.MarkedYAMLError as error:
        if error.problem_mark:
            where += f", line {error.problem_mark.line + 1}"
        raise ConfigError(
            f"cannot be read: {error.problem}.",
            where=where,
            remedy="correct the YAML: its indentation (spaces, no tabs), quotes, brackets "
            "or colons.",
        ) from None
    except (
        yaml.YAMLError,
        InvalidConfig,
        OSError,
        ValueError,
        RecursionError,
    ) as error:
        raise ConfigError(
            f"cannot be read: {error}.",
            where=where,
            remedy="correct the YAML.",
        ) from None

    if not isinstance(data, dict):
        return data
    for key in data:
        if key in KEYS:
            continue
        remedy = f"{suggestion(str(key), KEYS)}the keys are {', '.join(KEYS)}."
        for of_choice, axis in CHOICES.items():
            if of_choice in data:
                remedy = f"this is not an experiment; as a choice, write {axis}={where}."
                break
        raise ConfigError(f"unknown key {key!r}.", where=where, remedy=remedy)

    reference = data.get("reference")
    if not isinstance(reference, dict):
        return data
    for axis, value in reference.items():
        if isinstance(value, list | dict):
            first = next(iter(value), "CHOICE")
            raise ConfigError(
                f"reference.{axis} has several values, {value}.",
                where=where,
                remedy=f"name one choice, such as reference: {{{axis}: {first}}}.",
            )

    return data


def _grids(data: ExperimentFile, where: str) -> tuple[tuple[str, ...], ...]:
    """Each grid as overrides; with ``repeats``, the maximum number of repeats is one of them."""
    grids = []
    written = data.grids
    if isinstance(written, str):
        written = [written]
    for grid in written:
        parts = [grid] if isinstance(grid, str) else grid
        overrides = []
        for part in parts:
            overrides += split_overrides(part)
        grids.append(overrides)

    example = 'give it at least one grid, such as "model=digits_rnn rnn=keras,cell".'
    if not grids:
        raise ConfigError("grids is empty.", where=where, remedy=example)
    if [] in grids:
        raise ConfigError(f"grids[{grids.index([])}] is empty.", where=where, remedy=example)
    if data.repeats:
        for overrides in grids:
            keys = set(map(key_of, overrides))
            if "repeat" in keys:
                raise ConfigError(
                    "both a grid (repeat=) and the key repeats set the number of repeats.",
                    where=where,
                    remedy="remove repeat= from the grid.",
                )
            overrides.append(f"repeat=range({data.repeats.most})")

    return tuple(map(tuple, grids))


def split_overrides(text: str) -> list[str]:
    """Splits a string of overrides at whitespace outside quotes and brackets. A quote or a bracket
    that is not closed reaches to the end of the text."""
    words = [""]
    depth = 0
    for token in TOKEN.findall(text):
        if token.isspace() and depth <= 0:
            words.append("")
            continue
        words[-1] += token
        if token in "([{":
            depth += 1
        elif token in ")]}":
            depth -= 1

    return [word for word in words if word]


def check_reference(
    experiment: Experiment,
    grids: Sequence[Mapping[str, Setting]],
    defaults: Mapping[str, Mapping[str, str]],
    default_model: str,
) -> None:
    """Raises a `ConfigError` if the reference is in none of the `grids` of the file.

    - `defaults`: model → group → the choice if a grid names none.
    - `default_model`: the model if a grid names none.
    """

    def choices_of(grid: Mapping[str, Setting], axis: str) -> set[str]:
        if axis in grid:
            return set(map(str, grid[axis].values))
        models: Sequence[str] = (default_model,)
        if "model" in grid:
            models = grid["model"].values
        return {defaults[model][axis] for model in models if axis in defaults[model]}

    reference = experiment.reference
    where = display_path(experiment.file)
    for axis, choice in reference.items():
        choices = set()
        for grid in grids:
            choices |= choices_of(grid, axis)
        if choice not in choices:
            known = sorted(choices)
            raise ConfigError(
                f"reference has {axis}={choice}, which is not in any grid.",
                where=where,
                remedy=f"{suggestion(choice, known)}the grids have {axis}={','.join(known)}.",
            )

    for grid in grids:
        absent = [axis for axis in reference if reference[axis] not in choices_of(grid, axis)]
        if not absent:
            return
    text = " ".join(f"{axis}={choice}" for axis, choice in reference.items())
    raise ConfigError(
        f"reference is {text}, but no grid contains all of it.",
        where=where,
        remedy="add a grid that contains all of it, or name fewer axes.",
    )
