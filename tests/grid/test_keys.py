"""Every key of the shipped choices with a null, a value of a wrong type and a wrong name; and what
each error about an override says to write, followed to the letter."""

from __future__ import annotations

import ast
import functools
import re
import sys
from pathlib import Path

import pytest

from rnnbench.axes import NAMES
from rnnbench.errors import ConfigError
from rnnbench.grid import apply, checks, choices, files, keys, overrides, requirements, values
from rnnbench.grid import expand as expand_module
from rnnbench.grid.compose import Library, compose_choices
from rnnbench.grid.expand import expand
from rnnbench.grid.experiment import Experiment, split_overrides
from rnnbench.grid.files import files_of
from rnnbench.grid.overrides import keys_of, lookup, same
from rnnbench.grid.point import GridPoint
from tests.conftest import ROOT
from tests.grid.conftest import CONF

FOLDERS = [CONF, ROOT / "tests/conf"]
GROUPS = {group: sorted(files_of(FOLDERS, group)) for group in NAMES}
MODEL = "digits_rnn"
# Keys whose default is another value, but whose null has a meaning.
NULLS = (
    *("model.arrays", "model.data.augment", "model.optimizer.decay", "model.requires"),
    *("rnn.kernels", "rnn.options", "rnn.requires", "dataset.file"),
    *("device.threads", "device.gpu", "device.peak_tflops"),
    *("build.environment", "build.lock", "build.python", "build.requires"),
)
NULLS_INSIDE = ("rnn.kernels.", "build.environment.")
# Any variable may be added; the options of a choice that is skipped here are not checked.
NAMES_INSIDE = ("build.environment.", "rnn.options.")


@functools.cache
def library() -> Library:
    files = {group: files_of(FOLDERS, group) for group in NAMES}
    return compose_choices(FOLDERS, files, True)


@pytest.fixture
def points(monkeypatch: pytest.MonkeyPatch):
    """A function that expands overrides as one grid, with choices that are composed once."""
    monkeypatch.setattr(expand_module, "compose_choices", lambda *_: library())

    def of(*overrides: str, command_line: str = "") -> tuple[GridPoint, ...]:
        reference = {"rnn": "keras"} if command_line else {}
        experiment = Experiment(
            name="x", grids=(overrides,), reference=reference, file=Path("x.yaml")
        )
        return expand(experiment, FOLDERS, [command_line] if command_line else [])

    return of


def refused(points, *overrides: str) -> ConfigError | None:
    try:
        points(*overrides)
    except ConfigError as error:
        assert error.where and error.remedy
        return error
    return None


def test_an_empty_string_in_the_code_of_a_model_makes_no_key_known(points) -> None:
    error = refused(points, "model=lstm_textgen", "+device.nonsense=1")
    assert error is not None and "unknown key 'device.nonsense'" in str(error)


WRONG: dict[type, tuple[str, ...]] = {
    bool: ("3", "abc", "[[1]]"),
    int: ("abc", "1.5", "true", "[[1]]"),
    float: ("abc", "true", "[[1]]"),
    str: ("17", "true", "[[1]]"),
    list: ("3", "abc", "[[[1]]]"),
    dict: ("3", "abc", "[1]"),
    type(None): ("[[[1]]]",),
}


def wrongly_accepted(
    group: str, choice: str, points, tested: set[tuple[str, type]] | None = None
) -> list[str]:
    """The overrides of the keys of a choice that should be refused, and are not. Leaves out what is
    in `tested`, keys and the types of their values, and adds to it."""
    grid = [f"{group}={choice}", *(["dataset.path=data/x.npz"] if choice == "file" else [])]
    (point,) = points(*grid)
    # One model has every key, also those in no section; a section's choices are tested by it.
    sections = set(point.config) if choice == MODEL else {group}
    accepted = []
    for key in keys_of(point.config):
        if key.partition(".")[0] not in sections or key in NAMES:
            continue
        if key == "dataset.path" and choice == "file":
            continue  # it is in the grid
        value = lookup(point.config, key)
        if tested is not None and (key, type(value)) in tested:
            continue
        if tested is not None:
            tested.add((key, type(value)))
        wrong = [f"{key}={text}" for text in WRONG[type(value)]]
        wrong.append(f"{key}x=1")
        if not key.startswith(NAMES_INSIDE):
            wrong.append(f"+{key}x=1")
        if value is not None and key not in NULLS and not key.startswith(NULLS_INSIDE):
            wrong.append(f"{key}=null")
        accepted += [override for override in wrong if not refused(points, *grid, override)]
    return accepted


