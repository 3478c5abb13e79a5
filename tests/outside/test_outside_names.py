"""Names that a shell, a terminal or a file system would take for something else are refused."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from rnnbench.builds.launcher import missing
from rnnbench.errors import ConfigError
from rnnbench.grid.choices import Build
from rnnbench.grid.expand import expand
from rnnbench.grid.experiment import load_experiment, split_overrides
from rnnbench.plain_text import is_name
from rnnbench.planning.planner import make_plan
from rnnbench.records.store import RESERVED
from tests.conftest import ROOT
from tests.outside.attacks import RIGHT_TO_LEFT

SHELL = ("a$(touch made)", "a`touch made`", "a;touch made", "a|touch made", "'", '"', "a\\b", "a%b")
OTHERS = (
    "-x",
    "--conf",
    "..",
    ".",
    ".x",
    "a\nb",
    f"a{RIGHT_TO_LEFT}b",
    "a\x1bb",
    "a b",
    "a,b",
    "ä",
)
# YAML reads these as values.
VALUES = ("null", "1e5")
FORBIDDEN = (*SHELL, *OTHERS, "a{b}", "a#b", "a*", "~")
GRID = "title: x\ngrids: ['device=cpu_1 rnn=keras']\n"
TAGS = ("!!python/object/apply:os.mkdir ['made']", "!!python/name:os.mkdir ''", "!made x")
BASE = {"model": "fake", "rnn": "fake_fast", "device": "pretend_slow", "build": "fake"}


@pytest.fixture(autouse=True)
def _nothing_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    yield
    assert not list(tmp_path.rglob("made"))


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A copy of the test configuration."""
    return shutil.copytree(ROOT / "tests/conf", tmp_path / "own")


def is_one_line(error: ConfigError) -> bool:
    """Whether the message names a fix and cannot control a terminal."""
    return "Fix: " in str(error) and not set(str(error)) & {"\n", "\x1b", RIGHT_TO_LEFT}


@pytest.mark.parametrize("name", [*FORBIDDEN, "a" * 150])
def test_an_experiment_and_a_site_have_plain_names(tmp_path: Path, name: str) -> None:
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / f"{name}.yaml").write_text(GRID)
    conf = [ROOT / "conf", tmp_path]
    with pytest.raises(ConfigError, match="Fix: rename the file") as caught:
        load_experiment(name, conf)
    assert is_one_line(caught.value)
    if len(name) < 100:
        with pytest.raises(ConfigError, match="the site is") as caught:
            make_plan("quick", conf, ROOT, site=name)
        assert is_one_line(caught.value)


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_a_site_is_no_folder_of_the_project(name: str) -> None:
    with pytest.raises(ConfigError, match="none of"):
        make_plan("quick", [ROOT / "conf"], ROOT, site=name)


def quoted(name: str) -> str:
    return "'" + name.replace("'", "\\'") + "'"


def grid_of(group: str, name: str, own: Path) -> list[str]:
    """A grid with a choice of the `group` or an alias of this name."""
    if group in BASE and len(name) < 250:
        shutil.copy(own / group / f"{BASE[group]}.yaml", own / group / f"{name}.yaml")
    return [f"{key}={quoted(value)}" for key, value in {**BASE, group: name}.items()]


def quick_and_slow(quick: tuple[str, ...], others: tuple[str, ...]) -> list[object]:
    """Groups whose files have their names and texts read in the same way: some are enough."""
    each = pytest.mark.slow_tier("each group of choices")
    return [*quick, *(pytest.param(group, marks=each) for group in others)]


