"""Choices composed beside each other are what each is alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from rnnbench.errors import ConfigError
from rnnbench.grid import compose
from rnnbench.grid.catalogue import files_of
from rnnbench.grid.compose import compose_choices, riders_of
from rnnbench.grid.point import GROUPS
from rnnbench.grid.section_check import is_plain

CONF = Path(__file__).parents[2] / "conf"


def all_choices(conf: list[Path]) -> dict[str, dict[str, Path]]:
    wanted = {group: files_of(conf, group) for group in GROUPS}
    return wanted | {"model": {"mnist_rnn": wanted["model"]["mnist_rnn"]}}


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch):
    def composed(conf: list[Path], wanted):
        with monkeypatch.context() as patch:
            patch.setattr(compose, "riders_of", lambda conf, wanted: [])
            return compose_choices(conf, wanted, False)

    return composed


def test_all_choices_of_the_project_are_the_same_as_alone(alone) -> None:
    wanted = all_choices([CONF])
    assert len(riders_of([CONF], wanted)) == sum(map(len, wanted.values())) - 1
    together = compose_choices([CONF], wanted, False)
    assert together == alone([CONF], wanted)
    for (group, choice), section in together.sections.items():
        assert section["name"] == choice, group


def test_choices_of_ones_own(conf: list[Path], extra: Path, alone) -> None:
    rnn = extra / "rnn"
    (rnn / "mine-2.5.yaml").write_text("defaults: [keras, _self_]\nx: ${model.units}\ny: ???")
    (rnn / "upon.yaml").write_text("defaults: [mine-2.5, _self_]\ny: 3")
    (rnn / "dataset.yaml").write_text(
        "defaults: [{override /dataset: mnist}, _self_]\nimplementation: keras"
    )
    (rnn / "upon_dataset.yaml").write_text("defaults: [dataset, _self_]\ny: 1")
    (rnn / "elsewhere.yaml").write_text("# @package rnn\nimplementation: keras")
    known = files_of(conf, "rnn")
    names = ["mine-2.5", "upon", "elsewhere"]
    assert [is_plain(known[name], known) for name in names] == [True, True, False]
    assert not is_plain(known["dataset"], known) and not is_plain(known["upon_dataset"], known)
    wanted = {"rnn": {name: known[name] for name in names}}
    together = compose_choices(conf, wanted, True)
    assert together == alone(conf, wanted)
    assert together.sections["rnn", "upon"]["x"] == "${model.units}"
    assert together.sections["rnn", "upon"]["y"] == 3


def test_files_that_cannot_be_plain(conf: list[Path], extra: Path) -> None:
    texts = ["defaults: [b]", "defaults: [a]", "defaults: 3", "defaults: [", "- defaults"]
    files = {}
    for name, text in zip("abcde", texts, strict=True):
        files[name] = extra / "rnn" / f"{name}.yaml"
        files[name].write_text(text)
    assert not any(is_plain(file, files) for file in files.values())
    assert not is_plain(extra / "rnn" / "absent.yaml", files)


def test_what_config_yaml_says_of_a_section_is_part_of_each_choice(
    conf: list[Path], tmp_path: Path, alone
) -> None:
    own = tmp_path / "conf"
    own.mkdir()
    for folder in CONF.iterdir():
        if folder.is_dir():
            (own / folder.name).symlink_to(folder)
    (own / "config.yaml").write_text((CONF / "config.yaml").read_text() + "\nrnn: {x: 1}\n")
    wanted = {"rnn": {name: CONF / "rnn" / f"{name}.yaml" for name in ("keras", "unrolled")}}
    library = compose_choices([own], wanted, True)
    assert [library.sections["rnn", name]["x"] for name in wanted["rnn"]] == [1, 1]
    assert library == alone([own], wanted)


def test_one_that_is_wrong_is_told_by_its_name(conf: list[Path], extra: Path) -> None:
    for name in ("good", "bad", "fine"):
        (extra / "rnn" / f"{name}.yaml").write_text("implementation: keras")
    (extra / "rnn" / "bad.yaml").write_text("implementation: .nan")
    known = files_of(conf, "rnn")
    wanted = {"rnn": {name: known[name] for name in ("good", "bad", "fine")}}
    with pytest.raises(ConfigError, match="rnn=bad ") as caught:
        compose_choices(conf, wanted, True)
    assert "good" not in str(caught.value)