@pytest.mark.parametrize("group", NAMES)
def test_a_null_a_wrong_type_and_a_wrong_name_of_every_key_are_refused(group: str, points) -> None:
    """The type of a key decides, so a key is tested in the first choice that has it."""
    tested: set[tuple[str, type]] = set()
    choices = [choice for choice in GROUPS[group] if choice != MODEL]
    accepted = []
    for choice in (MODEL, *choices) if MODEL in GROUPS[group] else choices:
        accepted += wrongly_accepted(group, choice, points, tested)
    assert accepted == []


@pytest.mark.slow_tier("every key of every choice")
@pytest.mark.parametrize(("group", "choice"), [(g, c) for g in NAMES for c in GROUPS[g]])
def test_every_key_of_every_choice_is_strict(group: str, choice: str, points) -> None:
    assert wrongly_accepted(group, choice, points) == []


DIGITS = "rnnworker.models.digits_rnn"
# The grid, an override with a fault, and what stands for VALUE, CHOICE or A,B in its remedy.
FAULTY = [
    ("", "model.unist=3", "3"),
    ("", "+model.unist=3", "3"),
    ("", "modle.units=3", "3"),
    ("", "+model.batchs=3", "3"),
    ("", "+model.metrcs=[AUC]", "[AUC]"),
    ("", "model.metrics=[AUC]", "[AUC]"),
    ("", "train_samples=3", "3"),
    ("", "model.train_samples=3", "3"),
    ("", "+model.units=3", "3"),
    ("", "+model.dropot=0.2", "0.2"),
    ("model=mnist_mlp", "+model.dropot=0.3", "0.3"),
    ("model=shape_short", "model.layers=2", "2"),
    ("model=shape_short", "+model.words=2", "2"),
    ("", "+x=y", "y"),
    ("", "x=y", "y"),
    ("", "+repeats.most=3", "3"),
    ("", "repeats.most=3", "3"),
    ("", "+reference.rnn=block", "block"),
    ("", "+lead=kernels", "kernels"),
    ("", "rnn.options.implementation=1", "1"),
    ("", "+rnn.options.implementaton=1", "1"),
    ("", "+rnn.implementaton=cell", "cell"),
    ("", "+rnn.activation=relu", "relu"),
    ("", "+rnn.opions.activation=relu", "relu"),
    ("", "+rnn.options.activaton=relu", "relu"),
    ("", "+rnn.options=relu", "relu"),
    ("", "rnn.name=cell", "cell"),
    ("", "+rnn=cell", "cell"),
    ("", "rnn=cel", "cell"),
    ("", "~model.batch", "3"),
    ("", "~model.units", "3"),
    ("", "~measure.warmup_steps", "3"),
    ("", "~seed", "3"),
    ("", "~nothing", "3"),
    ("", "+seed=3", "3"),
    ("", "seed=-1", "3"),
    ("", "+device.treads=2", "2"),
    ("", "device.thread=2", "2"),
    ("", "device.replica=1", "2"),
    ("", "device.replicas=1", "2"),
    ("", "+device.threads=2", "2"),
    ("", "build.jit_compile=true", "true"),
    ("", "build.environmnt.X=1", "1"),
    ("", "+build.enviroment.X=1", "1"),
    ("", "+measure.warmup_step=3", "3"),
    ("", "limits.trian=3", "3"),
    ("", "model.loss=mean_square_error", ""),
    ("", "model.loss=3", "mse"),
    ("", "model.optimizer.name=rmsprp", "rmsprop"),
    ("", "+model.optimizer.rho=1", "0.5"),
    ("", "+model.optimizer.epsilo=1", "0.5"),
    ("", "model.optimizer=adam", "sgd"),
    ("", "precision=half", ""),
    ("", "~modle.units", ""),
    ("", "rnn.options.implementaton=1", "1"),
    ("", "rnn.options.nothing=1", "1"),
    ("", "rnn.implementation=cel", ""),
    ("", "model.units=3 ++model.units=4", "3,4"),
    ("", "+rnn.options.implementation=1 +rnn.options.implementation=2", "1,2"),
    ("", "dataset.path=data/x.npz", "data/x.npz"),
    ("", "dataset.path=null", "data/x.npz"),
    ("", "dataset=file dataset.path=", "data/x.npz"),
    ("dataset=file", "dataset.path=/absent.npz", ""),
    ("", "dataset=file", "data/x.npz"),
    ("", "seed=range(400) repeat=range(400)", ""),
    ("", "seed=range(1000000)", ""),
    ("", "seed=interval(0,3)", ""),
    ("", "seed=range(0)", ""),
    ("", "model.units", ""),
    ("", f"model.units={'[' * 2000}{']' * 2000}", ""),
    ("", "model@x=adding", ""),
    ("", "model.units=nan", ""),
    ("", "model.units=null", ""),
    ("", "model.units=1.5", ""),
    ("", "+model.units.deep=3", ""),
    ("", "~limits.members=3", ""),
    ("", "+cell.x=1", ""),
    ("", "model.about=x", ""),
    ("", "alias=[1]", "x"),
    ("", "+build.environment.X=1,'1'", ""),
    ("", "model.batch=${nothing}", ""),
    ("", "model.loss=null", ""),
    ("", "~model.optimizer", ""),
    ("", "model.loss=null model.optimizer=null", ""),
    ("", "+model.class_weight={a:1}", ""),
    ("", "seed.x=3", ""),
    ("", "alias.x=3", ""),
    ("", "device.kind.x=3", ""),
    ("", "+model.class_weight={0:-1}", ""),
    ("", "+model.class_weight={0:x}", ""),
    ("", "rnn.requires=[{a:1}]", ""),
    ("", "rnn.requires=[{key:a}]", ""),
    ("", "device.threads=0", ""),
    ("", "model.data.prepare=null", ""),
    ("model=adding", "model.train_samples=null", ""),
    ("model=padded", f"model.function={DIGITS}:build model.data.prepare={DIGITS}:prepare", ""),
    ("device=cpu_2_replicas", "+device.feed=device", ""),
]
# The same for overrides of the command line alone, where the grid has rnn=keras,cell.
FAULTY_ON_COMMAND_LINE = ["scale=small", "dataset=imdb_from_text", "rnn=block,cell"]
COMMAND = re.compile(
    r"(?:write|mean|add|or|commas:) '?([+~]*[a-z][\w.]*(?:=file dataset.path)?)"
    r"=(VALUE|CHOICE|FILE|NAME|A,B|\{.*\}|[^\s?.;]+)"
)
DELETED = re.compile(r"write (~[\w.]+)\.")
NAMED = re.compile(r"did you mean ([^\s?]+)\?")
# What a remedy says that is the default, so that nothing is overridden.
DEFAULTS = ("~limits.members", "+device.feed=host")
# What a remedy without a command asks for: another value, or no override at all.
OTHERWISE = (
    *("the sections are model,", "the keys of model", "its options are act", "its default is "),
    *("change ", "remove ", "keep ", "correct ", "widen ", "write a ", "write fewer values"),
    *("write key=value or", "write one of these", "write 0 or more", "write 1 or more"),
    *("use range(start,stop,step) or a list", "write a mapping or null", "add in to each entry"),
    *("give one of them an alias", "the keys are key, in, why", "write scale=published, or"),
)