@pytest.mark.parametrize("group", quick_and_slow(("rnn", "alias"), ("model", "device", "build")))
def test_names_of_choices_and_aliases_do_nothing(group: str, own: Path) -> None:
    """Every name of a run can be a file, a word of a shell and a part of an archive."""
    names = [*SHELL, *OTHERS, *VALUES]
    # Names that differ only in forbidden characters need different seeds.
    grids = [[*grid_of(group, name, own), f"seed={n}"] for n, name in enumerate(names)]
    (own / "experiment/x.yaml").write_text(json.dumps({"title": "".join(names), "grids": grids}))
    plan = make_plan("x", [ROOT / "conf", own], ROOT)
    runs = sorted(plan.runs.values(), key=lambda run: run.seed)
    assert [run.alias if group == "alias" else run.choices[group] for run in runs] == names
    assert all(is_name(run.name) and is_name(str(run.round)) for run in runs)

    grids = [grid_of(group, "a" * 300, own)]
    (own / "experiment/x.yaml").write_text(json.dumps({"title": "x", "grids": grids}))
    with pytest.raises(ConfigError) as caught:
        make_plan("x", [ROOT / "conf", own], ROOT)
    assert is_one_line(caught.value)


def test_the_command_of_a_build_goes_through_no_shell(tmp_path: Path) -> None:
    build = Build(name="mine", framework="fake")
    for command in ("python3; touch made", "$(touch made)", "`touch made`", "a|b"):
        reason = missing(replace(build, command=command), tmp_path)
        assert reason and "is not an executable program" in reason and "\n" not in reason
    spared = f"{sys.executable} -I '; touch made' $(touch made)"
    reason = missing(replace(build, command=spared), tmp_path)
    assert reason and "cannot be run" in reason and "\n" not in reason


@pytest.mark.parametrize(
    "group",
    quick_and_slow(
        ("model", "cell", "experiment", "config"), ("rnn", "device", "build", "dataset")
    ),
)
def test_tags_of_yaml_create_nothing(group: str, own: Path, tmp_path: Path) -> None:
    conf = shutil.copytree(ROOT / "conf", tmp_path / "conf")
    choices = {**BASE, "dataset": "digits", "cell": "lstm"}
    if group in choices:
        folder = own if (own / group).exists() else conf
        file = folder / group / f"{choices[group]}.yaml"
    else:
        file = conf / "config.yaml" if group == "config" else own / "experiment/small.yaml"
    grid = " ".join(f"{key}={value}" for key, value in choices.items())
    text = file.read_text().replace("\nabout:", "\n# about:")
    for tag in TAGS:
        file.write_text(f"about: {tag}\n{text}")
        with pytest.raises(ConfigError, match="tag") as caught:
            expand(load_experiment("small", [conf, own]), [conf, own], split_overrides(grid))
        assert is_one_line(caught.value) and file.name in str(caught.value)


@pytest.mark.parametrize("tag", TAGS)
def test_tags_of_yaml_in_an_override_are_text(tag: str) -> None:
    quick = load_experiment("quick", [ROOT / "conf"])
    for value in (tag, quoted(tag)):
        try:
            points = expand(quick, [ROOT / "conf"], [f"+model.x={value}"])
        except ConfigError as error:
            assert "\n" not in str(error)
        else:
            assert {point.config["model"]["x"] for point in points} == {tag}


def test_the_devices_of_a_cluster_are_only_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = ROOT / "workflow/profiles/slurm/submit.py"
    spec = importlib.util.spec_from_file_location("submit", script)
    submit = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(submit)
    default = submit.options("none of them")
    for name in (*SHELL, *OTHERS, *VALUES):
        assert submit.options(name) == default
    file = tmp_path / "devices.yaml"
    monkeypatch.setenv("RNNBENCH_DEVICES", str(file))
    file.write_text("x: {'a; touch made': $(touch made)}\n")
    assert submit.options("x") == ["--a; touch made=$(touch made)"]  # one word each
    for text in (*(f"default: {tag}" for tag in TAGS), "[]", "x: 3", "x: [", "\x00"):
        file.write_text(text)
        with pytest.raises(SystemExit, match=r"devices.yaml: is unusable .*Fix: ") as caught:
            submit.options("x")
        assert "\n" not in str(caught.value)
