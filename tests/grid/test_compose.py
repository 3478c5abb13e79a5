"""Choices composed together equal those composed one by one."""

from __future__ import annotations

from pathlib import Path

import pytest

from rnnbench.axes import NAMES
from rnnbench.grid import compose
from rnnbench.grid.compose import ChoiceFiles, Library, compose_choices
from rnnbench.grid.files import files_of
from tests import compositions
from tests.grid.conftest import CONF, assert_error


@pytest.fixture(autouse=True)
def composed_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the memory of other tests."""
    monkeypatch.setattr(compose, "_hydra", compositions.without_memory)


@pytest.fixture
def composed(monkeypatch: pytest.MonkeyPatch):
    """A function that composes choices together, and all of them or `some` one by one, and compares
    the results. Returns the library and the number of compositions that the first took."""

    def both(
        conf: list[Path], requested: ChoiceFiles, some: ChoiceFiles | None = None
    ) -> tuple[Library, int]:
        calls = []
        original = compose._composed
        with monkeypatch.context() as patch:
            patch.setattr(compose, "_composed", lambda *of: calls.append(of) or original(*of))
            together = compose_choices(conf, requested, False)
            count = len(calls)
            patch.setattr(compose, "_packaged", lambda *_: {})
            alone = compose_choices(conf, some or requested, False)
        assert (alone.base, alone.defaults) == (together.base, together.defaults)
        assert {**together.sections, **alone.sections} == together.sections
        return together, count

    return both


def test_all_choices_of_the_project_are_composed_together(composed) -> None:
    files = {group: files_of([CONF], group) for group in NAMES}
    requested = files | {"model": {"mnist_rnn": files["model"]["mnist_rnn"]}}
    # Those that list other files, and one of each group: a composition takes a tenth of a second.
    some = {
        group: {
            name: file
            for name, file in choices.items()
            if name == min(choices) or "defaults:" in file.read_text()
        }
        for group, choices in requested.items()
    }
    assert len(some["build"]) > 5
    library, compositions = composed([CONF], requested, some)
    assert compositions == 2
    assert {*library.sections} >= {(group, name) for group in files for name in requested[group]}
    for (group, choice), section in library.sections.items():
        assert section["name"] == choice, group


@pytest.mark.parametrize(
    ("text", "y", "compositions"),
    [
        ("defaults: [mine-2.5, _self_]\ny: 3", 3, 2),
        ("# @package rnn\nimplementation: keras", None, 3),
    ],
)
def test_user_supplied_choices(
    conf: list[Path], extra: Path, composed, text: str, y: int | None, compositions: int
) -> None:
    rnn = extra / "rnn"
    (rnn / "mine-2.5.yaml").write_text("defaults: [keras, _self_]\nx: ${model.units}\ny: ???")
    (rnn / "mine.yaml").write_text(text)
    known = files_of(conf, "rnn")
    library, count = composed(conf, {"rnn": {name: known[name] for name in ("mine-2.5", "mine")}})
    assert count == compositions
    assert library.sections["rnn", "mine-2.5"]["x"] == "${model.units}"
    assert library.sections["rnn", "mine"].get("y") == y


def test_a_section_in_config_yaml_is_part_of_each_choice(tmp_path: Path, composed) -> None:
    copy = tmp_path / "conf"
    copy.mkdir()
    for folder in CONF.iterdir():
        if folder.is_dir():
            (copy / folder.name).symlink_to(folder)
    (copy / "config.yaml").write_text((CONF / "config.yaml").read_text() + "\nrnn: {x: 1}\n")
    requested = {"rnn": {name: CONF / "rnn" / f"{name}.yaml" for name in ("keras", "unrolled")}}
    library, _ = composed([copy], requested)
    assert [library.sections["rnn", name]["x"] for name in requested["rnn"]] == [1, 1]


@pytest.mark.parametrize(
    "text", ["implementation: .nan", "defaults: [{override /dataset: mnist}, _self_]\nx: 1"]
)
def test_the_error_names_only_the_faulty_choice(conf: list[Path], extra: Path, text: str) -> None:
    for name in ("good", "bad", "fine"):
        (extra / "rnn" / f"{name}.yaml").write_text("implementation: keras")
    (extra / "rnn" / "bad.yaml").write_text(text)
    known = files_of(conf, "rnn")
    requested = {"rnn": {name: known[name] for name in ("good", "bad", "fine")}}
    assert_error("^((?!good).)*rnn=bad: ((?!good).)*$", compose_choices, conf, requested, True)