def commands_of(remedy: str, faulty: str, value: str) -> list[str]:
    """The overrides that a `remedy` says to write in place of the `faulty` one: commands, or the
    faulty one with the key or the value that it names."""
    found = DELETED.findall(remedy)
    for key, rest in COMMAND.findall(remedy.replace("key=value", "")):
        filled = value if rest in ("VALUE", "CHOICE", "FILE", "NAME", "A,B") else rest.rstrip(",")
        found.append(f"{key.replace('.NAME', '.activation')}={filled}")
    named = NAMED.search(remedy)
    if found or named is None:
        return found
    key, _, old = faulty.partition("=")
    prefix = key.removesuffix(key.lstrip("+~"))
    if "." in named[1]:
        return [f"{prefix}{named[1].lstrip('~')}={old}"]
    return [f"{key}={named[1]}"]


def configs_of(points, *overrides: str) -> list[dict]:
    """The configurations of the grid points; none if the overrides are refused."""
    return [] if refused(points, *overrides) else [each.config for each in points(*overrides)]


@pytest.mark.parametrize(("grid", "faulty", "value"), FAULTY)
def test_what_a_remedy_says_is_accepted_and_has_an_effect(
    grid: str, faulty: str, value: str, points
) -> None:
    given = grid.split()
    error = refused(points, *given, *split_overrides(faulty))
    assert error, "the override is refused"
    untouched = configs_of(points, *given, "seed=0")
    commands = commands_of(error.remedy, faulty.split()[0], value)
    assert commands or error.remedy.startswith(OTHERWISE), error.remedy
    for command in commands:
        also = re.search(r"add (\S+=\S+)\.", error.remedy)
        written = [faulty, command] if also and command == also[1] else split_overrides(command)
        if faulty == "dataset=file":  # what has no value keeps its choice
            written = [faulty, command]
        changed = [point.config for point in points(*given, *written)]
        has_effect = len(changed) > 1 or not same(changed, untouched)
        assert has_effect is (command not in DEFAULTS), command


