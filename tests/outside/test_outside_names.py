"""Names that a shell, a terminal or a file system would take for something else are refused."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from pathlib import Path

import pytest

from rnnbench.builds.launcher import missing
from rnnbench.errors import ConfigError
from rnnbench.grid.expand import expand
from rnnbench.grid.experiment import load_experiment, split_overrides
from rnnbench.plain_text import is_name
from rnnbench.planning.planner import make_plan
from rnnbench.records.store import RESERVED
from tests.conftest import ROOT
from tests.outside.attacks import RIGHT_TO_LEFT

NAMES = (
    *("a b", "a'b", 'a"b', "a;b", "a$(touch x)", "a`b`", "a|b", "a\nb", "-x", "--conf", "..", "."),
    *("a{b}", "a%b", "a#b", "a*", "~", f"a{RIGHT_TO_LEFT}b", "a\x1bb", "ä", "a" * 150),
)
GRID = "title: x\ngrids: ['device=cpu_1 rnn=keras']\n"


@pytest.mark.parametrize("name", NAMES)
def test_an_experiment_and_a_site_have_plain_names(tmp_path: Path, name: str) -> None:
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / f"{name}.yaml").write_text(GRID)
    conf = [ROOT / "conf", tmp_path]
    with pytest.raises(ConfigError) as caught:
        load_experiment(name, conf)
    message = str(caught.value)
    assert "Fix: rename the file" in message and "\n" not in message
    assert "\x1b" not in message and RIGHT_TO_LEFT not in message
    if len(name) < 100:
        with pytest.raises(ConfigError, match="the site is"):
            make_plan("quick", conf, ROOT, site=name)


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_a_site_is_no_folder_of_the_project(name: str) -> None:
    with pytest.raises(ConfigError, match="none of"):
        make_plan("quick", [ROOT / "conf"], ROOT, site=name)


@pytest.mark.parametrize("name", ["a b", "a;b", "a$(touch x)", "a\nb", f"a{RIGHT_TO_LEFT}b", "ä"])
def test_choices_of_any_name_give_plain_names_of_runs(tmp_path: Path, name: str) -> None:
    (tmp_path / "device").mkdir()
    (tmp_path / "device" / f"{name}.yaml").write_text("name: x\nkind: cpu\nthreads: 1\n")
    conf = [ROOT / "conf", tmp_path]
    grids = f"device='{name}'".replace("\n", "\\n")
    try:
        points = expand(load_experiment("quick", conf), conf, [grids])
    except ConfigError as error:
        assert "\n" not in str(error)
        return
    assert all(part.isascii() and part.isprintable() for part in (p.name for p in points))


BASE = {"model": "fake", "rnn": "fake_fast", "device": "pretend_slow", "build": "fake"}
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
    "null",
    "1e5",
    "a,b",
)


def quoted(name: str) -> str:
    return "'" + name.replace("'", "\\'") + "'"


@pytest.mark.parametrize("group", [*BASE, "alias"])
def test_names_of_choices_and_aliases_do_nothing(group: str, tmp_path: Path) -> None:
    """Every name of a run can be a file, a word of a shell and a part of an archive."""
    for number, name in enumerate((*SHELL, *OTHERS, "a" * 300)):
        own = tmp_path / str(number)
        shutil.copytree(ROOT / "tests/conf", own)
        choices = {**BASE, group: name}
        if group in BASE and len(name) < 250:
            shutil.copy(own / group / f"{BASE[group]}.yaml", own / group / f"{name}.yaml")
        words = [f"{key}={quoted(value)}" for key, value in choices.items()]
        grid = json.dumps({"title": name, "grids": [words]})
        (own / "experiment/x.yaml").write_text(grid)
        try:
            plan = make_plan("x", [ROOT / "conf", own], ROOT)
        except ConfigError as error:
            assert "\n" not in str(error) and "Fix: " in str(error)
            assert not set(str(error)) & {"\x1b", RIGHT_TO_LEFT}
            assert len(name) > 250, error
            continue
        for run in plan.runs.values():
            assert is_name(run.name) and is_name(str(run.round)), name
            assert (run.alias if group == "alias" else run.choices[group]) == name


@pytest.mark.parametrize("command", ["python3; touch made", "$(touch made)", "`touch made`", "a|b"])
def test_the_command_of_a_build_goes_through_no_shell(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    build = {"name": "mine", "framework": "fake", "command": command}
    reason = missing(build, tmp_path)
    assert reason is not None and "is not an executable program" in reason and "\n" not in reason
    spared = {**build, "command": f"{sys.executable} -I '; touch made' $(touch made)"}
    reason = missing(spared, tmp_path)
    assert reason is not None and "cannot be run" in reason and "\n" not in reason
    assert not (tmp_path / "made").exists()


TAGS = ("!!python/object/apply:os.mkdir ['made']", "!!python/name:os.mkdir ''", "!made x")


@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize("group", [*BASE, "dataset", "cell", "experiment", "config"])
def test_tags_of_yaml_create_nothing(
    group: str, tag: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    own, conf = tmp_path / "own", tmp_path / "conf"
    shutil.copytree(ROOT / "tests/conf", own)
    shutil.copytree(ROOT / "conf", conf)
    choices = {**BASE, "dataset": "digits", "cell": "lstm"}
    if group in choices:
        folder = own if (own / group).exists() else conf
        file = folder / group / f"{choices[group]}.yaml"
    else:
        file = conf / "config.yaml" if group == "config" else own / "experiment/small.yaml"
    file.write_text(f"about: {tag}\n{file.read_text()}".replace("\nabout:", "\n# about:"))
    grid = " ".join(f"{key}={value}" for key, value in choices.items())
    with pytest.raises(ConfigError) as caught:
        expand(load_experiment("small", [conf, own]), [conf, own], split_overrides(grid))
    message = str(caught.value)
    assert "\n" not in message and "Fix: " in message
    assert file.name in message and "tag" in message
    assert not (tmp_path / "made").exists()


def test_tags_of_yaml_in_an_override_are_text(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    conf = [ROOT / "conf"]
    for tag in TAGS:
        for override in (f"+model.x={tag}", f"+model.x={quoted(tag)}"):
            try:
                points = expand(load_experiment("quick", conf), conf, [override])
            except ConfigError as error:
                assert "\n" not in str(error)
                continue
            assert {point.config["model"]["x"] for point in points} == {tag}
    assert not (tmp_path / "made").exists()


def test_the_devices_of_a_cluster_are_only_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    spec = importlib.util.spec_from_file_location(
        "submit", ROOT / "workflow/profiles/slurm/submit.py"
    )
    submit = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(submit)
    default = submit.options("none of them")
    for name in (*SHELL, *OTHERS):
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
    assert not (tmp_path / "made").exists()