@pytest.mark.parametrize("faulty", FAULTY_ON_COMMAND_LINE)
def test_what_a_remedy_for_the_command_line_says_is_accepted(faulty: str, points) -> None:
    with pytest.raises(ConfigError) as caught:
        points("rnn=keras,cell", command_line=faulty)
    commands = commands_of(caught.value.remedy, faulty, "")
    assert commands or caught.value.remedy.startswith(OTHERWISE)
    for command in commands:
        assert points("rnn=keras,cell", command_line=command)


# Functions whose errors are about the files of choices and of a user's code, which
# ``tests/grid/test_files.py`` and others test; that of a range, which test_overrides has; and the
# method that makes those of an override.
ABOUT_FILES = (
    "error",
    *("_check_misspelt", "files_of", "file_of", "_readable", "absolute", "_check_function"),
    *(
        "_check_stop",
        "_check_implementation",
        "_check_arguments",
        "_check_cells",
        "parsed",
        "_value",
        "_parsed",
    ),
)


def test_every_remedy_for_an_override_is_followed(points, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each place that makes an error about an override makes one of those above."""
    made: set[tuple[str, int]] = set()
    original = ConfigError.__init__

    def noted(self: ConfigError, *given, **named) -> None:
        frame = sys._getframe(1)
        while frame.f_code.co_name == "error":  # of a `Setting`
            frame = frame.f_back
        made.add((Path(frame.f_code.co_filename).name, frame.f_lineno))
        original(self, *given, **named)

    monkeypatch.setattr(ConfigError, "__init__", noted)
    for grid, faulty, _ in FAULTY:
        refused(points, *grid.split(), *split_overrides(faulty))
    for faulty in FAULTY_ON_COMMAND_LINE:
        with pytest.raises(ConfigError):
            points("rnn=keras,cell", command_line=faulty)
    unmade = []
    modules = (apply, overrides, keys, expand_module, choices, checks, values, requirements, files)
    for module in modules:
        tree = ast.parse(Path(module.__file__).read_text())
        for function in ast.walk(tree):
            if not isinstance(function, ast.FunctionDef) or function.name in ABOUT_FILES:
                continue
            for call in ast.walk(function):
                if not isinstance(call, ast.Call) or not ast.unparse(call.func).endswith(
                    ("ConfigError", ".error")
                ):
                    continue
                lines = range(call.lineno, call.end_lineno + 1)
                if made.isdisjoint((Path(module.__file__).name, line) for line in lines):
                    unmade.append(f"{function.name}: {ast.unparse(call)}")
    assert unmade == [], "\n".join(unmade)
